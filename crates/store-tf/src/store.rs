//! Implementation of [`Store`] for the file.

use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sexton_core::plugin::StoreOptions;
use sexton_core::store::{
    Access, Backup, Change, CheckReport, Committed, Damage, Durability, Fitted, Listing, LockGuard, LockName,
    RepairReport, Restored, Standing, StoreInfo,
};
use sexton_core::{Batch, Query, Session, SessionId, Status, Store, StoreError, Time};
use sexton_durable::{FileLock, create_private_dir, find_other_owner, follow_link};
use sha2::{Digest, Sha256};

use crate::document::{Content, Document};
use crate::entry::Entry;
use crate::fields::Layout;
use crate::project::{Place, Project};
use crate::snapshot::{Snapshot, State};
use crate::writer::{Writer, lock_file};
use crate::{CAPABILITIES, NAME, backup, repair};

/// How long a reader of an incomplete file waits for its writer.
const TORN_WAIT: Duration = Duration::from_secs(3);

/// An open file.
pub(crate) struct TfStore {
    place: Place,
    access: Access,
    durability: Durability,
    known: Mutex<Option<Snapshot>>,
}

impl TfStore {
    /// Opens the file. The first commit creates a missing file; its directory must be created by the other
    /// tool.
    pub(crate) fn open(options: &StoreOptions) -> Result<TfStore, StoreError> {
        let StoreOptions { path, access, durability, trust_dir } = options;
        let path = follow_link(path).map_err(|source| StoreError::Io {
            action: "cannot read",
            path: path.clone(),
            source,
        })?;
        for file in [&path, &lock_file(&path)] {
            require_own(file)?;
        }
        let place = Place { path, trust_dir: trust_dir.clone() };
        let store = TfStore { place, access: *access, durability: *durability, known: Mutex::new(None) };
        let snapshot = store.take_snapshot()?;
        if *access == Access::Write {
            store.require_directory()?;
            snapshot.require_known_version()?;
        }
        Ok(store)
    }

    fn require_directory(&self) -> Result<(), StoreError> {
        let directory = self.place.path.parent().filter(|parent| !parent.as_os_str().is_empty());
        match directory.unwrap_or(Path::new(".")).metadata() {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(_) => Err(self.io_error("cannot open", io::ErrorKind::NotADirectory.into())),
            Err(error) => Err(self.io_error("cannot open", error)),
        }
    }

    /// Returns the project around the file.
    pub(crate) fn project(&self) -> Project {
        self.place.project()
    }

    /// Returns the path of the file.
    pub(crate) fn path(&self) -> &Path {
        &self.place.path
    }

    /// Wraps an error of the operating system about the file.
    pub(crate) fn io_error(&self, action: &'static str, source: io::Error) -> StoreError {
        StoreError::Io { action, path: self.place.path.clone(), source }
    }

    /// Acquires the writer lock.
    pub(crate) fn writer(&self) -> Result<Writer<'_>, StoreError> {
        Writer::acquire(&self.place, self.durability)
    }

    /// Returns the file as it is now. An incomplete file is read again when its writer has finished.
    pub(crate) fn take_snapshot(&self) -> Result<Snapshot, StoreError> {
        let known = self.known();
        let mut snapshot = match Snapshot::take(&self.place, known.as_ref()) {
            // A directory that does not exist, or is not a directory, contains no sessions; a writer gets an
            // error.
            Err(StoreError::Io { source, .. })
                if source.kind() == io::ErrorKind::NotADirectory && self.access == Access::Read =>
            {
                Snapshot::take(&Place { path: PathBuf::new(), trust_dir: None }, None)?
            }
            Err(StoreError::Io { source, .. }) if source.kind() == io::ErrorKind::NotADirectory => {
                return Err(self.io_error("cannot open", source));
            }
            other => other?,
        };
        let lock = lock_file(&self.place.path);
        if snapshot.is_torn() && lock.exists() {
            // Whether or not the lock was acquired, the writer may have finished by now.
            let _held = FileLock::acquire_within(&lock, TORN_WAIT);
            snapshot = Snapshot::take(&self.place, None)?;
        }
        self.cache(&snapshot);
        Ok(snapshot)
    }

    fn known(&self) -> Option<Snapshot> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn cache(&self, snapshot: &Snapshot) {
        *self.known.lock().unwrap_or_else(PoisonError::into_inner) = Some(snapshot.clone());
    }

    fn require_write_access(&self) -> Result<(), StoreError> {
        match self.access {
            Access::Write => Ok(()),
            Access::Read => Err(StoreError::ReadOnly { path: self.place.path.clone() }),
        }
    }
}

#[async_trait]
impl Store for TfStore {
    fn describe(&self) -> StoreInfo {
        let exists = self.place.path.exists();
        let uuid = exists.then(|| identifier(&self.place.path));
        StoreInfo { backend: NAME, path: self.place.path.clone(), uuid, capabilities: CAPABILITIES }
    }

    fn damage(&self) -> Vec<Damage> {
        self.known().map(|snapshot| snapshot.damage()).unwrap_or_default()
    }

    async fn load(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        let snapshot = self.take_snapshot()?;
        let Some(document) = snapshot.document() else {
            return match snapshot.state {
                State::Absent => Ok(None),
                _ => snapshot.require_sound().map(|_| None),
            };
        };
        if let Some(at) = document.find(id) {
            return Ok(document.entries[at].session().cloned());
        }
        if let Some(what) = document.find_damage_of(id) {
            return Err(StoreError::DamagedRecord { id: id.clone(), what: what.to_owned() });
        }
        // Unknown is not absent: the record may be in an unreadable part.
        snapshot.require_sound().map(|_| None)
    }

    async fn list(&self, query: &Query) -> Result<Listing, StoreError> {
        let snapshot = self.take_snapshot()?;
        let sessions = snapshot.document().into_iter().flat_map(Document::sessions).cloned();
        Ok(Listing { sessions: query.select(sessions), damage: snapshot.damage() })
    }

    async fn tally(&self) -> Result<BTreeMap<Status, u64>, StoreError> {
        let mut tally = BTreeMap::new();
        for session in self.take_snapshot()?.document().into_iter().flat_map(Document::sessions) {
            *tally.entry(session.status).or_default() += 1;
        }
        Ok(tally)
    }

    async fn counters(&self) -> Result<BTreeMap<String, u64>, StoreError> {
        Ok(BTreeMap::new())
    }

    fn fit(&self, session: &Session) -> Result<Fitted, StoreError> {
        fit(session, None, &self.place.project(), Layout::Line).map(|(fitted, _)| fitted)
    }

    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError> {
        self.require_write_access()?;
        CAPABILITIES.require_counters(NAME, &batch)?;
        if batch.is_empty() {
            self.take_snapshot()?.require_sound()?;
            return Ok(Committed::each(BTreeMap::new()));
        }
        let writer = self.writer()?;
        let document = writer.take_snapshot(self.known().as_ref())?.require_sound()?;
        let (changed, committed) = apply(batch, &document, &self.place.project())?;
        if let Some(changed) = changed {
            self.cache(&writer.replace(changed)?);
        }
        Ok(committed)
    }

    async fn lock(&self, name: &LockName, wait: Duration) -> Result<LockGuard, StoreError> {
        self.require_write_access()?;
        let mut directory = self.place.path.clone().into_os_string();
        directory.push(".locks");
        let directory = PathBuf::from(directory);
        let failed =
            |path: &Path, source| StoreError::Io { action: "cannot lock", path: path.to_owned(), source };
        create_private_dir(&directory).map_err(|source| failed(&directory, source))?;
        let path = directory.join(name.as_str());
        let held = FileLock::acquire_within(&path, wait).map_err(|source| failed(&path, source))?;
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
        let snapshot = Snapshot::take(&self.place, None)?;
        let records = snapshot.document().map_or(0, |document| document.sessions().count());
        Ok(CheckReport { records: records as u64, damage: snapshot.damage() })
    }

    async fn repair(&self, now: Time) -> Result<RepairReport, StoreError> {
        self.require_write_access()?;
        let report = repair::repair(self, now)?;
        self.take_snapshot()?;
        Ok(report)
    }
}

/// Returns the store's identifier. The file cannot store one, so it is derived from the path.
fn identifier(path: &Path) -> String {
    let path = path.canonicalize().unwrap_or_else(|_| path.to_owned());
    let digest = Sha256::digest([b"sexton tf store\0", path.as_os_str().as_encoded_bytes()].concat());
    let hex: Vec<String> = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
    [&hex[..4], &hex[4..6], &hex[6..8], &hex[8..10], &hex[10..]].map(<[String]>::concat).join("-")
}

/// Returns what `session` becomes in place of `present`, and the fields that are lost.
fn fit(
    session: &Session,
    present: Option<&Entry>,
    project: &Project,
    layout: Layout<'_>,
) -> Result<(Fitted, Entry), StoreError> {
    let entry = Entry::of(session, present, project, layout)?;
    let Some(read) = entry.session() else {
        let what = format!("session {}: it cannot be read back", session.id);
        return Err(StoreError::Unsupported { backend: NAME, what });
    };
    let after = Session { revision: session.revision, ..read.clone() };
    Ok((Fitted::compare(session, after), entry))
}

/// Returns what `session` becomes, or an error if a field is lost that something depends on.
fn require_kept(
    session: &Session,
    present: Option<&Entry>,
    project: &Project,
    layout: Layout<'_>,
) -> Result<(Session, Entry), StoreError> {
    let (mut fitted, entry) = fit(session, present, project, layout)?;
    if !session.is_settled() {
        // It stays `running`, and recovery determines its exit again.
        fitted.lost.retain(|field| field != "exit" && !field.starts_with("exit."));
    }
    CAPABILITIES.require_kept(NAME, &fitted)?;
    Ok((fitted.session, entry))
}

/// Applies a batch to a document and returns the new one; `None` if it does not change.
fn apply(
    batch: Batch,
    document: &Document,
    project: &Project,
) -> Result<(Option<Document>, Committed), StoreError> {
    let mut fitted = Batch::new();
    let mut written = BTreeMap::new();
    let mut keep = |session: &Session, present: Option<&Entry>| -> Result<Box<Session>, StoreError> {
        let (kept, entry) = document.lay_out(|layout| require_kept(session, present, project, layout))?;
        written.insert(session.id.clone(), entry);
        Ok(Box::new(kept))
    };
    for change in batch.changes {
        fitted.changes.push(match change {
            Change::Insert(session) => Change::Insert(keep(&session, None)?),
            Change::Replace(session) => {
                let present = document.find(&session.id).map(|at| &document.entries[at]);
                Change::Replace(keep(&session, present)?)
            }
            remove @ Change::Remove { .. } => remove,
        });
    }
    let standing = |id: &SessionId| {
        let session = document.find(id).and_then(|at| document.entries[at].session());
        Ok(session.map(|session| Standing { revision: session.revision, status: session.status }))
    };
    // Sessions have no names here.
    fitted.check(standing, |_| Ok(None))?;
    let revision = |(id, entry): (&SessionId, &Entry)| Some((id.clone(), entry.session()?.revision));
    let committed = Committed::each(written.iter().filter_map(revision).collect());
    let changed = document.with_changes(fitted.changes.iter().map(|change| {
        let id = change.id();
        (id, written.remove(id))
    }));
    Ok((changed, committed))
}

/// Returns an error for a file of another user, who controls its content.
fn require_own(path: &Path) -> Result<(), StoreError> {
    let found = find_other_owner(path);
    let found =
        found.map_err(|source| StoreError::Io { action: "cannot open", path: path.to_owned(), source })?;
    found.map_or(Ok(()), |uid| Err(StoreError::OtherOwner { path: path.to_owned(), uid }))
}

/// Returns whether the content is complete.
pub(crate) fn is_whole(snapshot: &Snapshot) -> bool {
    matches!(&snapshot.state, State::Present(Content::Document(document))
        if document.findings().iter().all(|finding| finding.harmless))
}
