//! Safe reading of the database's bytes beside SQLite.
//!
//! SQLite holds POSIX locks, and a process loses all its locks on a file when it closes any descriptor of
//! that file. So a descriptor of a database that a connection of this process has open is kept until the last
//! such connection is closed.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;
use std::sync::{Mutex, MutexGuard, PoisonError};

use sexton_durable::{LARGE_FILE, open_regular, read_regular};

/// A file, by device and inode.
type Key = (u64, u64);

#[derive(Default)]
struct Entry {
    connections: usize,
    held: Option<File>,
}

static OPEN: Mutex<BTreeMap<Key, Entry>> = Mutex::new(BTreeMap::new());

fn open_files() -> MutexGuard<'static, BTreeMap<Key, Entry>> {
    OPEN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Registers that a connection of this process has a file open, until it is dropped. It must outlive the
/// connection.
pub(crate) struct Presence(Key);

impl Presence {
    /// Registers a connection to the file at `path`, before it is opened.
    pub(crate) fn register(path: &Path) -> io::Result<Presence> {
        let mut open = open_files();
        let key = key_of(&fs::metadata(path)?);
        open.entry(key).or_default().connections += 1;
        Ok(Presence(key))
    }
}

impl Drop for Presence {
    fn drop(&mut self) {
        let mut open = open_files();
        if let Some(entry) = open.get_mut(&self.0) {
            entry.connections -= 1;
            if entry.connections == 0 {
                open.remove(&self.0);
            }
        }
    }
}

/// Returns the bytes of the database file at `path`.
pub(crate) fn read_database(path: &Path) -> io::Result<Vec<u8>> {
    let mut open = open_files();
    let key = key_of(&fs::metadata(path)?);
    let Some(entry) = open.get_mut(&key).filter(|entry| entry.connections > 0) else {
        return read_regular(path, LARGE_FILE);
    };
    if entry.held.is_none() {
        entry.held = Some(open_regular(path)?);
    }
    let file = entry.held.as_ref().expect("set above");
    let size = usize::try_from(file.metadata()?.len()).map_err(io::Error::other)?;
    let mut bytes = vec![0; size];
    let mut read = 0;
    while read < size {
        match file.read_at(&mut bytes[read..], read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    bytes.truncate(read);
    Ok(bytes)
}

fn key_of(metadata: &fs::Metadata) -> Key {
    (metadata.dev(), metadata.ino())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_is_kept_until_the_last_connection_is_closed() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        fs::write(&path, "content").unwrap();
        let key = key_of(&fs::metadata(&path).unwrap());
        let holds = || open_files().get(&key).is_some_and(|entry| entry.held.is_some());

        assert_eq!(read_database(&path).unwrap(), b"content");
        assert!(!holds());
        let presence = Presence::register(&path).unwrap();
        assert_eq!(read_database(&path).unwrap(), b"content");
        assert!(holds());
        drop(presence);
        assert!(!holds());
    }
}
