//! Where a case takes place: a directory of its own, with the store under test in it.

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

/// A directory with a store in it, gone when it is dropped.
pub(super) struct Site {
    subject: Subject,
    directory: TempDir,
}

impl Site {
    /// A directory without a store yet.
    pub(super) fn new(subject: &Subject) -> Site {
        Site { subject: *subject, directory: TempDir::new().expect("a temporary directory can be made") }
    }

    /// A site whose store holds `sessions`, committed one by one.
    pub(super) fn with(subject: &Subject, sessions: impl IntoIterator<Item = Session>) -> Site {
        let site = Site::new(subject);
        let store = site.writer();
        sessions.into_iter().for_each(|session| _ = store.insert(session));
        site
    }

    /// Whether the store keeps counters.
    pub(super) fn counts(&self) -> bool {
        self.subject.capabilities.counters
    }

    /// The directory that the store lies in.
    pub(super) fn directory(&self) -> PathBuf {
        self.directory.path().join("store")
    }

    /// The store's file.
    pub(super) fn path(&self) -> PathBuf {
        self.directory().join(self.subject.file_name)
    }

    /// Another directory, outside of the store's.
    pub(super) fn elsewhere(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Opens the store, or gives its refusal.
    pub(super) fn try_open(&self, access: Access, durability: Durability) -> Result<Handle, StoreError> {
        std::fs::create_dir_all(self.directory()).expect("a directory can be made");
        open_at(&self.subject, &self.path(), access, durability)
    }

    /// The store, open for writing. Cases that are not about power cuts do not wait for the disk.
    pub(super) fn writer(&self) -> Handle {
        self.try_open(Access::Write, Durability::Process).expect("the store opens for writing")
    }

    /// The store, open for reading.
    pub(super) fn reader(&self) -> Handle {
        self.try_open(Access::Read, Durability::Process).expect("the store opens for reading")
    }

    /// Another process with the store's path and `arguments` in `role`.
    pub(super) fn helper(&self, role: &str, durability: Durability, arguments: &[&str]) -> Helper {
        Helper::spawn(&mut self.helper_command(role, durability, arguments))
    }

    /// The command of such a process.
    pub(super) fn helper_command(&self, role: &str, durability: Durability, arguments: &[&str]) -> Command {
        std::fs::create_dir_all(self.directory()).expect("a directory can be made");
        let mut command = role::command(role);
        command.arg(self.path()).arg(format!("{durability:?}")).args(arguments);
        command
    }

    /// Every byte of the store: its files, those in directories too, by their path. An empty file (a lock)
    /// and SQLite's shared-memory index hold no record and are left out.
    pub(super) fn bytes(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        self.files()
            .into_iter()
            .filter(|path| !path.as_os_str().as_encoded_bytes().ends_with(b"-shm"))
            .map(|path| (path.clone(), std::fs::read(path).expect("a file can be read")))
            .filter(|(_, bytes)| !bytes.is_empty())
            .collect()
    }

    /// The files of the store, wherever they lie in its directory.
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

    /// Makes the store one of a newer format. Every handle must be closed.
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
    let store = (subject.open)(&StoreOptions { path: path.to_owned(), access, durability })?;
    Ok(Handle(store, *subject))
}

/// An open store whose calls are made on the spot: a case reads as a list of sentences.
///
/// What it commits is fitted to the store first, so that one case serves a store that keeps everything and
/// one that does not: the former gets what the case says, the latter what it can represent of it. What a
/// store does when it is asked for more is the theme `capabilities`, which goes past this.
pub(super) struct Handle(pub(super) Box<dyn Store>, pub(super) Subject);

impl Handle {
    /// Commits what the store can represent of `batch`, and gives the outcome.
    pub(super) fn try_commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        block_on(self.0.commit(self.fit_batch(batch)))
    }

    /// `batch` as far as the store can represent it.
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

    /// `session` as far as the store can represent it, with what it needs of every record.
    pub(super) fn fit(&self, session: Session) -> Session {
        let revision = session.revision;
        let dressed = (self.1.dress)(session);
        let fitted = self.0.fit(&dressed).expect("a sample can be kept in part");
        Session { revision, ..fitted.session }
    }

    /// Writes `mark` into a place of `session` that the store keeps.
    pub(super) fn mark(&self, session: &mut Session, mark: &str) {
        samples::mark(&self.1.capabilities, session, mark);
    }

    /// Counts one up in a place of `session` that the store keeps.
    pub(super) fn count_up(&self, session: &mut Session) {
        samples::set_number(&self.1.capabilities, session, samples::number_of(session) + 1);
    }

    /// Commits what must succeed.
    pub(super) fn commit(&self, batch: Batch) -> Committed {
        self.try_commit(batch).expect("the batch is committed")
    }

    /// Commits a new record and gives it as it was stored.
    pub(super) fn insert(&self, session: Session) -> Session {
        let session = self.fit(session);
        let committed = self.commit(Batch::new().insert(session.clone()));
        Session { revision: committed.revision_of(&session.id), ..session }
    }

    /// Commits a new content and gives it as it was stored.
    pub(super) fn replace(&self, session: Session) -> Session {
        let session = self.fit(session);
        let committed = self.commit(Batch::new().replace(session.clone()));
        Session { revision: committed.revision_of(&session.id), ..session }
    }

    /// Looks for a record.
    pub(super) fn find(&self, id: &SessionId) -> Option<Session> {
        block_on(self.0.load(id)).expect("the record can be looked up")
    }

    /// A record that must be there.
    pub(super) fn require(&self, id: &SessionId) -> Session {
        self.find(id).expect("the record is there")
    }

    /// The listing that `query` makes.
    pub(super) fn listing(&self, query: &Query) -> Listing {
        block_on(self.0.list(query)).expect("the records can be listed")
    }

    /// Every record of a store that must be sound.
    pub(super) fn all(&self) -> Vec<Session> {
        let listing = self.listing(&Query::all());
        assert_eq!(listing.damage, Vec::<Damage>::new(), "a sound store lists no damage");
        listing.sessions
    }

    /// The counters.
    pub(super) fn counters(&self) -> BTreeMap<String, u64> {
        block_on(self.0.counters()).expect("the counters can be read")
    }

    /// Edits a record as a caller does: read, change, commit, and again where somebody else was faster.
    pub(super) fn update(&self, id: &SessionId, change: impl FnMut(&mut Session) -> bool + Send) -> Session {
        let updated = block_on(update_session(self.0.as_ref(), id, change));
        updated.expect("a record can be updated").expect("the record is there")
    }

    /// Takes a lock, or gives the refusal.
    pub(super) fn lock(&self, name: &str, wait: Duration) -> Result<LockGuard, StoreError> {
        block_on(self.0.lock(&LockName::new(name).expect("the name fits a lock"), wait))
    }
}
