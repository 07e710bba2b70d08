//! Which records a listing is about. Every filter must fit for a record to be listed.

use std::path::PathBuf;

use crate::{Session, Status, Time};

/// A filter over records. Listings are always newest first: by `created_at`, then by id, descending.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Query {
    /// Only these statuses; `None` for all.
    pub statuses: Option<Vec<Status>>,
    /// Only this ticket.
    pub ticket: Option<String>,
    /// Only this name.
    pub name: Option<String>,
    /// Only ids that begin so.
    pub id_prefix: Option<String>,
    /// Only worktrees of this repository.
    pub repo: Option<PathBuf>,
    /// Only those that recovery owes something: see [`Session::is_settled`].
    pub unsettled: bool,
    /// Only those whose loop says that it is active.
    pub active_loop: bool,
    /// Only those that finished before this.
    pub finished_before: Option<Time>,
    /// At most so many, the newest.
    pub limit: Option<usize>,
}

impl Query {
    /// Every record.
    pub fn all() -> Query {
        Query::default()
    }

    /// The records of sessions that may have a living process.
    pub fn active() -> Query {
        Query::all().with_statuses(Status::ALL.into_iter().filter(|status| status.is_active()))
    }

    /// The records that recovery looks at.
    pub fn unsettled() -> Query {
        Query { unsettled: true, ..Query::all() }
    }

    /// The records of sessions that drive a loop, whatever became of their processes.
    pub fn active_loops() -> Query {
        Query { active_loop: true, ..Query::all() }
    }

    /// Only records with one of `statuses`.
    #[must_use]
    pub fn with_statuses(mut self, statuses: impl IntoIterator<Item = Status>) -> Query {
        self.statuses = Some(statuses.into_iter().collect());
        self
    }

    /// Only records of `ticket`.
    #[must_use]
    pub fn ticket(mut self, ticket: impl Into<String>) -> Query {
        self.ticket = Some(ticket.into());
        self
    }

    /// Only records called `name`.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Query {
        self.name = Some(name.into());
        self
    }

    /// Only records whose id begins with `prefix`.
    #[must_use]
    pub fn id_prefix(mut self, prefix: impl Into<String>) -> Query {
        self.id_prefix = Some(prefix.into());
        self
    }

    /// Only records whose worktree belongs to `repo`.
    #[must_use]
    pub fn repo(mut self, repo: impl Into<PathBuf>) -> Query {
        self.repo = Some(repo.into());
        self
    }

    /// Only records of sessions that finished before `time`.
    #[must_use]
    pub fn finished_before(mut self, time: Time) -> Query {
        self.finished_before = Some(time);
        self
    }

    /// At most `limit` records.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Query {
        self.limit = Some(limit);
        self
    }

    /// Whether `session` fits every filter; the limit is the caller's.
    pub fn matches(&self, session: &Session) -> bool {
        let repo = || session.worktree.as_ref().and_then(|worktree| worktree.repo.as_ref());
        self.statuses.as_ref().is_none_or(|statuses| statuses.contains(&session.status))
            && self.ticket.as_ref().is_none_or(|ticket| session.ticket.as_ref() == Some(ticket))
            && self.name.as_ref().is_none_or(|name| session.name.as_ref() == Some(name))
            && self.id_prefix.as_ref().is_none_or(|prefix| session.id.as_str().starts_with(prefix))
            && self.repo.as_ref().is_none_or(|wanted| repo().is_some_and(|repo| repo.as_path() == wanted))
            && !(self.unsettled && session.is_settled())
            && (!self.active_loop || session.loop_state.as_ref().is_some_and(|state| state.active))
            && self.finished_before.is_none_or(|time| session.finished_before(time))
    }

    /// The listing that this query makes of `sessions`: filtered, newest first, cut at the limit.
    pub fn select(&self, sessions: impl IntoIterator<Item = Session>) -> Vec<Session> {
        let mut listed: Vec<_> = sessions.into_iter().filter(|session| self.matches(session)).collect();
        listed.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        listed.truncate(self.limit.unwrap_or(usize::MAX));
        listed
    }
}
