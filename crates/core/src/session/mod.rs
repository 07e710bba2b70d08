//! Sessions: id, status, record, and lookup by name.

mod find;
mod id;
mod record;
mod status;

pub use find::{FindError, MIN_PREFIX, find_session};
pub use id::{InvalidSessionId, SessionId};
pub use record::{
    Agent, Cgroup, Ending, EndingReason, Exit, ExitReason, Log, LoopState, OnOwnerDeath, RecordError,
    Recovery, SCHEMA_VERSION, Session, Worktree, WorktreeOutcome,
};
pub use status::{Status, UnknownStatus};
