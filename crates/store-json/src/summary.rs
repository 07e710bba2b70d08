//! The little of a record that listings and the rules of a commit need, so that the rest of it is read
//! only when somebody asks for it.

use serde::Deserialize;
use serde_json::Value;
use sexton_core::session::{SCHEMA_VERSION, WorktreeOutcome};
use sexton_core::{OsText, Query, SessionId, Status, Time};

/// What the index knows of a record.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(from = "Read")]
pub(crate) struct Summary {
    /// Whose record it is.
    pub(crate) id: SessionId,
    /// What is known of it.
    pub(crate) content: Content,
}

/// How much of a record this version understands.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Content {
    /// All of it.
    Known(Known),
    /// It was written by a newer version: its id and schema, and the name it may hold.
    Newer { schema: u64, name: Option<String> },
}

/// What queries ask of a record.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    pub(crate) status: Status,
    pub(crate) created_at: Time,
    pub(crate) name: Option<String>,
    pub(crate) ticket: Option<String>,
    pub(crate) repo: Option<OsText>,
    pub(crate) finished_at: Option<Time>,
    /// Whether its worktree waits for recovery.
    pub(crate) pending: bool,
    /// Whether its loop says that it is active.
    pub(crate) active_loop: bool,
}

/// The record's own spelling of a summary; every other field is skipped.
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
            Content::Newer { schema, name: name.filter(|_| status.is_active()) }
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

/// What can be hoped for in a record whose schema is newer: any other field may mean anything.
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
    /// The summary; `None` where the schema is not newer at all.
    pub(crate) fn into_summary(self) -> Option<Summary> {
        let over = self.status.as_str().and_then(|status| status.parse::<Status>().ok());
        // A status that is unknown here may well be an active one, so the name counts as taken.
        let holds = over.is_none_or(Status::is_active);
        let name = self.name.as_str().filter(|_| holds).map(str::to_owned);
        let newer = self.schema > u64::from(SCHEMA_VERSION);
        newer.then_some(Summary { id: self.id, content: Content::Newer { schema: self.schema, name } })
    }
}

impl Summary {
    /// The schema of a record that this version may not touch.
    pub(crate) fn newer_schema(&self) -> Option<u64> {
        match self.content {
            Content::Newer { schema, .. } => Some(schema),
            Content::Known(_) => None,
        }
    }

    /// The name that the session keeps others from taking.
    pub(crate) fn held_name(&self) -> Option<&str> {
        match &self.content {
            Content::Known(known) => known.name.as_deref().filter(|_| known.status.is_active()),
            Content::Newer { name, .. } => name.as_deref(),
        }
    }

    /// Whether nothing remains to be done for the session. Of a newer record nobody can tell.
    pub(crate) fn is_finished(&self) -> bool {
        matches!(&self.content, Content::Known(known) if known.status.is_finished())
    }
}

impl Known {
    /// What [`Query::matches`] says of the record of `id`, without its record.
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
