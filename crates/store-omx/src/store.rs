//! Implementation of [`Store`] for the directory. Reading and writing are in other modules.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use async_trait::async_trait;
use sexton_core::plugin::StoreOptions;
use sexton_core::resume::{self, Activity, Dialect};
use sexton_core::store::{
    Access, Backup, CheckReport, Committed, Damage, Durability, Fitted, Listing, LockGuard, LockName,
    RepairReport, Restored, StoreInfo,
};
use sexton_core::{Batch, Query, Session, SessionId, Status, Store, StoreError, Time};
use sexton_durable::{FileLock, create_private_dir};

use crate::claim::Claim;
use crate::commit::{Known, commit, interpret};
use crate::dialect::DIALECT;
use crate::dir::{Content, Root, io_error};
use crate::sidecar::{self, Meta};
use crate::view::{View, Wanted};
use crate::{CAPABILITIES, NAME, backup, pointer, record, repair};

/// The directory of Sexton's named locks.
const LOCKS: &str = "locks";

/// An open state directory.
pub(crate) struct OmxStore {
    path: PathBuf,
    access: Access,
    durability: Durability,
    /// The locks that this handle holds for a resumption; its commits meanwhile use them.
    claim: Mutex<Weak<Claim>>,
    found: Mutex<Vec<Damage>>,
}

impl OmxStore {
    /// Opens the directory, and creates it if it does not exist and `options` allow writing.
    pub(crate) fn open(options: &StoreOptions) -> Result<OmxStore, StoreError> {
        let StoreOptions { path, access, durability, .. } = options;
        // Two names of one directory must share one lock and be the same store.
        let path = path.canonicalize().unwrap_or_else(|_| path.clone());
        let store = OmxStore {
            path,
            access: *access,
            durability: *durability,
            claim: Mutex::default(),
            found: Mutex::default(),
        };
        if *access == Access::Write {
            store.prepare()?;
        }
        store.refresh_damage()?;
        Ok(store)
    }

    /// Creates what is missing, and completes what a killed writer left.
    fn prepare(&self) -> Result<(), StoreError> {
        let path = &self.path;
        let root = match Root::find(path)? {
            Some(root) => root,
            None => {
                create_private_dir(path).map_err(io_error("cannot create", path))?;
                let gone = || io_error("cannot open", path)(std::io::ErrorKind::NotFound.into());
                Root::find(path)?.ok_or_else(gone)?
            }
        };
        match Meta::find(&root)? {
            Some(meta) => meta.require_known(path)?,
            None => Meta::make(path)?,
        }
        if View::load(path, Wanted::These(&BTreeSet::new()))?.intent.is_some() {
            // The present holder of the locks completes it too, so there is no need to wait.
            if let Some(claim) = Claim::acquire_within(path, self.durability, Duration::ZERO)? {
                claim.enter()?.complete_intent()?;
            }
        }
        Ok(())
    }

    /// Returns the state directory.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the writer locks: those of the resumption in progress, or newly acquired ones.
    pub(crate) fn claim(&self) -> Result<Arc<Claim>, StoreError> {
        if let Some(claim) = unpoisoned(&self.claim).upgrade() {
            return Ok(claim);
        }
        Claim::acquire(&self.path, self.durability).map(Arc::new)
    }

    fn require_write_access(&self) -> Result<(), StoreError> {
        match self.access {
            Access::Write => Ok(()),
            Access::Read => Err(StoreError::ReadOnly { path: self.path.clone() }),
        }
    }

    /// Reads everything and stores the damage found.
    pub(crate) fn refresh_damage(&self) -> Result<(), StoreError> {
        let damage = self.interpret_all(&View::read_unchecked(&self.path)?)?.damage;
        *unpoisoned(&self.found) = damage;
        Ok(())
    }

    /// Returns every loop, and the damage.
    pub(crate) fn scan(&self) -> Result<Listing, StoreError> {
        self.interpret_all(&View::load(&self.path, Wanted::All)?)
    }

    fn interpret_all(&self, view: &View) -> Result<Listing, StoreError> {
        let mut listing = Listing { sessions: Vec::new(), damage: view.find_damage().into_iter().collect() };
        if let Some(root) = Root::find(&self.path)? {
            listing.damage.extend(Meta::find(&root)?.and_then(|meta| meta.find_damage()));
        }
        for (id, reading) in &view.records {
            match interpret(id, reading) {
                Ok(Some(Known { session, .. })) if session.loop_state.is_some() => {
                    listing.sessions.push(session);
                }
                Ok(_) => {}
                Err(error) => listing.damage.push(unreadable(id, error)?),
            }
        }
        Ok(listing)
    }

    fn load_known(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        let view = View::load(&self.path, Wanted::These(&BTreeSet::from([id.clone()])))?;
        let Some(reading) = view.records.get(id) else { return Ok(None) };
        match interpret(id, reading)? {
            Some(known) => Ok(Some(known.session)),
            None if self.names(id) => {
                Ok(Some(Known::without_loop(id, jiff::Timestamp::now().into()).session))
            }
            None => Ok(None),
        }
    }

    /// Returns whether `id` is the current session of oh-my-codex; it may have no directory yet.
    fn names(&self, id: &SessionId) -> bool {
        let root = Root::find(&self.path).ok().flatten();
        root.and_then(|root| pointer::find_current(&root)).as_ref() == Some(id)
    }
}

/// Returns the finding for one unreadable record. It does not prevent writing the others: each has its own
/// file.
pub(crate) fn unreadable(id: &SessionId, error: StoreError) -> Result<Damage, StoreError> {
    match error {
        StoreError::DamagedRecord { what, .. } => Ok(Damage {
            place: format!("session {id}"),
            what: format!("{what}; the file is left unchanged, and other sessions are not affected"),
            harmless: true,
        }),
        other => Err(other),
    }
}

fn unpoisoned<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // These values are never inconsistent.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[async_trait]
impl Store for OmxStore {
    fn describe(&self) -> StoreInfo {
        let meta = Root::find(&self.path).ok().flatten().and_then(|root| Meta::find(&root).ok().flatten());
        let uuid = meta.and_then(|meta| meta.store);
        StoreInfo { backend: NAME, path: self.path.clone(), uuid, capabilities: CAPABILITIES }
    }

    fn damage(&self) -> Vec<Damage> {
        unpoisoned(&self.found).clone()
    }

    async fn load(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        self.load_known(id)
    }

    async fn list(&self, query: &Query) -> Result<Listing, StoreError> {
        let Listing { sessions, damage } = self.scan()?;
        Ok(Listing { sessions: query.select(sessions), damage })
    }

    async fn tally(&self) -> Result<BTreeMap<Status, u64>, StoreError> {
        let mut tally = BTreeMap::new();
        for session in self.scan()?.sessions {
            *tally.entry(session.status).or_default() += 1;
        }
        Ok(tally)
    }

    async fn counters(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        Ok(BTreeMap::new())
    }

    fn fit(&self, session: &Session) -> Result<Fitted, StoreError> {
        Ok(record::fit_new(session))
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        self.require_write_access()?;
        CAPABILITIES.require_counters(NAME, &batch)?;
        if batch.is_empty() {
            return Ok(Committed::each(BTreeMap::new()));
        }
        let claim = self.claim()?;
        commit(&mut claim.enter()?, &batch, &|id| self.names(id))
    }

    /// The lock for resumptions includes the lock of oh-my-codex, so that it cannot resume meanwhile. Every
    /// other lock is Sexton's alone.
    async fn lock(&self, name: &LockName, wait: Duration) -> Result<LockGuard, StoreError> {
        self.require_write_access()?;
        let timeout = || StoreError::LockTimeout { name: name.as_str().to_owned(), waited: wait };
        if name.as_str() == resume::LOCK {
            let claim = Claim::acquire_within(&self.path, self.durability, wait)?.ok_or_else(timeout)?;
            let claim = Arc::new(claim);
            *unpoisoned(&self.claim) = Arc::downgrade(&claim);
            return Ok(LockGuard::new(claim));
        }
        let directory = sidecar::path_of(&self.path, LOCKS);
        create_private_dir(&directory).map_err(io_error("cannot create", &directory))?;
        let path = directory.join(name.as_str());
        let held = FileLock::acquire_within(&path, wait).map_err(io_error("cannot lock", &path))?;
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
        let Listing { sessions, damage } = self.scan()?;
        Ok(CheckReport { records: sessions.len() as u64, damage })
    }

    async fn repair(&self, now: Time) -> Result<RepairReport, StoreError> {
        self.require_write_access()?;
        repair::repair(self, now)
    }

    fn dialect(&self) -> &'static Dialect {
        &DIALECT
    }

    async fn current_session(&self) -> Result<Option<SessionId>, StoreError> {
        Ok(Root::find(&self.path)?.and_then(|root| pointer::find_current(&root)))
    }

    async fn fallback_activity(&self, session: &Session) -> Result<Option<Activity>, StoreError> {
        let view = View::load(&self.path, Wanted::These(&BTreeSet::from([session.id.clone()])))?;
        Ok(view.records.get(&session.id).and_then(|reading| match &reading.content {
            Content::Text(text) => Some(Activity { at: text.modified, source: "mtime" }),
            Content::Absent(_) | Content::Unreadable(_) => None,
        }))
    }
}
