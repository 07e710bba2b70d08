//! The domain of Sexton: what a session is, what may be done to it, and the three traits through
//! which everything is done.
//!
//! Architecture invariant: this crate does no I/O of its own. It opens no file, starts no process and
//! reads no clock; it acts through [`Store`], [`ProcessProbe`] and [`WorktreeCleaner`], and the time is
//! an argument. That is what makes every decision in it testable without a machine to break.

pub mod config;
pub mod duration;
pub mod ending;
pub mod host;
pub mod identity;
pub mod membership;
pub mod plugin;
pub mod probe;
pub mod query;
pub mod recover;
pub mod resume;
pub mod session;
pub mod store;
pub mod testimony;
pub mod text;
pub mod time;
pub mod worktree;

pub use host::Host;
pub use identity::{Liveness, ProcessIdentity};
pub use probe::{ProbeError, ProcessProbe};
pub use query::Query;
pub use session::{Session, SessionId, Status};
pub use store::{Batch, Store, StoreError};
pub use text::OsText;
pub use time::Time;
pub use worktree::{WorktreeCleaner, WorktreeError};
