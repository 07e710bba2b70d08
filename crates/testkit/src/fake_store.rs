//! A store in memory that forgives nothing. It keeps records as the JSON documents a real one would, so
//! that what does not survive its written form does not survive here either.
//!
//! It may not do what no real store could: it has no access to a record but through the trait, and what
//! it is told to break stays broken until it is repaired.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sexton_core::plugin::StoreOptions;
use sexton_core::resume::Dialect;
use sexton_core::session::SCHEMA_VERSION;
use sexton_core::store::{
    Access, Backup, Capabilities, Change, CheckReport, Committed, Damage, Fields, Listing, LockGuard,
    LockName, RepairReport, Restored, StoreInfo,
};
use sexton_core::{Batch, Query, Session, SessionId, Status, Store, StoreError, Time};

mod backup;
mod locks;
mod world;

use locks::Locks;
use world::World;

/// The newest format that the fake understands.
const FORMAT: u64 = 1;

/// A [`Store`] in memory. Clones, and handles opened at the same path, share one set of records.
#[derive(Clone)]
pub struct FakeStore {
    path: PathBuf,
    access: Access,
    capabilities: Capabilities,
    world: Arc<Mutex<World>>,
    locks: Locks,
    dialect: &'static Dialect,
}

/// What a commit that was told to fail did before it failed. Its caller cannot know, and must read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedCommit {
    /// Nothing was written.
    Lost,
    /// Everything was written; only the answer was lost.
    Written,
}

/// Opens the fake at `options.path`, as a plugin would. Nothing is created there: the path is only a name
/// under which handles of this process find each other.
pub fn open(options: &StoreOptions) -> Result<Box<dyn Store>, StoreError> {
    let store = FakeStore::at(&options.path, options.access);
    if options.access == Access::Write {
        store.world().require_format(&options.path)?;
    }
    Ok(Box::new(store))
}

impl Default for FakeStore {
    fn default() -> Self {
        FakeStore::new()
    }
}

impl FakeStore {
    /// An empty store that nobody else shares, open for writing.
    pub fn new() -> FakeStore {
        FakeStore {
            path: PathBuf::from("/nowhere/fake-store"),
            access: Access::Write,
            capabilities: Capabilities::EVERYTHING,
            world: Arc::default(),
            locks: Locks::default(),
            dialect: &Dialect::SEXTON,
        }
    }

    /// The store that goes by `path` in this process.
    pub fn at(path: &Path, access: Access) -> FakeStore {
        let (world, locks) = world::find_or_make(path);
        let capabilities = Capabilities::EVERYTHING;
        FakeStore { path: path.to_owned(), access, capabilities, world, locks, dialect: &Dialect::SEXTON }
    }

    /// The same records in a store that speaks of loops as another tool does.
    #[must_use]
    pub fn speaking(&self, dialect: &'static Dialect) -> FakeStore {
        FakeStore { dialect, ..self.clone() }
    }

    /// The same records through a handle that was opened for reading.
    #[must_use]
    pub fn for_reading(&self) -> FakeStore {
        FakeStore { access: Access::Read, ..self.clone() }
    }

    /// The same records, of another tool: the worktrees that they name carry no mark.
    #[must_use]
    pub fn of_another_tool(&self) -> FakeStore {
        let capabilities = Capabilities { marks: false, ..self.capabilities };
        FakeStore { capabilities, ..self.clone() }
    }

    /// The same records, of a store that declares to have no place for a process.
    #[must_use]
    pub fn without_processes(&self) -> FakeStore {
        let fields = Fields::Only(&["id", "status", "worktree", "created_at", "started_at"]);
        FakeStore { capabilities: Capabilities { fields, ..self.capabilities }, ..self.clone() }
    }

    /// Makes the next commit that would have been made fail with an I/O error.
    pub fn fail_next_commit(&self, how: FailedCommit) {
        self.world().failing = Some(how);
    }

    /// Makes the record of `id` unreadable, and the store with it read-only.
    ///
    /// # Panics
    /// Where there is no such record.
    pub fn damage_record(&self, id: &SessionId) {
        let mut world = self.world();
        let document = world.documents.get_mut(id).expect("only a record that is there can be damaged");
        let half = document.len() / 2;
        document.truncate(half);
    }

    /// Makes the store one that a newer version wrote.
    pub fn make_newer(&self) {
        self.world().format = FORMAT + 1;
    }

    /// How many commits have been made: a caller that should write once can be held to it.
    pub fn commits(&self) -> u64 {
        self.world().commits
    }

    fn world(&self) -> MutexGuard<'_, World> {
        // A test that panicked inside a call has already failed; the others may go on.
        self.world.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn require_writable(&self, world: &World) -> Result<(), StoreError> {
        if self.access == Access::Read {
            return Err(StoreError::ReadOnly { path: self.path.clone() });
        }
        world.require_format(&self.path)
    }

    fn require_sound(&self, world: &World) -> Result<(), StoreError> {
        match world.damage() {
            damage if damage.is_empty() => Ok(()),
            damage => Err(StoreError::Damaged { path: self.path.clone(), damage }),
        }
    }

    fn lost_answer(&self) -> StoreError {
        let source = io::Error::other("the fake was told to fail");
        StoreError::Io { action: "cannot sync", path: self.path.clone(), source }
    }
}

#[async_trait]
impl Store for FakeStore {
    fn describe(&self) -> StoreInfo {
        StoreInfo {
            backend: "fake",
            path: self.path.clone(),
            uuid: self.world().uuid.clone(),
            capabilities: self.capabilities,
        }
    }

    fn damage(&self) -> Vec<Damage> {
        self.world().damage()
    }

    async fn load(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        let world = self.world();
        world.documents.get(id).map(|document| world::read(id, document)).transpose()
    }

    async fn list(&self, query: &Query) -> Result<Listing, StoreError> {
        let world = self.world();
        Ok(Listing { sessions: query.select(world.readable()), damage: world.damage() })
    }

    async fn tally(&self) -> Result<BTreeMap<Status, u64>, StoreError> {
        let mut tally = BTreeMap::new();
        for session in self.world().readable() {
            *tally.entry(session.status).or_default() += 1;
        }
        Ok(tally)
    }

    async fn counters(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        Ok(self.world().counters.clone())
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        let mut world = self.world();
        self.require_writable(&world)?;
        self.require_sound(&world)?;
        require_proper(&batch);
        if batch.is_empty() {
            return Ok(Committed::at(world.revision));
        }
        batch.check(|id| world.standing(id), |name| Ok(world.holder(name)))?;
        match world.failing.take() {
            Some(FailedCommit::Lost) => return Err(self.lost_answer()),
            Some(FailedCommit::Written) => {
                world.apply(batch);
                return Err(self.lost_answer());
            }
            None => world.apply(batch),
        }
        Ok(Committed::at(world.revision))
    }

    async fn lock(&self, name: &LockName, wait: Duration) -> Result<LockGuard, StoreError> {
        self.locks.acquire(name, wait)
    }

    async fn backup(&self, directory: &Path, now: Time) -> Result<Backup, StoreError> {
        let sessions: Vec<_> = self.world().readable().collect();
        backup::write(directory, now, &sessions)
    }

    async fn restore(&self, backup: &Path, _: Time) -> Result<Restored, StoreError> {
        let sessions = backup::read(backup)?;
        let mut world = self.world();
        self.require_writable(&world)?;
        Ok(world.replace_finished(sessions))
    }

    async fn check(&self) -> Result<CheckReport, StoreError> {
        let world = self.world();
        let records = u64::try_from(world.readable().count()).expect("a count fits into 64 bits");
        Ok(CheckReport { records, damage: world.damage() })
    }

    async fn repair(&self, _: Time) -> Result<RepairReport, StoreError> {
        let mut world = self.world();
        self.require_writable(&world)?;
        Ok(world.quarantine(&self.path))
    }

    fn dialect(&self) -> &'static Dialect {
        self.dialect
    }
}

/// What a real store might let pass: a record whose schema this version does not write, or a counter that
/// grows by nothing.
fn require_proper(batch: &Batch) {
    for change in &batch.changes {
        if let Change::Insert(session) | Change::Replace(session) = change {
            assert_eq!(session.schema, SCHEMA_VERSION, "session {}: a schema we do not write", session.id);
            let active = session.status.is_active();
            assert!(
                !active || session.finished_at.is_none(),
                "session {} is {} and finished at once",
                session.id,
                session.status
            );
        }
    }
    for (counter, by) in &batch.counters {
        assert!(*by > 0, "the counter {counter} grows by nothing");
    }
}

#[cfg(test)]
mod tests;
