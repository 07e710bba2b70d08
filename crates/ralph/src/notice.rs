//! What the loop tells: one notice for each thing that happened. The loop itself prints nothing.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};
use sexton_core::SessionId;
use sexton_core::recover::Report;

use crate::state::{Phase, Stage, Work};
use crate::ticket::Ticket;

/// Something that happened.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Notice {
    /// Recovery is done; nothing was scheduled before.
    Recovered {
        /// What it found and did.
        report: Box<Report>,
    },
    /// The loop goes on where another was cut off.
    Continued {
        /// That loop's session.
        from: SessionId,
        /// How many tickets were taken on so far.
        iteration: u64,
        /// How many of them are not finished.
        unfinished: usize,
    },
    /// The loop begins.
    Began {
        /// Its session.
        session: SessionId,
        /// What that is called.
        name: String,
        /// The branch that work begins at and is merged into.
        base: String,
    },
    /// An attempt runs.
    Started {
        /// The ticket.
        ticket: Ticket,
        /// Which attempt it is.
        attempt: u64,
        /// Its session.
        session: SessionId,
        /// Its worktree.
        worktree: Option<PathBuf>,
        /// Its output.
        log: Option<PathBuf>,
        /// The session whose rescued work it goes on with.
        rescue: Option<SessionId>,
    },
    /// An attempt ended.
    Ended {
        /// The ticket.
        ticket: Ticket,
        /// Its session.
        session: SessionId,
        /// How: `succeeded`, `exit code 1`, `timed out` …
        how: String,
        /// Whether it succeeded.
        success: bool,
    },
    /// A ticket is tried again.
    Retrying {
        /// The ticket.
        ticket: Ticket,
        /// Which attempt comes.
        attempt: u64,
        /// After how long, in seconds.
        #[serde(rename = "seconds", serialize_with = "as_seconds")]
        pause: Duration,
    },
    /// A ticket is done.
    Done {
        /// The ticket.
        ticket: Ticket,
        /// What became of its work.
        #[serde(flatten)]
        work: Work,
        /// Why its worktree is still there.
        kept: Option<String>,
    },
    /// Work cannot be merged now, and will be tried again.
    Deferred {
        /// The ticket.
        ticket: Ticket,
        /// Why not.
        why: String,
    },
    /// Work cannot be merged by a machine.
    Conflict {
        /// The ticket.
        ticket: Ticket,
        /// The branch that holds it.
        branch: String,
        /// The worktree that holds it.
        worktree: Option<PathBuf>,
        /// The files that both sides changed.
        paths: Vec<String>,
    },
    /// A ticket is not tried any more.
    SetAside {
        /// The ticket.
        ticket: Ticket,
        /// Why.
        why: String,
        /// Its last output.
        log: Option<PathBuf>,
    },
    /// The query named something that cannot be a ticket.
    Refused {
        /// What is wrong with it.
        why: String,
    },
    /// The query failed.
    QueryFailed {
        /// How.
        why: String,
    },
    /// Something else that its user should know.
    Warning {
        /// What.
        what: String,
    },
    /// The loop was told to stop.
    Stopping {
        /// How many sessions it ends for that.
        sessions: usize,
        /// Whether they are killed.
        at_once: bool,
    },
    /// The loop could not go on.
    Failed {
        /// Why.
        why: String,
    },
    /// The loop is over.
    Finished(Summary),
}

/// A loop, told in the end.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// How it ended.
    pub phase: Phase,
    /// How many tickets were taken on.
    pub iteration: u64,
    /// What became of each, in the order of their names.
    pub tickets: Vec<Row>,
    /// What is to be printed because nothing is left to do.
    pub promise: Option<String>,
    /// Why it could not go on.
    pub error: Option<String>,
}

/// One ticket, told in the end.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Which.
    pub ticket: Ticket,
    /// How often it was taken on.
    pub iterations: u64,
    /// What became of it.
    #[serde(flatten)]
    pub stage: Stage,
    /// Its last session.
    pub session: Option<SessionId>,
    /// That one's output.
    pub log: Option<PathBuf>,
}

impl Summary {
    /// Whether every ticket that was taken on is done.
    pub fn is_whole(&self) -> bool {
        self.tickets.iter().all(|row| matches!(row.stage, Stage::Done { .. }))
    }
}

fn as_seconds<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(span.as_secs_f64())
}
