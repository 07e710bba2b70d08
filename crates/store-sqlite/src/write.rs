//! Writing to a sound store: one writer at a time, acknowledged only when it is durable, and the log kept
//! short.

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

/// How many pages the log may hold that are not yet in the database. Each costs a process that opens the
/// store alone 4 µs, since it reads the whole log; moving them into the database costs three syncs. Between
/// those, for programs that commit once or twice, this is the cheapest.
pub(crate) const LOG_PAGES: i32 = 60;

/// The same for a commit that somebody waits for who is about to begin something. What it leaves, the
/// commit that says how that ended moves: nobody waits for that one.
const LOG_PAGES_OF_A_BEGINNING: i32 = 100;

/// How many pages the log may hold when `batch` comes.
pub(crate) fn log_limit(batch: &Batch) -> i32 {
    let begins = batch.changes.iter().any(|change| matches!(change, Change::Insert(_)));
    if begins { LOG_PAGES_OF_A_BEGINNING } else { LOG_PAGES }
}

/// Runs `change`, which writes one commit and gives the store as it is afterwards, on the sound store. A log
/// of `log_limit` pages is shortened before.
pub(crate) fn write(
    store: &SqliteStore,
    log_limit: i32,
    change: impl Fn(&WriterLock, &Live, &mut Link) -> Result<Meta, Fault>,
) -> Result<Committed, StoreError> {
    let files = &store.files;
    let lock = files.lock_writers()?;
    loop {
        let live = require_live(&lock, store)?;
        make_room(&lock, files, &live, log_limit);
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

/// The sound store, whose file is as a writer of ours left it, or was looked at anew.
fn require_live(lock: &WriterLock, store: &SqliteStore) -> Result<Arc<Live>, StoreError> {
    let files = &store.files;
    let live = match store.view()? {
        View::Live(live) => live,
        View::Broken(broken) => return Err(broken.refusal(files)),
        View::Absent => return settle(lock, store),
    };
    let present = files.find_stamp()?;
    if present == Some(live.stamp()) {
        return Ok(live);
    }
    let ours = load_mark(files)?.filter(|mark| mark.store == live.store && mark.stamp == present);
    match ours.and_then(|mark| mark.stamp) {
        // Another process moved its log into the database.
        Some(stamp) => {
            live.set_stamp(stamp);
            Ok(live)
        }
        None => settle(lock, store),
    }
}

fn settle(lock: &WriterLock, store: &SqliteStore) -> Result<Arc<Live>, StoreError> {
    match store.remember(View::settle(lock, &store.files, store.purpose)?) {
        View::Live(live) => Ok(live),
        View::Broken(broken) => Err(broken.refusal(&store.files)),
        View::Absent => unreachable!("settling makes a store where there is none"),
    }
}

/// Moves the log into the database where it has grown long. This comes before a commit and not after one:
/// it is the next commit that starts the log over, and if that were left to another process, that one
/// would find the whole log again and nothing to tell it that all of it has been moved.
///
/// No failure is reported: the commit has room enough without it, and the next one tries again.
fn make_room(_: &WriterLock, files: &Files, live: &Live, limit: i32) {
    let moved = live.with(files, |link| {
        shorten_log(link, limit).map_err(|error| Fault::of("cannot write", &files.db, error))
    });
    if matches!(moved, Ok(false)) {
        return;
    }
    let Ok(Some(stamp)) = files.find_stamp() else { return };
    live.set_stamp(stamp);
    // Whoever opens the store before the commit is done must not take the file for somebody else's work.
    if let Ok(Some(mark)) = load_mark(files) {
        let _ = files.mark().store(&Mark { stamp: Some(stamp), ..mark });
    }
}

/// Moves the log where it holds `limit` pages; says whether it did.
fn shorten_log(connection: &Connection, limit: i32) -> rusqlite::Result<bool> {
    let main = Some(rusqlite::MAIN_DB);
    let (logged, moved) = connection.wal_checkpoint_v2(main, CheckpointMode::NOOP)?;
    if logged - moved < limit {
        return Ok(false);
    }
    connection.wal_checkpoint_v2(main, CheckpointMode::PASSIVE)?;
    Ok(true)
}

/// Records how far acknowledged commits have come. A mark that lags only proves less, so no failure is
/// reported.
fn write_mark(_: &WriterLock, files: &Files, live: &Live, seq: u64) {
    let mark = Mark { store: live.store.clone(), sequence: seq, stamp: Some(live.stamp()) };
    let _ = files.mark().store(&mark);
}
