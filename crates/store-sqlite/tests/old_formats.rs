//! Stores of every format that was ever released are checked in, and must load for ever.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails, and says where")]

use std::fs;
use std::path::{Path, PathBuf};

use pollster::block_on;
use sexton_core::plugin::StoreOptions;
use sexton_core::store::{Access, Durability};
use sexton_core::{Batch, Query, Session, Store};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

fn open(path: &Path, access: Access) -> Box<dyn Store> {
    let options = StoreOptions { path: path.to_owned(), access, durability: Durability::Process };
    sexton_store_sqlite::open(&options).unwrap()
}

/// The records of the fixture, as they were when it was made.
fn recorded(name: &str) -> Vec<Session> {
    let text = fs::read_to_string(fixture(name)).unwrap();
    text.lines().map(|line| Session::from_json(line).unwrap()).collect()
}

#[test]
fn i6_format_1_loads_with_everything_in_it() {
    let before = fs::read(fixture("v1.db")).unwrap();
    let store = open(&fixture("v1.db"), Access::Read);
    assert_eq!(store.damage(), []);
    assert_eq!(store.describe().uuid.as_deref(), Some("c6d430cc-d405-42c8-8dfa-be3f494c7d53"));
    assert_eq!(block_on(store.list(&Query::all())).unwrap().sessions, recorded("v1.jsonl"));
    let counters = block_on(store.counters()).unwrap();
    assert_eq!(counters, [("recoveries".to_owned(), 3), ("started".to_owned(), 12)].into());
    assert!(fs::read(fixture("v1.db")).unwrap() == before, "reading changed the fixture");
    assert!(!fixture("v1.db-wal").exists(), "reading left something beside the fixture");
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
