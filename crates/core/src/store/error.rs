//! Errors of stores.

use std::path::PathBuf;
use std::time::Duration;

use super::Damage;
use crate::session::RecordError;
use crate::{Session, SessionId, Status, release};

/// Why a store operation failed.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// Another process changed the record since it was read. Read it and decide again.
    #[error("session {id} was changed by another process (revision {expected} is no longer current)")]
    Conflict {
        /// Which record.
        id: SessionId,
        /// The revision the caller had read.
        expected: u64,
    },
    /// A record with that id exists already.
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
        /// The session that has it.
        by: SessionId,
    },
    /// The status transition is not allowed.
    #[error("session {id} is {from} and cannot become {to}")]
    Transition {
        /// Which record.
        id: SessionId,
        /// Its status now.
        from: Status,
        /// The requested status.
        to: Status,
    },
    /// A batch changes one record twice, so its order would matter.
    #[error("one batch changes session {id} twice")]
    ChangedTwice {
        /// Which record.
        id: SessionId,
    },
    /// This record cannot be read. The others can.
    #[error("session {id} cannot be read: {what}")]
    DamagedRecord {
        /// Which record.
        id: SessionId,
        /// What is wrong with it.
        what: String,
    },
    /// The store is damaged: what is intact can be read, but nothing can be written.
    #[error("{}: the store is damaged and is not changed ({})", .path.display(), first(.damage))]
    Damaged {
        /// The store's file.
        path: PathBuf,
        /// What is wrong.
        damage: Vec<Damage>,
    },
    /// A newer version of Sexton wrote it.
    #[error(
        "{}: the store has format {found}, newer than the supported {supported}{}",
        .path.display(), written_by(.release.as_deref())
    )]
    NewerFormat {
        /// The store's file.
        path: PathBuf,
        /// Its format.
        found: u64,
        /// The newest format that this version supports.
        supported: u64,
        /// The newest version that wrote a record in it, if known.
        release: Option<String>,
    },
    /// The file is not a store of this kind.
    #[error("{}: not a {backend} store: {why}", .path.display())]
    NotAStore {
        /// The file.
        path: PathBuf,
        /// The backend that read it.
        backend: &'static str,
        /// What was found instead.
        why: String,
    },
    /// One of its files belongs to another user, who controls its content.
    #[error("{}: it belongs to another user (uid {uid}), who could change the records", .path.display())]
    OtherOwner {
        /// The file.
        path: PathBuf,
        /// Its owner.
        uid: u32,
    },
    /// The store was opened for reading.
    #[error("{}: the store is open for reading only", .path.display())]
    ReadOnly {
        /// The store's file.
        path: PathBuf,
    },
    /// The store cannot represent what it was given. Nothing was written.
    #[error("{} {backend} store cannot keep {what}", article(.backend))]
    Unsupported {
        /// The store's kind.
        backend: &'static str,
        /// What it cannot keep, and of which session.
        what: String,
    },
    /// Another process holds the lock.
    #[error("the lock `{name}` is held by another process (waited {waited:?})")]
    LockTimeout {
        /// The lock's name.
        name: String,
        /// How long the caller waited.
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
    /// This version may not change the record.
    #[error("session {id}")]
    Record {
        /// Which record.
        id: SessionId,
        /// What is wrong with it.
        #[source]
        source: RecordError,
    },
    /// The operating system reported an error.
    #[error("{action} {}", .path.display())]
    Io {
        /// The failed action: `cannot open`, `cannot sync` …
        action: &'static str,
        /// The path it was tried on.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// The database behind the store failed.
    #[error("{action} {}", .path.display())]
    Backend {
        /// The failed action.
        action: &'static str,
        /// The path it was tried on.
        path: PathBuf,
        /// The cause.
        #[source]
        source: Box<dyn std::error::Error + Send + Sync>,
    },
}

fn written_by(release: Option<&str>) -> String {
    release.map_or_else(String::new, |release| format!(" (sexton {release} works on it)"))
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
    /// Returns the refusal to write the store at `path`, which has the newer format `found`. The release that
    /// wrote it is taken from the readable `sessions`, if they name one.
    pub fn newer_format<'a>(
        path: impl Into<PathBuf>,
        (found, supported): (u64, u64),
        sessions: impl IntoIterator<Item = &'a Session>,
    ) -> StoreError {
        let releases = sessions.into_iter().filter_map(|session| session.release.as_deref());
        // A record of this version or an older one does not identify the release that raised the format.
        let newer = releases.filter(|release| {
            *release != release::current() && release::is_at_least(Some(release), release::current())
        });
        let release = release::newest(newer).map(str::to_owned);
        StoreError::NewerFormat { path: path.into(), found, supported, release }
    }

    /// Returns what to do about a store of a newer format; `None` for every other error.
    pub fn newer_format_advice(&self) -> Option<String> {
        let StoreError::NewerFormat { release, .. } = self else { return None };
        let wanted = match release {
            Some(release) => format!("use sexton {release} or a newer version"),
            None => "use the newer version of sexton that raised it".to_owned(),
        };
        Some(format!("{wanted}; this version ({}) only reads the store", release::current()))
    }

    /// Returns the description of a store of a newer format, without its path.
    pub fn newer_format_note(&self) -> String {
        let StoreError::NewerFormat { found, supported, release, .. } = self else { return self.to_string() };
        let written_by = written_by(release.as_deref());
        let advice = self.newer_format_advice().unwrap_or_default();
        format!("it has format {found}, newer than the supported {supported}{written_by}; {advice}")
    }

    /// Returns whether the store as a whole can only be read: it is damaged, or has a newer format.
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
