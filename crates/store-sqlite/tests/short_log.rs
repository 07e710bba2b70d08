//! The log stays short also where every process commits once and leaves: then nobody remembers, from one
//! commit to the next, how much of it has been moved into the database.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails, and says where")]

use std::fs;
use std::path::Path;

use pollster::block_on;
use sexton_core::plugin::StoreOptions;
use sexton_core::store::{Access, Durability};
use sexton_core::{Batch, Host, Session, SessionId, Status, Store};
use sexton_durable::FileStamp;
use tempfile::TempDir;

const SESSIONS: usize = 60;

/// What `run` and its supervisor do: each opens the store for one commit.
fn open(path: &Path) -> Box<dyn Store> {
    let options =
        StoreOptions { path: path.to_owned(), access: Access::Write, durability: Durability::Process };
    sexton_store_sqlite::open(&options).unwrap()
}

fn begin(path: &Path) -> SessionId {
    let host = Host::new("m", "h");
    let mut session = Session::new(SessionId::random(), host, "2026-11-16T03:15:00Z".parse().unwrap());
    session.status = Status::Running;
    let id = session.id.clone();
    block_on(open(path).commit(Batch::new().insert(session))).unwrap();
    id
}

fn end(path: &Path, id: &SessionId) {
    let store = open(path);
    let mut session = block_on(store.load(id)).unwrap().unwrap();
    session.status = Status::Completed;
    session.finished_at = Some(session.created_at);
    block_on(store.commit(Batch::new().replace(session))).unwrap();
}

#[test]
fn a_log_that_was_moved_is_not_moved_again_by_whoever_comes_next() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("sessions.db");
    let log = directory.path().join("sessions.db-wal");
    let mut longest = 0;
    let (mut moved_at_begin, mut moved_at_end) = (0, 0);
    drop(open(&path));
    let mut stamp = FileStamp::of(&path).unwrap();
    let mut has_moved = || {
        let before = std::mem::replace(&mut stamp, FileStamp::of(&path).unwrap());
        usize::from(before != stamp)
    };
    for _ in 0..SESSIONS {
        let id = begin(&path);
        moved_at_begin += has_moved();
        end(&path, &id);
        moved_at_end += has_moved();
        longest = longest.max(fs::metadata(&log).unwrap().len());
    }
    assert_eq!(moved_at_begin, 0, "a start waited for the log to be moved");
    assert!((2..=SESSIONS / 2).contains(&moved_at_end), "moved {moved_at_end} times in {SESSIONS} sessions");
    assert!(longest < 512 << 10, "the log grew to {longest} bytes");
    assert_eq!(open(&path).damage(), []);
}
