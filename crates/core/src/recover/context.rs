//! The recovery context: the backends, the state directory, and the progress reporter.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use super::plan::StepKind;
use super::problem::Problem;
use crate::store::{Backup, StoreInfo};
use crate::{
    Host, Incarnation, ProbeError, ProcessIdentity, ProcessProbe, Session, SessionId, Store, StoreError,
    Time, WorktreeCleaner,
};

/// Everything that a recovery works with.
#[derive(Clone, Copy)]
pub struct RecoveryContext<'a> {
    /// The store.
    pub store: &'a dyn Store,
    /// The process probe.
    pub probe: &'a dyn ProcessProbe,
    /// The worktree cleaner; without one, worktrees stay pending for a recovery that has one.
    pub cleaner: Option<&'a dyn WorktreeCleaner>,
    /// The files in the state directory.
    pub state_files: &'a dyn StateFiles,
    /// This host.
    pub host: &'a Host,
    /// The pid of the process that recovers.
    pub me: u32,
    /// Returns the present time.
    pub clock: fn() -> Time,
}

impl RecoveryContext<'_> {
    /// Returns this host in its present incarnation.
    pub(super) async fn here(&self) -> Result<Incarnation, ProbeError> {
        Ok(Incarnation::new(self.host.clone(), &self.probe.identify(self.me).await?))
    }
}

/// The state directory, as far as recovery needs it.
pub trait StateFiles: Send + Sync {
    /// Returns the sessions that have a readable exit file that is not committed yet.
    fn waiting_exits(&self) -> io::Result<BTreeSet<SessionId>>;

    /// Returns the exit files that are damaged or cannot be read. They are not deleted.
    fn unreadable_exits(&self) -> io::Result<Vec<UnreadableExit>>;

    /// Commits the exit files whose sessions have a record in `store` and whose commands are not alive: a
    /// supervisor writes an exit file only after its command ended. Returns the ids of those sessions. An
    /// unreadable file does not prevent the commit of the others.
    fn commit_exits(&self, store: &dyn Store, probe: &dyn ProcessProbe)
    -> Result<Vec<SessionId>, StoreError>;

    /// Waits until these supervisors have exited, at most `limit`. They are about to exit: their sessions have
    /// no process left.
    fn wait_for_supervisors(
        &self,
        probe: &dyn ProcessProbe,
        supervisors: &[ProcessIdentity],
        limit: Duration,
    ) -> io::Result<()>;

    /// Starts a supervisor for a running session that lost its own. It enters itself in the record if the
    /// record still names the lost one; returns whether it did. Two concurrent calls start one supervisor.
    fn supervise_again(&self, session: &Session) -> io::Result<bool>;

    /// Backs up the store and deletes old backups.
    fn back_up(&self, store: &dyn Store, now: Time) -> Result<Backup, StoreError>;

    /// Deletes the files of a session whose record is gone from `store`. A store that starts no sessions has no
    /// files here: the same id in it, perhaps from a cloned repository, is another session.
    fn discard(&self, store: &StoreInfo, session: &SessionId) -> io::Result<()>;

    /// Returns the sessions that have files here, with the store whose mark they carry.
    fn marked(&self) -> io::Result<Vec<MarkedFiles>>;

    /// Returns the worktree roots that may exist, besides those that records name.
    fn worktree_roots(&self) -> io::Result<Vec<PathBuf>>;

    /// Returns the problems that earlier recoveries of `store` could not resolve.
    fn known_problems(&self, store: &StoreInfo) -> io::Result<Vec<Problem>>;

    /// Durably replaces the remembered problems with those that this recovery of `store` could not resolve.
    fn remember_problems(&self, store: &StoreInfo, problems: &[Problem]) -> io::Result<()>;

    /// Returns the time since which `store` is known to have every record that was committed to it; `None` if
    /// it never lost one. A store that was restored or repaired may lack records, and the worktrees of those
    /// sessions are not strays.
    fn complete_since(&self, store: &StoreInfo) -> io::Result<Option<Time>>;
}

/// The files of a session, and the store that they belong to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedFiles {
    /// The session.
    pub session: SessionId,
    /// The store that holds its record.
    pub store: String,
    /// When they were created.
    pub made_at: Time,
    /// The host that they were created on; `None` if an earlier release did not record it.
    pub made_on: Option<Incarnation>,
}

/// An exit file that is damaged or cannot be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnreadableExit {
    /// The session that it is named after.
    pub session: SessionId,
    /// Where it is.
    pub path: PathBuf,
    /// What is wrong with it.
    pub why: String,
    /// Whether it can never be read. Otherwise it could not be read this time, and the session is not judged
    /// without it.
    pub damaged: bool,
}

/// A part of a recovery that can take long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Observing sessions.
    Observe,
    /// Ending processes.
    End,
    /// Saving work and removing worktrees.
    Rescue,
    /// Deleting removed worktrees.
    Remove,
    /// Deleting old records.
    Prune,
}

/// Receives the progress of a recovery. Called from several threads.
pub trait Progress: Sync {
    /// Another recovery works on the same store; this one waits for it.
    fn wait_for_other(&self);

    /// A phase begins that has `total` parts.
    fn begin(&self, phase: Phase, total: usize);

    /// One more part of it is done.
    fn advance(&self);

    /// A step of the plan is executed for a session.
    fn execute(&self, _session: &SessionId, _step: StepKind) {}
}

/// Ignores all progress.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Progress for Silent {
    fn wait_for_other(&self) {}

    fn begin(&self, _: Phase, _: usize) {}

    fn advance(&self) {}
}

/// Why a recovery failed as a whole. Failures of a single session are in the report.
#[derive(Debug, thiserror::Error)]
pub enum RecoverError {
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The probe.
    #[error(transparent)]
    Probe(#[from] ProbeError),
    /// The state directory.
    #[error("{action}")]
    StateFiles {
        /// The failed action.
        action: &'static str,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

impl RecoverError {
    pub(super) fn state_files(action: &'static str) -> impl Fn(io::Error) -> RecoverError {
        move |source| RecoverError::StateFiles { action, source }
    }
}
