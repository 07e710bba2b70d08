//! Backups: every readable state file, byte for byte, in one file with a checksum over all of it.

use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sexton_core::store::{Backup, Restored};
use sexton_core::{SessionId, StoreError, Time};
use sexton_durable::{LARGE_FILE, create_private_dir, read_regular, replace_file};
use sha2::{Digest, Sha256};

use crate::NAME;
use crate::commit::{Known, interpret};
use crate::dir::{Content, io_error};
use crate::intent::Planned;
use crate::record;
use crate::repair::{compact, quarantine_damage};
use crate::store::OmxStore;
use crate::view::{View, Wanted};
use crate::write::Written;

/// The version of a backup.
const FORMAT: u32 = 1;
/// How often a restore retries because another program changed a file meanwhile.
const ATTEMPTS: usize = 100;

/// The content of a backup, after its checksum.
#[derive(Serialize, Deserialize)]
struct Saved {
    format: u32,
    records: BTreeMap<SessionId, String>,
}

/// Writes a copy of every loop into `directory`, reads it back, and returns its path.
pub(crate) fn backup(store: &OmxStore, directory: &Path, now: Time) -> Result<Backup, StoreError> {
    create_private_dir(directory).map_err(io_error("cannot create", directory))?;
    let view = View::load(store.path(), Wanted::All)?;
    let saved = Saved {
        format: FORMAT,
        records: texts(&view).into_iter().map(|(id, (text, _))| (id, text)).collect(),
    };
    let document =
        serde_json::to_string(&saved).map_err(|error| io_error("cannot write", directory)(error.into()))?;
    let text = format!("sexton {NAME} backup {}\n{document}\n", checksum(&document));
    let path = free_name(store.path(), directory, now);
    replace_file(&path, |file| file.write_all(text.as_bytes())).map_err(io_error("cannot write", &path))?;
    let records = load(&path)?.records.len() as u64;
    Ok(Backup { path, records })
}

/// Returns the readable loops, with the text of each.
fn texts(view: &View) -> BTreeMap<SessionId, (String, Known)> {
    let mut texts = BTreeMap::new();
    for (id, reading) in &view.records {
        if let (Content::Text(_), Some(text), Ok(Some(known))) =
            (&reading.content, reading.text(), interpret(id, reading))
        {
            texts.insert(id.clone(), (text, known));
        }
    }
    texts
}

fn checksum(document: &str) -> String {
    Sha256::digest(document.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Returns the first free name: two backups may be made in the same millisecond.
fn free_name(store: &Path, directory: &Path, now: Time) -> PathBuf {
    let stem = store.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let name = |again: String| directory.join(format!("{stem}-{}{again}.{NAME}", compact(now)));
    let mut path = name(String::new());
    for attempt in 1.. {
        if path.symlink_metadata().is_err() {
            break;
        }
        path = name(format!("_{attempt}"));
    }
    path
}

fn load(path: &Path) -> Result<Saved, StoreError> {
    let bad = |why: String| StoreError::BadBackup { path: path.to_owned(), why };
    let bytes = read_regular(path, LARGE_FILE).map_err(|error: io::Error| bad(error.to_string()))?;
    let text = String::from_utf8(bytes).map_err(|_| bad("it is not text".to_owned()))?;
    let opening = format!("sexton {NAME} backup ");
    let rest =
        text.strip_prefix(&opening).ok_or_else(|| bad(format!("it is not a backup of an {NAME} store")))?;
    let whole = rest.split_once('\n').and_then(|(sum, rest)| Some((sum, rest.strip_suffix('\n')?)));
    let (sum, document) = whole.ok_or_else(|| bad("it is incomplete".to_owned()))?;
    if sum != checksum(document) {
        return Err(bad("its checksum does not match".to_owned()));
    }
    let saved: Saved = serde_json::from_str(document).map_err(|error| bad(error.to_string()))?;
    if saved.format != FORMAT {
        return Err(bad(format!("it has format {}, and {FORMAT} is supported", saved.format)));
    }
    Ok(saved)
}

/// Replaces the loops with those of the backup at `path`. Unfinished loops are kept.
pub(crate) fn restore(store: &OmxStore, path: &Path, now: Time) -> Result<Restored, StoreError> {
    let saved = load(path)?.records;
    let claim = store.claim()?;
    let mut held = claim.enter()?;
    for _ in 0..ATTEMPTS {
        held.complete_intent()?;
        let all = View::load(store.path(), Wanted::All)?;
        quarantine_damage(&mut held, &all, now)?;
        let ids: BTreeSet<SessionId> = all.records.keys().chain(saved.keys()).cloned().collect();
        let view = View::load(store.path(), Wanted::These(&ids))?;
        let present = texts(&view);
        let is_kept =
            |id: &SessionId| present.get(id).is_some_and(|(_, known)| !known.session.status.is_finished());
        let kept = present.keys().filter(|id| is_kept(id)).count() as u64;
        let restored = saved.keys().filter(|id| !is_kept(id)).count() as u64;
        let changed = ids.into_iter().filter(|id| !is_kept(id)).map(|id| Planned {
            before: present.get(&id).map(|(text, _)| text.clone()),
            after: saved.get(&id).cloned(),
            session: id,
        });
        let changed: Vec<Planned> = changed.filter(|file| file.before != file.after).collect();
        if held.write(leaving_first(changed), &view)? == Written::Done {
            drop(held);
            store.refresh_damage()?;
            return Ok(Restored { restored, kept });
        }
    }
    let busy = io::Error::new(io::ErrorKind::TimedOut, "another program keeps changing it");
    Err(io_error("cannot write", store.path())(busy))
}

/// Puts sessions that give up a loop first, as in every batch.
fn leaving_first(mut files: Vec<Planned>) -> Vec<Planned> {
    files.sort_by_key(|file| file.after.as_deref().is_some_and(record::is_driving));
    files
}
