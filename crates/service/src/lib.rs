//! Sexton as a library: the session operations of the `sexton` program, for programs that embed it.
//!
//! A [`Service`] is a configuration together with the backends that are linked in. It opens them, starts
//! sessions ([`Request`]), waits for them, stops them, reads their output and recovers. The embedding program
//! names its backends (`use sexton_store_sqlite as _;`) and calls the shim before anything else:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! fn main() -> ExitCode {
//!     if sexton_service::is_shim() {
//!         return sexton_service::shim_main();
//!     }
//!     // … everything else
//!     ExitCode::SUCCESS
//! }
//! ```
//!
//! Architecture invariant: nothing here prints, and nothing here names a backend. Messages for the user are
//! in the returned values.

mod ending;
mod error;
mod host;
mod labels;
mod listing;
mod new_worktree;
mod output;
mod owner;
mod recovery;
mod removal;
mod service;
mod start;
mod state_dir;
mod stop;

pub use ending::{overlay_exits, watch_session};
pub use error::{ServiceError, chain};
pub use labels::Labels;
pub use listing::{Listed, Listing, Observed, observe};
pub use new_worktree::Wish;
pub use output::{Output, Part};
pub use owner::{Enclosing, require_owner};
pub use recovery::{RepositoryName, Tools, default_worktree_root, now, remember_gap};
pub use removal::{Gone, remove_worktree};
pub use service::Service;
pub use sexton_core::worktree::Begun;
pub use sexton_supervise::{host_id_path, is_shim, shim_main};
pub use start::{Input, NotStarted, OwnerWish, Request, Running};
pub use state_dir::{Unsafe, find_danger, require_safe, require_state_dir};
pub use stop::stop_policy;
