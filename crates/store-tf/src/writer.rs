//! Writing of the file, with the other tool's lock held from the read to the rename.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use sexton_core::store::Durability;
use sexton_core::{StoreError, Time};
use sexton_durable::{FileLock, remove_leftovers, replace_file, replace_file_unsynced};

use crate::document::Document;
use crate::project::Place;
use crate::snapshot::Snapshot;

/// The writer lock.
pub(crate) struct Writer<'a> {
    place: &'a Place,
    durability: Durability,
    _lock: FileLock,
}

/// Returns the path of the lock that the other tool takes too.
pub(crate) fn lock_file(path: &Path) -> PathBuf {
    path.with_extension("lock")
}

impl<'a> Writer<'a> {
    /// Acquires the lock, without a time limit.
    pub(crate) fn acquire(place: &'a Place, durability: Durability) -> Result<Writer<'a>, StoreError> {
        let lock = lock_file(&place.path);
        let held = FileLock::acquire(&lock);
        let held = held.map_err(|source| StoreError::Io { action: "cannot lock", path: lock, source })?;
        Ok(Writer { place, durability, _lock: held })
    }

    /// Returns the file, which does not change while the lock is held.
    pub(crate) fn take_snapshot(&self, known: Option<&Snapshot>) -> Result<Snapshot, StoreError> {
        Snapshot::take(self.place, known)
    }

    /// Replaces the file with `document`, keeping its owner and permissions. Returns the new snapshot, so
    /// that the next change need not read the file again.
    pub(crate) fn replace(&self, document: Document) -> Result<Snapshot, StoreError> {
        let bytes = document.write(now());
        let path = &self.place.path;
        let before = fs::metadata(path).ok();
        let write = |file: &mut File| -> io::Result<()> {
            if let Some(before) = &before {
                // If this user may not change the owner, the file belongs to this user: the directory permits
                // that.
                _ = fchown(&*file, Some(before.uid()), Some(before.gid()));
                file.set_permissions(before.permissions())?;
            }
            file.write_all(&bytes)
        };
        let replaced = remove_leftovers(path).and_then(|()| match self.durability {
            Durability::Power => replace_file(path, write),
            Durability::Process => replace_file_unsynced(path, write),
        });
        replaced.map_err(|source| StoreError::Io { action: "cannot write", path: path.clone(), source })?;
        Ok(Snapshot::of_written(self.place, bytes, document))
    }
}

/// Returns the time for `last_updated`.
fn now() -> Time {
    Time::since_1970(SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or(Duration::ZERO))
}
