//! A state directory in memory.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use pollster::block_on;
use sexton_core::ending::record_outcome;
use sexton_core::recover::{MarkedFiles, Premises};
use sexton_core::session::Exit;
use sexton_core::store::{Backup, StoreInfo, update_session};
use sexton_core::{ProcessIdentity, ProcessProbe, Session, SessionId, Store, StoreError, Time};

/// A [`Premises`] that exists only in memory. Clones are the same place.
#[derive(Clone, Default)]
pub struct FakePremises {
    place: Arc<Mutex<Place>>,
}

#[derive(Default)]
struct Place {
    exits: BTreeMap<SessionId, (Exit, Time)>,
    backups: usize,
    files: Vec<MarkedFiles>,
    discarded: Vec<SessionId>,
    supervised: Vec<SessionId>,
    yards: Vec<PathBuf>,
    complete_since: Option<Time>,
}

impl FakePremises {
    /// An empty one.
    pub fn new() -> FakePremises {
        FakePremises::default()
    }

    /// Leaves an exit file, as a supervisor does that could not write the store.
    pub fn leave_exit(&self, session: &SessionId, exit: Exit, at: Time) {
        self.place().exits.insert(session.clone(), (exit, at));
    }

    /// Leaves the files of a session that `store` knows, or knew.
    pub fn leave_files(&self, session: &SessionId, store: &str, made_at: Time) {
        let files = MarkedFiles { session: session.clone(), store: store.to_owned(), made_at };
        self.place().files.push(files);
    }

    /// Adds a yard.
    pub fn add_yard(&self, root: impl Into<PathBuf>) {
        self.place().yards.push(root.into());
    }

    /// Says that the store forgot sessions, until `time`.
    pub fn forget_before(&self, time: Time) {
        self.place().complete_since = Some(time);
    }

    /// How many backups were made.
    pub fn backups(&self) -> usize {
        self.place().backups
    }

    /// The sessions whose files were removed.
    pub fn discarded(&self) -> Vec<SessionId> {
        self.place().discarded.clone()
    }

    /// The sessions that got a new supervisor.
    pub fn supervised(&self) -> Vec<SessionId> {
        self.place().supervised.clone()
    }

    fn place(&self) -> MutexGuard<'_, Place> {
        self.place.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Premises for FakePremises {
    fn waiting_exits(&self) -> io::Result<BTreeSet<SessionId>> {
        Ok(self.place().exits.keys().cloned().collect())
    }

    fn commit_exits(&self, store: &dyn Store) -> Result<Vec<SessionId>, StoreError> {
        let exits = self.place().exits.clone();
        let mut committed = Vec::new();
        for (id, (exit, at)) in exits {
            let end = |session: &mut Session| record_outcome(session, exit.clone(), None, at);
            if block_on(update_session(store, &id, end))?.is_some() {
                self.place().exits.remove(&id);
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

    fn supervise_again(&self, session: &Session) -> io::Result<()> {
        self.place().supervised.push(session.id.clone());
        Ok(())
    }

    fn back_up(&self, store: &dyn Store, _: Time) -> Result<Backup, StoreError> {
        let mut place = self.place();
        place.backups += 1;
        let records = block_on(store.tally())?.values().sum();
        Ok(Backup { path: PathBuf::from(format!("/backups/{}", place.backups)), records })
    }

    fn discard(&self, session: &SessionId) -> io::Result<()> {
        let mut place = self.place();
        place.files.retain(|files| files.session != *session);
        place.discarded.push(session.clone());
        Ok(())
    }

    fn marked(&self) -> io::Result<Vec<MarkedFiles>> {
        Ok(self.place().files.clone())
    }

    fn yards(&self) -> io::Result<Vec<PathBuf>> {
        Ok(self.place().yards.clone())
    }

    fn complete_since(&self, _: &StoreInfo) -> io::Result<Option<Time>> {
        Ok(self.place().complete_since)
    }
}
