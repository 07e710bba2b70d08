//! Sexton's default store: one SQLite database.
//!
//! Records are JSON documents with the columns that listings need beside them; any program that reads
//! SQLite can read them. Commits go through SQLite's write-ahead log, one sync each. What SQLite does not
//! notice is noticed here: a checksum in every row, a tally of all rows, and the mark of the last
//! acknowledged commit beside the file.
//!
//! Architecture invariant: a store that is damaged or of a newer format is never opened for writing by
//! SQLite. It is read page by page (`salvage.rs`) and stays as it is until `repair` or `restore` builds a
//! new file and puts it in its place.

mod backup;
mod broken;
mod checksum;
mod commit;
mod connection;
mod counters;
mod deep;
mod fault;
mod files;
#[cfg(fuzzing)]
pub mod fuzzing;
mod health;
mod live;
mod mend;
mod meta;
mod page;
mod presence;
mod query;
mod read;
mod rebuild;
mod rows;
mod salvage;
mod schema;
mod store;
mod view;
mod wal;
mod write;

use sexton_core::plugin::{StoreOptions, StorePlugin, inventory};
use sexton_core::resume::Dialect;
use sexton_core::{Store, StoreError};

/// The scheme of this backend.
const NAME: &str = "sqlite";

/// Opens the store at `options.path`.
pub fn open(options: &StoreOptions) -> Result<Box<dyn Store>, StoreError> {
    Ok(Box::new(store::SqliteStore::open(options)?))
}

inventory::submit! {
    StorePlugin { name: NAME, summary: "one SQLite database (the default)", dialect: &Dialect::SEXTON, open }
}
