//! A state directory in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pollster::block_on;
use sexton_core::ending::record_outcome;
use sexton_core::foreign_identity::is_command_alive;
use sexton_core::recover::{MarkedFiles, Problem, StateFiles, UnreadableExit};
use sexton_core::session::Exit;
use sexton_core::store::{Backup, StoreInfo, update_session};
use sexton_core::{Incarnation, ProcessIdentity, ProcessProbe, Session, SessionId, Store, StoreError, Time};

/// A [`StateFiles`] in memory. Clones share its state.
#[derive(Clone, Default)]
pub struct FakeStateFiles {
    contents: Arc<Mutex<Contents>>,
}

/// Starts a new supervisor for a session. Returns whether it did.
type Supervise = Box<dyn Fn(&Session) -> bool + Send>;

#[derive(Default)]
struct Contents {
    exits: BTreeMap<SessionId, (Exit, Time)>,
    backups: usize,
    files: Vec<MarkedFiles>,
    discarded: Vec<SessionId>,
    supervised: Vec<SessionId>,
    supervise: Option<Supervise>,
    worktree_roots: Vec<PathBuf>,
    complete_since: Option<Time>,
    unreadable: Vec<UnreadableExit>,
    problems: Vec<Problem>,
    stuck: BTreeMap<SessionId, String>,
}

impl FakeStateFiles {
    /// Creates an empty state directory.
    pub fn new() -> FakeStateFiles {
        FakeStateFiles::default()
    }

    /// Adds an exit file, as written by a supervisor that could not write to the store.
    pub fn leave_exit(&self, session: &SessionId, exit: Exit, at: Time) {
        self.contents().exits.insert(session.clone(), (exit, at));
    }

    /// Adds the files of a session of `store`.
    pub fn leave_files(&self, session: &SessionId, store: &str, made_at: Time) {
        let files = MarkedFiles { session: session.clone(), store: store.to_owned(), made_at, made_on: None };
        self.contents().files.push(files);
    }

    /// Adds the files of a session of another host.
    pub fn leave_files_of(&self, session: &SessionId, store: &str, made_at: Time, made_on: Incarnation) {
        let made_on = Some(made_on);
        let files = MarkedFiles { session: session.clone(), store: store.to_owned(), made_at, made_on };
        self.contents().files.push(files);
    }

    /// Adds an exit file that cannot be read: permanently, if it is damaged.
    pub fn leave_unreadable_exit(&self, session: &SessionId, damaged: bool) {
        let path = PathBuf::from(format!("/state/exits/{session}.json"));
        let why = "it cannot be read".to_owned();
        self.contents().unreadable.push(UnreadableExit { session: session.clone(), path, why, damaged });
    }

    /// Makes the removal of a session's files fail with `why`.
    pub fn refuse_discard(&self, session: &SessionId, why: &str) {
        self.contents().stuck.insert(session.clone(), why.to_owned());
    }

    /// Returns the problems that recoveries recorded.
    pub fn problems(&self) -> Vec<Problem> {
        self.contents().problems.clone()
    }

    /// Adds a worktree root.
    pub fn add_worktree_root(&self, root: impl Into<PathBuf>) {
        self.contents().worktree_roots.push(root.into());
    }

    /// Records that the store lost sessions created before `time`.
    pub fn forget_before(&self, time: Time) {
        self.contents().complete_since = Some(time);
    }

    /// Returns the number of backups.
    pub fn backups(&self) -> usize {
        self.contents().backups
    }

    /// Returns the sessions whose files were removed.
    pub fn discarded(&self) -> Vec<SessionId> {
        self.contents().discarded.clone()
    }

    /// Sets the function that starts a new supervisor and returns whether it did.
    pub fn supervise_by(&self, supervise: impl Fn(&Session) -> bool + Send + 'static) {
        self.contents().supervise = Some(Box::new(supervise));
    }

    /// Returns the sessions that got a new supervisor.
    pub fn supervised(&self) -> Vec<SessionId> {
        self.contents().supervised.clone()
    }

    fn contents(&self) -> MutexGuard<'_, Contents> {
        self.contents.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl StateFiles for FakeStateFiles {
    fn waiting_exits(&self) -> io::Result<BTreeSet<SessionId>> {
        Ok(self.contents().exits.keys().cloned().collect())
    }

    fn unreadable_exits(&self) -> io::Result<Vec<UnreadableExit>> {
        Ok(self.contents().unreadable.clone())
    }

    fn known_problems(&self, _: &StoreInfo) -> io::Result<Vec<Problem>> {
        Ok(self.contents().problems.clone())
    }

    fn remember_problems(&self, _: &StoreInfo, problems: &[Problem]) -> io::Result<()> {
        self.contents().problems = problems.to_vec();
        Ok(())
    }

    fn commit_exits(
        &self,
        store: &dyn Store,
        probe: &dyn ProcessProbe,
    ) -> Result<Vec<SessionId>, StoreError> {
        let exits = self.contents().exits.clone();
        let mut committed = Vec::new();
        for (id, (exit, at)) in exits {
            let Some(session) = block_on(store.load(&id))? else { continue };
            if block_on(is_command_alive(probe, &session)) {
                continue;
            }
            let end = |session: &mut Session| record_outcome(session, exit.clone(), None, at);
            if block_on(update_session(store, &id, end))?.is_some() {
                self.contents().exits.remove(&id);
                committed.push(id);
            }
        }
        Ok(committed)
    }

    fn wait_for_supervisors(
        &self,
        _: &dyn ProcessProbe,
        _: &[ProcessIdentity],
        _: Duration,
    ) -> io::Result<()> {
        Ok(())
    }

    fn supervise_again(&self, session: &Session) -> io::Result<bool> {
        let mut contents = self.contents();
        let supervise =
            contents.supervise.as_ref().ok_or_else(|| io::Error::other("no supervisor can be started"))?;
        let started = supervise(session);
        if started {
            contents.supervised.push(session.id.clone());
        }
        Ok(started)
    }

    fn back_up(&self, store: &dyn Store, _: Time) -> Result<Backup, StoreError> {
        let mut contents = self.contents();
        contents.backups += 1;
        let records = block_on(store.tally())?.values().sum();
        Ok(Backup { path: PathBuf::from(format!("/backups/{}", contents.backups)), records })
    }

    fn discard(&self, _store: &StoreInfo, session: &SessionId) -> io::Result<()> {
        let mut contents = self.contents();
        if let Some(why) = contents.stuck.get(session) {
            return Err(io::Error::other(why.clone()));
        }
        contents.files.retain(|files| files.session != *session);
        contents.discarded.push(session.clone());
        Ok(())
    }

    fn marked(&self) -> io::Result<Vec<MarkedFiles>> {
        Ok(self.contents().files.clone())
    }

    fn worktree_roots(&self) -> io::Result<Vec<PathBuf>> {
        Ok(self.contents().worktree_roots.clone())
    }

    fn complete_since(&self, _: &StoreInfo) -> io::Result<Option<Time>> {
        Ok(self.contents().complete_since)
    }
}
