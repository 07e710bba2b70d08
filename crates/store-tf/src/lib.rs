//! A store on the `dispatch-sessions.json` of pi-ticketflow, in place: pi-ticketflow reads and writes the
//! same file at any time.
//!
//! # The format
//! ```json
//! {
//!   "version": 1,
//!   "sessions": [
//!     {
//!       "session_id": "dispatch-1", "ticket_id": "T-1", "pid": 4711, "process_start_time": 812345,
//!       "started_at": "2026-01-02T03:04:05.678901+00:00", "worktree_path": "/src/.tf/ralph/worktrees/T-1",
//!       "status": "running", "completed_at": null, "return_code": null
//!     }
//!   ],
//!   "last_updated": "2026-01-02T03:04:05.678901+00:00"
//! }
//! ```
//!
//! # Rules
//! - **It uses the lock of pi-ticketflow.** Every change holds `flock` on `dispatch-sessions.lock` beside the
//!   file, from the read to the rename; readers take the lock only if they find an incomplete file.
//! - **Text is kept as text.** An unchanged entry is written back byte for byte; in a changed one, every
//!   unchanged field and every unknown field keeps its bytes and its position.
//! - **Only values of pi-ticketflow are written**: four statuses, times that its Python reads, and no field
//!   of Sexton. A value that cannot be represented is declared in [`CAPABILITIES`]; it is rejected, or
//!   dropped where nothing depends on it.
//! - **A session with pending recovery work stays `running`**, so that the next recovery, of either tool,
//!   tries again.
//! - **Damage is left unchanged.** A file that cannot be parsed, a damaged entry, a newer version: no byte
//!   changes before `doctor --repair`, and a newer version not even then.
//!
//! Architecture invariant: only `writer` changes the file, and only while it holds the lock; only `entry`
//! decides what an entry means.

mod backup;
mod capabilities;
mod document;
mod entry;
mod fields;
#[cfg(fuzzing)]
pub mod fuzzing;
mod project;
mod repair;
mod salvage;
mod snapshot;
mod store;
mod writer;

use sexton_core::plugin::{StoreOptions, StorePlugin, inventory};
use sexton_core::resume::Dialect;
use sexton_core::{Store, StoreError};

pub use capabilities::CAPABILITIES;

/// The URL scheme of the store.
const NAME: &str = "tf";

inventory::submit! {
    StorePlugin { name: NAME, summary: "a pi-ticketflow dispatch-sessions.json, in place", dialect: &Dialect::SEXTON, open }
}

/// Opens the file at `options.path`.
pub fn open(options: &StoreOptions) -> Result<Box<dyn Store>, StoreError> {
    Ok(Box::new(store::TfStore::open(options)?))
}
