//! A strict store in memory. It keeps records as JSON documents like a real store, so that anything that serialization
//! loses is lost here too.
//!
//! It does nothing that a real store could not: records are accessible only through the trait, and injected damage
//! stays until it is repaired.

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
    Access, Allows, Backup, Capabilities, Change, CheckReport, Committed, Damage, Fields, Format, Listing,
    LockGuard, LockName, RepairReport, Restored, StoreInfo,
};
use sexton_core::{Batch, Query, Session, SessionId, Status, Store, StoreError, Time};

mod backup;
mod locks;
mod world;

use locks::Locks;
use world::World;

/// The newest format that the fake supports.
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

/// What a commit wrote before its injected failure. The caller cannot know, and must read again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailedCommit {
    /// Nothing was written.
    Lost,
    /// Everything was written; only the reply was lost.
    Written,
}

/// Opens the fake at `options.path`, as a plugin would. It creates no file: the path is only the name by which handles
/// in this process share a store.
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
    /// Creates an empty store that is not shared, open for writing.
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

    /// Returns the store named `path` in this process.
    pub fn at(path: &Path, access: Access) -> FakeStore {
        let (world, locks) = world::find_or_make(path);
        let capabilities = Capabilities::EVERYTHING;
        FakeStore { path: path.to_owned(), access, capabilities, world, locks, dialect: &Dialect::SEXTON }
    }

    /// Returns a handle of the same records with another tool's dialect for loops.
    #[must_use]
    pub fn speaking(&self, dialect: &'static Dialect) -> FakeStore {
        FakeStore { dialect, ..self.clone() }
    }

    /// Returns a handle of the same records, open for reading.
    #[must_use]
    pub fn for_reading(&self) -> FakeStore {
        FakeStore { access: Access::Read, ..self.clone() }
    }

    /// Returns a handle of the same records as another tool's store, whose worktrees have no marks.
    #[must_use]
    pub fn of_another_tool(&self) -> FakeStore {
        let capabilities = Capabilities { marks: false, ..self.capabilities };
        FakeStore { capabilities, ..self.clone() }
    }

    /// Returns a handle of the same records that declares that it cannot store processes.
    #[must_use]
    pub fn without_processes(&self) -> FakeStore {
        let fields = Fields::Only(&["id", "status", "worktree", "created_at", "started_at"]);
        FakeStore { capabilities: Capabilities { fields, ..self.capabilities }, ..self.clone() }
    }

    /// Makes the next valid commit fail with an I/O error.
    pub fn fail_next_commit(&self, how: FailedCommit) {
        self.world().failing = Some(how);
    }

    /// Makes the record of `id` unreadable, and therefore the store read-only.
    ///
    /// # Panics
    /// If there is no such record.
    pub fn damage_record(&self, id: &SessionId) {
        let mut world = self.world();
        let document = world.documents.get_mut(id).expect("only an existing record can be damaged");
        let half = document.len() / 2;
        document.truncate(half);
    }

    /// Gives the store a format that is newer than supported.
    pub fn make_newer(&self) {
        self.world().format = FORMAT + 1;
    }

    /// Makes the store's format older than the newest one, which exists since the release `since`.
    pub fn make_older(&self, since: &'static str) {
        let mut world = self.world();
        world.newest = Some((world.format + 1, since));
    }

    /// Returns the format of the store.
    pub fn found_format(&self) -> u64 {
        self.world().format
    }

    /// Runs `change` just before the next raise of the format is checked, like a commit of another program.
    pub fn before_raising(&self, change: impl FnOnce(&FakeStore) + Send + 'static) {
        self.world().before_raising = Some(Box::new(change));
    }

    /// Returns the number of commits, so that tests can check that a caller writes once.
    pub fn commits(&self) -> u64 {
        self.world().commits
    }

    fn world(&self) -> MutexGuard<'_, World> {
        // A test that panicked inside a call has already failed; other tests can continue.
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

    fn injected_failure(&self) -> StoreError {
        let source = io::Error::other("injected failure");
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
            Some(FailedCommit::Lost) => return Err(self.injected_failure()),
            Some(FailedCommit::Written) => {
                world.apply(batch);
                return Err(self.injected_failure());
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

    async fn format(&self) -> Result<Option<Format>, StoreError> {
        let world = self.world();
        let (newest, since) = world.newest.unwrap_or((FORMAT, "0.1.0"));
        Ok(world.uuid.is_some().then_some(Format { found: world.format, newest, since }))
    }

    async fn raise_format(&self, allows: &Allows<'_>) -> Result<(), StoreError> {
        let change = self.world().before_raising.take();
        if let Some(change) = change {
            change(self);
        }
        let mut world = self.world();
        self.require_writable(&world)?;
        self.require_sound(&world)?;
        if let Some(refused) = world.readable().find(|session| !allows(session)) {
            return Err(StoreError::Conflict { id: refused.id, expected: refused.revision });
        }
        world.format = world.newest.map_or(world.format, |(newest, _)| newest);
        Ok(())
    }

    fn dialect(&self) -> &'static Dialect {
        self.dialect
    }
}

/// Panics on what a real store might accept: a schema that this version does not write, an active record with an end
/// time, or a counter increment of 0.
fn require_proper(batch: &Batch) {
    for change in &batch.changes {
        if let Change::Insert(session) | Change::Replace(session) = change {
            assert_eq!(session.schema, SCHEMA_VERSION, "session {}: unsupported schema", session.id);
            let active = session.status.is_active();
            assert!(
                !active || session.finished_at.is_none(),
                "session {} is {} but has an end time",
                session.id,
                session.status
            );
        }
    }
    for (counter, by) in &batch.counters {
        assert!(*by > 0, "the counter {counter} is incremented by 0");
    }
}

#[cfg(test)]
mod tests;
