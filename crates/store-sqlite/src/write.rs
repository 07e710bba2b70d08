//! Writes to an intact store: one writer at a time, acknowledged only when durable, with a short log.

use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;
use sexton_core::store::{Change, Committed};
use sexton_core::{Batch, StoreError};
use sexton_durable::Mark;

use crate::connection::Link;
use crate::fault::Fault;
use crate::files::{Files, WriterLock};
use crate::health::load_mark;
use crate::live::Live;
use crate::meta::Meta;
use crate::store::SqliteStore;
use crate::view::View;

/// How many pages the log may hold before a checkpoint. Each costs 4 µs in a process that opens the store
/// alone, since it reads the whole log; a checkpoint costs three syncs. For programs that commit once or
/// twice, this value is the cheapest.
pub(crate) const LOG_PAGES: i32 = 60;

/// The same for a commit with an insert: the caller is waiting to start a session. The commit that records
/// its exit, for which no caller waits, makes the checkpoint instead.
const LOG_PAGES_FOR_INSERT: i32 = 100;

/// Returns how many pages the log may hold before `batch` is committed.
pub(crate) fn log_limit(batch: &Batch) -> i32 {
    let inserts = batch.changes.iter().any(|change| matches!(change, Change::Insert(_)));
    if inserts { LOG_PAGES_FOR_INSERT } else { LOG_PAGES }
}

/// Runs `change`, which writes one commit and returns the store's metadata afterwards, on the intact store. A
/// log of `log_limit` pages is checkpointed first.
pub(crate) fn write(
    store: &SqliteStore,
    log_limit: i32,
    change: impl Fn(&WriterLock, &Live, &mut Link) -> Result<Meta, Fault>,
) -> Result<Committed, StoreError> {
    let files = &store.files;
    let lock = files.lock_writers()?;
    loop {
        let live = require_live(&lock, store)?;
        checkpoint_long_log(&lock, files, &live, log_limit);
        match live.with(files, |link| change(&lock, &live, link)) {
            Ok(meta) => {
                write_mark(&lock, files, &live, meta.seq);
                return Ok(Committed::at(meta.seq));
            }
            Err(Fault::Refused(error)) => return Err(error),
            Err(Fault::Replaced) => {}
            Err(Fault::Damage(causes)) => store.note_damage(&View::Live(live), causes)?,
        }
    }
}

/// Returns the intact store, whose file is as a writer left it or was checked again.
fn require_live(lock: &WriterLock, store: &SqliteStore) -> Result<Arc<Live>, StoreError> {
    let files = &store.files;
    let live = match store.view()? {
        View::Live(live) => live,
        View::Broken(broken) => return Err(broken.refusal(files)),
        View::Absent => return prepare(lock, store),
    };
    let present = files.find_stamp()?;
    if present == Some(live.stamp()) {
        return Ok(live);
    }
    let ours = load_mark(files)?.filter(|mark| mark.store == live.store && mark.stamp == present);
    match ours.and_then(|mark| mark.stamp) {
        // Another process made a checkpoint.
        Some(stamp) => {
            live.set_stamp(stamp);
            Ok(live)
        }
        None => prepare(lock, store),
    }
}

fn prepare(lock: &WriterLock, store: &SqliteStore) -> Result<Arc<Live>, StoreError> {
    match store.set_view(View::prepare(lock, &store.files, store.purpose)?) {
        View::Live(live) => Ok(live),
        View::Broken(broken) => Err(broken.refusal(&store.files)),
        View::Absent => unreachable!("preparing creates a store if there is none"),
    }
}

/// Makes a checkpoint if the log is long. This happens before a commit and not after one: the next commit
/// restarts the log, and if that were left to another process, it would find the whole log again without
/// knowing that all of it is in the database.
///
/// No failure is reported: the commit does not depend on it, and the next one tries again.
fn checkpoint_long_log(_: &WriterLock, files: &Files, live: &Live, limit: i32) {
    let moved = live.with(files, |link| {
        shorten_log(link, limit).map_err(|error| Fault::of("cannot write", &files.db, error))
    });
    if matches!(moved, Ok(false)) {
        return;
    }
    let Ok(Some(stamp)) = files.find_stamp() else { return };
    live.set_stamp(stamp);
    // A process that opens the store before the commit is done must recognize the file as written by Sexton.
    if let Ok(Some(mark)) = load_mark(files) {
        let _ = files.mark().store(&Mark { stamp: Some(stamp), ..mark });
    }
}

/// Makes a checkpoint if the log holds `limit` pages; returns whether it did.
fn shorten_log(connection: &Connection, limit: i32) -> rusqlite::Result<bool> {
    let main = Some(rusqlite::MAIN_DB);
    let (logged, moved) = connection.wal_checkpoint_v2(main, CheckpointMode::NOOP)?;
    if logged - moved < limit {
        return Ok(false);
    }
    connection.wal_checkpoint_v2(main, CheckpointMode::PASSIVE)?;
    Ok(true)
}

/// Records the last acknowledged commit. An outdated mark only proves less, so no failure is reported.
fn write_mark(_: &WriterLock, files: &Files, live: &Live, seq: u64) {
    let mark = Mark { store: live.store.clone(), sequence: seq, stamp: Some(live.stamp()) };
    let _ = files.mark().store(&mark);
}
