//! A growing journal is rewritten without visible effects.

#![allow(clippy::unwrap_used, reason = "test helpers may panic")]

use std::fs;

use pollster::block_on;
use sexton_core::{Batch, Session, Status};

mod support;
use support::{TestEnv, all, append_line, ids, insert, moment, session};

const MIB: u64 = 1 << 20;

/// Replaces the record of `id` once with a record of about 64 KiB.
fn rewrite(store: &dyn sexton_core::Store, id: &str, round: usize) -> Session {
    let mut session = block_on(store.load(&id.parse().unwrap())).unwrap().unwrap();
    session.tags.insert("bulk".to_owned(), format!("{round:064000}"));
    let committed = block_on(store.commit(Batch::new().replace(session.clone()))).unwrap();
    session.revision = committed.revision_of(&session.id);
    session
}

fn length(test_env: &TestEnv) -> u64 {
    fs::metadata(test_env.path()).unwrap().len()
}

#[test]
fn i9_journal_growth_is_bounded_and_loses_nothing() {
    let test_env = TestEnv::new();
    let (store, watcher) = (test_env.writer(), test_env.reader());
    insert(store.as_ref(), "still");
    insert(store.as_ref(), "busy");
    block_on(store.commit(Batch::new().count("runs", 5))).unwrap();
    let still = block_on(store.load(&"still".parse().unwrap())).unwrap().unwrap();
    let mut shrank = false;
    for round in 0..100 {
        let before = length(&test_env);
        let latest = rewrite(store.as_ref(), "busy", round);
        shrank |= length(&test_env) < before;
        let seen = all(watcher.as_ref());
        assert_eq!(seen.damage, []);
        assert_eq!(seen.sessions, [still.clone(), latest], "round {round}");
        assert!(length(&test_env) < 2 * MIB, "{} bytes for 64 KiB of records", length(&test_env));
    }
    assert!(shrank, "the journal was never rewritten");
    assert_eq!(block_on(test_env.reader().counters()).unwrap()["runs"], 5);
}

#[test]
fn a_rewrite_keeps_unknown_fields_byte_for_byte() {
    let test_env = TestEnv::new();
    let store = test_env.writer();
    insert(store.as_ref(), "busy");
    let written = session("odd", Status::Completed).to_json();
    let odd = format!("{},\"invented\":{{\"n\":1.50e2,\"a\":[]}}}}", written.strip_suffix('}').unwrap());
    append_line(&test_env, &format!("\"seq\":2,\"part\":[1,1],\"put\":{odd}}}"));
    for round in 0..40 {
        rewrite(store.as_ref(), "busy", round);
    }
    let text = String::from_utf8(test_env.bytes()).unwrap();
    assert!(text.lines().next().unwrap().contains("\"base\":2"), "it was rewritten");
    assert!(text.contains(&odd));
}

#[test]
fn i6_a_damaged_journal_is_never_compacted() {
    let test_env = TestEnv::new();
    let store = test_env.writer();
    insert(store.as_ref(), "busy");
    while length(&test_env) < MIB - 65536 {
        rewrite(store.as_ref(), "busy", 0);
    }
    let mut bytes = test_env.bytes();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(test_env.path(), &bytes).unwrap();
    let mut busy = all(store.as_ref()).sessions.remove(0);
    busy.ticket = Some("t".repeat(100_000));
    assert!(
        block_on(store.commit(Batch::new().replace(busy))).is_err(),
        "an open handle detects the damage too"
    );
    assert_eq!(test_env.bytes(), bytes);
}

#[test]
fn a_reader_detects_a_replaced_journal() {
    let (test_env, larger) = (TestEnv::new(), TestEnv::new());
    let (store, source) = (test_env.writer(), larger.writer());
    insert(store.as_ref(), "a");
    (0..5).for_each(|n| insert(source.as_ref(), &format!("larger-{n}")));
    let backup = block_on(source.backup(&test_env.file("backups"), moment(0))).unwrap();
    let reader = test_env.reader();
    assert_eq!(ids(reader.as_ref()), ["a"]);
    block_on(store.restore(&backup.path, moment(0))).unwrap();
    assert_eq!(ids(reader.as_ref()).len(), 5);
}

#[test]
fn the_next_backup_removes_what_a_killed_one_left() {
    let test_env = TestEnv::new();
    let store = test_env.writer();
    insert(store.as_ref(), "a");
    let first = block_on(store.backup(&test_env.file("backups"), moment(0))).unwrap();
    // Killed after the backup got its name and before the partial name was removed.
    fs::hard_link(&first.path, test_env.file("backups/.sessions.jsonl.part")).unwrap();
    let saved = fs::read(&first.path).unwrap();
    insert(store.as_ref(), "b");
    let second = block_on(store.backup(&test_env.file("backups"), moment(0))).unwrap();
    assert_eq!(fs::read(&first.path).unwrap(), saved, "a finished backup never changes");
    let mut names: Vec<_> =
        fs::read_dir(test_env.file("backups")).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert_eq!(names, [first.path, second.path], "names sort as the backups were made");
}

#[test]
fn a_symlink_to_a_journal_stays_a_symlink() {
    let test_env = TestEnv::new();
    insert(test_env.writer().as_ref(), "a");
    let link = test_env.file("link.jsonl");
    std::os::unix::fs::symlink(test_env.path(), &link).unwrap();
    let store = support::open(&link, sexton_core::store::Access::Write).unwrap();
    let backup = block_on(store.backup(&test_env.file("backups"), moment(0))).unwrap();
    block_on(store.restore(&backup.path, moment(0))).unwrap();
    insert(store.as_ref(), "b");
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(ids(test_env.reader().as_ref()), ["b", "a"]);
}

#[test]
fn i6_a_symlink_that_cannot_be_resolved_is_an_error_and_is_kept() {
    let test_env = TestEnv::new();
    let link = test_env.file("link.jsonl");
    // The target of this link is unknown, as on a disk that cannot be read.
    std::os::unix::fs::symlink(&link, &link).unwrap();
    assert!(support::open(&link, sexton_core::store::Access::Write).is_err());
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(fs::read_dir(link.parent().unwrap()).unwrap().count(), 1, "no file is created beside it");
}

/// Returns a journal with the record a whose mark cannot be read, as on a failing disk.
fn without_mark() -> TestEnv {
    let test_env = TestEnv::new();
    insert(test_env.writer().as_ref(), "a");
    fs::remove_file(test_env.mark()).unwrap();
    fs::create_dir(test_env.mark()).unwrap();
    test_env
}

#[test]
fn i6_a_journal_with_an_unreadable_mark_is_read_only_and_reported() {
    let test_env = without_mark();
    let listing = all(test_env.reader().as_ref());
    assert_eq!(listing.sessions.len(), 1);
    assert!(matches!(&listing.damage[..], [doubt] if doubt.harmless && doubt.what.contains("mark")));
    let before = test_env.bytes();
    let batch = Batch::new().insert(session("b", Status::Running));
    let written = support::open(&test_env.path(), sexton_core::store::Access::Write)
        .and_then(|store| block_on(store.commit(batch)).map(drop));
    assert!(written.is_err());
    assert_eq!(test_env.bytes(), before);
}

#[test]
fn i6_an_unreadable_mark_does_not_allow_a_new_journal() {
    let test_env = without_mark();
    // Whether there were records is unknown now.
    fs::remove_file(test_env.path()).unwrap();
    let opened = support::open(&test_env.path(), sexton_core::store::Access::Write);
    let written = opened.and_then(|store| {
        block_on(store.commit(Batch::new().insert(session("b", Status::Running)))).map(drop)
    });
    assert!(written.is_err());
    assert!(!test_env.path().exists(), "a new journal replaced the old one");
}
