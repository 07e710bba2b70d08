//! The journal as a [`Store`]: which question goes where. Reading and writing themselves are elsewhere.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use sexton_core::plugin::StoreOptions;
use sexton_core::store::{
    Access, Backup, Capabilities, Change, CheckReport, Committed, Damage, Durability, Listing, LockGuard,
    LockName, RepairReport, Restored, StoreInfo,
};
use sexton_core::{Batch, Query, Session, SessionId, Status, Store, StoreError, Time};
use sexton_durable::{FileLock, create_private_dir, follow_link};

use crate::format::{self, Place};
use crate::health::Health;
use crate::journal::{Journal, beside, io_error};
use crate::repair::unreadable;
use crate::writer::{Writer, require_writable};
use crate::{NAME, backup, repair};

/// An open journal.
pub(crate) struct JsonStore {
    path: PathBuf,
    access: Access,
    durability: Durability,
    journal: Mutex<Journal>,
}

impl JsonStore {
    /// Opens the journal, making it where there is none and it is to be written.
    pub(crate) fn open(options: &StoreOptions) -> Result<JsonStore, StoreError> {
        let StoreOptions { path, access, durability } = options;
        let path = follow_link(path).map_err(io_error("cannot look at", path))?;
        let journal = Mutex::new(Journal::new(&path));
        let store = JsonStore { path, access: *access, durability: *durability, journal };
        let health = store.look()?.contents().health;
        match (access, health) {
            (Access::Write, Health::Absent) => store.create()?,
            (Access::Write, Health::Newer) => require_writable(&store.journal())?,
            _ => {}
        }
        Ok(store)
    }

    fn create(&self) -> Result<(), StoreError> {
        if let Some(parent) = self.path.parent() {
            create_private_dir(parent).map_err(io_error("cannot make", parent))?;
        }
        Writer::acquire(self)?.prepare().map(drop)
    }

    /// The journal's file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// What a commit must survive.
    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    /// The journal as it was last looked at.
    pub(crate) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(|poisoned| {
            // Whoever panicked may have left half of something; the file has all of it.
            let mut journal = poisoned.into_inner();
            journal.forget();
            self.journal.clear_poison();
            journal
        })
    }

    /// The journal as it is now.
    pub(crate) fn look(&self) -> Result<MutexGuard<'_, Journal>, StoreError> {
        let mut journal = self.journal();
        journal.refresh(None)?;
        Ok(journal)
    }

    fn require_write_access(&self) -> Result<(), StoreError> {
        match self.access {
            Access::Write => Ok(()),
            Access::Read => Err(StoreError::ReadOnly { path: self.path.clone() }),
        }
    }
}

#[async_trait]
impl Store for JsonStore {
    fn describe(&self) -> StoreInfo {
        let uuid = self.journal().contents().uuid().map(str::to_owned);
        StoreInfo { backend: NAME, path: self.path.clone(), uuid, capabilities: Capabilities::EVERYTHING }
    }

    fn damage(&self) -> Vec<Damage> {
        self.journal().contents().findings()
    }

    async fn load(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        let journal = self.look()?;
        match journal.contents().image.index.find(id) {
            Some(entry) => journal.load_session(id, entry).map(Some),
            None => require_absence(&journal, id).map(|()| None),
        }
    }

    async fn list(&self, query: &Query) -> Result<Listing, StoreError> {
        let journal = self.look()?;
        let mut listing = Listing { sessions: Vec::new(), damage: journal.contents().findings() };
        for (id, entry) in journal.contents().image.index.select(query) {
            match journal.load_session(id, entry) {
                Ok(session) => listing.sessions.push(session),
                Err(error) => listing.damage.push(unreadable(id, error)?),
            }
        }
        Ok(listing)
    }

    async fn tally(&self) -> Result<BTreeMap<Status, u64>, StoreError> {
        Ok(self.look()?.contents().image.index.tally())
    }

    async fn counters(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        Ok(self.look()?.contents().image.index.counters().clone())
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        self.require_write_access()?;
        if batch.is_empty() {
            let journal = self.look()?;
            require_writable(&journal)?;
            return Ok(Committed::at(journal.contents().image.seq));
        }
        let writer = Writer::acquire(self)?;
        let journal = writer.prepare()?;
        check(&batch, &journal)?;
        let seq = journal.contents().image.seq + 1;
        if seq > format::LARGEST {
            let at_its_end = std::io::Error::other("its commits cannot be counted any further");
            return Err(io_error("cannot write", &self.path)(at_its_end));
        }
        writer.append(journal, &encode(batch, seq), seq)
    }

    async fn lock(&self, name: &LockName, wait: Duration) -> Result<LockGuard, StoreError> {
        self.require_write_access()?;
        let directory = beside(&self.path, ".locks");
        create_private_dir(&directory).map_err(io_error("cannot make", &directory))?;
        let path = directory.join(name.as_str());
        let held = FileLock::acquire_within(&path, wait).map_err(io_error("cannot lock", &path))?;
        let timeout = || StoreError::LockTimeout { name: name.as_str().to_owned(), waited: wait };
        held.map(LockGuard::new).ok_or_else(timeout)
    }

    async fn backup(&self, directory: &Path, now: Time) -> Result<Backup, StoreError> {
        backup::backup(self, directory, now)
    }

    async fn restore(&self, backup: &Path, now: Time) -> Result<Restored, StoreError> {
        self.require_write_access()?;
        backup::restore(self, backup, now)
    }

    async fn check(&self) -> Result<CheckReport, StoreError> {
        repair::check(self)
    }

    async fn repair(&self, now: Time) -> Result<RepairReport, StoreError> {
        self.require_write_access()?;
        repair::repair(self, now)
    }
}

/// Says that there is no record of `id`, unless a damaged line might have held it: unknown is not absent.
fn require_absence(journal: &Journal, id: &SessionId) -> Result<(), StoreError> {
    if journal.contents().suspects.contains(id) {
        let what = "the line that held its record is damaged".to_owned();
        return Err(StoreError::DamagedRecord { id: id.clone(), what });
    }
    require_writable(journal)
}

fn check(batch: &Batch, journal: &Journal) -> Result<(), StoreError> {
    let index = &journal.contents().image.index;
    let changed: BTreeSet<&SessionId> = batch.changes.iter().map(Change::id).collect();
    batch.check(|id| index.standing(id), |name| Ok(index.holder(name, &changed)))
}

/// The lines of the commit `seq`.
fn encode(batch: Batch, seq: u64) -> Vec<u8> {
    let Batch { changes, counters } = batch;
    let of = changes.len() as u64 + u64::from(!counters.is_empty());
    let mut lines = Vec::new();
    for (number, change) in (1..).zip(changes) {
        let place = Place::Part { seq, number, of };
        match change {
            Change::Insert(mut session) | Change::Replace(mut session) => {
                session.revision = seq;
                format::write_put(&mut lines, seq, place, &session.to_json());
            }
            Change::Remove { id, .. } => format::write_del(&mut lines, seq, place, &id),
        }
    }
    if !counters.is_empty() {
        format::write_add(&mut lines, seq, Place::Part { seq, number: of, of }, &counters);
    }
    lines
}
