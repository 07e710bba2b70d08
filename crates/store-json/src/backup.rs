//! Backup and restore of a journal. A backup is itself a journal.

use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use sexton_core::store::{Backup, Restored};
use sexton_core::{Session, SessionId, StoreError, Time};
use sexton_durable::{create_private_dir, sync_all, sync_parent};

use crate::health::Health;
use crate::journal::{Journal, io_error};
use crate::repair::{Reading, compact, keep_original, next_seq, require_known_format};
use crate::snapshot::Snapshot;
use crate::store::JsonStore;
use crate::writer::{Writer, require_writable};

/// Writes a copy of the store into `directory`, reads it back to verify it, and publishes it under its final
/// name.
pub(crate) fn backup(store: &JsonStore, directory: &Path, now: Time) -> Result<Backup, StoreError> {
    let snapshot = {
        let journal = store.refreshed()?;
        // A copy of a damaged journal would later be taken for a good backup.
        require_writable(&journal)?;
        if journal.contents().health == Health::Absent {
            return Err(io_error("cannot back up", store.path())(io::ErrorKind::NotFound.into()));
        }
        journal.snapshot()?
    };
    create_private_dir(directory).map_err(io_error("cannot create", directory))?;
    // Only one backup at a time per directory, so that a killed backup leaves at most one partial file.
    let turn = File::open(directory).and_then(|directory| directory.lock().map(|()| directory));
    let _turn = turn.map_err(io_error("cannot lock", directory))?;
    let part =
        directory.join(format!(".{}.part", store.path().file_name().unwrap_or_default().to_string_lossy()));
    let made = write_part(&part, &snapshot).and_then(|records| {
        let path = publish(&part, directory, store.path(), now)?;
        Ok(Backup { path, records })
    });
    // A finished backup has its own name by now, and an unfinished one is useless.
    let _ = fs::remove_file(&part);
    made
}

fn write_part(part: &Path, snapshot: &Snapshot) -> Result<u64, StoreError> {
    // Never write into an existing partial file: it may be a hard link to a finished backup.
    let _ = fs::remove_file(part);
    let written = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(part)
        .and_then(|mut file| file.write_all(&snapshot.encode()).and_then(|()| sync_all(&file)));
    written.map_err(io_error("cannot write", part))?;
    let records = with_backup(part, |reading, _| reading.count())?;
    if records == snapshot.records.len() as u64 {
        Ok(records)
    } else {
        Err(StoreError::BadBackup {
            path: part.to_owned(),
            why: "the copy does not contain the same records".to_owned(),
        })
    }
}

/// Links the finished copy to the first free name: two backups may be made in the same millisecond.
fn publish(part: &Path, directory: &Path, store: &Path, now: Time) -> Result<PathBuf, StoreError> {
    for attempt in 0.. {
        let path = directory.join(name(store, now, attempt));
        // A link fails if the name exists; a rename would replace another backup.
        match fs::hard_link(part, &path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            linked => {
                linked.and_then(|()| sync_parent(&path)).map_err(io_error("cannot write", &path))?;
                return Ok(path);
            }
        }
    }
    unreachable!("the loop above has no end")
}

fn name(store: &Path, now: Time, attempt: u64) -> String {
    let stem = store.file_stem().unwrap_or_default().to_string_lossy();
    let extension = store.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
    let again = if attempt == 0 { String::new() } else { format!("_{attempt}") };
    format!("{stem}-{}{again}{}", compact(now), extension.unwrap_or_default())
}

/// Reads a whole backup, returns an error if anything is wrong with it, and passes it to `take`.
fn with_backup<T>(path: &Path, take: impl FnOnce(&Reading, &Journal) -> T) -> Result<T, StoreError> {
    let bad = |why: String| StoreError::BadBackup { path: path.to_owned(), why };
    File::open(path).map_err(|error| bad(error.to_string()))?;
    let mut journal = Journal::new(path);
    journal.refresh(None).map_err(|error| bad(error.to_string()))?;
    let reading = Reading::of(&journal).map_err(|error| bad(error.to_string()))?;
    if let Some(fault) = reading.faults.first() {
        return Err(bad(fault.to_string()));
    }
    match journal.contents().health {
        Health::Whole => Ok(take(&reading, &journal)),
        _ => Err(bad("it is empty".to_owned())),
    }
}

/// The contents of a backup.
struct Saved {
    store: String,
    seq: u64,
    records: Vec<(SessionId, String)>,
    counters: BTreeMap<String, u64>,
}

fn load_backup(path: &Path) -> Result<Saved, StoreError> {
    with_backup(path, |reading, journal| {
        let image = &journal.contents().image;
        let records =
            reading.records.iter().map(|(id, _, document)| ((*id).clone(), document.clone())).collect();
        Saved {
            store: image.header.store.clone(),
            seq: image.seq,
            records,
            counters: image.index.counters().clone(),
        }
    })
}

/// Replaces the records with those of the backup at `path`. Records of unfinished sessions are kept.
pub(crate) fn restore(store: &JsonStore, path: &Path, now: Time) -> Result<Restored, StoreError> {
    let saved = load_backup(path)?;
    let writer = Writer::acquire(store)?;
    let journal = writer.reloaded()?;
    require_known_format(&journal)?;
    let seq = next_seq(&journal)?.max(saved.seq + 1);
    let reading = Reading::of(&journal)?;
    let damaged = !reading.faults.is_empty();
    let unfinished: Vec<_> =
        reading.records.into_iter().filter(|(_, entry, _)| !entry.summary.is_finished()).collect();
    let kept_ids: BTreeSet<_> = unfinished.iter().map(|(id, ..)| (*id).clone()).collect();
    let mut records: Vec<_> =
        unfinished.into_iter().map(|(_, entry, document)| (entry.seq, document)).collect();
    let from_backup = saved.records.into_iter().filter(|(id, _)| !kept_ids.contains(id));
    records.extend(from_backup.map(|(_, document)| (seq, with_revision(document, seq))));
    let report = Restored { restored: (records.len() - kept_ids.len()) as u64, kept: kept_ids.len() as u64 };
    let snapshot = Snapshot {
        store: journal.contents().uuid().map_or(saved.store, str::to_owned),
        format: journal.contents().image.header.format,
        seq,
        records,
        counters: larger(saved.counters, journal.contents().image.index.counters()),
    };
    if damaged {
        keep_original(&journal, now)?;
    }
    drop(journal);
    writer.replace(&snapshot).map(drop)?;
    Ok(report)
}

/// Returns the document with its new revision. A document that only a newer version understands is unchanged;
/// the revision in its line counts.
fn with_revision(document: String, revision: u64) -> String {
    match Session::from_json(&document) {
        Ok(session) => Session { revision, ..session }.to_json(),
        Err(_) => document,
    }
}

/// Counters record past events, so a restore never decreases them.
fn larger(mut counters: BTreeMap<String, u64>, present: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    for (name, value) in present {
        let counter = counters.entry(name.clone()).or_default();
        *counter = (*counter).max(*value);
    }
    counters
}
