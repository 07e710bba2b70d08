//! What recovery stands on: the backends, the state directory, and somebody who watches its progress.

use std::collections::BTreeSet;
use std::io;
use std::path::PathBuf;
use std::time::Duration;

use crate::store::{Backup, StoreInfo};
use crate::{
    Host, ProbeError, ProcessIdentity, ProcessProbe, Session, SessionId, Store, StoreError, Time,
    WorktreeCleaner,
};

/// Everything that a recovery works with.
#[derive(Clone, Copy)]
pub struct Ground<'a> {
    /// The records.
    pub store: &'a dyn Store,
    /// The processes.
    pub probe: &'a dyn ProcessProbe,
    /// The worktrees; without one they wait for a recovery that has one.
    pub cleaner: Option<&'a dyn WorktreeCleaner>,
    /// The files beside the store.
    pub premises: &'a dyn Premises,
    /// This machine.
    pub host: &'a Host,
    /// The pid of the process that recovers.
    pub me: u32,
    /// What time it is.
    pub clock: fn() -> Time,
}

/// The state directory, as far as recovery needs it.
pub trait Premises: Send + Sync {
    /// The sessions whose end waits in an exit file.
    fn waiting_exits(&self) -> io::Result<BTreeSet<SessionId>>;

    /// Commits the exit files whose sessions `store` knows. Returns which those were.
    fn commit_exits(&self, store: &dyn Store) -> Result<Vec<SessionId>, StoreError>;

    /// Waits until these supervisors have ended, at most `limit`. They are finishing: their sessions have
    /// nobody left.
    fn wait_for_supervisors(
        &self,
        probe: &dyn ProcessProbe,
        supervisors: &[ProcessIdentity],
        limit: Duration,
    ) -> io::Result<()>;

    /// Starts a supervisor for a session that lost its own and was adopted.
    fn supervise_again(&self, session: &Session) -> io::Result<()>;

    /// Backs the store up and lets old backups go.
    fn back_up(&self, store: &dyn Store, now: Time) -> Result<Backup, StoreError>;

    /// Removes the files of a session whose record is gone.
    fn discard(&self, session: &SessionId) -> io::Result<()>;

    /// The sessions that have files here, with the mark of the store that knows them.
    fn marked(&self) -> io::Result<Vec<MarkedFiles>>;

    /// The yards there may be, besides those that records name.
    fn yards(&self) -> io::Result<Vec<PathBuf>>;

    /// Since when `store` is known to have every record that was committed to it. `None` where it never
    /// lost one: a store that was restored or repaired may have forgotten sessions, and their worktrees
    /// are no strays.
    fn complete_since(&self, store: &StoreInfo) -> io::Result<Option<Time>>;
}

/// The files of a session, and whose they are.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedFiles {
    /// The session.
    pub session: SessionId,
    /// The store that knows it.
    pub store: String,
    /// Since when they are there.
    pub made_at: Time,
}

/// A part of a recovery that takes its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Looking at sessions.
    Observe,
    /// Ending processes.
    End,
    /// Saving work and removing worktrees.
    Rescue,
    /// Deleting what was removed.
    Remove,
    /// Removing old records.
    Prune,
}

/// Somebody who watches a recovery. Called from several threads.
pub trait Progress: Sync {
    /// Another recovery is at work on the same store; this one waits for it.
    fn wait_for_other(&self);

    /// A phase begins that has `total` parts.
    fn begin(&self, phase: Phase, total: usize);

    /// One more part of it is done.
    fn advance(&self);
}

/// Nobody watches.
#[derive(Clone, Copy, Debug)]
pub struct Silent;

impl Progress for Silent {
    fn wait_for_other(&self) {}

    fn begin(&self, _: Phase, _: usize) {}

    fn advance(&self) {}
}

/// Why a recovery could not go on at all. What happens to one session only is in the report.
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
    Premises {
        /// What was tried.
        action: &'static str,
        /// Why it failed.
        #[source]
        source: io::Error,
    },
}

impl RecoverError {
    pub(super) fn premises(action: &'static str) -> impl Fn(io::Error) -> RecoverError {
        move |source| RecoverError::Premises { action, source }
    }
}
