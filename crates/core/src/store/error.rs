//! What can go wrong with a store.

use std::path::PathBuf;
use std::time::Duration;

use super::Damage;
use crate::session::RecordError;
use crate::{SessionId, Status};

/// Why a store did not do what was asked.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Somebody else changed the record since it was read. Read again, and decide again.
    #[error("session {id} was changed by somebody else (revision {expected} is no longer current)")]
    Conflict {
        /// Which record.
        id: SessionId,
        /// The revision the caller had read.
        expected: u64,
    },
    /// A record with that id is there already.
    #[error("a session with the id {id} exists already")]
    Exists {
        /// Which id.
        id: SessionId,
    },
    /// Two active sessions may not have one name.
    #[error("the name `{}` is in use by session {by}", .name.escape_debug())]
    NameTaken {
        /// The name.
        name: String,
        /// Who has it.
        by: SessionId,
    },
    /// The status may not go that way.
    #[error("session {id} is {from} and cannot become {to}")]
    Transition {
        /// Which record.
        id: SessionId,
        /// Its status now.
        from: Status,
        /// The status asked for.
        to: Status,
    },
    /// A batch names one record twice, so its order would matter.
    #[error("one batch changes session {id} twice")]
    ChangedTwice {
        /// Which record.
        id: SessionId,
    },
    /// One record cannot be read. The others can.
    #[error("session {id} cannot be read: {what}")]
    DamagedRecord {
        /// Which record.
        id: SessionId,
        /// What is wrong with it.
        what: String,
    },
    /// The store is damaged: it can be read around the damage, not written.
    #[error("{}: the store is damaged and stays as it is ({})", .path.display(), first(.damage))]
    Damaged {
        /// The store's file.
        path: PathBuf,
        /// What is wrong.
        damage: Vec<Damage>,
    },
    /// A newer version of Sexton wrote it.
    #[error("{}: the store has format {found}, newer than the supported {supported}", .path.display())]
    NewerFormat {
        /// The store's file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest that this version understands.
        supported: u64,
    },
    /// A file that is not a store of this kind at all.
    #[error("{}: not a {backend} store: {why}", .path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// The backend that looked at it.
        backend: &'static str,
        /// What it saw.
        why: String,
    },
    /// It was opened for reading.
    #[error("{}: the store is open for reading only", .path.display())]
    ReadOnly {
        /// The store's file.
        path: PathBuf,
    },
    /// It has no place for what it was asked to keep. Nothing was written.
    #[error("{} {backend} store cannot keep {what}", article(.backend))]
    Unsupported {
        /// The store's kind.
        backend: &'static str,
        /// What it cannot keep, and of which session.
        what: String,
    },
    /// Somebody else has the lock.
    #[error("the lock `{name}` is held by another process (waited {waited:?})")]
    LockTimeout {
        /// The lock's name.
        name: String,
        /// For how long it was waited for.
        waited: Duration,
    },
    /// A lock cannot have that name.
    #[error("`{}` cannot be the name of a lock", .name.escape_debug())]
    InvalidLockName {
        /// The name.
        name: String,
    },
    /// The backup cannot be used.
    #[error("{}: not a usable backup: {why}", .path.display())]
    BadBackup {
        /// The backup's file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// A record that this version may not touch.
    #[error("session {id}")]
    Record {
        /// Which record.
        id: SessionId,
        /// What is wrong with it.
        #[source]
        source: RecordError,
    },
    /// The operating system refused.
    #[error("{action} {}", .path.display())]
    Io {
        /// What was tried: `cannot open`, `cannot sync` …
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: std::io::Error,
    },
    /// The database behind the store failed.
    #[error("{action} {}", .path.display())]
    Backend {
        /// What was tried.
        action: &'static str,
        /// On what.
        path: PathBuf,
        /// Why not.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

fn article(noun: &str) -> &'static str {
    if noun.starts_with(['a', 'e', 'i', 'o', 'u']) { "an" } else { "a" }
}

fn first(damage: &[Damage]) -> String {
    match damage {
        [] => "no details".to_owned(),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first}; and {} more", rest.len()),
    }
}

impl StoreError {
    /// Whether the store as a whole can only be read: damaged, or of a newer format.
    pub fn is_store_unusable(&self) -> bool {
        matches!(
            self,
            StoreError::Damaged { .. }
                | StoreError::NewerFormat { .. }
                | StoreError::DamagedRecord { .. }
                | StoreError::Record { .. }
        )
    }
}
