//! Sexton's default store: one SQLite database.
//!
//! Records are JSON documents beside the columns that listings need; any program that reads SQLite can read
//! them. Commits go through SQLite's write-ahead log, with one sync each. This crate detects what SQLite does
//! not: a checksum in every row, a tally of all rows, and a mark beside the file with the last acknowledged
//! commit.
//!
//! Architecture invariant: SQLite never opens a store for writing that is damaged or of a newer format. Such
//! a store is read page by page (`salvage.rs`) and stays unchanged until `repair` or `restore` builds a new
//! file that replaces it.

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
mod raise;
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

/// The URL scheme of this backend.
const NAME: &str = "sqlite";

/// Opens the store at `options.path`.
pub fn open(options: &StoreOptions) -> Result<Box<dyn Store>, StoreError> {
    Ok(Box::new(store::SqliteStore::open(options)?))
}

inventory::submit! {
    StorePlugin { name: NAME, summary: "one SQLite database (the default)", dialect: &Dialect::SEXTON, open }
}
