//! Implementation of the [`Store`] trait on the current view of the file.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use sexton_core::plugin::StoreOptions;
use sexton_core::store::{
    Access, Allows, Backup, Capabilities, CheckReport, Committed, Damage, Format, Listing, LockGuard,
    LockName, RepairReport, Restored, StoreInfo,
};
use sexton_core::{Batch, Query, Session, SessionId, Status, Store, StoreError, Time};
use sexton_durable::{FileLock, create_private_dir};

use crate::broken::Broken;
use crate::commit::{self, load_counters, require_meta};
use crate::fault::Fault;
use crate::files::{Files, failed};
use crate::health::Purpose;
use crate::live::lock;
use crate::view::{View, examine_deeply};
use crate::{backup, mend, raise, read, write};

/// A store on one SQLite database.
pub(crate) struct SqliteStore {
    pub(crate) files: Files,
    pub(crate) purpose: Purpose,
    view: Mutex<View>,
}

impl SqliteStore {
    /// Opens the store; for writing, creates it if it does not exist.
    pub(crate) fn open(options: &StoreOptions) -> Result<SqliteStore, StoreError> {
        let files = Files::of(&options.path)?;
        let purpose = Purpose { access: options.access, durability: options.durability };
        files.require_own()?;
        let view = Mutex::new(View::open(&files, purpose)?);
        // Another user may have created a file meanwhile.
        files.require_own()?;
        Ok(SqliteStore { files, purpose, view })
    }

    /// Returns the view of the file as it is now.
    pub(crate) fn view(&self) -> Result<View, StoreError> {
        let known = lock(&self.view).clone();
        if known.is_current(&self.files)? {
            return Ok(known);
        }
        Ok(self.set_view(View::examine(&self.files, self.purpose)?))
    }

    /// Stores the new view.
    pub(crate) fn set_view(&self, view: View) -> View {
        *lock(&self.view) = view.clone();
        view
    }

    /// Records damage found while using the present view. A file that was replaced meanwhile is only checked
    /// again.
    pub(crate) fn note_damage(&self, view: &View, causes: Vec<Damage>) -> Result<(), StoreError> {
        if view.is_current(&self.files)? {
            self.set_view(View::broken(&self.files, causes)?);
        }
        Ok(())
    }

    /// Reads through SQLite if the store is intact, or from the readable content if it is not.
    fn read<T: Default>(
        &self,
        sound: impl Fn(&Connection) -> Result<T, Fault>,
        damaged: impl Fn(&Broken) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        loop {
            let view = self.view()?;
            let live = match &view {
                View::Absent => return Ok(T::default()),
                View::Broken(broken) => return damaged(broken),
                View::Live(live) => Arc::clone(live),
            };
            match live.with(&self.files, |link| sound(link)) {
                Ok(read) => return Ok(read),
                Err(Fault::Refused(error)) => return Err(error),
                Err(Fault::Replaced) => {}
                Err(Fault::Damage(causes)) => self.note_damage(&view, causes)?,
            }
        }
    }

    /// Returns an error for a handle that was opened for reading.
    pub(crate) fn require_write_access(&self) -> Result<(), StoreError> {
        match self.purpose.access {
            Access::Write => Ok(()),
            Access::Read => Err(StoreError::ReadOnly { path: self.files.db.clone() }),
        }
    }
}

#[async_trait]
impl Store for SqliteStore {
    fn describe(&self) -> StoreInfo {
        let uuid = match self.view() {
            Ok(View::Live(live)) => Some(live.store.clone()),
            Ok(View::Broken(broken)) => broken.store.clone(),
            Ok(View::Absent) | Err(_) => None,
        };
        StoreInfo {
            backend: crate::NAME,
            path: self.files.db.clone(),
            uuid,
            capabilities: Capabilities::EVERYTHING,
        }
    }

    fn damage(&self) -> Vec<Damage> {
        match &*lock(&self.view) {
            View::Absent => Vec::new(),
            View::Live(live) => live.findings.clone(),
            View::Broken(broken) => broken.damage.clone(),
        }
    }

    async fn load(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        self.read(|link| read::load(link, &self.files, id), |broken| broken.load_session(id))
    }

    async fn list(&self, query: &Query) -> Result<Listing, StoreError> {
        self.read(|link| read::list(link, &self.files, query), |broken| Ok(broken.list(query)))
    }

    async fn tally(&self) -> Result<BTreeMap<Status, u64>, StoreError> {
        let counted = |broken: &Broken| {
            let mut tally = BTreeMap::new();
            for session in broken.sessions() {
                *tally.entry(session.status).or_default() += 1;
            }
            Ok(tally)
        };
        self.read(|link| Ok(require_meta(link, &self.files)?.tally.known()), counted)
    }

    async fn counters(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        self.read(|link| load_counters(link, &self.files), |broken| Ok(broken.salvage.counters.clone()))
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        self.require_write_access()?;
        if batch.is_empty() {
            let seq = |link: &Connection| Ok(require_meta(link, &self.files)?.seq);
            return Ok(Committed::at(self.read(seq, |broken| Err(broken.refusal(&self.files)))?));
        }
        write::write(self, write::log_limit(&batch), |lock, live, link| {
            commit::apply(lock, &self.files, live, link, &batch)
        })
    }

    async fn lock(&self, name: &LockName, wait: Duration) -> Result<LockGuard, StoreError> {
        self.require_write_access()?;
        let directory = self.files.locks();
        create_private_dir(&directory).map_err(|source| failed("cannot create", &directory, source))?;
        let path = directory.join(name.as_str());
        match FileLock::acquire_within(&path, wait).map_err(|source| failed("cannot lock", &path, source))? {
            Some(held) => Ok(LockGuard::new(held)),
            None => Err(StoreError::LockTimeout { name: name.as_str().to_owned(), waited: wait }),
        }
    }

    async fn backup(&self, directory: &Path, now: Time) -> Result<Backup, StoreError> {
        let copy = |link: &Connection| backup::write(link, &self.files, directory, now).map(Some);
        let copied = self.read(copy, |broken| Err(broken.refusal(&self.files)))?;
        copied.ok_or_else(|| failed("cannot read", &self.files.db, std::io::ErrorKind::NotFound.into()))
    }

    async fn restore(&self, backup: &Path, now: Time) -> Result<Restored, StoreError> {
        self.require_write_access()?;
        mend::restore(self, &backup::load(backup)?, now)
    }

    async fn check(&self) -> Result<CheckReport, StoreError> {
        let (view, findings) = examine_deeply(&self.files, self.purpose)?;
        Ok(match self.set_view(view) {
            View::Broken(broken) => {
                CheckReport { records: broken.sessions().len() as u64, damage: broken.damage.clone() }
            }
            View::Absent | View::Live(_) => {
                CheckReport { records: findings.records, damage: findings.damage }
            }
        })
    }

    async fn repair(&self, now: Time) -> Result<RepairReport, StoreError> {
        self.require_write_access()?;
        mend::repair(self, now)
    }

    async fn format(&self) -> Result<Option<Format>, StoreError> {
        let found = |link: &Connection| Ok(Some(raise::format_of(&require_meta(link, &self.files)?)));
        self.read(found, |broken| Err(broken.refusal(&self.files)))
    }

    async fn raise_format(&self, allows: &Allows<'_>) -> Result<(), StoreError> {
        self.require_write_access()?;
        raise::raise(self, allows)
    }
}
