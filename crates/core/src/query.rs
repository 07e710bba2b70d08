//! Filters of a listing. A record must match all of them.

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
    /// Only ids with this prefix.
    pub id_prefix: Option<String>,
    /// Only worktrees of this repository.
    pub repo: Option<PathBuf>,
    /// Only those that recovery has not finished with: see [`Session::is_settled`].
    pub unsettled: bool,
    /// Only those whose loop is active.
    pub active_loop: bool,
    /// Only those that finished before this.
    pub finished_before: Option<Time>,
    /// At most this many, the newest.
    pub limit: Option<usize>,
}

impl Query {
    /// Selects every record.
    pub fn all() -> Query {
        Query::default()
    }

    /// Selects the records of sessions that may have a live process.
    pub fn active() -> Query {
        Query::all().with_statuses(Status::ALL.into_iter().filter(|status| status.is_active()))
    }

    /// Selects the records that recovery has not finished with.
    pub fn unsettled() -> Query {
        Query { unsettled: true, ..Query::all() }
    }

    /// Selects the records of sessions that drive a loop, whatever the state of their processes.
    pub fn active_loops() -> Query {
        Query { active_loop: true, ..Query::all() }
    }

    /// Selects only records with one of `statuses`.
    #[must_use]
    pub fn with_statuses(mut self, statuses: impl IntoIterator<Item = Status>) -> Query {
        self.statuses = Some(statuses.into_iter().collect());
        self
    }

    /// Selects only records of `ticket`.
    #[must_use]
    pub fn ticket(mut self, ticket: impl Into<String>) -> Query {
        self.ticket = Some(ticket.into());
        self
    }

    /// Selects only records with the name `name`.
    #[must_use]
    pub fn named(mut self, name: impl Into<String>) -> Query {
        self.name = Some(name.into());
        self
    }

    /// Selects only records whose id starts with `prefix`.
    #[must_use]
    pub fn id_prefix(mut self, prefix: impl Into<String>) -> Query {
        self.id_prefix = Some(prefix.into());
        self
    }

    /// Selects only records whose worktree belongs to `repo`.
    #[must_use]
    pub fn repo(mut self, repo: impl Into<PathBuf>) -> Query {
        self.repo = Some(repo.into());
        self
    }

    /// Selects only records of sessions that finished before `time`.
    #[must_use]
    pub fn finished_before(mut self, time: Time) -> Query {
        self.finished_before = Some(time);
        self
    }

    /// Selects at most `limit` records.
    #[must_use]
    pub fn limit(mut self, limit: usize) -> Query {
        self.limit = Some(limit);
        self
    }

    /// Returns whether `session` matches every filter; the caller applies the limit.
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

    /// Returns the listing of `sessions`: filtered, newest first, cut at the limit.
    pub fn select(&self, sessions: impl IntoIterator<Item = Session>) -> Vec<Session> {
        let mut listed: Vec<_> = sessions.into_iter().filter(|session| self.matches(session)).collect();
        listed.sort_by(|a, b| (b.created_at, &b.id).cmp(&(a.created_at, &a.id)));
        listed.truncate(self.limit.unwrap_or(usize::MAX));
        listed
    }
}
