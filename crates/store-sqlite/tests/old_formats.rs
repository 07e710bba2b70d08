//! Stores of every released format are checked in and must stay readable. A record that a newer version wrote
//! into a store is left unchanged.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use pollster::block_on;
use sexton_core::plugin::StoreOptions;
use sexton_core::store::{Access, Durability};
use sexton_core::{Batch, Query, Session, Store, StoreError};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn open(path: &Path, access: Access) -> Box<dyn Store> {
    let options = StoreOptions::new(path.to_owned(), access, Durability::Process);
    sexton_store_sqlite::open(&options).unwrap()
}

/// Returns the records of the fixture, as they were when it was created.
fn recorded(name: &str) -> Vec<Session> {
    let text = fs::read_to_string(fixture(name)).unwrap();
    text.lines().map(|line| Session::from_json(line).unwrap()).collect()
}

#[test]
fn i6_format_1_can_be_read_completely() {
    let before = fs::read(fixture("v1.db")).unwrap();
    let store = open(&fixture("v1.db"), Access::Read);
    assert_eq!(store.damage(), []);
    assert_eq!(store.describe().uuid.as_deref(), Some("c6d430cc-d405-42c8-8dfa-be3f494c7d53"));
    assert_eq!(block_on(store.list(&Query::all())).unwrap().sessions, recorded("v1.jsonl"));
    let counters = block_on(store.counters()).unwrap();
    assert_eq!(counters, [("recoveries".to_owned(), 3), ("started".to_owned(), 12)].into());
    assert!(fs::read(fixture("v1.db")).unwrap() == before, "reading changed the fixture");
    assert!(!fixture("v1.db-wal").exists(), "reading created a file beside the fixture");
}

#[test]
fn format_1_can_be_written() {
    let directory = tempfile::TempDir::new().unwrap();
    let path = directory.path().join("v1.db");
    fs::copy(fixture("v1.db"), &path).unwrap();
    let store = open(&path, Access::Write);
    let newest = recorded("v1.jsonl").remove(0);
    block_on(store.commit(Batch::new().remove(&newest))).unwrap();
    assert_eq!(block_on(store.list(&Query::all())).unwrap().sessions, recorded("v1.jsonl")[1..]);
}

#[test]
fn i6_a_record_of_a_newer_schema_is_reported_and_left_unchanged() {
    let directory = tempfile::TempDir::new().unwrap();
    let store = open(&directory.path().join("sessions.db"), Access::Write);
    let mut sessions = recorded("v1.jsonl").into_iter();
    let newer = Session { schema: 2, ..sessions.next().unwrap() };
    let plain = sessions.next().unwrap();
    let committed = block_on(store.commit(Batch::new().insert(newer.clone()).insert(plain.clone()))).unwrap();

    let listing = block_on(store.list(&Query::all())).unwrap();
    assert_eq!(listing.sessions, [Session { revision: committed.revision_of(&plain.id), ..plain.clone() }]);
    let [damage] = listing.damage.as_slice() else { panic!("{:?}", listing.damage) };
    assert!(damage.harmless && damage.place == format!("session {}", newer.id), "{damage:?}");
    assert!(matches!(block_on(store.load(&newer.id)), Err(StoreError::Record { .. })));

    let current = Session { revision: committed.revision_of(&newer.id), ..newer };
    for batch in [Batch::new().replace(current.clone()), Batch::new().remove(&current)] {
        let refused = block_on(store.commit(batch));
        assert!(matches!(refused, Err(StoreError::Record { .. })), "{refused:?}");
    }
    let plain = Session { revision: committed.revision_of(&plain.id), ticket: None, ..plain };
    block_on(store.commit(Batch::new().replace(plain))).unwrap();
    let report = block_on(store.check()).unwrap();
    assert_eq!((report.records, report.damage.len()), (1, 1));
    let now = "2026-11-16T03:15:00Z".parse().unwrap();
    assert_eq!(block_on(store.repair(now)).unwrap().quarantine, None);
    let backup = block_on(store.backup(directory.path(), now)).unwrap();
    block_on(store.restore(&backup.path, now)).unwrap();
    assert!(matches!(block_on(store.load(&current.id)), Err(StoreError::Record { .. })), "a restore lost it");
}
