//! The contents of the fake store, and changes to them. The store checks every change before it calls this module.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use sexton_core::store::{Change, Damage, RepairReport, Restored, Standing};
use sexton_core::{Batch, Session, SessionId, StoreError};

use super::{FORMAT, FailedCommit, FakeStore, Locks};

/// A test's callback, which gets the store.
pub(super) type BeforeRaising = Box<dyn FnOnce(&FakeStore) + Send>;

/// The records behind every handle of one fake store.
pub(super) struct World {
    pub(super) uuid: Option<String>,
    pub(super) format: u64,
    /// The newest format that can be written and its first release, if not [`FORMAT`].
    pub(super) newest: Option<(u64, &'static str)>,
    /// Called just before a raise of the format.
    pub(super) before_raising: Option<BeforeRaising>,
    /// Number of the last commit. It only increases, because a stale reader must never match.
    pub(super) revision: u64,
    pub(super) commits: u64,
    pub(super) documents: BTreeMap<SessionId, String>,
    pub(super) counters: BTreeMap<String, u64>,
    pub(super) failing: Option<FailedCommit>,
}

impl Default for World {
    fn default() -> Self {
        World {
            uuid: None,
            format: FORMAT,
            newest: None,
            before_raising: None,
            revision: 0,
            commits: 0,
            documents: BTreeMap::new(),
            counters: BTreeMap::new(),
            failing: None,
        }
    }
}

type Shared = (Arc<Mutex<World>>, Locks);

/// The stores of this process, by path.
static WORLDS: LazyLock<Mutex<BTreeMap<PathBuf, Shared>>> = LazyLock::new(Mutex::default);

/// Returns the contents of the store at `path`, creating them if needed.
pub(super) fn find_or_make(path: &Path) -> Shared {
    let mut worlds = WORLDS.lock().unwrap_or_else(PoisonError::into_inner);
    worlds.entry(path.to_owned()).or_default().clone()
}

/// Reads the record of `id` from its document.
pub(super) fn read(id: &SessionId, document: &str) -> Result<Session, StoreError> {
    Session::from_json(document)
        .map_err(|error| StoreError::DamagedRecord { id: id.clone(), what: error.to_string() })
}

impl World {
    pub(super) fn require_format(&self, path: &Path) -> Result<(), StoreError> {
        if self.is_newer() {
            return Err(StoreError::newer_format(path, (self.format, self.supported()), []));
        }
        Ok(())
    }

    fn supported(&self) -> u64 {
        self.newest.map_or(FORMAT, |(newest, _)| newest)
    }

    fn is_newer(&self) -> bool {
        self.format > self.supported()
    }

    /// Returns the readable records. A newer format has none, because its documents may have another meaning.
    pub(super) fn readable(&self) -> impl Iterator<Item = Session> {
        let documents = (!self.is_newer()).then_some(&self.documents);
        documents.into_iter().flatten().filter_map(|(id, document)| read(id, document).ok())
    }

    /// Returns the state of a record that the rules depend on.
    pub(super) fn standing(&self, id: &SessionId) -> Result<Option<Standing>, StoreError> {
        let Some(document) = self.documents.get(id) else { return Ok(None) };
        let session = read(id, document)?;
        Ok(Some(Standing { revision: session.revision, status: session.status }))
    }

    /// Returns the active session with this name.
    pub(super) fn holder(&self, name: &str) -> Option<SessionId> {
        let holds = |session: &Session| session.status.is_active() && session.name.as_deref() == Some(name);
        self.readable().find(holds).map(|session| session.id)
    }

    pub(super) fn damage(&self) -> Vec<Damage> {
        if self.is_newer() {
            let what =
                format!("it has format {}, newer than the supported {}", self.format, self.supported());
            return vec![Damage { place: "store".to_owned(), what, harmless: false }];
        }
        let broken = |(id, document): (&SessionId, &String)| {
            let what = read(id, document).err()?.to_string();
            Some(Damage { place: format!("session {id}"), what, harmless: false })
        };
        self.documents.iter().filter_map(broken).collect()
    }

    /// Applies a checked batch.
    pub(super) fn apply(&mut self, batch: Batch) {
        self.revision += 1;
        self.commits += 1;
        self.uuid.get_or_insert_with(|| SessionId::random().to_string());
        for change in batch.changes {
            match change {
                Change::Insert(session) | Change::Replace(session) => self.write(*session),
                Change::Remove { id, .. } => {
                    self.documents.remove(&id);
                }
            }
        }
        for (counter, by) in batch.counters {
            *self.counters.entry(counter).or_default() += by;
        }
    }

    fn write(&mut self, mut session: Session) {
        session.revision = self.revision;
        self.documents.insert(session.id.clone(), session.to_json());
    }

    /// Replaces all finished records by `sessions` and keeps the others.
    pub(super) fn replace_finished(&mut self, sessions: Vec<Session>) -> Restored {
        let unfinished: BTreeMap<SessionId, String> = self
            .readable()
            .filter(|session| !session.status.is_finished())
            .map(|session| (session.id.clone(), session.to_json()))
            .collect();
        let kept = unfinished.len();
        self.revision += 1;
        self.uuid.get_or_insert_with(|| SessionId::random().to_string());
        self.documents = unfinished;
        let restored: Vec<_> =
            sessions.into_iter().filter(|session| !self.documents.contains_key(&session.id)).collect();
        let count = |length: usize| u64::try_from(length).expect("a count fits into 64 bits");
        let report = Restored { restored: count(restored.len()), kept: count(kept) };
        restored.into_iter().for_each(|session| self.write(session));
        report
    }

    /// Removes unreadable records. The path in the report does not exist, because there is no file.
    pub(super) fn quarantine(&mut self, path: &Path) -> RepairReport {
        let quarantined = self.damage();
        self.documents.retain(|id, document| read(id, document).is_ok());
        let kept = u64::try_from(self.documents.len()).expect("a count fits into 64 bits");
        let quarantine = (!quarantined.is_empty()).then(|| path.with_extension("quarantine"));
        RepairReport { kept, quarantined, quarantine }
    }
}
