//! The fields and statuses that the file can represent.

use sexton_core::Status;
use sexton_core::store::{Capabilities, Fields, Revisions, UNKNOWN};

/// The capabilities of this store.
///
/// The fields that are dropped, and why nothing depends on them:
/// - `recovery`, `ending`: a killed recovery is planned again from the actual state, and a session with
///   pending recovery work stays `running`. Rescued work is found by the session's id.
/// - `status`: five finished statuses become the nearest of three; for readers of the file they are
///   equivalent, since none requires any action.
/// - `exit.reason`: the status and the code contain what remains of it.
/// - `created_at` and times below a microsecond: the file has one start time, and Python's resolution is the
///   microsecond.
/// - the proof of a process identity (`process.boot_id` and others): it is dropped only for a finished
///   session, whose process is never used.
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
