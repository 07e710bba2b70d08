//! A store in the state directory of oh-my-codex, in place: existing loops can be listed, shown and resumed
//! as soon as Sexton is installed, and oh-my-codex can read everything afterwards.
//!
//! # Records
//! `sessions/<id>/ralph-state.json` is the loop of the session `<id>`. A session with a directory but without
//! this file is a record without a loop: it can be loaded, is not listed, and replacing it creates its loop.
//! `words` maps the members of the file to fields of a record; every other member is in `loop.extra`, and an
//! unchanged member keeps its bytes. `words::status_of` derives the status from the file.
//!
//! # Damage
//! Each session has its own file; one that cannot be parsed does not affect the others. It is reported and
//! left unchanged, and a batch that contains it is rejected; every other session can be written as before.
//! Only a newer format in `.sexton/` makes the whole store read-only.
//!
//! # Writes
//! A writer takes Sexton's kernel lock, then the lock directory of oh-my-codex; then it replaces the file
//! atomically, or several files after writing an intent (`intent`). A revision is a digest of the text.
//!
//! Architecture invariant: nothing outside `sessions/*/ralph-state.json`, the lock and `.sexton/` is ever
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

/// The URL scheme of the store.
const NAME: &str = "omx";

/// What a state file can represent.
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
