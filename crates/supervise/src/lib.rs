//! Starting a command so that no agent ever runs unrecorded, and waiting for it so that its end is
//! recorded exactly once.
//!
//! The starter ([`start`]) executes this same program again as the *shim*, which forks the command behind
//! a gate. The gate opens only when a record with the verified identities of both is durable. From then
//! on the shim waits: for the command, for its owner, for its deadline. When the command ends, the shim
//! ends what is left of the session and commits the outcome, or leaves it in the exit file.
//!
//! Architecture invariant: the shim has no thread, no runtime and no polling while it waits, and it is
//! dispatched before any argument is parsed ([`is_shim`], [`shim_main`]).

mod backups;
mod change;
mod control;
mod exit_file;
mod log;
mod plan;
mod platform;
mod premises;
mod session_dir;
mod shim;
mod start;
mod stop;
mod wait;

pub use backups::{BackupFile, backup_dir, list_backups, rotate_backups};
pub use change::{ChangeWatch, Changes};
pub use exit_file::{ExitFile, PendingExits};
pub use log::{LogChunk, LogFollower, LogReader, Woken, wait_to_write};
pub use plan::{Plan, WatchedCommand};
pub use platform::SignalPipe;
pub use premises::{StateDir, Supervision};
pub use session_dir::{MarkedDir, SessionDir};
pub use shim::{is_shim, shim_main};
pub use start::{Shim, StartError, Started, start};
pub use stop::{StopError, StopPolicy, Stopped, stop_sessions};
pub use wait::{ProcessWatch, Watched, wait_for_all, watch_process};
