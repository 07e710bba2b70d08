//! Repair and restore. An intact store is changed by an ordinary transaction; a broken one is never written
//! but replaced by a new file.

use std::collections::BTreeMap;

use rusqlite::{Connection, TransactionBehavior};
use sexton_core::store::{RepairReport, Restored};
use sexton_core::{SessionId, StoreError, Time};

use crate::broken::Broken;
use crate::commit::require_writable_meta;
use crate::fault::Fault;
use crate::files::Files;
use crate::meta::{Meta, Tally};
use crate::read::load_rows;
use crate::rebuild::{self, Content};
use crate::rows::Row;
use crate::schema::OLDEST;
use crate::store::SqliteStore;
use crate::view::{View, examine_deeply};
use crate::write::{LOG_PAGES, write};
use sexton_durable::random_uuid;

/// Moves the damaged files to the quarantine and keeps the readable records. Does nothing to an intact store.
pub(crate) fn repair(store: &SqliteStore, now: Time) -> Result<RepairReport, StoreError> {
    let files = &store.files;
    let lock = files.lock_writers()?;
    store.set_view(View::prepare(&lock, files, store.purpose)?);
    let (view, findings) = examine_deeply(files, store.purpose)?;
    let View::Broken(broken) = store.set_view(view) else {
        return Ok(RepairReport { kept: findings.records, ..RepairReport::default() });
    };
    if broken.is_newer() {
        return Err(broken.refusal(files));
    }
    let rows: Vec<_> = broken.kept_rows().cloned().collect();
    let kept = rows.len() as u64;
    let quarantine = rebuild::replace(&lock, files, &content(&broken, rows), now)?;
    store.set_view(View::prepare(&lock, files, store.purpose)?);
    Ok(RepairReport { kept, quarantined: broken.damage.clone(), quarantine: Some(quarantine) })
}

/// Replaces all finished records with those of a backup.
pub(crate) fn restore(store: &SqliteStore, backup: &[Row], now: Time) -> Result<Restored, StoreError> {
    let files = &store.files;
    let lock = files.lock_writers()?;
    store.set_view(View::prepare(&lock, files, store.purpose)?);
    let (view, _) = examine_deeply(files, store.purpose)?;
    if let View::Broken(broken) = store.set_view(view) {
        if broken.is_newer() {
            return Err(broken.refusal(files));
        }
        let (rows, restored) = merge(broken.kept_rows(), backup, broken.seq + 1);
        rebuild::replace(&lock, files, &content(&broken, rows), now)?;
        store.set_view(View::prepare(&lock, files, store.purpose)?);
        return Ok(restored);
    }
    drop(lock);
    let restored = std::cell::Cell::new(Restored { restored: 0, kept: 0 });
    write(store, LOG_PAGES, |_, live, link| {
        let (meta, done) = restore_in_place(files, link, backup)?;
        live.require_progress(meta.seq)?;
        restored.set(done);
        Ok(meta)
    })?;
    Ok(restored.into_inner())
}

/// Restores in one commit.
fn restore_in_place(
    files: &Files,
    connection: &mut Connection,
    backup: &[Row],
) -> Result<(Meta, Restored), Fault> {
    let sql = |error| Fault::of("cannot write", &files.db, error);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sql)?;
    let mut meta = require_writable_meta(&transaction, files)?;
    meta.seq += 1;
    let (rows, restored) = merge(load_rows(&transaction, files)?.iter(), backup, meta.seq);
    transaction.execute("DELETE FROM sessions", []).map_err(sql)?;
    meta.tally = Tally::default();
    for row in &rows {
        row.insert(&transaction).map_err(sql)?;
        meta.tally.add(row.status());
    }
    meta.save(&transaction).map_err(sql)?;
    transaction.commit().map_err(sql)?;
    Ok((meta, restored))
}

/// Returns the rows after a restore: unfinished records stay, and all others come from the backup with a new
/// revision, so that they are not taken for the versions read before.
fn merge<'a>(present: impl Iterator<Item = &'a Row>, backup: &[Row], revision: u64) -> (Vec<Row>, Restored) {
    let unfinished = present.filter(|row| !row.is_finished()).map(|row| (row.id.clone(), row.clone()));
    let mut rows: BTreeMap<SessionId, Row> = unfinished.collect();
    let kept = rows.len() as u64;
    for row in backup {
        rows.entry(row.id.clone()).or_insert_with(|| row.with_revision(revision));
    }
    let restored = rows.len() as u64 - kept;
    (rows.into_values().collect(), Restored { restored, kept })
}

/// Returns the content that replaces a broken store: `rows`, and everything else that is readable. Its next
/// commit has a number that was never used. It keeps its format; if that is unknown, it gets one that every
/// release reads.
fn content(broken: &Broken, rows: Vec<Row>) -> Content {
    Content {
        format: broken.salvage.meta.as_ref().map_or(OLDEST, |meta| meta.format),
        store: broken.store.clone().unwrap_or_else(random_uuid),
        seq: broken.seq + 1,
        rows,
        counters: broken.salvage.counters.clone(),
    }
}
