//! A store in one append-only journal of JSON Lines, which `less` and `jq` can read.
//!
//! # The format
//! Every line begins with the CRC-32 of the bytes that follow it up to the line break:
//!
//! ```json
//! {"crc":"5d0a6c1e","sexton":"journal","format":1,"store":"0b5c…","seq":40,"base":2}
//! {"crc":"77c1ab90","seq":7,"base":[1,2],"put":{"schema":1,"id":"abcd…",…}}
//! {"crc":"1f00d3a2","seq":40,"base":[2,2],"add":{"sessions_started":40}}
//! {"crc":"9a8b7c6d","seq":41,"part":[1,2],"put":{"schema":1,"id":"efgh…",…}}
//! {"crc":"03e2f6a8","seq":41,"part":[2,2],"del":"abcd…"}
//! ```
//!
//! The first line identifies the store; it keeps this form in every future format, so that an older program
//! recognizes a newer format. `base` lines are the content at the last rewrite, up to the commit in the
//! header's `seq`. They are followed by commits, numbered without gaps, with one line per change, so that one
//! bad byte costs one record. A record's revision is the commit that put it.
//!
//! # Complete and incomplete commits
//! A commit counts if all of its lines are there, the last one with its line break. An incomplete commit at
//! the end was never acknowledged: readers ignore it, and the next writer moves it to the quarantine. Any
//! other deviation is damage. The mark beside the journal (`<journal>.mark`) distinguishes the two: it names
//! the last acknowledged commit.
//!
//! Readers take no lock. They may see a commit shortly before it is on disk; anything based on it goes into a
//! later commit of the same file and is synced after it.
//!
//! Architecture invariant: only `writer` changes the journal, and only while it holds `<journal>.lock`. A
//! damaged journal is never appended to and never compacted.

mod backup;
#[cfg(test)]
mod every_byte;
mod format;
#[cfg(fuzzing)]
pub mod fuzzing;
mod gaps;
mod health;
mod image;
mod index;
mod journal;
mod pieces;
mod quarantine;
mod repair;
mod salvage;
mod snapshot;
mod store;
mod summary;
mod writer;

use sexton_core::plugin::{StoreOptions, StorePlugin, inventory};
use sexton_core::resume::Dialect;
use sexton_core::{Store, StoreError};

/// The URL scheme of the store.
const NAME: &str = "json";

inventory::submit! {
    StorePlugin { name: NAME, summary: "one append-only JSON Lines journal, readable with less and jq", dialect: &Dialect::SEXTON, open }
}

/// Opens the journal at `options.path`.
pub fn open(options: &StoreOptions) -> Result<Box<dyn Store>, StoreError> {
    Ok(Box::new(store::JsonStore::open(options)?))
}
