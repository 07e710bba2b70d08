//! A store in the state directory of oh-my-codex, in place: what is there the day Sexton is installed can be
//! listed, shown and resumed, and their tool reads everything afterwards.
//!
//! # What a record is
//! `sessions/<id>/ralph-state.json` is the loop of the session `<id>`. A session that has a directory and no
//! such file is a record without a loop: it is loaded, not listed, and replacing it makes its loop. What each
//! member of the file is in a record says `words`; every other member is in `loop.extra`, and a member that
//! is not changed keeps its bytes. The status follows from what the file says, in `words::status_of`.
//!
//! # What damage means
//! Each session has a file of its own; one that cannot be parsed concerns nobody else. So it is reported,
//! not touched by a byte, and no batch that is about it is written; every other session can be written as
//! before. Only what is in `.sexton/` and of a newer format makes the whole store one that is only read.
//!
//! # What a write is
//! A kernel lock of ours, then their lock directory; then the file is replaced at once, and several behind an
//! intent (`intent`). A revision is a digest of the text.
//!
//! Architecture invariant: nothing outside `sessions/*/ralph-state.json`, their lock and `.sexton/` is ever
//! written, and no symbolic link is followed.

mod backup;
mod claim;
mod commit;
mod dialect;
mod dir;
mod document;
mod foreign;
#[cfg(fuzzing)]
pub mod fuzzing;
mod intent;
mod pointer;
mod record;
mod repair;
mod sidecar;
mod store;
mod view;
mod witness;
mod words;
mod write;

use sexton_core::plugin::{StoreOptions, StorePlugin, inventory};
use sexton_core::store::{Capabilities, Fields, Reach, Revisions};
use sexton_core::{Store, StoreError};

/// The scheme of the store's URLs.
const NAME: &str = "omx";

/// What a state file can say.
pub const CAPABILITIES: Capabilities = Capabilities {
    fields: Fields::Only(&[
        "schema",
        "id",
        "status",
        "agent.session_id",
        "agent.thread_id",
        "loop",
        "created_at",
        "finished_at",
        "revision",
    ]),
    forgotten: &["host", "agent.kind", "started_at"],
    statuses: &words::STATUSES,
    counters: false,
    starts: false,
    revisions: Revisions::Contents,
    damage: Reach::Record,
    processes: false,
    ..Capabilities::EVERYTHING
};

inventory::submit! {
    StorePlugin { name: NAME, summary: "the loops of an oh-my-codex state directory, in place", dialect: &dialect::DIALECT, open }
}

/// Opens the state directory at `options.path`.
pub fn open(options: &StoreOptions) -> Result<Box<dyn Store>, StoreError> {
    Ok(Box::new(store::OmxStore::open(options)?))
}
