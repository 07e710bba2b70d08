//! The fields of a record that listings and commit rules need. The rest is read only on request.

use serde::Deserialize;
use serde_json::Value;
use sexton_core::session::{RecordError, SCHEMA_VERSION, WorktreeOutcome};
use sexton_core::{OsText, Query, SessionId, Status, Time};

/// The indexed fields of a record.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Read")]
pub(crate) struct Summary {
    /// The session's identifier.
    pub(crate) id: SessionId,
    /// The fields, as far as this version understands them.
    pub(crate) content: Content,
}

/// How much of a record this version understands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    /// All of it.
    Known(Known),
    /// A newer version wrote it: the evidence, and the name it may hold.
    Newer { why: NewerRecord, name: Option<String> },
}

/// The evidence that a newer version wrote a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum NewerRecord {
    /// An unknown schema.
    Schema(u64),
    /// An unknown status.
    Status(String),
}

impl NewerRecord {
    /// Converts it into an error.
    pub(crate) fn error(&self) -> RecordError {
        match self {
            NewerRecord::Schema(found) => RecordError::NewerSchema { found: *found },
            NewerRecord::Status(found) => RecordError::NewerStatus { found: found.clone() },
        }
    }
}

/// The fields that queries use.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    pub(crate) status: Status,
    pub(crate) created_at: Time,
    pub(crate) name: Option<String>,
    pub(crate) ticket: Option<String>,
    pub(crate) repo: Option<OsText>,
    pub(crate) finished_at: Option<Time>,
    /// Whether its worktree is pending recovery.
    pub(crate) pending: bool,
    /// Whether its loop is marked active.
    pub(crate) active_loop: bool,
}

/// The serialized form of a summary; all other fields are skipped.
#[derive(Deserialize)]
struct Read {
    schema: u64,
    id: SessionId,
    status: Status,
    created_at: Time,
    name: Option<String>,
    ticket: Option<String>,
    worktree: Option<ReadWorktree>,
    finished_at: Option<Time>,
    recovery: Option<ReadRecovery>,
    #[serde(rename = "loop")]
    loop_state: Option<ReadLoop>,
}

#[derive(Deserialize)]
struct ReadLoop {
    #[serde(default)]
    active: bool,
}

#[derive(Deserialize)]
struct ReadWorktree {
    repo: Option<OsText>,
}

#[derive(Deserialize)]
struct ReadRecovery {
    worktree: Option<WorktreeOutcome>,
}

impl From<Read> for Summary {
    fn from(read: Read) -> Summary {
        let Read {
            schema,
            id,
            status,
            created_at,
            name,
            ticket,
            worktree,
            finished_at,
            recovery,
            loop_state,
        } = read;
        let content = if schema > u64::from(SCHEMA_VERSION) {
            let why = NewerRecord::Schema(schema);
            Content::Newer { why, name: name.filter(|_| status.is_active()) }
        } else {
            let repo = worktree.and_then(|worktree| worktree.repo);
            let pending = recovery.is_some_and(|read| read.worktree == Some(WorktreeOutcome::Pending));
            let active_loop = loop_state.is_some_and(|state| state.active);
            Content::Known(Known {
                status,
                created_at,
                name,
                ticket,
                repo,
                finished_at,
                pending,
                active_loop,
            })
        };
        Summary { id, content }
    }
}

/// The fields expected in a record of a newer version; all others may have changed their meaning.
#[derive(Deserialize)]
pub(crate) struct Newer {
    schema: u64,
    id: SessionId,
    #[serde(default)]
    status: Value,
    #[serde(default)]
    name: Value,
}

impl Newer {
    /// Returns the summary; `None` without evidence that a newer version wrote the record.
    pub(crate) fn into_summary(self) -> Option<Summary> {
        let word = self.status.as_str();
        let status = word.and_then(|status| status.parse::<Status>().ok());
        let why = match word {
            _ if self.schema > u64::from(SCHEMA_VERSION) => NewerRecord::Schema(self.schema),
            Some(word) if status.is_none() => NewerRecord::Status(word.to_owned()),
            _ => return None,
        };
        // An unknown status may be an active one, so the name counts as taken.
        let holds = status.is_none_or(Status::is_active);
        let name = self.name.as_str().filter(|_| holds).map(str::to_owned);
        Some(Summary { id: self.id, content: Content::Newer { why, name } })
    }
}

impl Summary {
    /// Returns why this version must not change the record; `None` if it may.
    pub(crate) fn newer(&self) -> Option<&NewerRecord> {
        match &self.content {
            Content::Newer { why, .. } => Some(why),
            Content::Known(_) => None,
        }
    }

    /// Returns the name that the session reserves.
    pub(crate) fn held_name(&self) -> Option<&str> {
        match &self.content {
            Content::Known(known) => known.name.as_deref().filter(|_| known.status.is_active()),
            Content::Newer { name, .. } => name.as_deref(),
        }
    }

    /// Returns whether the session is finished. False for a newer record, where it is unknown.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(&self.content, Content::Known(known) if known.status.is_finished())
    }
}

impl Known {
    /// Returns the same as [`Query::matches`], without loading the record of `id`.
    pub(crate) fn fits(&self, id: &SessionId, query: &Query) -> bool {
        query.statuses.as_ref().is_none_or(|statuses| statuses.contains(&self.status))
            && query.ticket.as_ref().is_none_or(|ticket| self.ticket.as_ref() == Some(ticket))
            && query.name.as_ref().is_none_or(|name| self.name.as_ref() == Some(name))
            && query.id_prefix.as_ref().is_none_or(|prefix| id.as_str().starts_with(prefix))
            && query
                .repo
                .as_ref()
                .is_none_or(|repo| self.repo.as_ref().is_some_and(|own| own.as_path() == repo))
            && !(query.unsettled && self.status.is_finished() && !self.pending)
            && (self.active_loop || !query.active_loop)
            && query.finished_before.is_none_or(|time| {
                self.status.is_finished()
                    && self.created_at < time
                    && self.finished_at.is_some_and(|finished| finished < time)
            })
    }
}
