//! The log stays short even if every process makes one commit and exits, so that no process knows from one
//! commit to the next how much of the log was checkpointed.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::Path;

use pollster::block_on;
use sexton_core::plugin::StoreOptions;
use sexton_core::store::{Access, Durability};
use sexton_core::{Batch, Host, Session, SessionId, Status, Store};
use sexton_durable::FileStamp;
use tempfile::TempDir;

const SESSIONS: usize = 60;

/// Opens the store for one commit, as `run` and its supervisor do.
fn open(path: &Path) -> Box<dyn Store> {
    let options = StoreOptions::new(path.to_owned(), Access::Write, Durability::Process);
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
fn a_checkpointed_log_is_not_checkpointed_again_by_the_next_process() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("sessions.db");
    let log = directory.path().join("sessions.db-wal");
    let mut longest = 0;
    let (mut at_begin, mut at_end) = (0, 0);
    drop(open(&path));
    let mut stamp = FileStamp::of(&path).unwrap();
    let mut new_checkpoints = || {
        let before = std::mem::replace(&mut stamp, FileStamp::of(&path).unwrap());
        usize::from(before != stamp)
    };
    for _ in 0..SESSIONS {
        let id = begin(&path);
        at_begin += new_checkpoints();
        end(&path, &id);
        at_end += new_checkpoints();
        longest = longest.max(fs::metadata(&log).unwrap().len());
    }
    assert_eq!(at_begin, 0, "a start waited for a checkpoint");
    assert!((2..=SESSIONS / 2).contains(&at_end), "{at_end} checkpoints in {SESSIONS} sessions");
    assert!(longest < 512 << 10, "the log grew to {longest} bytes");
    assert_eq!(open(&path).damage(), []);
}
