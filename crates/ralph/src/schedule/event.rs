//! What can happen, and what can be done about it.

use std::path::PathBuf;

use sexton_core::{OsText, SessionId};

use crate::state::How;
use crate::ticket::Ticket;

/// Something that happened.
#[derive(Clone, Debug)]
pub enum Event {
    /// The loop begins.
    Begin,
    /// Time has passed.
    Tick,
    /// The query answered, or why it did not.
    Asked(Result<Asked, String>),
    /// The check answered: whether something is left to do.
    Checked {
        /// Whether.
        left: bool,
    },
    /// An attempt runs.
    Started {
        /// The ticket.
        ticket: Ticket,
        /// Its session.
        session: SessionId,
        /// Its worktree.
        worktree: Option<PathBuf>,
        /// Its output.
        log: Option<OsText>,
        /// The session whose rescued work it goes on with.
        rescue: Option<SessionId>,
    },
    /// An attempt could not be begun.
    NotStarted {
        /// The ticket.
        ticket: Ticket,
        /// Why.
        fault: Fault,
    },
    /// An attempt ended.
    Ended {
        /// The ticket.
        ticket: Ticket,
        /// Its session.
        session: SessionId,
        /// Its output.
        log: Option<OsText>,
        /// How.
        ending: Ending,
    },
    /// What an agent left is on its branch.
    Sealed {
        /// The ticket.
        ticket: Ticket,
        /// What that is; an error says what the agent left undone.
        result: Result<Sealed, String>,
    },
    /// A merge was tried.
    Merged {
        /// The ticket.
        ticket: Ticket,
        /// What came of it.
        outcome: MergeOutcome,
    },
    /// A worktree is gone, or says why it is not.
    Cleared {
        /// The ticket.
        ticket: Ticket,
        /// Why it stays.
        kept: Option<String>,
    },
    /// Sessions were killed, as asked for.
    Killed,
    /// Its user wants the loop to stop.
    Interrupt,
}

/// What the query printed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Asked {
    /// Its lines, without blank ones.
    pub lines: Vec<String>,
}

/// How an attempt ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ending {
    /// The agent says that it did it.
    Succeeded,
    /// The agent did not, and how that was seen.
    Failed(String),
    /// Its time was up.
    TimedOut,
    /// Somebody stopped it.
    Stopped,
    /// It ended with its loop, or with the machine.
    Interrupted,
    /// Nobody can tell whether it ended.
    Unknown(String),
}

/// Why an attempt could not be begun.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It never began, because its loop ended first.
    NeverBegun,
    /// This ticket cannot be worked on.
    Ticket(String),
    /// It may work another time.
    Attempt(String),
    /// No ticket can be worked on: no agent, no store, no room on the disk.
    Everything(String),
}

/// What an agent left on its branch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sealed {
    /// Nothing that the base branch does not have.
    Nothing,
    /// Work that ends with this commit.
    Work {
        /// The commit.
        tip: String,
    },
}

/// What came of a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MergeOutcome {
    /// The base branch has it.
    Merged {
        /// Where that is now.
        commit: String,
        /// How.
        how: How,
    },
    /// Both sides changed these files.
    Conflict {
        /// Which.
        paths: Vec<String>,
        /// The worktree that holds the work.
        worktree: Option<PathBuf>,
    },
    /// Not now.
    Deferred {
        /// Why.
        why: String,
    },
}

/// Something to do. Each answers with an event, but for `Stop` and `Finish`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    /// Ask the query for tickets.
    Ask,
    /// Ask whether something is left to do.
    Check,
    /// Begin an attempt, and wait for its end.
    Start {
        /// The ticket.
        ticket: Ticket,
        /// The number that its session is marked with.
        serial: u64,
        /// Which attempt it is.
        attempt: u64,
    },
    /// Find out what became of an attempt that another loop began.
    Find {
        /// The ticket.
        ticket: Ticket,
        /// The number that its session is marked with.
        serial: u64,
    },
    /// Put what an agent left on its branch.
    Seal {
        /// The ticket.
        ticket: Ticket,
        /// Its session.
        session: SessionId,
    },
    /// Merge.
    Merge {
        /// The ticket.
        ticket: Ticket,
        /// Its session.
        session: SessionId,
        /// The commit.
        tip: String,
    },
    /// Save what a worktree holds, and remove it.
    Clear {
        /// The ticket.
        ticket: Ticket,
        /// Its session.
        session: SessionId,
    },
    /// End these sessions.
    Stop {
        /// Which.
        sessions: Vec<SessionId>,
        /// Whether they are killed; then `Killed` follows.
        at_once: bool,
    },
    /// End the loop.
    Finish,
}

impl Action {
    /// Whether the memory must be durable before this is done: what follows could not be told from it
    /// otherwise, or is told by it.
    pub fn needs_memory(&self) -> bool {
        match self {
            Action::Start { .. } | Action::Merge { .. } | Action::Clear { .. } => true,
            Action::Stop { .. } | Action::Finish => true,
            Action::Ask | Action::Check | Action::Find { .. } | Action::Seal { .. } => false,
        }
    }
}
