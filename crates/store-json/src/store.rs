//! Implementation of [`Store`] for the journal. Reading and writing are in other modules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard};
use std::time::Duration;

use async_trait::async_trait;
use sexton_core::plugin::StoreOptions;
use sexton_core::store::{
    Access, Allows, Backup, Capabilities, Change, CheckReport, Committed, Damage, Durability, Format,
    Listing, LockGuard, LockName, RepairReport, Restored, StoreInfo,
};
use sexton_core::{Batch, Query, Session, SessionId, Status, Store, StoreError, Time};
use sexton_durable::{FileLock, create_private_dir, find_other_owner, follow_link};

use crate::format::{self, Place};
use crate::health::Health;
use crate::journal::{Journal, beside, io_error};
use crate::repair::unreadable;
use crate::snapshot::Snapshot;
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
    /// Opens the journal, and creates it if it is absent and `options` allow writing.
    pub(crate) fn open(options: &StoreOptions) -> Result<JsonStore, StoreError> {
        let StoreOptions { path, access, durability, .. } = options;
        let path = follow_link(path).map_err(io_error("cannot read", path))?;
        for suffix in ["", ".lock", ".mark", ".since"] {
            require_own(&beside(&path, suffix))?;
        }
        let journal = Mutex::new(Journal::new(&path));
        let store = JsonStore { path, access: *access, durability: *durability, journal };
        let health = store.refreshed()?.contents().health;
        match (access, health) {
            (Access::Write, Health::Absent) => store.create()?,
            (Access::Write, Health::Newer) => require_writable(&store.journal())?,
            _ => {}
        }
        Ok(store)
    }

    fn create(&self) -> Result<(), StoreError> {
        if let Some(parent) = self.path.parent() {
            create_private_dir(parent).map_err(io_error("cannot create", parent))?;
        }
        Writer::acquire(self)?.prepare().map(drop)
    }

    /// Returns the journal's path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns what a commit must survive.
    pub(crate) fn durability(&self) -> Durability {
        self.durability
    }

    /// Returns the journal as of the last refresh.
    pub(crate) fn journal(&self) -> MutexGuard<'_, Journal> {
        self.journal.lock().unwrap_or_else(|poisoned| {
            // The thread that panicked may have left partial state in memory; the file is complete.
            let mut journal = poisoned.into_inner();
            journal.forget();
            self.journal.clear_poison();
            journal
        })
    }

    /// Returns the journal as it is now.
    pub(crate) fn refreshed(&self) -> Result<MutexGuard<'_, Journal>, StoreError> {
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

/// Returns an error for a file of another user, who controls its content.
fn require_own(path: &Path) -> Result<(), StoreError> {
    let found = find_other_owner(path);
    let found = found.map_err(io_error("cannot open", path))?;
    found.map_or(Ok(()), |uid| Err(StoreError::OtherOwner { path: path.to_owned(), uid }))
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
        let journal = self.refreshed()?;
        match journal.contents().image.index.find(id) {
            Some(entry) => journal.load_session(id, entry).map(Some),
            None => require_absence(&journal, id).map(|()| None),
        }
    }

    async fn list(&self, query: &Query) -> Result<Listing, StoreError> {
        let journal = self.refreshed()?;
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
        Ok(self.refreshed()?.contents().image.index.tally())
    }

    async fn counters(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        Ok(self.refreshed()?.contents().image.index.counters().clone())
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        self.require_write_access()?;
        if batch.is_empty() {
            let journal = self.refreshed()?;
            require_writable(&journal)?;
            return Ok(Committed::at(journal.contents().image.seq));
        }
        let writer = Writer::acquire(self)?;
        let journal = writer.prepare()?;
        check(&batch, &journal)?;
        let seq = journal.contents().image.seq + 1;
        if seq > format::LARGEST {
            let at_its_end = std::io::Error::other("the largest commit number is reached");
            return Err(io_error("cannot write", &self.path)(at_its_end));
        }
        writer.append(journal, &encode(batch, seq), seq)
    }

    async fn lock(&self, name: &LockName, wait: Duration) -> Result<LockGuard, StoreError> {
        self.require_write_access()?;
        let directory = beside(&self.path, ".locks");
        create_private_dir(&directory).map_err(io_error("cannot create", &directory))?;
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

    async fn format(&self) -> Result<Option<Format>, StoreError> {
        let journal = self.refreshed()?;
        require_writable(&journal)?;
        let contents = journal.contents();
        let found = contents.image.header.format;
        let format = Format { found, newest: format::newest(), since: format::since() };
        Ok((contents.health != Health::Absent).then_some(format))
    }

    async fn raise_format(&self, allows: &Allows<'_>) -> Result<(), StoreError> {
        self.require_write_access()?;
        raise(self, allows)
    }
}

/// Rewrites the journal in the newest format, unless `allows` rejects one of its records. Every open handle
/// detects the new file and reads its format.
fn raise(store: &JsonStore, allows: &Allows<'_>) -> Result<(), StoreError> {
    let writer = Writer::acquire(store)?;
    let journal = writer.prepare()?;
    if journal.contents().image.header.format >= format::newest() {
        return Ok(());
    }
    for (id, entry) in journal.contents().image.index.in_file_order() {
        // A record that only a newer version understands was not written by an older one.
        if entry.summary.newer().is_none() && !allows(&journal.load_session(id, entry)?) {
            return Err(StoreError::Conflict { id: id.clone(), expected: entry.seq });
        }
    }
    let snapshot = Snapshot { format: format::newest(), ..journal.snapshot()? };
    drop(journal);
    writer.replace(&snapshot).map(drop)
}

/// Confirms that there is no record of `id`. Returns an error if a damaged line might contain it: unknown is
/// not absent.
fn require_absence(journal: &Journal, id: &SessionId) -> Result<(), StoreError> {
    if journal.contents().suspects.contains(id) {
        let what = "the line that held its record is damaged".to_owned();
        return Err(StoreError::DamagedRecord { id: id.clone(), what });
    }
    if journal.contents().is_complete() { Ok(()) } else { require_writable(journal) }
}

fn check(batch: &Batch, journal: &Journal) -> Result<(), StoreError> {
    let index = &journal.contents().image.index;
    let changed: BTreeSet<&SessionId> = batch.changes.iter().map(Change::id).collect();
    batch.check(|id| index.standing(id), |name| Ok(index.holder(name, &changed)))
}

/// Returns the lines of the commit `seq`.
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
