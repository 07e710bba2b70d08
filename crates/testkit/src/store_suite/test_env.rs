//! The test environment of a case: a temporary directory with the store under test.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use pollster::block_on;
use sexton_core::plugin::StoreOptions;
use sexton_core::store::{
    Access, Change, Committed, Damage, Durability, Listing, LockGuard, LockName, update_session,
};
use sexton_core::{Batch, Query, Session, SessionId, Store, StoreError};
use tempfile::TempDir;

use super::Subject;
use super::samples;
use crate::role::{self, Helper};

/// A temporary directory with a store, removed when it is dropped.
pub(super) struct TestEnv {
    subject: Subject,
    directory: TempDir,
}

impl TestEnv {
    /// Creates a directory without a store.
    pub(super) fn new(subject: &Subject) -> TestEnv {
        TestEnv { subject: *subject, directory: TempDir::new().expect("a temporary directory can be made") }
    }

    /// Creates a test environment whose store has `sessions`, committed one by one.
    pub(super) fn with(subject: &Subject, sessions: impl IntoIterator<Item = Session>) -> TestEnv {
        let test_env = TestEnv::new(subject);
        let store = test_env.writer();
        sessions.into_iter().for_each(|session| _ = store.insert(session));
        test_env
    }

    /// Returns whether the store keeps counters.
    pub(super) fn counts(&self) -> bool {
        self.subject.capabilities.counters
    }

    /// Returns the directory of the store.
    pub(super) fn directory(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    /// Returns the path of the store's file.
    pub(super) fn path(&self) -> PathBuf {
        self.directory().join(self.subject.file_name)
    }

    /// Returns a path outside of the store's directory.
    pub(super) fn elsewhere(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Opens the store.
    pub(super) fn try_open(&self, access: Access, durability: Durability) -> Result<Handle, StoreError> {
        std::fs::create_dir_all(self.directory()).expect("a directory can be made");
        open_at(&self.subject, &self.path(), access, durability)
    }

    /// Opens the store for writing, without syncs, which most cases do not need.
    pub(super) fn writer(&self) -> Handle {
        self.try_open(Access::Write, Durability::Process).expect("the store opens for writing")
    }

    /// Opens the store for reading.
    pub(super) fn reader(&self) -> Handle {
        self.try_open(Access::Read, Durability::Process).expect("the store opens for reading")
    }

    /// Starts a helper in `role` with the store's path and `arguments`.
    pub(super) fn helper(&self, role: &str, durability: Durability, arguments: &[&str]) -> Helper {
        Helper::spawn(&mut self.helper_command(role, durability, arguments))
    }

    /// Returns the command of such a helper.
    pub(super) fn helper_command(&self, role: &str, durability: Durability, arguments: &[&str]) -> Command {
        std::fs::create_dir_all(self.directory()).expect("a directory can be made");
        let mut command = role::command(role);
        command.arg(self.path()).arg(format!("{durability:?}")).args(arguments);
        command
    }

    /// Returns the contents of all files of the store, including subdirectories. Omits empty files (locks) and SQLite's
    /// shared-memory index, which hold no records.
    pub(super) fn bytes(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        self.files()
            .into_iter()
            .filter(|path| !path.as_os_str().as_encoded_bytes().ends_with(b"-shm"))
            .map(|path| (path.clone(), std::fs::read(path).expect("a file can be read")))
            .filter(|(_, bytes)| !bytes.is_empty())
            .collect()
    }

    /// Returns the files in the store's directory and its subdirectories.
    pub(super) fn files(&self) -> Vec<PathBuf> {
        let (mut files, mut directories) = (Vec::new(), vec![self.directory()]);
        while let Some(directory) = directories.pop() {
            for entry in std::fs::read_dir(directory).expect("the directory can be listed") {
                let path = entry.expect("an entry can be read").path();
                if path.is_dir() { &mut directories } else { &mut files }.push(path);
            }
        }
        files
    }

    /// Makes the record of `id` unreadable. Every handle must be closed.
    pub(super) fn damage(&self, id: &SessionId) {
        (self.subject.damage_one_record)(&self.path(), id);
    }

    /// Gives the store a newer format. Every handle must be closed.
    pub(super) fn make_newer(&self) {
        (self.subject.make_newer)(&self.path());
    }
}

/// Opens the store at `path`.
pub(super) fn open_at(
    subject: &Subject,
    path: &Path,
    access: Access,
    durability: Durability,
) -> Result<Handle, StoreError> {
    let store = (subject.open)(&StoreOptions::new(path.to_owned(), access, durability))?;
    Ok(Handle(store, *subject))
}

/// An open store with blocking calls.
///
/// It fits each record to the store before it commits it, so that the same case works for a store that keeps all fields
/// and for one that does not. The theme `capabilities` bypasses this and checks what a store does with more.
pub(super) struct Handle(pub(super) Box<dyn Store>, pub(super) Subject);

impl Handle {
    /// Commits the part of `batch` that the store can represent.
    pub(super) fn try_commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        block_on(self.0.commit(self.fit_batch(batch)))
    }

    /// Returns the part of `batch` that the store can represent.
    pub(super) fn fit_batch(&self, mut batch: Batch) -> Batch {
        for change in &mut batch.changes {
            if let Change::Insert(session) | Change::Replace(session) = change {
                **session = self.fit((**session).clone());
            }
        }
        if !self.1.capabilities.counters {
            batch.counters.clear();
        }
        batch
    }

    /// Returns the part of `session` that the store can represent, with the fields that it requires.
    pub(super) fn fit(&self, session: Session) -> Session {
        let revision = session.revision;
        let dressed = (self.1.dress)(session);
        let fitted = self.0.fit(&dressed).expect("a sample can be kept in part");
        Session { revision, ..fitted.session }
    }

    /// Writes `mark` into a field of `session` that the store keeps.
    pub(super) fn mark(&self, session: &mut Session, mark: &str) {
        samples::mark(&self.1.capabilities, session, mark);
    }

    /// Increments a number in a field of `session` that the store keeps.
    pub(super) fn count_up(&self, session: &mut Session) {
        samples::set_number(&self.1.capabilities, session, samples::number_of(session) + 1);
    }

    /// Commits `batch`, which must succeed.
    pub(super) fn commit(&self, batch: Batch) -> Committed {
        self.try_commit(batch).expect("the batch is committed")
    }

    /// Inserts a record and returns it as stored.
    pub(super) fn insert(&self, session: Session) -> Session {
        let session = self.fit(session);
        let committed = self.commit(Batch::new().insert(session.clone()));
        Session { revision: committed.revision_of(&session.id), ..session }
    }

    /// Replaces a record and returns it as stored.
    pub(super) fn replace(&self, session: Session) -> Session {
        let session = self.fit(session);
        let committed = self.commit(Batch::new().replace(session.clone()));
        Session { revision: committed.revision_of(&session.id), ..session }
    }

    /// Returns a record if it exists.
    pub(super) fn find(&self, id: &SessionId) -> Option<Session> {
        block_on(self.0.load(id)).expect("the record can be loaded")
    }

    /// Returns a record that must exist.
    pub(super) fn require(&self, id: &SessionId) -> Session {
        self.find(id).expect("the record exists")
    }

    /// Lists the records that match `query`.
    pub(super) fn listing(&self, query: &Query) -> Listing {
        block_on(self.0.list(query)).expect("the records can be listed")
    }

    /// Returns all records of a store that must have no damage.
    pub(super) fn all(&self) -> Vec<Session> {
        let listing = self.listing(&Query::all());
        assert_eq!(listing.damage, Vec::<Damage>::new(), "the store has no damage");
        listing.sessions
    }

    /// Returns the counters.
    pub(super) fn counters(&self) -> BTreeMap<String, u64> {
        block_on(self.0.counters()).expect("the counters can be read")
    }

    /// Updates a record: reads, changes and commits it, and retries on a conflict.
    pub(super) fn update(&self, id: &SessionId, change: impl FnMut(&mut Session) -> bool + Send) -> Session {
        let updated = block_on(update_session(self.0.as_ref(), id, change));
        updated.expect("a record can be updated").expect("the record exists")
    }

    /// Takes a lock.
    pub(super) fn lock(&self, name: &str, wait: Duration) -> Result<LockGuard, StoreError> {
        block_on(self.0.lock(&LockName::new(name).expect("the lock name is valid"), wait))
    }
}
