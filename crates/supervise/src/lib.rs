//! Starts a command so that no agent ever runs unrecorded, and waits for it so that its end is recorded
//! exactly once.
//!
//! The starter ([`start`]) executes this same program again as the *shim*, which forks the command behind a
//! gate. The gate opens only when a record with the verified identities of both is durable. From then on the
//! shim waits for the command, for its owner and for its deadline. When the command exits, the shim stops the
//! remaining processes of the session and commits the outcome, or leaves it in the exit file.
//!
//! Architecture invariant: the shim has no thread, no runtime and no polling while it waits, and it is
//! dispatched before any argument is parsed ([`is_shim`], [`shim_main`]).

mod backups;
mod change;
mod control;
mod exit_file;
mod growth;
mod host;
mod init;
mod limit_mark;
mod limits;
mod log;
mod plan;
mod platform;
mod problems;
mod session_dir;
mod shim;
mod start;
mod state_dir;
mod stop;
mod supervision;
mod wait;

pub use backups::{BackupFile, backup_dir, list_backups, rotate_backups};
pub use change::{ChangeWatch, Changes};
pub use exit_file::{ExitFile, PendingExits};
pub use host::{find_host, find_host_leniently, host_id_path, require_host};
pub use init::divide_if_init;
pub use limits::raise_descriptor_limit;
pub use log::{LogChunk, LogFollower, LogReader, Woken, wait_to_write};
pub use plan::{Plan, WatchedCommand};
pub use platform::{SignalPipe, expect_children, survive_file_size_limit};
pub use session_dir::{MarkedDir, SessionDir};
pub use shim::{is_shim, shim_main};
pub use start::{Shim, StartError, Started, reap_watchers, start};
pub use state_dir::StateDir;
pub use stop::{StopError, StopPolicy, Stopped, stop_sessions};
pub use supervision::Supervision;
pub use wait::{ProcessWatch, Watched, wait_for_all, wait_for_ends, watch_process};
