//! The end of a journal: torn, in the middle of a write, or older than its mark.

#![allow(clippy::unwrap_used, reason = "test helpers may panic")]

use std::fs;

use pollster::block_on;
use sexton_core::{Batch, SessionId, Status, StoreError};
use sexton_durable::FileLock;

mod support;
use support::{TestEnv, all, append_line, ids, insert, moment, session};

/// Returns a journal of three records that ends with the first half of another commit.
fn torn() -> TestEnv {
    let test_env = three();
    let mut bytes = test_env.bytes();
    let last = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    let half = String::from_utf8(bytes[last..last + 200].to_vec()).unwrap();
    bytes.extend_from_slice(half.as_bytes());
    fs::write(test_env.path(), bytes).unwrap();
    test_env
}

fn three() -> TestEnv {
    let test_env = TestEnv::new();
    let store = test_env.writer();
    ["a", "b", "c"].iter().for_each(|id| insert(store.as_ref(), id));
    test_env
}

#[test]
fn a_torn_end_is_reported_as_harmless() {
    let test_env = torn();
    let before = test_env.bytes();
    let store = test_env.reader();
    let damage = store.damage();
    assert!(matches!(&damage[..], [only] if only.harmless && only.place == "line 5"), "{damage:?}");
    assert_eq!(ids(store.as_ref()), ["c", "b", "a"]);
    assert_eq!(test_env.bytes(), before);
}

#[test]
fn i6_the_next_writer_quarantines_a_torn_end() {
    let test_env = torn();
    let half = test_env.bytes()[three().bytes().len()..].to_vec();
    insert(test_env.writer().as_ref(), "d");
    let [kept] = &test_env.quarantined()[..] else { panic!("{:?}", test_env.quarantined()) };
    assert_eq!(fs::read(kept).unwrap(), half);
    let store = test_env.reader();
    assert_eq!(store.damage(), []);
    assert_eq!(ids(store.as_ref()), ["d", "c", "b", "a"]);
}

#[test]
fn a_repair_quarantines_a_torn_end() {
    let test_env = torn();
    let report = block_on(test_env.writer().repair(moment(0))).unwrap();
    assert_eq!((report.kept, report.quarantined.len()), (3, 1));
    assert!(report.quarantine.is_some_and(|path| path.exists()));
    assert_eq!(test_env.reader().damage(), []);
}

#[test]
fn an_unfinished_write_is_neither_shown_nor_reported_as_torn() {
    let test_env = three();
    let reader = test_env.reader();
    let writing = FileLock::acquire(&test_env.file("sessions.jsonl.lock")).unwrap();
    let whole = test_env.bytes();
    fs::write(test_env.path(), [&whole[..], b"{\"crc\":\"0000"].concat()).unwrap();
    for store in [&reader, &test_env.reader()] {
        assert_eq!(ids(store.as_ref()), ["c", "b", "a"]);
        assert_eq!(store.damage(), []);
    }
    // The writer exits: the same handle now reports a torn end, although no byte has changed since.
    drop(writing);
    assert!(matches!(&all(reader.as_ref()).damage[..], [only] if only.harmless));
}

#[test]
fn i6_an_older_copy_of_the_journal_is_damage_until_repaired() {
    let test_env = three();
    let older = test_env.bytes();
    insert(test_env.writer().as_ref(), "d");
    fs::write(test_env.path(), &older).unwrap();
    let store = test_env.writer();
    let message = store.damage()[0].to_string();
    assert!(message.contains("commit 4 was acknowledged and is missing"), "{message}");
    let refused = block_on(store.commit(Batch::new().insert(session("e", Status::Running))));
    assert!(matches!(refused, Err(StoreError::Damaged { .. })));
    assert_eq!(test_env.bytes(), older);
    block_on(store.repair(moment(0))).unwrap();
    insert(store.as_ref(), "e");
    assert_eq!(ids(test_env.reader().as_ref()), ["e", "c", "b", "a"]);
}

#[test]
fn i6_a_deleted_journal_is_not_created_again() {
    for empty in [false, true] {
        let test_env = three();
        let uuid = test_env.writer().describe().uuid;
        let backup = block_on(test_env.writer().backup(&test_env.file("backups"), moment(0))).unwrap();
        fs::remove_file(test_env.path()).unwrap();
        if empty {
            fs::write(test_env.path(), b"").unwrap();
        }
        let store = test_env.writer();
        assert!(matches!(&store.damage()[..], [only] if !only.harmless));
        let id: SessionId = "a".parse().unwrap();
        assert!(block_on(store.load(&id)).is_err(), "unknown is not absent");
        assert!(block_on(store.commit(Batch::new().count("x", 1))).is_err());
        assert_eq!(test_env.path().exists(), empty, "no file was created");
        block_on(store.restore(&backup.path, moment(1))).unwrap();
        assert_eq!(ids(test_env.reader().as_ref()), ["c", "b", "a"]);
        assert_eq!(test_env.reader().describe().uuid, uuid);
    }
}

#[test]
fn a_repair_creates_a_deleted_journal_again() {
    let test_env = three();
    fs::remove_file(test_env.path()).unwrap();
    let store = test_env.writer();
    let report = block_on(store.repair(moment(0))).unwrap();
    assert_eq!(report.kept, 0);
    assert!(report.quarantine.is_some_and(|path| path.exists()), "only the mark is left to keep");
    insert(store.as_ref(), "new");
    assert!(all(store.as_ref()).sessions[0].revision > 3, "a revision was used twice");
    assert_eq!(block_on(store.repair(moment(0))).unwrap().quarantine, None);
}

#[test]
fn i6_the_journal_of_another_store_is_not_written() {
    let (test_env, other) = (three(), three());
    fs::copy(other.path(), test_env.path()).unwrap();
    let store = test_env.writer();
    assert!(matches!(&store.damage()[..], [only] if only.place == "mark" && !only.harmless));
    assert_eq!(ids(store.as_ref()), ["c", "b", "a"]);
    assert!(block_on(store.commit(Batch::new().count("x", 1))).is_err());
    block_on(store.repair(moment(0))).unwrap();
    insert(store.as_ref(), "d");
    assert_eq!(test_env.reader().describe().uuid, other.reader().describe().uuid);
}

#[test]
fn i6_a_commit_without_mark_is_rewritten_by_the_next_writer() {
    let test_env = three();
    let mark = fs::read(test_env.mark()).unwrap();
    insert(test_env.writer().as_ref(), "d");
    fs::write(test_env.mark(), mark).unwrap();
    let inode =
        |test_env: &TestEnv| std::os::unix::fs::MetadataExt::ino(&fs::metadata(test_env.path()).unwrap());
    let before = inode(&test_env);
    insert(test_env.writer().as_ref(), "e");
    assert_ne!(inode(&test_env), before, "the journal was rewritten before it was appended to");
    assert_eq!(ids(test_env.reader().as_ref()), ["e", "d", "c", "b", "a"]);
}

#[test]
fn the_next_commit_writes_a_missing_mark() {
    let test_env = three();
    fs::remove_file(test_env.mark()).unwrap();
    assert_eq!(test_env.reader().damage(), []);
    insert(test_env.writer().as_ref(), "d");
    assert!(test_env.mark().exists());
    assert_eq!(ids(test_env.reader().as_ref()).len(), 4);
}

#[test]
fn i6_a_record_of_a_newer_schema_is_reported_and_left_unchanged() {
    let test_env = three();
    let newer = r#"{"schema":2,"id":"future","status":"hibernating","name":"mine","created_at":7}"#;
    append_line(&test_env, &format!("\"seq\":4,\"part\":[1,1],\"put\":{newer}}}"));
    let store = test_env.writer();
    assert!(matches!(&store.damage()[..], [only] if only.harmless && only.place == "session future"));
    assert_eq!(ids(store.as_ref()), ["c", "b", "a"]);
    let is_record = |error: StoreError| matches!(error, StoreError::Record { .. });
    assert!(block_on(store.load(&"future".parse().unwrap())).is_err_and(is_record));
    for batch in [
        Batch::new().insert(session("future", Status::Running)),
        Batch::new().replace(session("future", Status::Running)),
        Batch::new().remove(&session("future", Status::Running)),
    ] {
        assert!(block_on(store.commit(batch)).is_err_and(is_record));
    }
    let mut rival = session("rival", Status::Running);
    rival.name = Some("mine".to_owned());
    let taken = block_on(store.commit(Batch::new().insert(rival)));
    assert!(matches!(taken, Err(StoreError::NameTaken { by, .. }) if by.as_str() == "future"));
    insert(store.as_ref(), "d");
    let backup = block_on(store.backup(&test_env.file("backups"), moment(0))).unwrap();
    assert_eq!(backup.records, 5);
    block_on(store.restore(&backup.path, moment(1))).unwrap();
    assert_eq!(ids(store.as_ref()), ["d", "c", "b", "a"]);
    assert!(String::from_utf8(test_env.bytes()).unwrap().contains(newer), "its bytes are unchanged");
}
