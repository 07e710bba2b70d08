//! A store on the `dispatch-sessions.json` of pi-ticketflow, in place: its owner tool reads and writes the
//! same file, before, after and in between.
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
//! # What counts
//! - **Its lock is ours.** Every change happens under `flock` on `dispatch-sessions.lock` beside the file,
//!   from the read to the rename; readers take no lock, and ask for it only where they meet half a file.
//! - **Text is kept as text.** An entry that does not change is written back as the bytes it was read
//!   from; in one that does, every field that means the same keeps its bytes, and so does every field that
//!   nobody here knows, in its place.
//! - **Only its own words are written**: four statuses, times that its Python reads, no field of ours. What
//!   has no place is declared in [`CAPABILITIES`] and refused, or forgotten where nothing depends on it.
//! - **A session that recovery still owes something stays `running`**, so that the next recovery, theirs or
//!   ours, tries again.
//! - **Damage is not touched.** A file that cannot be parsed, an entry that makes no sense, a newer
//!   version: not one byte changes before `doctor --repair`, and a newer version not even then.
//!
//! Architecture invariant: only `writer` changes the file, and only while it holds the lock; what an entry
//! means is decided by `entry` alone.

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

/// The scheme of the store's URLs.
const NAME: &str = "tf";

inventory::submit! {
    StorePlugin { name: NAME, summary: "a pi-ticketflow dispatch-sessions.json, in place", dialect: &Dialect::SEXTON, open }
}

/// Opens the file at `options.path`.
pub fn open(options: &StoreOptions) -> Result<Box<dyn Store>, StoreError> {
    Ok(Box::new(store::TfStore::open(options)?))
}
