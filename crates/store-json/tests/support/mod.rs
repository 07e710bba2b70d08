//! A journal in a temporary directory, and blocking helpers.

#![allow(dead_code, reason = "each test target uses only a part")]
#![allow(clippy::missing_panics_doc, clippy::unwrap_used, reason = "only tests use it")]

use std::fs;
use std::path::{Path, PathBuf};

use pollster::block_on;
use sexton_core::plugin::StoreOptions;
use sexton_core::store::{Access, Durability, Listing};
use sexton_core::{Batch, Host, Query, Session, Status, Store, StoreError, Time};
use tempfile::TempDir;

/// Returns a fixed time plus `second` seconds, so that records differ only where the test needs it.
pub fn moment(second: u64) -> Time {
    let start: Time = "2026-01-02T03:04:05Z".parse().unwrap();
    start.saturating_add(std::time::Duration::from_secs(second))
}

/// Returns a record.
pub fn session(id: &str, status: Status) -> Session {
    let host = Host::new("m", "h");
    Session { status, ..Session::new(id.parse().unwrap(), host, moment(0)) }
}

/// Opens the journal at `path`.
pub fn open(path: &Path, access: Access) -> Result<Box<dyn Store>, StoreError> {
    sexton_store_json::open(&StoreOptions::new(path.to_owned(), access, Durability::Process))
}

/// A directory with a journal.
pub struct TestEnv {
    directory: TempDir,
}

impl TestEnv {
    /// Creates a directory without a journal, in memory if possible: these tests need no disk.
    pub fn new() -> TestEnv {
        let memory = Path::new("/dev/shm");
        let directory = if memory.is_dir() { TempDir::new_in(memory) } else { TempDir::new() };
        TestEnv { directory: directory.unwrap() }
    }

    /// Returns the path of a file in the directory.
    pub fn file(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Returns the journal's path.
    pub fn path(&self) -> PathBuf {
        self.file("sessions.jsonl")
    }

    /// Returns the path of the mark.
    pub fn mark(&self) -> PathBuf {
        self.file("sessions.jsonl.mark")
    }

    /// Returns the journal's bytes.
    pub fn bytes(&self) -> Vec<u8> {
        fs::read(self.path()).unwrap()
    }

    /// Opens the journal for writing.
    pub fn writer(&self) -> Box<dyn Store> {
        open(&self.path(), Access::Write).unwrap()
    }

    /// Opens the journal for reading.
    pub fn reader(&self) -> Box<dyn Store> {
        open(&self.path(), Access::Read).unwrap()
    }

    /// Returns the files in the quarantine.
    pub fn quarantined(&self) -> Vec<PathBuf> {
        let Ok(entries) = fs::read_dir(self.file("sessions.jsonl.quarantine")) else { return Vec::new() };
        entries.map(|entry| entry.unwrap().path()).collect()
    }
}

/// Commits a new record.
pub fn insert(store: &dyn Store, id: &str) {
    block_on(store.commit(Batch::new().insert(session(id, Status::Completed)))).unwrap();
}

/// Returns every record and the damage.
pub fn all(store: &dyn Store) -> Listing {
    block_on(store.list(&Query::all())).unwrap()
}

/// Returns the ids of all records, newest first.
pub fn ids(store: &dyn Store) -> Vec<String> {
    all(store).sessions.iter().map(|session| session.id.to_string()).collect()
}

/// Appends a line with a matching checksum, as a newer version might have written it.
pub fn append_line(test_env: &TestEnv, content: &str) {
    let crc = crc32fast::hash(content.as_bytes());
    let mut bytes = test_env.bytes();
    bytes.extend_from_slice(format!("{{\"crc\":\"{crc:08x}\",{content}\n").as_bytes());
    fs::write(test_env.path(), bytes).unwrap();
}
