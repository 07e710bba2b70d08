//! Finds backups by path or name.

use std::path::{Path, PathBuf};

use sexton_core::Store;
use sexton_supervise::{BackupFile, list_backups};

use crate::failure::Failure;

/// Returns the backups in `directory` of the store at `store`, newest first.
pub fn find_backups(directory: &Path, store: &Path) -> Result<Vec<BackupFile>, Failure> {
    list_backups(directory, store)
        .map_err(|error| Failure::new(format!("cannot list the backups in {}: {error}", directory.display())))
}

/// Returns the path of the backup `text`: a path, or the name of a backup in `directory`.
pub fn require_backup(directory: &Path, store: &dyn Store, text: &str) -> Result<PathBuf, Failure> {
    let given = PathBuf::from(text);
    for candidate in [given.clone(), directory.join(&given)] {
        if candidate.is_file() {
            return std::path::absolute(&candidate)
                .map_err(|error| Failure::new(format!("{}: {error}", candidate.display())));
        }
    }
    let backups = find_backups(directory, &store.describe().path)?;
    let failure = Failure::new(format!("no backup named `{}`", text.escape_debug()));
    Err(match backups.first() {
        Some(newest) => failure.hint(format!("the newest backup is {}", newest.path.display())),
        None => failure.hint(format!("there are no backups in {}", directory.display())),
    })
}
