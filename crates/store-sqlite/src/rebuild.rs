//! Builds a new database file from given rows and replaces the present one: if killed at any time, either all
//! old files are there, or the new one is.

use std::collections::BTreeMap;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use sexton_core::{StoreError, Time};
use sexton_durable::{Mark, keep_aside, sync_all, sync_parent};

use crate::counters;
use crate::files::{Files, WriterLock, failed, find};
use crate::meta::Meta;
use crate::rows::Row;
use crate::schema;

/// The content of a new database.
pub(crate) struct Content {
    /// The store's identifier.
    pub(crate) store: String,
    /// Its format.
    pub(crate) format: i64,
    /// The number of the last commit.
    pub(crate) seq: u64,
    /// The records.
    pub(crate) rows: Vec<Row>,
    /// The counters.
    pub(crate) counters: BTreeMap<String, u64>,
}

/// Creates the database of a store that has none.
pub(crate) fn create(lock: &WriterLock, files: &Files, content: &Content) -> Result<(), StoreError> {
    let unfinished = files.unfinished();
    build(&unfinished, content)?;
    rename(&unfinished, &files.db)?;
    write_mark(lock, files, content);
    Ok(())
}

/// Replaces the present files with a new database. Keeps the old files in the quarantine, whose path it
/// returns.
pub(crate) fn replace(
    lock: &WriterLock,
    files: &Files,
    content: &Content,
    now: Time,
) -> Result<PathBuf, StoreError> {
    let unfinished = files.unfinished();
    build(&unfinished, content)?;
    let quarantine = files.quarantine();
    let label = now.timestamp().strftime("%Y%m%dT%H%M%SZ").to_string();
    for path in [&files.db, &files.wal()] {
        let kept = find(keep_aside(path, &quarantine, &label));
        kept.map_err(|source| failed("cannot quarantine", path, source))?;
    }
    rename(&unfinished, &files.successor())?;
    finish_replacement(lock, files)?;
    write_mark(lock, files, content);
    Ok(quarantine)
}

/// Completes an interrupted replacement, if there is one. The old log must be deleted before the new database
/// is in place, or SQLite would apply it there; its content is in the quarantine and in the successor.
pub(crate) fn finish_replacement(_: &WriterLock, files: &Files) -> Result<(), StoreError> {
    let successor = files.successor();
    if !files.has_successor()? {
        return Ok(());
    }
    for path in [files.wal(), files.shm()] {
        find(fs::remove_file(&path)).map_err(|source| failed("cannot remove", &path, source))?;
    }
    sync_parent(&files.db).map_err(|source| failed("cannot sync the directory of", &files.db, source))?;
    rename(&successor, &files.db)
}

/// Writes the database to a new file and syncs it. Leftovers of a killed writer are removed first.
fn build(path: &Path, content: &Content) -> Result<(), StoreError> {
    for suffix in ["", "-wal", "-shm", "-journal"] {
        let mut leftover = path.as_os_str().to_owned();
        leftover.push(suffix);
        find(fs::remove_file(&leftover))
            .map_err(|source| failed("cannot remove", Path::new(&leftover), source))?;
    }
    create_private(path).map_err(|source| failed("cannot create", path, source))?;
    fill(path, content).map_err(|error| StoreError::Backend {
        action: "cannot write",
        path: path.to_owned(),
        source: Box::new(error),
    })?;
    sync(path).map_err(|source| failed("cannot sync", path, source))
}

fn fill(path: &Path, content: &Content) -> rusqlite::Result<()> {
    let mut connection = Connection::open(path)?;
    // No other process uses this file, and it is discarded if it is not finished.
    connection.pragma_update(None, "journal_mode", "OFF")?;
    connection.pragma_update(None, "synchronous", "OFF")?;
    schema::create(&mut connection, content.format)?;
    let transaction = connection.transaction()?;
    let mut meta = Meta { seq: content.seq, ..Meta::new(content.store.clone(), content.format) };
    for row in &content.rows {
        row.insert(&transaction)?;
        meta.tally.add(row.status());
    }
    counters::save(&transaction, &content.counters)?;
    meta.save(&transaction)?;
    transaction.commit()?;
    connection.pragma_update(None, "journal_mode", "WAL")?;
    connection.close().map_err(|(_, error)| error)
}

/// Creates an empty file that only its owner can read. SQLite gives its log the same permissions.
pub(crate) fn create_private(path: &Path) -> io::Result<()> {
    OpenOptions::new().write(true).create_new(true).mode(0o600).open(path).map(drop)
}

/// Syncs a file's content.
pub(crate) fn sync(path: &Path) -> io::Result<()> {
    sync_all(&File::open(path)?)
}

fn rename(from: &Path, to: &Path) -> Result<(), StoreError> {
    let renamed = fs::rename(from, to).and_then(|()| sync_parent(to));
    renamed.map_err(|source| failed("cannot replace", to, source))
}

/// Writes the mark of a new database. If this fails, the store is still intact: an older mark only proves
/// less.
fn write_mark(_: &WriterLock, files: &Files, content: &Content) {
    let stamp = files.find_stamp().ok().flatten();
    let _ = files.mark().store(&Mark { store: content.store.clone(), sequence: content.seq, stamp });
}
