//! Writing to a sound store: one writer at a time, acknowledged only when it is durable, and the log kept
//! short.

use std::sync::Arc;

use rusqlite::Connection;
use rusqlite::wal::CheckpointMode;
use sexton_core::StoreError;
use sexton_core::store::Committed;
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
/// store alone 4 µs, since it reads the whole log; moving them into the database costs two syncs of a
/// millisecond or so. Between those, for programs that commit once or twice, this is the cheapest.
const LOG_PAGES: i32 = 100;

/// Runs `change`, which writes one commit and gives the store as it is afterwards, on the sound store.
pub(crate) fn write(
    store: &SqliteStore,
    change: impl Fn(&WriterLock, &Live, &mut Link) -> Result<Meta, Fault>,
) -> Result<Committed, StoreError> {
    let files = &store.files;
    let lock = files.lock_writers()?;
    loop {
        let live = require_live(&lock, store)?;
        match live.with(files, |link| change(&lock, &live, link)) {
            Ok(meta) => {
                acknowledge(&lock, files, &live, meta.seq);
                return Ok(Committed { revision: meta.seq });
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

/// What follows a durable commit. Nothing of it can make the commit undone, so no failure is reported: a
/// mark that lags only proves less, and the next commit tries again to shorten the log.
fn acknowledge(lock: &WriterLock, files: &Files, live: &Live, seq: u64) {
    write_mark(lock, files, live, seq);
    let moved = live
        .with(files, |link| shorten_log(link).map_err(|error| Fault::of("cannot write", &files.db, error)));
    if !matches!(moved, Ok(false))
        && let Ok(Some(stamp)) = files.find_stamp()
    {
        live.set_stamp(stamp);
        write_mark(lock, files, live, seq);
    }
}

/// Moves the log into the database where it has grown long; says whether it did.
fn shorten_log(connection: &Connection) -> rusqlite::Result<bool> {
    let main = Some(rusqlite::MAIN_DB);
    let (logged, moved) = connection.wal_checkpoint_v2(main, CheckpointMode::NOOP)?;
    if logged - moved < LOG_PAGES {
        return Ok(false);
    }
    connection.wal_checkpoint_v2(main, CheckpointMode::PASSIVE)?;
    Ok(true)
}

fn write_mark(_: &WriterLock, files: &Files, live: &Live, seq: u64) {
    let mark = Mark { store: live.store.clone(), sequence: seq, stamp: Some(live.stamp()) };
    let _ = files.mark().store(&mark);
}
