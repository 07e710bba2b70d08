//! Sexton as a library: what the `sexton` program does to sessions, for programs that do it themselves.
//!
//! A [`House`] is a configuration together with the backends that are linked in. It opens them, starts
//! sessions ([`Request`]), waits for them, stops them, reads their output and recovers. The program that
//! embeds it names the backends it wants (`use sexton_store_sqlite as _;`), and hands over to the shim before
//! it does anything else:
//!
//! ```no_run
//! use std::process::ExitCode;
//!
//! fn main() -> ExitCode {
//!     if sexton_embed::is_shim() {
//!         return sexton_embed::shim_main();
//!     }
//!     // … everything else
//!     ExitCode::SUCCESS
//! }
//! ```
//!
//! Architecture invariant: nothing here prints, and nothing here names a backend. What a person should hear
//! is in the values that are returned.

mod ending;
mod error;
mod host;
mod house;
mod labels;
mod listing;
mod output;
mod owner;
mod planting;
mod recovery;
mod removal;
mod start;
mod state_dir;
mod stop;

pub use ending::{overlay_exits, watch_session};
pub use error::{HouseError, chain};
pub use host::this_host;
pub use house::House;
pub use labels::Labels;
pub use listing::{Listed, Listing, Observed, observe};
pub use output::{Output, Part};
pub use owner::{Enclosing, require_owner};
pub use planting::Wish;
pub use recovery::{RepositoryName, Tools, default_yard, now, remember_gap};
pub use removal::{Gone, remove_worktree};
pub use sexton_core::worktree::Begun;
pub use sexton_supervise::{is_shim, shim_main};
pub use start::{Input, NotStarted, OwnerWish, Request, Running};
pub use state_dir::{Unsafe, find_danger, require_safe, require_state_dir};
pub use stop::stop_policy;
