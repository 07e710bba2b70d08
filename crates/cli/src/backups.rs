//! The backups of a state directory: which there are, and how many are kept.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use sexton_core::Store;

use crate::failure::Failure;

/// A backup on disk.
pub struct BackupFile {
    /// Where it is.
    pub path: PathBuf,
    /// When it was made.
    pub made_at: SystemTime,
    /// How large it is.
    pub bytes: u64,
}

/// The backups in `directory` of a store with this file name, newest first. A directory that does not
/// exist holds none.
pub fn list_backups(directory: &Path, store: &Path) -> Result<Vec<BackupFile>, Failure> {
    let unreadable = |error: io::Error| {
        Failure::new(format!("cannot list the backups in {}: {error}", directory.display()))
    };
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(unreadable)?,
    };
    let mut backups = Vec::new();
    for entry in entries {
        let path = entry.map_err(unreadable)?.path();
        if !is_backup_of(&path, store) {
            continue;
        }
        let metadata = fs::metadata(&path).map_err(unreadable)?;
        let made_at = metadata.modified().map_err(unreadable)?;
        backups.push(BackupFile { path, made_at, bytes: metadata.len() });
    }
    // Names begin with the time, so they sort as the backups were made.
    backups.sort_by(|a, b| b.path.file_name().cmp(&a.path.file_name()));
    Ok(backups)
}

/// Removes the oldest backups beyond `keep`. The newest is never removed: it was checked a moment ago.
pub fn rotate_backups(directory: &Path, store: &Path, keep: usize) -> Result<Vec<PathBuf>, Failure> {
    let surplus = list_backups(directory, store)?.into_iter().skip(keep.max(1));
    let mut removed = Vec::new();
    for backup in surplus {
        fs::remove_file(&backup.path).map_err(|error| {
            Failure::new(format!("cannot remove the old backup {}: {error}", backup.path.display()))
        })?;
        removed.push(backup.path);
    }
    Ok(removed)
}

/// The backup that `text` means: a path, or the name of one in `directory`.
pub fn require_backup(directory: &Path, store: &dyn Store, text: &str) -> Result<PathBuf, Failure> {
    let given = PathBuf::from(text);
    for candidate in [given.clone(), directory.join(&given)] {
        if candidate.is_file() {
            return std::path::absolute(&candidate)
                .map_err(|error| Failure::new(format!("{}: {error}", candidate.display())));
        }
    }
    let backups = list_backups(directory, &store.describe().path)?;
    let failure = Failure::new(format!("there is no backup `{}`", text.escape_debug()));
    Err(match backups.first() {
        Some(newest) => failure.hint(format!("the newest is {}", newest.path.display())),
        None => failure.hint(format!("there are none in {}", directory.display())),
    })
}

/// Backups are called `<stem>-<time>.<extension>`.
fn is_backup_of(path: &Path, store: &Path) -> bool {
    let (Some(name), Some(stem)) = (path.file_name(), store.file_stem()) else {
        return false;
    };
    let (name, stem) = (name.to_string_lossy(), stem.to_string_lossy());
    let dated = name.strip_prefix(&*stem).and_then(|rest| rest.strip_prefix('-'));
    path.extension() == store.extension()
        && dated.is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}
