//! Events that the scheduler receives, and actions that it issues.

use std::path::PathBuf;

use sexton_core::{OsText, SessionId};

use crate::state::How;
use crate::ticket::Ticket;

/// An event.
#[derive(Clone, Debug)]
pub enum Event {
    /// The loop has started.
    Begin,
    /// Time has passed.
    Tick,
    /// The query has finished or failed.
    Queried(Result<QueryOutput, String>),
    /// The completion check has finished.
    Checked {
        /// Whether something is left to do.
        left: bool,
    },
    /// An attempt has started.
    Started {
        /// The ticket.
        ticket: Ticket,
        /// Its session.
        session: SessionId,
        /// Its worktree.
        worktree: Option<PathBuf>,
        /// Its log file.
        log: Option<OsText>,
        /// The session whose rescued work it continues.
        rescue: Option<SessionId>,
    },
    /// An attempt could not be started.
    NotStarted {
        /// The ticket.
        ticket: Ticket,
        /// The cause.
        fault: Fault,
    },
    /// An attempt has ended.
    Ended {
        /// The ticket.
        ticket: Ticket,
        /// Its session.
        session: SessionId,
        /// Its log file.
        log: Option<OsText>,
        /// How it ended.
        ending: Ending,
    },
    /// An agent's work was committed to its branch.
    Sealed {
        /// The ticket.
        ticket: Ticket,
        /// The work, or what the agent left unfinished.
        result: Result<Sealed, String>,
    },
    /// A merge was tried.
    Merged {
        /// The ticket.
        ticket: Ticket,
        /// The outcome.
        outcome: MergeOutcome,
    },
    /// A worktree was removed or kept.
    Cleared {
        /// The ticket.
        ticket: Ticket,
        /// Why it was kept.
        kept: Option<String>,
    },
    /// Sessions were killed on request.
    Killed,
    /// The user requested the loop to stop.
    Interrupt,
}

/// Output of the query.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct QueryOutput {
    /// The lines that are not blank.
    pub lines: Vec<String>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The agent succeeded.
    Succeeded,
    /// The agent failed in this way.
    Failed(String),
    /// It exceeded its time limit.
    TimedOut,
    /// It was stopped on request.
    Stopped,
    /// It ended because its loop or the host ended.
    Interrupted,
    /// It is unknown whether it has ended.
    Unknown(String),
}

/// Why an attempt could not be started.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The previous loop ended before it started the attempt.
    NeverBegun,
    /// This ticket cannot be worked on.
    Ticket(String),
    /// A retry may succeed.
    Attempt(String),
    /// No ticket can be worked on: no agent, no store, no disk space.
    Everything(String),
}

/// The work on an agent's branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sealed {
    /// Nothing that is not in the base branch.
    Nothing,
    /// Work up to this commit.
    Work {
        /// The commit.
        tip: String,
    },
}

/// The outcome of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    /// The work is in the base branch.
    Merged {
        /// The new commit of the base branch.
        commit: String,
        /// How it was merged.
        how: How,
    },
    /// Both sides changed these files.
    Conflict {
        /// The files.
        paths: Vec<String>,
        /// The worktree that holds the work.
        worktree: Option<PathBuf>,
    },
    /// The merge is not possible now.
    Deferred {
        /// The cause.
        why: String,
    },
}

/// An action. Each leads to an event, except `Stop` and `Finish`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Run the query for tickets.
    Query,
    /// Run the completion check.
    Check,
    /// Start an attempt and wait for its end.
    Start {
        /// The ticket.
        ticket: Ticket,
        /// The serial number in its session's tag.
        serial: u64,
        /// Number of the attempt, from 1.
        attempt: u64,
    },
    /// Find the outcome of an attempt that another loop started.
    Find {
        /// The ticket.
        ticket: Ticket,
        /// The serial number in its session's tag.
        serial: u64,
    },
    /// Commit what an agent left in its worktree.
    Seal {
        /// The ticket.
        ticket: Ticket,
        /// Its session.
        session: SessionId,
    },
    /// Merge the work.
    Merge {
        /// The ticket.
        ticket: Ticket,
        /// Its session.
        session: SessionId,
        /// The commit.
        tip: String,
    },
    /// Rescue the work in a worktree and remove it.
    Clear {
        /// The ticket.
        ticket: Ticket,
        /// Its session.
        session: SessionId,
    },
    /// Stop sessions.
    Stop {
        /// The sessions.
        sessions: Vec<SessionId>,
        /// Whether to kill them; then `Killed` follows.
        at_once: bool,
    },
    /// Finish the loop.
    Finish,
}

impl Action {
    /// Returns whether the state must be saved before this action: its effects could not be recognized from the
    /// saved state otherwise, or the saved state is the effect.
    pub fn needs_saved_state(&self) -> bool {
        match self {
            Action::Start { .. } | Action::Merge { .. } | Action::Clear { .. } => true,
            Action::Stop { .. } | Action::Finish => true,
            Action::Query | Action::Check | Action::Find { .. } | Action::Seal { .. } => false,
        }
    }
}
