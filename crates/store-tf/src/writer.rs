//! Changing the file: under the other tool's lock, from the read to the rename.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sexton_core::store::Durability;
use sexton_core::{StoreError, Time};
use sexton_durable::{FileLock, remove_leftovers, replace_file, replace_file_unsynced};

use crate::document::Document;
use crate::snapshot::Snapshot;

/// The right to change the file.
pub(crate) struct Writer<'a> {
    path: &'a Path,
    durability: Durability,
    _lock: FileLock,
}

/// The lock that the other tool takes as well.
pub(crate) fn lock_file(path: &Path) -> PathBuf {
    path.with_extension("lock")
}

impl<'a> Writer<'a> {
    /// Takes the lock, however long somebody else has it.
    pub(crate) fn acquire(path: &'a Path, durability: Durability) -> Result<Writer<'a>, StoreError> {
        let lock = lock_file(path);
        let held = FileLock::acquire(&lock);
        let held = held.map_err(|source| StoreError::Io { action: "cannot lock", path: lock, source })?;
        Ok(Writer { path, durability, _lock: held })
    }

    /// The file as it is, and stays while the lock is held.
    pub(crate) fn look(&self, known: Option<&Snapshot>) -> Result<Snapshot, StoreError> {
        Snapshot::take(self.path, known)
    }

    /// Puts `document` in the place of the file, which keeps its owner and its permissions. Gives the file
    /// as it is then: whoever changes it again need not read what it wrote itself.
    pub(crate) fn replace(&self, document: Document) -> Result<Snapshot, StoreError> {
        let bytes = document.write(now());
        let before = fs::metadata(self.path).ok();
        let write = |file: &mut File| -> io::Result<()> {
            if let Some(before) = &before {
                // Where this user may not give it back, it is this user's: the directory allowed as much.
                _ = fchown(&*file, Some(before.uid()), Some(before.gid()));
                file.set_permissions(before.permissions())?;
            }
            file.write_all(&bytes)
        };
        let replaced = remove_leftovers(self.path).and_then(|()| match self.durability {
            Durability::Power => replace_file(self.path, write),
            Durability::Process => replace_file_unsynced(self.path, write),
        });
        replaced.map_err(|source| StoreError::Io {
            action: "cannot write",
            path: self.path.to_owned(),
            source,
        })?;
        Ok(Snapshot::of_written(self.path, bytes, document))
    }
}

/// The time that goes into `last_updated`.
fn now() -> Time {
    Time::since_1970(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO))
}
