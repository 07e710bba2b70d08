//! Backup and restore. A backup is the file itself after one line with its length and digest.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sexton_core::store::{Backup, Restored};
use sexton_core::{SessionId, StoreError, Time};
use sexton_durable::{LARGE_FILE, create_private_dir, read_regular, sync_all, sync_parent};
use sha2::{Digest, Sha256};

use crate::document::{Content, Document};
use crate::entry::{Entry, Meaning};
use crate::project::Project;
use crate::repair::{keep_original, without_damage};
use crate::snapshot::State;
use crate::store::{TfStore, is_whole};

/// The format of a backup.
const FORMAT: u64 = 1;

/// The first line of a backup.
#[derive(Serialize, Deserialize)]
struct Header {
    sexton_backup: String,
    format: u64,
    bytes: usize,
    sha256: String,
}

impl Header {
    fn of(content: &[u8]) -> Header {
        let sha256 = Sha256::digest(content).iter().map(|byte| format!("{byte:02x}")).collect();
        Header { sexton_backup: crate::NAME.to_owned(), format: FORMAT, bytes: content.len(), sha256 }
    }
}

/// Writes a copy into `directory`, reads it back to verify it, and publishes it under its final name.
pub(crate) fn backup(store: &TfStore, directory: &Path, now: Time) -> Result<Backup, StoreError> {
    let snapshot = store.take_snapshot()?;
    // A copy of a damaged file would later be taken for a good backup.
    snapshot.require_sound()?;
    if matches!(snapshot.state, State::Absent) {
        return Err(store.io_error("cannot back up", io::ErrorKind::NotFound.into()));
    }
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| StoreError::Io { action, path, source }
    };
    create_private_dir(directory).map_err(failed("cannot create", directory))?;
    // Only one backup at a time per directory, so that a killed backup leaves at most one partial file.
    let turn = File::open(directory).and_then(|directory| directory.lock().map(|()| directory));
    let _turn = turn.map_err(failed("cannot lock", directory))?;
    let name = store.path().file_name().unwrap_or_default().to_string_lossy();
    let part = directory.join(format!(".{name}.part"));
    let made = write_part(&part, snapshot.bytes()).map_err(failed("cannot write", &part)).and_then(|()| {
        let records = load(&part, &store.project())?.sessions().count() as u64;
        let path = publish(&part, directory, store.path(), now).map_err(failed("cannot write", directory))?;
        Ok(Backup { path, records })
    });
    // A finished backup has its own name by now, and an unfinished one is useless.
    _ = fs::remove_file(&part);
    made
}

fn write_part(part: &Path, content: &[u8]) -> io::Result<()> {
    // Never write into an existing partial file: it may be a hard link to a finished backup.
    _ = fs::remove_file(part);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(part)?;
    let mut header = serde_json::to_vec(&Header::of(content))?;
    header.push(b'\n');
    file.write_all(&header)?;
    file.write_all(content)?;
    sync_all(&file)
}

/// Links the finished copy to the first free name: two backups may be made in the same millisecond.
fn publish(part: &Path, directory: &Path, store: &Path, now: Time) -> io::Result<PathBuf> {
    let stem = store.file_stem().unwrap_or_default().to_string_lossy();
    let extension = store.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
    let extension = extension.unwrap_or_default();
    let time = now.timestamp().strftime("%Y%m%dT%H%M%S%.3fZ").to_string();
    for attempt in 0.. {
        let again = if attempt == 0 { String::new() } else { format!("_{attempt}") };
        let path = directory.join(format!("{stem}-{time}{again}{extension}"));
        // A link fails if the name exists; a rename would replace another backup.
        match fs::hard_link(part, &path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            linked => return linked.and_then(|()| sync_parent(&path)).map(|()| path),
        }
    }
    unreachable!("the loop above has no end")
}

/// Reads a whole backup and returns an error if anything is wrong with it.
fn load(path: &Path, project: &Project) -> Result<Document, StoreError> {
    let bad = |why: &str| StoreError::BadBackup { path: path.to_owned(), why: why.to_owned() };
    let bytes = read_regular(path, LARGE_FILE).map_err(|error| bad(&error.to_string()))?;
    let line = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(|| bad("it has no first line"))?;
    let (header, content) = (&bytes[..line], &bytes[line + 1..]);
    let header: Header =
        serde_json::from_slice(header).map_err(|_| bad("its first line is not a backup header"))?;
    let expected = Header::of(content);
    if header.sexton_backup != expected.sexton_backup || header.format > FORMAT {
        return Err(bad("it is a backup of another kind of store or of a newer format"));
    }
    if header.bytes != expected.bytes || header.sha256 != expected.sha256 {
        return Err(bad("its length or checksum does not match"));
    }
    match Document::read(content, project) {
        Content::Document(document) if document.findings().iter().all(|finding| finding.harmless) => {
            Ok(document)
        }
        _ => Err(bad("its content cannot be read")),
    }
}

/// Replaces the entries with those of the backup at `path`. Entries of unfinished sessions are kept.
pub(crate) fn restore(store: &TfStore, path: &Path, now: Time) -> Result<Restored, StoreError> {
    let saved = load(path, &store.project())?;
    let writer = store.writer()?;
    let snapshot = writer.take_snapshot(None)?;
    snapshot.require_known_version()?;
    let present = without_damage(&snapshot);
    let kept: Vec<&Entry> = present.entries.iter().filter(|entry| stays(entry, &saved)).collect();
    let ids: BTreeSet<&SessionId> =
        kept.iter().filter_map(|entry| entry.session()).map(|session| &session.id).collect();
    let comes = |entry: &&Entry| entry.session().is_none_or(|session| !ids.contains(&session.id));
    let coming: Vec<&Entry> = saved.entries.iter().filter(comes).collect();
    let restored = coming.iter().filter(|entry| entry.session().is_some()).count() as u64;
    let report = Restored { restored, kept: ids.len() as u64 };
    let entries = coming.into_iter().chain(kept).cloned().collect();
    if !matches!(snapshot.state, State::Absent) && !is_whole(&snapshot) {
        keep_original(store, now)?;
    }
    let around = if is_whole(&snapshot) { present.clone() } else { saved.clone() };
    _ = writer.replace(around.with_entries(entries))?;
    Ok(report)
}

/// Returns whether an existing entry is kept: an unfinished session, or an entry that only the other tool
/// understands, unless the backup contains it too.
fn stays(entry: &Entry, saved: &Document) -> bool {
    match &entry.meaning {
        Meaning::Session(session) => !session.status.is_finished(),
        Meaning::LeftAlone(_) => !saved.entries.iter().any(|one| one.text.get() == entry.text.get()),
        Meaning::Damaged(..) => false,
    }
}
