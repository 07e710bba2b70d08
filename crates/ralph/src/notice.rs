//! The notices that the loop reports, one for each event. The loop itself does not print.

use std::path::PathBuf;
use std::time::Duration;

use serde::{Serialize, Serializer};
use sexton_core::SessionId;
use sexton_core::recover::Report;

use crate::state::{Phase, Stage, Work};
use crate::ticket::Ticket;

/// A notice.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "snake_case", tag = "event")]
pub enum Notice {
    /// Recovery is done. It precedes all scheduling.
    Recovered {
        /// Its report.
        report: Box<Report>,
    },
    /// The loop continues an interrupted one.
    Continued {
        /// Session of that loop.
        from: SessionId,
        /// Number of iterations so far.
        iteration: u64,
        /// Number of unfinished tickets.
        unfinished: usize,
    },
    /// The loop has started.
    Began {
        /// Its session.
        session: SessionId,
        /// Its session name.
        name: String,
        /// The branch that work starts from and is merged into.
        base: String,
    },
    /// An attempt has started.
    Started {
        /// The ticket.
        ticket: Ticket,
        /// Number of the attempt, from 1.
        attempt: u64,
        /// Its session.
        session: SessionId,
        /// Its worktree.
        worktree: Option<PathBuf>,
        /// Its log file.
        log: Option<PathBuf>,
        /// The session whose rescued work it continues.
        rescue: Option<SessionId>,
    },
    /// An attempt has ended.
    Ended {
        /// The ticket.
        ticket: Ticket,
        /// Its session.
        session: SessionId,
        /// How it ended: `succeeded`, `exit code 1`, `timed out` …
        how: String,
        /// Whether it succeeded.
        success: bool,
    },
    /// A ticket is retried.
    Retrying {
        /// The ticket.
        ticket: Ticket,
        /// Number of the next attempt.
        attempt: u64,
        /// Pause before it, in seconds.
        #[serde(rename = "seconds", serialize_with = "as_seconds")]
        pause: Duration,
    },
    /// A ticket is done.
    Done {
        /// The ticket.
        ticket: Ticket,
        /// Outcome of its work.
        #[serde(flatten)]
        work: Work,
        /// Why its worktree was kept.
        kept: Option<String>,
    },
    /// Work cannot be merged now; the merge will be retried.
    Deferred {
        /// The ticket.
        ticket: Ticket,
        /// The cause.
        why: String,
    },
    /// Work cannot be merged automatically.
    Conflict {
        /// The ticket.
        ticket: Ticket,
        /// The branch that holds the work.
        branch: String,
        /// The worktree that holds the work.
        worktree: Option<PathBuf>,
        /// The files that both sides changed.
        paths: Vec<String>,
    },
    /// A ticket is set aside and not retried.
    SetAside {
        /// The ticket.
        ticket: Ticket,
        /// The cause.
        why: String,
        /// Log file of its last attempt.
        log: Option<PathBuf>,
    },
    /// The query returned an invalid ticket.
    Refused {
        /// Why it is invalid.
        why: String,
    },
    /// The query failed.
    QueryFailed {
        /// The cause.
        why: String,
    },
    /// Another warning for the user.
    Warning {
        /// The warning.
        what: String,
    },
    /// The loop was requested to stop.
    Stopping {
        /// Number of sessions that it stops.
        sessions: usize,
        /// Whether they are killed.
        at_once: bool,
    },
    /// The loop failed.
    Failed {
        /// The cause.
        why: String,
    },
    /// The loop has finished.
    Finished(Summary),
}

/// Summary of a finished loop.
#[derive(Clone, Debug, Serialize)]
pub struct Summary {
    /// How it ended.
    pub phase: Phase,
    /// Number of iterations.
    pub iteration: u64,
    /// The tickets, ordered by name.
    pub tickets: Vec<Row>,
    /// Text to print because nothing is left to do.
    pub promise: Option<String>,
    /// Why it failed.
    pub error: Option<String>,
}

/// A ticket in the summary.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// The ticket.
    pub ticket: Ticket,
    /// Number of times it was taken on.
    pub iterations: u64,
    /// Its final stage, or the stage at which the loop stopped.
    #[serde(flatten)]
    pub stage: Stage,
    /// Its last session.
    pub session: Option<SessionId>,
    /// Log file of that session.
    pub log: Option<PathBuf>,
}

impl Summary {
    /// Returns whether every ticket that was taken on is done.
    pub fn is_whole(&self) -> bool {
        self.tickets.iter().all(|row| matches!(row.stage, Stage::Done { .. }))
    }
}

fn as_seconds<S: Serializer>(span: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_f64(span.as_secs_f64())
}
