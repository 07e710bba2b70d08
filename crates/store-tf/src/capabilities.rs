//! What the file can represent.

use sexton_core::Status;
use sexton_core::store::{Capabilities, Fields, Revisions, UNKNOWN};

/// What a store of this kind can represent.
///
/// What is forgotten, and why nothing depends on it:
/// - `recovery`, `ending`: a recovery that was killed is planned again from what is true, and a session that
///   is still owed something stays `running`. What was rescued is found by the session's id.
/// - `status`: five finished statuses become the nearest of three; to whoever reads the file they ask for
///   the same, which is nothing.
/// - `exit.reason`: the status and the code say what is left of it.
/// - `created_at` and parts of a second below the microsecond: there is one time of a start, and Python's
///   times end there.
/// - what proves a process (`process.boot_id` and the like): only a finished session is taken with it, and
///   nobody asks for the process of one.
pub const CAPABILITIES: Capabilities = Capabilities {
    fields: Fields::Only(&[
        "schema",
        "id",
        "ticket",
        "status",
        "process.pid",
        "process.start_ticks",
        "worktree.path",
        "created_at",
        "started_at",
        "finished_at",
        "exit.code",
        "exit.signal",
        "exit.reason",
        "revision",
        UNKNOWN,
    ]),
    forgotten: &[
        "status",
        "created_at",
        "started_at",
        "finished_at",
        "exit.reason",
        "recovery",
        "ending",
        "process.boot_id",
        "process.pidfd_inode",
        "process.start_time_us",
        "process.pid_namespace",
        "process.time_namespace",
        "process.exe",
    ],
    statuses: &[Status::Running, Status::Completed, Status::Failed, Status::Orphaned],
    counters: false,
    starts: false,
    revisions: Revisions::Contents,
    marks: false,
    ..Capabilities::EVERYTHING
};
