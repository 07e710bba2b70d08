//! A journal in a directory of its own, and calls that are made on the spot.

#![allow(dead_code, reason = "every test target uses a part of it")]
#![allow(clippy::missing_panics_doc, clippy::unwrap_used, reason = "only tests come here")]

use std::fs;
use std::path::{Path, PathBuf};

use pollster::block_on;
use sexton_core::plugin::StoreOptions;
use sexton_core::store::{Access, Durability, Listing};
use sexton_core::{Batch, Host, Query, Session, Status, Store, StoreError, Time};
use tempfile::TempDir;

/// A moment; the records of a test differ by nothing but what it is about.
pub fn moment(second: u64) -> Time {
    let start: Time = "2026-01-02T03:04:05Z".parse().unwrap();
    start.saturating_add(std::time::Duration::from_secs(second))
}

/// A record.
pub fn session(id: &str, status: Status) -> Session {
    let host = Host::new("m", "h");
    Session { status, ..Session::new(id.parse().unwrap(), host, moment(0)) }
}

/// Opens the journal at `path`.
pub fn open(path: &Path, access: Access) -> Result<Box<dyn Store>, StoreError> {
    sexton_store_json::open(&StoreOptions { path: path.to_owned(), access, durability: Durability::Process })
}

/// A directory with a journal.
pub struct Yard {
    directory: TempDir,
}

impl Yard {
    /// A new directory without a journal. In memory where there is such a place: these tests are about
    /// bytes, and wait for no disk.
    pub fn new() -> Yard {
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        Yard { directory: directory.unwrap() }
    }

    /// A file of the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The journal.
    pub fn path(&self) -> PathBuf {
        self.file("sessions.jsonl")
    }

    /// Its mark.
    pub fn mark(&self) -> PathBuf {
        self.file("sessions.jsonl.mark")
    }

    /// The journal's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).unwrap()
    }

    /// The journal for writing.
    pub fn writer(&self) -> Box<dyn Store> {
        open(&self.path(), Access::Write).unwrap()
    }

    /// The journal for reading.
    pub fn reader(&self) -> Box<dyn Store> {
        open(&self.path(), Access::Read).unwrap()
    }

    /// What was set aside.
    pub fn quarantined(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.file("sessions.jsonl.quarantine")) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

/// Commits a new record.
pub fn insert(store: &dyn Store, id: &str) {
    block_on(store.commit(Batch::new().insert(session(id, Status::Completed)))).unwrap();
}

/// Every record, and the damage.
pub fn all(store: &dyn Store) -> Listing {
    block_on(store.list(&Query::all())).unwrap()
}

/// The ids of every record, newest first.
pub fn ids(store: &dyn Store) -> Vec<String> {
    all(store).sessions.iter().map(|session| session.id.to_string()).collect()
}

/// Appends a line with the checksum that its content needs, as a newer version might have written it.
pub fn append_line(yard: &Yard, content: &str) {
    let crc = crc32fast::hash(content.as_bytes());
    let mut bytes = yard.bytes();
    bytes.extend_from_slice(format!("{{\"crc\":\"{crc:08x}\",{content}\n").as_bytes());
    fs::write(yard.path(), bytes).unwrap();
}
