//! A session as an agent sees it: the whole record is the resource `session://ID`.

use schemars::JsonSchema;
use serde::Serialize;
use sexton_core::session::ExitReason;
use sexton_core::{Session, Status, Time};
use sexton_embed::{Listed, Observed};

/// A session.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct SessionView {
    /// Its id.
    id: String,
    /// Its name.
    name: Option<String>,
    /// The ticket it works on.
    ticket: Option<String>,
    /// Where it is in its life.
    status: Status,
    /// What its process does now: alive, finishing, gone, reused, unknown; null once it has ended.
    observed: Option<&'static str>,
    /// What it runs, word by word.
    command: Vec<String>,
    /// The directory it was started in.
    cwd: Option<String>,
    /// The pid of its command, while it runs.
    pid: Option<u32>,
    /// When it was made.
    created_at: Time,
    /// When its end was seen.
    finished_at: Option<Time>,
    /// The exit code of its command.
    exit_code: Option<i32>,
    /// The signal that ended its command.
    signal: Option<i32>,
    /// Which way it ended.
    exit_reason: Option<ExitReason>,
    /// Its git worktree.
    worktree: Option<String>,
    /// The ref that holds the work of a worktree that was removed.
    rescue_ref: Option<String>,
}

impl SessionView {
    /// The session, and what was seen of its process.
    pub(crate) fn of(session: &Session, observed: Option<&Observed>) -> SessionView {
        let process = session.process.as_ref().filter(|_| session.status.is_active());
        let exit = session.exit.as_ref();
        let worktree = session.worktree.as_ref();
        SessionView {
            id: session.id.to_string(),
            name: session.name.clone(),
            ticket: session.ticket.clone(),
            status: session.status,
            observed: observed.map(Observed::as_str),
            command: session.command.iter().map(|word| word.display().to_string()).collect(),
            cwd: session.cwd.as_ref().map(|cwd| cwd.display().to_string()),
            pid: process.map(|process| process.pid),
            created_at: session.created_at,
            finished_at: session.finished_at,
            exit_code: exit.and_then(|exit| exit.code),
            signal: exit.and_then(|exit| exit.signal),
            exit_reason: exit.map(|exit| exit.reason),
            worktree: worktree.map(|worktree| worktree.path.display().to_string()),
            rescue_ref: session.recovery.as_ref().and_then(|recovery| recovery.rescue_ref.clone()),
        }
    }
}

impl From<&Listed> for SessionView {
    fn from(listed: &Listed) -> SessionView {
        SessionView::of(&listed.session, listed.observed.as_ref())
    }
}
