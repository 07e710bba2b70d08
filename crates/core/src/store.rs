//! Where records are kept: the [`Store`] trait, what a write is, and what can go wrong.

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
/// - **One write primitive.** [`commit`](Store::commit) applies a whole [`Batch`] or nothing of it, and
///   returns only when the batch survives what the store's [`Durability`] names. An error that is not
///   one of the typed refusals means *unknown*: read again before deciding anything.
/// - **Compare and swap.** A replacement or removal names the revision it was read at. Where the record
///   has another by now, nothing is written and the error is [`StoreError::Conflict`].
/// - **Rules of the records** (no id twice, no two active sessions of one name, only the transitions that
///   [`Status::can_become`] allows) are checked inside the same serialised step as the revision, by
///   [`Batch::check`], so that no two callers can break them together.
/// - **Readers** see the records as they were after some commit, never half a batch, and never wait for a
///   writer's disk.
/// - **Concurrency.** Any number of processes and threads may use the same store. Waiting is the store's
///   business: no "busy" ever reaches a caller of `commit`, however many there are.
/// - **Damage** never makes a store start afresh. What cannot be read is reported as [`Damage`], what can
///   be read is returned, and every write that the damage reaches ([`Reach`]) is refused, with
///   [`StoreError::Damaged`] or [`StoreError::DamagedRecord`], until [`repair`](Store::repair).
/// - **What it cannot represent** it declares ([`Capabilities`]) and refuses with
///   [`StoreError::Unsupported`], before anything of the batch is written.
/// - **Blocking.** The returned futures do their work when first polled and may block that thread for as
///   long as a disk takes. A caller that shares its thread with others moves them off it.
#[async_trait]
pub trait Store: Send + Sync {
    /// What this store is.
    fn describe(&self) -> StoreInfo;

    /// What was found wrong when the store was opened; empty for a healthy one. Cheap: it reads nothing.
    fn damage(&self) -> Vec<Damage>;

    /// One record, or `None`. A record that exists but is damaged is an error, not `None`.
    async fn load(&self, id: &SessionId) -> Result<Option<Session>, StoreError>;

    /// The records that fit `query`, newest first, with whatever damage the listing had to leave out.
    async fn list(&self, query: &Query) -> Result<Listing, StoreError>;

    /// How many records there are of each status, without reading them.
    async fn tally(&self) -> Result<BTreeMap<Status, u64>, StoreError>;

    /// The counters that commits have added to.
    async fn counters(&self) -> Result<BTreeMap<String, u64>, StoreError>;

    /// What `session` would be once it was written here and read again, and what of it would be lost; an
    /// error where it could not be written at all. Reads and writes nothing.
    fn fit(&self, session: &Session) -> Result<Fitted, StoreError> {
        Ok(Fitted::whole(session.clone()))
    }

    /// Applies `batch`, all or nothing, durably. An empty batch is no write at all.
    async fn commit(&self, batch: Batch) -> Result<Committed, StoreError>;

    /// Takes the lock called `name`, waiting at most `wait`. It is held until the guard is dropped or the
    /// process dies, however it dies; the kernel sees to that, never a file's age.
    async fn lock(&self, name: &LockName, wait: Duration) -> Result<LockGuard, StoreError>;

    /// Writes a copy of the whole store into `directory` (made where missing), reads it back, and only
    /// then gives it its name. `now` goes into that name.
    async fn backup(&self, directory: &Path, now: Time) -> Result<Backup, StoreError>;

    /// Replaces the records by those of `backup`, which is checked first. Sessions that are not finished
    /// here keep their present records: a backup knows nothing of what runs now. Works on a damaged
    /// store, whose files are set aside before.
    async fn restore(&self, backup: &Path, now: Time) -> Result<Restored, StoreError>;

    /// Reads everything and reports every damage there is.
    async fn check(&self) -> Result<CheckReport, StoreError>;

    /// Sets the damaged parts aside, keeps every record that can be read, and makes the store writable
    /// again. Does nothing to a healthy store. A store of a newer format is not repaired.
    async fn repair(&self, now: Time) -> Result<RepairReport, StoreError>;

    /// How loops are spoken of here. A store on another tool's files supplies that tool's words, keys and
    /// customs; there a session that exists but has no loop yet is a record whose `loop` is null, and
    /// replacing it makes its loop.
    fn dialect(&self) -> &'static Dialect {
        &Dialect::SEXTON
    }

    /// The session that the store itself calls the current one. Asked only where neither an argument nor a
    /// variable of the [`Dialect`] names one, and where the dialect says that there may be one; Sexton's own
    /// stores know of none.
    async fn current_session(&self) -> Result<Option<SessionId>, StoreError> {
        Ok(None)
    }

    /// The last sign of life of a session whose loop has no activity time of its own, such as the time at
    /// which its file was written.
    async fn fallback_activity(&self, session: &Session) -> Result<Option<Activity>, StoreError> {
        Ok(Some(Activity::of_start(session)))
    }
}

/// What a store is, for `doctor` and for marks on what belongs to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoreInfo {
    /// The plugin's name, such as `sqlite`.
    pub backend: &'static str,
    /// The file or directory it keeps its records in.
    pub path: PathBuf,
    /// The store's own identifier; `None` where nothing was ever written.
    pub uuid: Option<String>,
    /// What it can represent.
    pub capabilities: Capabilities,
}

/// What survives.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Durability {
    /// An acknowledged commit survives a power cut.
    #[default]
    Power,
    /// An acknowledged commit survives any crash of processes, but perhaps not a power cut.
    Process,
}

/// How a store is opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// For reading: creates nothing and writes nothing; a store that does not exist reads as empty.
    Read,
    /// For writing: creates the store where there is none.
    Write,
}

/// Several changes that happen together or not at all.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Batch {
    /// The changes, at most one per record.
    pub changes: Vec<Change>,
    /// What to add to which counter.
    pub counters: BTreeMap<String, u64>,
}

/// One change of one record.
#[derive(Clone, Debug, PartialEq)]
pub enum Change {
    /// A new record. Its `revision` is ignored: the store gives it one.
    Insert(Box<Session>),
    /// A new content for the record that was read at `session.revision`.
    Replace(Box<Session>),
    /// The record that was read at `revision` goes.
    Remove {
        /// Which.
        id: SessionId,
        /// The revision it was read at.
        revision: u64,
    },
}

impl Change {
    /// The record it is about.
    pub fn id(&self) -> &SessionId {
        match self {
            Change::Insert(session) | Change::Replace(session) => &session.id,
            Change::Remove { id, .. } => id,
        }
    }
}

/// What a store knows of a record while it checks a batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Standing {
    /// The record's revision.
    pub revision: u64,
    /// Its status.
    pub status: Status,
}

impl Batch {
    /// A batch that changes nothing yet.
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

    /// Removes `session`, as it was read.
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

    /// The batch without its counters, where a store of such `capabilities` keeps none: for a caller to
    /// whom they are statistics and the records are what matters.
    #[must_use]
    pub fn countable(mut self, capabilities: &Capabilities) -> Batch {
        if !capabilities.counters {
            self.counters.clear();
        }
        self
    }

    /// Whether there is nothing to write.
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.counters.is_empty()
    }

    /// Checks the batch against the records as they stand. A backend calls this where it holds what
    /// serialises its writers, and writes only after it returned `Ok`.
    ///
    /// `standing` looks a record up; `holder` finds the active session that has a name.
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
                // A holder that this very batch changes is judged by what it becomes.
                None => holder(name)?.filter(|holder| !changed.contains(holder)),
            };
            if let Some(by) = by {
                return Err(StoreError::NameTaken { name: name.to_owned(), by });
            }
        }
        Ok(())
    }
}

/// What a commit did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Committed {
    revision: u64,
    each: BTreeMap<SessionId, u64>,
}

impl Committed {
    /// Every record that the batch wrote has `revision` now.
    pub fn at(revision: u64) -> Committed {
        Committed { revision, each: BTreeMap::new() }
    }

    /// Each record that the batch wrote has a revision of its own.
    pub fn each(revisions: BTreeMap<SessionId, u64>) -> Committed {
        Committed { revision: 0, each: revisions }
    }

    /// The revision that the record of `id`, written by the batch, has now.
    pub fn revision_of(&self, id: &SessionId) -> u64 {
        self.each.get(id).copied().unwrap_or(self.revision)
    }
}

/// Records, and what could not be read among them.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Listing {
    /// The records, newest first.
    pub sessions: Vec<Session>,
    /// What had to be left out.
    pub damage: Vec<Damage>,
}

/// Something wrong with a store, as `doctor` says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Damage {
    /// Where: `line 17`, `session abcd…`, `write-ahead log`.
    pub place: String,
    /// What is wrong there, and what is lost by it.
    pub what: String,
    /// Whether the store can be written in spite of it. A torn last write is harmless: it was never
    /// acknowledged.
    pub harmless: bool,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.place, self.what)
    }
}

/// What a full check found.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckReport {
    /// How many records are whole.
    pub records: u64,
    /// What is not.
    pub damage: Vec<Damage>,
}

/// What a repair did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RepairReport {
    /// How many records were kept.
    pub kept: u64,
    /// What was set aside.
    pub quarantined: Vec<Damage>,
    /// Where it is now; `None` where nothing had to be done.
    pub quarantine: Option<PathBuf>,
}

/// A backup.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Backup {
    /// Its file.
    pub path: PathBuf,
    /// How many records it holds.
    pub records: u64,
}

/// What a restore did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Restored {
    /// How many records came from the backup.
    pub restored: u64,
    /// Sessions that are not finished, whose present records were kept.
    pub kept: u64,
}

/// The name of a lock: `[A-Za-z0-9_.:-]{1,128}`, so that it can be part of a file name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct LockName(String);

/// The longest name of a lock.
const MAX_LOCK_NAME: usize = 128;

impl LockName {
    /// A lock's name, or an error where `name` could not be part of a file name.
    pub fn new(name: &str) -> Result<LockName, StoreError> {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_.:-".contains(&byte);
        if (1..=MAX_LOCK_NAME).contains(&name.len()) && name.bytes().all(plain) && !name.starts_with('.') {
            Ok(LockName(name.to_owned()))
        } else {
            Err(StoreError::InvalidLockName { name: name.to_owned() })
        }
    }

    /// The name as text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A held lock. Dropping it gives the lock back.
pub struct LockGuard(#[allow(dead_code, reason = "held for its drop")] Box<dyn Send + Sync>);

impl LockGuard {
    /// A guard that gives the lock back by dropping `held`.
    pub fn new(held: impl Send + Sync + 'static) -> LockGuard {
        LockGuard(Box::new(held))
    }
}

impl fmt::Debug for LockGuard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LockGuard")
    }
}

/// How often [`update_session`] reads again after a lost race before it gives up.
const UPDATE_ATTEMPTS: usize = 100;

/// Reads a record, lets `change` edit it, and commits it; a lost race starts over from a fresh read.
/// `change` returns whether there is anything to write. Gives the record as it stands afterwards, or
/// `None` where there is no such record.
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
