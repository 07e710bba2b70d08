//! The backups in a state directory: listing and rotation.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sexton_core::store::StoreInfo;

/// A backup on disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BackupFile {
    /// Its path.
    pub path: PathBuf,
    /// When it was created.
    pub made_at: SystemTime,
    /// Its size.
    pub bytes: u64,
}

/// Returns where the state directory at `state` keeps the backups of a store. Files of another tool have the
/// same name in every project, so each project gets its own directory: one must not rotate out the backups of
/// another.
pub fn backup_dir(state: &Path, store: &StoreInfo) -> PathBuf {
    let backups = state.join("backups");
    match &store.uuid {
        Some(uuid) if !store.capabilities.starts => backups.join(format!("{}-{uuid}", store.backend)),
        _ => backups,
    }
}

/// Returns the backups in `directory` of a store with this file name, newest first. A missing directory has
/// none.
pub fn list_backups(directory: &Path, store: &Path) -> io::Result<Vec<BackupFile>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut backups = Vec::new();
    for entry in entries {
        let path = entry?.path();
        if !is_backup_of(&path, store) {
            continue;
        }
        let metadata = match fs::metadata(&path) {
            // Another recovery has just deleted it.
            Err(error) if error.kind() == io::ErrorKind::NotFound => continue,
            other => other?,
        };
        backups.push(BackupFile { path, made_at: metadata.modified()?, bytes: metadata.len() });
    }
    // Names begin with the time, so they sort by age.
    backups.sort_by(|a, b| b.path.file_name().cmp(&a.path.file_name()));
    Ok(backups)
}

/// Deletes the oldest backups beyond `keep`. The newest is never deleted: it was just verified.
pub fn rotate_backups(directory: &Path, store: &Path, keep: usize) -> io::Result<Vec<PathBuf>> {
    let surplus = list_backups(directory, store)?.into_iter().skip(keep.max(1));
    let mut removed = Vec::new();
    for backup in surplus {
        match fs::remove_file(&backup.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => {}
            other => {
                other?;
                removed.push(backup.path);
            }
        }
    }
    Ok(removed)
}

/// Returns whether `path` is named like a backup of `store`: `<stem>-<time>.<extension>`.
fn is_backup_of(path: &Path, store: &Path) -> bool {
    let (Some(name), Some(stem)) = (path.file_name(), store.file_stem()) else {
        return false;
    };
    let (name, stem) = (name.to_string_lossy(), stem.to_string_lossy());
    let dated = name.strip_prefix(&*stem).and_then(|rest| rest.strip_prefix('-'));
    path.extension() == store.extension()
        && dated.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}
