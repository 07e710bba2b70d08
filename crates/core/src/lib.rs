//! The domain of Sexton: sessions, the rules that apply to them, and the three traits that do the work.
//!
//! Architecture invariant: this crate does no I/O of its own. It opens no file, starts no process and reads no
//! clock. It acts through [`Store`], [`ProcessProbe`] and [`WorktreeCleaner`], and takes the time as an
//! argument, so that every decision can be tested without a real machine.

pub mod config;
pub mod containment;
pub mod duration;
pub mod ending;
pub mod foreign_identity;
pub mod host;
pub mod identity;
pub mod membership;
pub mod others;
pub mod plugin;
pub mod probe;
pub mod query;
pub mod recover;
pub mod release;
pub mod resume;
pub mod session;
pub mod store;
pub mod text;
pub mod time;
pub mod worktree;

pub use host::{Host, Incarnation, Place};
pub use identity::{Liveness, ProcessIdentity};
pub use others::Others;
pub use probe::{ProbeError, ProcessProbe};
pub use query::Query;
pub use session::{Session, SessionId, Status};
pub use store::{Batch, Store, StoreError};
pub use text::OsText;
pub use time::Time;
pub use worktree::{WorktreeCleaner, WorktreeError};
