//! The part of a session's record that tools return. The resource `session://ID` is the whole record.

use schemars::JsonSchema;
use serde::Serialize;
use sexton_core::session::ExitReason;
use sexton_core::{Session, Status, Time};
use sexton_service::{Listed, Observed};

/// A session.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub(crate) struct SessionView {
    /// Session id.
    id: String,
    /// Session name.
    name: Option<String>,
    /// Ticket that the session works on.
    ticket: Option<String>,
    /// Recorded status.
    status: Status,
    /// Current state of its process: alive, unsupervised, finishing, gone, reused, unknown; null once it has ended.
    observed: Option<&'static str>,
    /// Program and arguments.
    command: Vec<String>,
    /// Directory in which it was started.
    cwd: Option<String>,
    /// Pid of its command while it runs.
    pid: Option<u32>,
    /// When it was created.
    created_at: Time,
    /// When its end was recorded.
    finished_at: Option<Time>,
    /// Exit code of its command.
    exit_code: Option<i32>,
    /// Signal that ended its command.
    signal: Option<i32>,
    /// Why it ended.
    exit_reason: Option<ExitReason>,
    /// Its git worktree.
    worktree: Option<String>,
    /// Ref that holds the work rescued from its removed worktree.
    rescue_ref: Option<String>,
}

impl SessionView {
    /// Creates the view of `session` with the observed state of its process.
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
