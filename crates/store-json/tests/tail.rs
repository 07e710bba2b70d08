//! How a journal ends: torn, in the middle of somebody's write, or earlier than its mark remembers.

#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::fs;

use pollster::block_on;
use sexton_core::{Batch, SessionId, Status, StoreError};
use sexton_durable::FileLock;

mod support;
use support::{Yard, all, append_line, ids, insert, moment, session};

/// A journal of three records that ends in the first half of another commit.
fn torn() -> Yard {
    let yard = three();
    let mut bytes = yard.bytes();
    let last = bytes[..bytes.len() - 1].iter().rposition(|byte| *byte == b'\n').unwrap() + 1;
    let half = String::from_utf8(bytes[last..last + 200].to_vec()).unwrap();
    bytes.extend_from_slice(half.as_bytes());
    fs::write(yard.path(), bytes).unwrap();
    yard
}

fn three() -> Yard {
    let yard = Yard::new();
    let store = yard.writer();
    ["a", "b", "c"].iter().for_each(|id| insert(store.as_ref(), id));
    yard
}

#[test]
fn a_torn_end_is_mentioned_and_harmless() {
    let yard = torn();
    let before = yard.bytes();
    let store = yard.reader();
    let damage = store.damage();
    assert!(matches!(&damage[..], [only] if only.harmless && only.place == "line 5"), "{damage:?}");
    assert_eq!(ids(store.as_ref()), ["c", "b", "a"]);
    assert_eq!(yard.bytes(), before);
}

#[test]
fn i6_the_next_writer_sets_a_torn_end_aside_and_goes_on() {
    let yard = torn();
    let half = yard.bytes()[three().bytes().len()..].to_vec();
    insert(yard.writer().as_ref(), "d");
    let [kept] = &yard.quarantined()[..] else { panic!("{:?}", yard.quarantined()) };
    assert_eq!(fs::read(kept).unwrap(), half);
    let store = yard.reader();
    assert_eq!(store.damage(), []);
    assert_eq!(ids(store.as_ref()), ["d", "c", "b", "a"]);
}

#[test]
fn a_repair_sets_a_torn_end_aside_too() {
    let yard = torn();
    let report = block_on(yard.writer().repair(moment(0))).unwrap();
    assert_eq!((report.kept, report.quarantined.len()), (3, 1));
    assert!(report.quarantine.is_some_and(|path| path.exists()));
    assert_eq!(yard.reader().damage(), []);
}

#[test]
fn what_a_writer_has_not_finished_yet_is_neither_shown_nor_called_torn() {
    let yard = three();
    let reader = yard.reader();
    let writing = FileLock::acquire(&yard.file("sessions.jsonl.lock")).unwrap();
    let whole = yard.bytes();
    fs::write(yard.path(), [&whole[..], b"{\"crc\":\"0000"].concat()).unwrap();
    for store in [&reader, &yard.reader()] {
        assert_eq!(ids(store.as_ref()), ["c", "b", "a"]);
        assert_eq!(store.damage(), []);
    }
    // The writer dies: the same handle now says so, though not one byte has changed since.
    drop(writing);
    assert!(matches!(&all(reader.as_ref()).damage[..], [only] if only.harmless));
}

#[test]
fn i6_an_older_copy_in_the_journals_place_is_damage_until_it_is_accepted() {
    let yard = three();
    let older = yard.bytes();
    insert(yard.writer().as_ref(), "d");
    fs::write(yard.path(), &older).unwrap();
    let store = yard.writer();
    let message = store.damage()[0].to_string();
    assert!(message.contains("commit 4 was acknowledged and is missing"), "{message}");
    let refused = block_on(store.commit(Batch::new().insert(session("e", Status::Running))));
    assert!(matches!(refused, Err(StoreError::Damaged { .. })));
    assert_eq!(yard.bytes(), older);
    block_on(store.repair(moment(0))).unwrap();
    insert(store.as_ref(), "e");
    assert_eq!(ids(yard.reader().as_ref()), ["e", "c", "b", "a"]);
}

#[test]
fn i6_a_journal_that_is_gone_is_no_fresh_start() {
    for empty in [false, true] {
        let yard = three();
        let uuid = yard.writer().describe().uuid;
        let backup = block_on(yard.writer().backup(&yard.file("backups"), moment(0))).unwrap();
        fs::remove_file(yard.path()).unwrap();
        if empty {
            fs::write(yard.path(), b"").unwrap();
        }
        let store = yard.writer();
        assert!(matches!(&store.damage()[..], [only] if !only.harmless));
        let id: SessionId = "a".parse().unwrap();
        assert!(block_on(store.load(&id)).is_err(), "unknown is not absent");
        assert!(block_on(store.commit(Batch::new().count("x", 1))).is_err());
        assert_eq!(yard.path().exists(), empty, "nothing was made");
        block_on(store.restore(&backup.path, moment(1))).unwrap();
        assert_eq!(ids(yard.reader().as_ref()), ["c", "b", "a"]);
        assert_eq!(yard.reader().describe().uuid, uuid);
    }
}

#[test]
fn a_journal_that_is_gone_can_be_begun_again_by_a_repair() {
    let yard = three();
    fs::remove_file(yard.path()).unwrap();
    let store = yard.writer();
    let report = block_on(store.repair(moment(0))).unwrap();
    assert_eq!(report.kept, 0);
    assert!(report.quarantine.is_some_and(|path| path.exists()), "the mark is what is left to keep");
    insert(store.as_ref(), "new");
    assert!(all(store.as_ref()).sessions[0].revision > 3, "a revision was given twice");
    assert_eq!(block_on(store.repair(moment(0))).unwrap().quarantine, None);
}

#[test]
fn i6_another_stores_journal_is_not_written_to_by_mistake() {
    let (yard, other) = (three(), three());
    fs::copy(other.path(), yard.path()).unwrap();
    let store = yard.writer();
    assert!(matches!(&store.damage()[..], [only] if only.place == "mark" && !only.harmless));
    assert_eq!(ids(store.as_ref()), ["c", "b", "a"]);
    assert!(block_on(store.commit(Batch::new().count("x", 1))).is_err());
    block_on(store.repair(moment(0))).unwrap();
    insert(store.as_ref(), "d");
    assert_eq!(yard.reader().describe().uuid, other.reader().describe().uuid);
}

#[test]
fn i6_a_commit_whose_writer_died_before_its_mark_is_made_sure_of() {
    let yard = three();
    let mark = fs::read(yard.mark()).unwrap();
    insert(yard.writer().as_ref(), "d");
    fs::write(yard.mark(), mark).unwrap();
    let inode = |yard: &Yard| std::os::unix::fs::MetadataExt::ino(&fs::metadata(yard.path()).unwrap());
    let before = inode(&yard);
    insert(yard.writer().as_ref(), "e");
    assert_ne!(inode(&yard), before, "the journal was written anew before it was appended to");
    assert_eq!(ids(yard.reader().as_ref()), ["e", "d", "c", "b", "a"]);
}

#[test]
fn a_missing_mark_is_written_again_by_the_next_commit() {
    let yard = three();
    fs::remove_file(yard.mark()).unwrap();
    assert_eq!(yard.reader().damage(), []);
    insert(yard.writer().as_ref(), "d");
    assert!(yard.mark().exists());
    assert_eq!(ids(yard.reader().as_ref()).len(), 4);
}

#[test]
fn i6_a_record_of_a_newer_schema_is_named_left_alone_and_no_obstacle() {
    let yard = three();
    let newer = r#"{"schema":2,"id":"future","status":"hibernating","name":"mine","created_at":7}"#;
    append_line(&yard, &format!("\"seq\":4,\"part\":[1,1],\"put\":{newer}}}"));
    let store = yard.writer();
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
    let backup = block_on(store.backup(&yard.file("backups"), moment(0))).unwrap();
    assert_eq!(backup.records, 5);
    block_on(store.restore(&backup.path, moment(1))).unwrap();
    assert_eq!(ids(store.as_ref()), ["d", "c", "b", "a"]);
    assert!(String::from_utf8(yard.bytes()).unwrap().contains(newer), "its bytes are what they were");
}
