//! Journals of every released format are checked in and must stay readable.

use std::fs;
use std::path::{Path, PathBuf};

use pollster::block_on;
use sexton_core::store::Access;
use sexton_core::{SessionId, Status};

mod support;
use support::{TestEnv, all, ids, insert, open};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures").join(name)
}

#[test]
fn a_journal_of_format_1_can_be_read() {
    let store = open(&fixture("v1.jsonl"), Access::Read).unwrap();
    assert_eq!(store.damage(), []);
    assert_eq!(store.describe().uuid.as_deref(), Some("5f0c2b1e-8d44-4a3b-9c57-0d1e2f3a4b5c"));
    assert_eq!(ids(store.as_ref()), ["w7qk2m9x4t1b8z5c", "omx-1730000000000-x7", "abcd1234abcd1234"]);
    assert_eq!(block_on(store.counters()).unwrap()["sessions_started"], 14);
    let load = |id: &str| block_on(store.load(&id.parse::<SessionId>().unwrap())).unwrap().unwrap();
    let first = load("abcd1234abcd1234");
    assert_eq!((first.status, first.revision), (Status::Completed, 7));
    assert_eq!(first.extra["invented"]["by"], "a newer version");
    assert_eq!(first.command[1].as_os_str().as_encoded_bytes(), b"\xff\xfe");
    assert_eq!(load("omx-1730000000000-x7").ticket.as_deref(), Some("T-17"));
    assert_eq!(load("w7qk2m9x4t1b8z5c").revision, 12);
    let backup = fixture("v1.jsonl");
    assert_eq!(block_on(store.check()).unwrap().records, 3);
    assert!(!backup.with_extension("jsonl.lock").exists(), "reading creates no files");
}

#[test]
fn a_journal_of_format_1_can_be_written_and_restored() {
    let test_env = TestEnv::new();
    fs::copy(fixture("v1.jsonl"), test_env.path()).unwrap();
    insert(test_env.writer().as_ref(), "new");
    assert_eq!(all(test_env.reader().as_ref()).sessions.len(), 4);
    let other = TestEnv::new();
    let restored = block_on(other.writer().restore(&fixture("v1.jsonl"), support::moment(0))).unwrap();
    assert_eq!((restored.restored, restored.kept), (3, 0));
}
