//! Storage of records: the [`Store`] trait, its writes and its errors.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;

use crate::resume::{Activity, Dialect};
use crate::{Query, Session, SessionId, Status, Time};

mod capabilities;
mod error;

pub use capabilities::{Capabilities, Fields, Fitted, KNOWN, Reach, Revisions, UNKNOWN};
pub use error::StoreError;

/// A durable set of session records.
///
/// # Contract
/// - **One write primitive.** [`commit`](Store::commit) applies a whole [`Batch`] or none of it, and returns
///   only when the batch survives what the store's [`Durability`] names. After an error that is not one of the
///   typed refusals the outcome is *unknown*: read again before deciding anything.
/// - **Compare and swap.** A replacement or removal names the revision that was read. If the record has another
///   revision now, nothing is written and the error is [`StoreError::Conflict`].
/// - **Rules of the records** (unique ids, no two active sessions with the same name, only the transitions that
///   [`Status::can_become`] allows) are checked by [`Batch::check`] in the same serialised step as the
///   revision, so that concurrent callers cannot break them.
/// - **Readers** see the records as they were after some commit, never half a batch, and never wait for a
///   writer's disk.
/// - **Concurrency.** Any number of processes and threads may use the same store. The store does the waiting:
///   `commit` never returns "busy", however many callers there are.
/// - **Damage** never makes a store start empty. Unreadable parts are reported as [`Damage`], readable ones are
///   returned, and every write that the damage affects ([`Reach`]) is refused with [`StoreError::Damaged`] or
///   [`StoreError::DamagedRecord`] until [`repair`](Store::repair).
/// - **Unsupported content.** The store declares what it can represent ([`Capabilities`]) and refuses the rest
///   with [`StoreError::Unsupported`] before it writes any part of the batch.
/// - **Blocking.** The returned futures do their work when first polled and may block that thread for as long
///   as the disk takes. A caller that shares its thread moves them to another one.
#[async_trait]
pub trait Store: Send + Sync {
    /// Returns the backend, location and capabilities of this store.
    fn describe(&self) -> StoreInfo;

    /// Returns the damage found when the store was opened; empty for a healthy store. Cheap: it reads nothing.
    fn damage(&self) -> Vec<Damage>;

    /// Returns the record with this id, or `None`. A record that exists but is damaged is an error, not `None`.
    async fn load(&self, id: &SessionId) -> Result<Option<Session>, StoreError>;

    /// Returns the records that match `query`, newest first, and the damage that had to be left out.
    async fn list(&self, query: &Query) -> Result<Listing, StoreError>;

    /// Returns the number of records of each status, without reading the records.
    async fn tally(&self) -> Result<BTreeMap<Status, u64>, StoreError>;

    /// Returns the counters that commits have added to.
    async fn counters(&self) -> Result<BTreeMap<String, u64>, StoreError>;

    /// Returns `session` as it would be read back after a write to this store, and the fields that would be
    /// lost; an error if it could not be written at all. Reads and writes nothing.
    fn fit(&self, session: &Session) -> Result<Fitted, StoreError> {
        Ok(Fitted::whole(session.clone()))
    }

    /// Applies `batch` durably, all or nothing. An empty batch writes nothing.
    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError>;

    /// Takes the lock `name`, waiting at most `wait`. The lock is held until the guard is dropped or the
    /// process dies, for whatever reason. The kernel releases it; the age of a file is never evidence.
    async fn lock(&self, name: &LockName, wait: Duration) -> Result<LockGuard, StoreError>;

    /// Writes a copy of the whole store into `directory` (created if missing), reads it back, and only then
    /// gives it its final name, which contains `now`.
    async fn backup(&self, directory: &Path, now: Time) -> Result<Backup, StoreError>;

    /// Replaces the records with those of `backup`, which is checked first. Unfinished sessions keep their
    /// present records, because a backup does not know what runs now. Works on a damaged store too, whose files
    /// are quarantined first.
    async fn restore(&self, backup: &Path, now: Time) -> Result<Restored, StoreError>;

    /// Reads everything and reports all damage.
    async fn check(&self) -> Result<CheckReport, StoreError>;

    /// Quarantines the damaged parts, keeps every readable record, and makes the store writable again. Does
    /// nothing to a healthy store. Does not repair a store of a newer format.
    async fn repair(&self, now: Time) -> Result<RepairReport, StoreError>;

    /// Returns the store's format and the newest one available; `None` if there is no store yet, or if the
    /// format belongs to another tool.
    async fn format(&self) -> Result<Option<Format>, StoreError> {
        Ok(None)
    }

    /// Raises the store to the newest format that this version writes. The raise is atomic, even if the process
    /// is killed. Nothing else raises a format: a store of an older format is read and written as it is.
    ///
    /// Every record is passed to `allows` in the same serialised step. If `allows` rejects one, nothing is
    /// written and the error is [`StoreError::Conflict`]. So no program can record a session between the proof
    /// that no older version is running and the raise. Does nothing to a store of the newest format.
    async fn raise_format(&self, _allows: &Allows<'_>) -> Result<(), StoreError> {
        Ok(())
    }

    /// Returns the words, keys and conventions that this store uses for loops. A store on another tool's files
    /// returns that tool's dialect; there, a session without a loop is a record whose `loop` is null, and
    /// replacing that record creates its loop.
    fn dialect(&self) -> &'static Dialect {
        &Dialect::SEXTON
    }

    /// Returns the session that the store itself marks as current. Called only if neither an argument nor a
    /// variable of the [`Dialect`] names a session and the dialect allows a current one. Sexton's own stores
    /// have none.
    async fn current_session(&self) -> Result<Option<SessionId>, StoreError> {
        Ok(None)
    }

    /// Returns the last activity of a session whose loop has no activity time of its own, such as the time at
    /// which its file was written.
    async fn fallback_activity(&self, session: &Session) -> Result<Option<Activity>, StoreError> {
        Ok(Some(Activity::of_start(session)))
    }
}

/// Describes a store, for `doctor` and for the marks on its worktrees.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreInfo {
    /// The plugin's name, such as `sqlite`.
    pub backend: &'static str,
    /// The file or directory that holds the records.
    pub path: PathBuf,
    /// The store's own identifier; `None` if nothing was ever written.
    pub uuid: Option<String>,
    /// What it can represent.
    pub capabilities: Capabilities,
}

/// Decides for each record whether the format may be raised.
pub type Allows<'a> = dyn Fn(&Session) -> bool + Sync + 'a;

/// The format of a store, and the newest one available.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Format {
    /// The format that the store has.
    pub found: u64,
    /// The newest format that this version writes.
    pub newest: u64,
    /// The first release that supports the newest format.
    pub since: &'static str,
}

impl Format {
    /// Returns whether a newer format is available.
    pub fn is_older(&self) -> bool {
        self.found < self.newest
    }
}

/// Which failures an acknowledged commit survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// A power cut.
    #[default]
    Power,
    /// A crash of any process, but not necessarily a power cut.
    Process,
}

/// How a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading: creates nothing and writes nothing; a store that does not exist reads as empty.
    Read,
    /// For writing: creates the store if it does not exist.
    Write,
}

/// Several changes that are applied together or not at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The changes, at most one per record.
    pub changes: Vec<Change>,
    /// How much to add to each counter.
    pub counters: BTreeMap<String, u64>,
}

/// One change to one record.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A new record. Its `revision` is ignored: the store assigns one.
    Insert(Box<Session>),
    /// New content for the record that was read at `session.revision`.
    Replace(Box<Session>),
    /// Deletes the record that was read at `revision`.
    Remove {
        /// The record's id.
        id: SessionId,
        /// The revision it was read at.
        revision: u64,
    },
}

impl Change {
    /// Returns the id of the record that is changed.
    pub fn id(&self) -> &SessionId {
        match self {
            Change::Insert(session) | Change::Replace(session) => &session.id,
            Change::Remove { id, .. } => id,
        }
    }
}

/// The facts about a stored record that a batch is checked against.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The record's revision.
    pub revision: u64,
    /// Its status.
    pub status: Status,
}

impl Batch {
    /// Creates an empty batch.
    pub fn new() -> Batch {
        Batch::default()
    }

    /// Adds a new record.
    #[must_use]
    pub fn insert(mut self, session: Session) -> Batch {
        self.changes.push(Change::Insert(Box::new(session)));
        self
    }

    /// Replaces the record that was read at `session.revision`.
    #[must_use]
    pub fn replace(mut self, session: Session) -> Batch {
        self.changes.push(Change::Replace(Box::new(session)));
        self
    }

    /// Removes `session`, at the revision that was read.
    #[must_use]
    pub fn remove(mut self, session: &Session) -> Batch {
        self.changes.push(Change::Remove { id: session.id.clone(), revision: session.revision });
        self
    }

    /// Adds `by` to the counter `name`.
    #[must_use]
    pub fn count(mut self, name: &str, by: u64) -> Batch {
        *self.counters.entry(name.to_owned()).or_default() += by;
        self
    }

    /// Removes the counters if a store with these `capabilities` keeps none: for callers that use them only as
    /// statistics.
    #[must_use]
    pub fn countable(mut self, capabilities: &Capabilities) -> Batch {
        if !capabilities.counters {
            self.counters.clear();
        }
        self
    }

    /// Returns whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.counters.is_empty()
    }

    /// Checks the batch against the stored records. A backend calls this while it holds the lock that
    /// serialises its writers, and writes only if it returns `Ok`.
    ///
    /// `standing` looks up a record; `holder` finds the active session that has a name.
    pub fn check(
        &self,
        mut standing: impl FnMut(&SessionId) -> Result<Option<Standing>, StoreError>,
        mut holder: impl FnMut(&str) -> Result<Option<SessionId>, StoreError>,
    ) -> Result<(), StoreError> {
        let mut changed = BTreeSet::new();
        if let Some(twice) = self.changes.iter().find(|change| !changed.insert(change.id().clone())) {
            return Err(StoreError::ChangedTwice { id: twice.id().clone() });
        }
        for change in &self.changes {
            let found = standing(change.id())?;
            let expected = match change {
                Change::Insert(session) if found.is_some() => {
                    return Err(StoreError::Exists { id: session.id.clone() });
                }
                Change::Insert(_) => continue,
                Change::Replace(session) => session.revision,
                Change::Remove { revision, .. } => *revision,
            };
            let found = found
                .filter(|found| found.revision == expected || sexton_mutant::is("no_revision_check"))
                .ok_or_else(|| StoreError::Conflict { id: change.id().clone(), expected })?;
            if let Change::Replace(session) = change
                && !found.status.can_become(session.status)
            {
                let (from, to) = (found.status, session.status);
                return Err(StoreError::Transition { id: session.id.clone(), from, to });
            }
        }
        self.check_names(&changed, &mut holder)
    }

    fn check_names(
        &self,
        changed: &BTreeSet<SessionId>,
        holder: &mut impl FnMut(&str) -> Result<Option<SessionId>, StoreError>,
    ) -> Result<(), StoreError> {
        let mut taken = BTreeMap::new();
        for change in &self.changes {
            let (Change::Insert(session) | Change::Replace(session)) = change else {
                continue;
            };
            let Some(name) = session.name.as_deref().filter(|_| session.status.is_active()) else {
                continue;
            };
            let by = match taken.insert(name, &session.id) {
                Some(earlier) => Some(earlier.clone()),
                // If this batch also changes the holder, the new content decides, not the stored one.
                None => holder(name)?.filter(|holder| !changed.contains(holder)),
            };
            if let Some(by) = by {
                return Err(StoreError::NameTaken { name: name.to_owned(), by });
            }
        }
        Ok(())
    }
}

/// The revisions that a commit assigned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    revision: u64,
    each: BTreeMap<SessionId, u64>,
}

impl Committed {
    /// Every record of the batch has the same `revision`.
    pub fn at(revision: u64) -> Committed {
        Committed { revision, each: BTreeMap::new() }
    }

    /// Each record of the batch has its own revision.
    pub fn each(revisions: BTreeMap<SessionId, u64>) -> Committed {
        Committed { revision: 0, each: revisions }
    }

    /// Returns the new revision of the record `id`, which the batch wrote.
    pub fn revision_of(&self, id: &SessionId) -> u64 {
        self.each.get(id).copied().unwrap_or(self.revision)
    }
}

/// Records, and the damage found while reading them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// The records, newest first.
    pub sessions: Vec<Session>,
    /// What could not be read.
    pub damage: Vec<Damage>,
}

/// A defect of a store, as `doctor` prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where: `line 17`, `session abcd…`, `write-ahead log`.
    pub place: String,
    /// What is wrong there, and what is lost because of it.
    pub what: String,
    /// Whether the store can still be written. A torn last write is harmless: it was never acknowledged.
    pub harmless: bool,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// The result of a full check.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// The number of intact records.
    pub records: u64,
    /// What is damaged.
    pub damage: Vec<Damage>,
}

/// The result of a repair.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// The number of records kept.
    pub kept: u64,
    /// What was quarantined.
    pub quarantined: Vec<Damage>,
    /// The quarantine's path; `None` if there was nothing to repair.
    pub quarantine: Option<PathBuf>,
}

/// A backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Its file.
    pub path: PathBuf,
    /// The number of records in it.
    pub records: u64,
}

/// The result of a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// The number of records that came from the backup.
    pub restored: u64,
    /// The number of unfinished sessions whose present records were kept.
    pub kept: u64,
}

/// The name of a lock: `[A-Za-z0-9_.:-]{1,128}`, so that it can be part of a file name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockName(String);

/// The longest name of a lock.
const MAX_LOCK_NAME: usize = 128;

impl LockName {
    /// Creates a lock name; fails if `name` could not be part of a file name.
    pub fn new(name: &str) -> Result<LockName, StoreError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
        if (1..=MAX_LOCK_NAME).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('.') {
            Ok(LockName(name.to_owned()))
        } else {
            Err(StoreError::InvalidLockName { name: name.to_owned() })
        }
    }

    /// Returns the name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A held lock. Dropping the guard releases it.
pub struct LockGuard(#[allow(dead_code, reason = "held for its drop")] Box<dyn Send + Sync>);

impl LockGuard {
    /// Creates a guard that releases the lock by dropping `held`.
    pub fn new(held: impl Send + Sync + 'static) -> LockGuard {
        LockGuard(Box::new(held))
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockGuard")
    }
}

/// How many times [`update_session`] retries after a conflict.
const UPDATE_ATTEMPTS: usize = 100;

/// Reads a record, passes it to `change`, and commits the result; starts again from a fresh read after a
/// conflict. `change` returns whether there is anything to write. Returns the record as it is afterwards, or
/// `None` if there is no such record.
pub async fn update_session(
    store: &dyn Store,
    id: &SessionId,
    mut change: impl FnMut(&mut Session) -> bool + Send,
) -> Result<Option<Session>, StoreError> {
    let mut attempt = 1;
    loop {
        let Some(mut session) = store.load(id).await? else {
            return Ok(None);
        };
        if !change(&mut session) {
            return Ok(Some(session));
        }
        match store.commit(Batch::new().replace(session.clone())).await {
            Ok(committed) => {
                session.revision = committed.revision_of(id);
                return Ok(Some(session));
            }
            Err(StoreError::Conflict { .. }) if attempt < UPDATE_ATTEMPTS => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}
