//! Copies of the file, and going back to one. A backup is the file itself behind one line that says how
//! long it is and what its digest is: JSON without its last line break is JSON as well.

use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sexton_core::store::{Backup, Restored};
use sexton_core::{SessionId, StoreError, Time};
use sexton_durable::{create_private_dir, sync_all, sync_parent};
use sha2::{Digest, Sha256};

use crate::document::{Content, Document};
use crate::entry::{Entry, Meaning};
use crate::project::Project;
use crate::repair::{kept_of, set_aside};
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

/// Writes a copy into `directory`, reads it back, and gives it its name.
pub(crate) fn backup(store: &TfStore, directory: &Path, now: Time) -> Result<Backup, StoreError> {
    let snapshot = store.look()?;
    // A copy of what is left of a damaged file would pass for a good backup later.
    snapshot.require_sound()?;
    if matches!(snapshot.state, State::Absent) {
        return Err(store.io_error("cannot back up", io::ErrorKind::NotFound.into()));
    }
    let failed = |action, path: &Path| {
        let path = path.to_owned();
        move |source| StoreError::Io { action, path, source }
    };
    create_private_dir(directory).map_err(failed("cannot make", directory))?;
    // One backup at a time in one directory, so that a killed one leaves no more than a single part behind.
    let turn = File::open(directory).and_then(|directory| directory.lock().map(|()| directory));
    let _turn = turn.map_err(failed("cannot lock", directory))?;
    let name = store.path().file_name().unwrap_or_default().to_string_lossy();
    let part = directory.join(format!(".{name}.part"));
    let made = write_part(&part, snapshot.bytes()).map_err(failed("cannot write", &part)).and_then(|()| {
        let records = load(&part, &Project::around(store.path()))?.sessions().count() as u64;
        let path = publish(&part, directory, store.path(), now).map_err(failed("cannot write", directory))?;
        Ok(Backup { path, records })
    });
    // The backup has a name of its own by now; and half a backup is none.
    _ = fs::remove_file(&part);
    made
}

fn write_part(part: &Path, content: &[u8]) -> io::Result<()> {
    // Never into the part that is there: it may be the other name of a backup that was finished.
    _ = fs::remove_file(part);
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(part)?;
    let mut header = serde_json::to_vec(&Header::of(content))?;
    header.push(b'\n');
    file.write_all(&header)?;
    file.write_all(content)?;
    sync_all(&file)
}

/// Gives the finished copy the first name that is free: two backups may fall into one millisecond.
fn publish(part: &Path, directory: &Path, store: &Path, now: Time) -> io::Result<PathBuf> {
    let stem = store.file_stem().unwrap_or_default().to_string_lossy();
    let extension = store.extension().map(|extension| format!(".{}", extension.to_string_lossy()));
    let extension = extension.unwrap_or_default();
    let time = now.timestamp().strftime("%Y%m%dT%H%M%S%.3fZ").to_string();
    for attempt in 0.. {
        let again = if attempt == 0 { String::new() } else { format!("_{attempt}") };
        let path = directory.join(format!("{stem}-{time}{again}{extension}"));
        // A link fails where the name is taken; a rename would replace another backup.
        match fs::hard_link(part, &path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            linked => return linked.and_then(|()| sync_parent(&path)).map(|()| path),
        }
    }
    unreachable!("the loop above has no end")
}

/// Reads all of a backup, and refuses it where anything is wrong.
fn load(path: &Path, project: &Project) -> Result<Document, StoreError> {
    let bad = |why: &str| StoreError::BadBackup { path: path.to_owned(), why: why.to_owned() };
    let bytes = fs::read(path).map_err(|error| bad(&error.to_string()))?;
    let line = bytes.iter().position(|byte| *byte == b'\n').ok_or_else(|| bad("it has no first line"))?;
    let (header, content) = (&bytes[..line], &bytes[line + 1..]);
    let header: Header =
        serde_json::from_slice(header).map_err(|_| bad("its first line is not that of a backup"))?;
    let expected = Header::of(content);
    if header.sexton_backup != expected.sexton_backup || header.format > FORMAT {
        return Err(bad("it is of another kind"));
    }
    if header.bytes != expected.bytes || header.sha256 != expected.sha256 {
        return Err(bad("it is not what was written"));
    }
    match Document::read(content, project) {
        Content::Document(document) if document.findings().iter().all(|finding| finding.harmless) => {
            Ok(document)
        }
        _ => Err(bad("what it holds cannot be read")),
    }
}

/// Replaces the entries by those of the backup at `path`, except those of sessions that are not finished.
pub(crate) fn restore(store: &TfStore, path: &Path, now: Time) -> Result<Restored, StoreError> {
    let saved = load(path, &Project::around(store.path()))?;
    let writer = store.writer()?;
    let snapshot = writer.look(None)?;
    snapshot.require_known_version()?;
    let present = kept_of(&snapshot);
    let kept: Vec<&Entry> = present.entries.iter().filter(|entry| stays(entry, &saved)).collect();
    let ids: BTreeSet<&SessionId> =
        kept.iter().filter_map(|entry| entry.session()).map(|session| &session.id).collect();
    let comes = |entry: &&Entry| entry.session().is_none_or(|session| !ids.contains(&session.id));
    let coming: Vec<&Entry> = saved.entries.iter().filter(comes).collect();
    let restored = coming.iter().filter(|entry| entry.session().is_some()).count() as u64;
    let report = Restored { restored, kept: ids.len() as u64 };
    let entries = coming.into_iter().chain(kept).cloned().collect();
    if !matches!(snapshot.state, State::Absent) && !is_whole(&snapshot) {
        set_aside(store, now)?;
    }
    let around = if is_whole(&snapshot) { present.clone() } else { saved.clone() };
    _ = writer.replace(around.with_entries(entries))?;
    Ok(report)
}

/// Whether what stands there now stays: a session that is not finished, and what only the other tool
/// understands, unless the backup has that too.
fn stays(entry: &Entry, saved: &Document) -> bool {
    match &entry.meaning {
        Meaning::Session(session) => !session.status.is_finished(),
        Meaning::LeftAlone(_) => !saved.entries.iter().any(|one| one.text.get() == entry.text.get()),
        Meaning::Damaged(..) => false,
    }
}
