//! A journal that grows is rewritten, and nobody notices.

#![allow(clippy::unwrap_used, reason = "helpers of a test may panic as the test may")]

use std::fs;

use pollster::block_on;
use sexton_core::{Batch, Session, Status};

mod support;
use support::{Yard, all, append_line, ids, insert, moment, session};

const MIB: u64 = 1 << 20;

/// Replaces the record of `id` once, by one of about 64 KiB.
fn rewrite(store: &dyn sexton_core::Store, id: &str, round: usize) -> Session {
    let mut session = block_on(store.load(&id.parse().unwrap())).unwrap().unwrap();
    session.tags.insert("bulk".to_owned(), format!("{round:064000}"));
    let committed = block_on(store.commit(Batch::new().replace(session.clone()))).unwrap();
    session.revision = committed.revision_of(&session.id);
    session
}

fn length(yard: &Yard) -> u64 {
    fs::metadata(yard.path()).unwrap().len()
}

#[test]
fn i9_a_journal_does_not_grow_without_end_and_loses_nothing() {
    let yard = Yard::new();
    let (store, watcher) = (yard.writer(), yard.reader());
    insert(store.as_ref(), "still");
    insert(store.as_ref(), "busy");
    block_on(store.commit(Batch::new().count("runs", 5))).unwrap();
    let still = block_on(store.load(&"still".parse().unwrap())).unwrap().unwrap();
    let mut shrank = false;
    for round in 0..100 {
        let before = length(&yard);
        let latest = rewrite(store.as_ref(), "busy", round);
        shrank |= length(&yard) < before;
        let seen = all(watcher.as_ref());
        assert_eq!(seen.damage, []);
        assert_eq!(seen.sessions, [still.clone(), latest], "round {round}");
        assert!(length(&yard) < 2 * MIB, "{} bytes for 64 KiB of records", length(&yard));
    }
    assert!(shrank, "the journal was never rewritten");
    assert_eq!(block_on(yard.reader().counters()).unwrap()["runs"], 5);
}

#[test]
fn unknown_fields_survive_a_rewritten_journal_byte_for_byte() {
    let yard = Yard::new();
    let store = yard.writer();
    insert(store.as_ref(), "busy");
    let written = session("odd", Status::Completed).to_json();
    let odd = format!("{},\"invented\":{{\"n\":1.50e2,\"a\":[]}}}}", written.strip_suffix('}').unwrap());
    append_line(&yard, &format!("\"seq\":2,\"part\":[1,1],\"put\":{odd}}}"));
    for round in 0..40 {
        rewrite(store.as_ref(), "busy", round);
    }
    let text = String::from_utf8(yard.bytes()).unwrap();
    assert!(text.lines().next().unwrap().contains("\"base\":2"), "it was rewritten");
    assert!(text.contains(&odd));
}

#[test]
fn i6_a_damaged_journal_is_never_rewritten_by_itself() {
    let yard = Yard::new();
    let store = yard.writer();
    insert(store.as_ref(), "busy");
    while length(&yard) < MIB - 65536 {
        rewrite(store.as_ref(), "busy", 0);
    }
    let mut bytes = yard.bytes();
    let middle = bytes.len() / 2;
    bytes[middle] ^= 1;
    fs::write(yard.path(), &bytes).unwrap();
    let mut busy = all(store.as_ref()).sessions.remove(0);
    busy.ticket = Some("t".repeat(100_000));
    assert!(block_on(store.commit(Batch::new().replace(busy))).is_err(), "an open handle notices too");
    assert_eq!(yard.bytes(), bytes);
}

#[test]
fn a_reader_follows_a_journal_that_was_replaced_by_a_larger_one() {
    let (yard, larger) = (Yard::new(), Yard::new());
    let (store, source) = (yard.writer(), larger.writer());
    insert(store.as_ref(), "a");
    (0..5).for_each(|n| insert(source.as_ref(), &format!("larger-{n}")));
    let backup = block_on(source.backup(&yard.file("backups"), moment(0))).unwrap();
    let reader = yard.reader();
    assert_eq!(ids(reader.as_ref()), ["a"]);
    block_on(store.restore(&backup.path, moment(0))).unwrap();
    assert_eq!(ids(reader.as_ref()).len(), 5);
}

#[test]
fn a_backup_that_was_killed_is_no_obstacle_and_does_not_stay() {
    let yard = Yard::new();
    let store = yard.writer();
    insert(store.as_ref(), "a");
    let first = block_on(store.backup(&yard.file("backups"), moment(0))).unwrap();
    // Killed after it gave the backup its name and before it took the other one away.
    fs::hard_link(&first.path, yard.file("backups/.sessions.jsonl.part")).unwrap();
    let saved = fs::read(&first.path).unwrap();
    insert(store.as_ref(), "b");
    let second = block_on(store.backup(&yard.file("backups"), moment(0))).unwrap();
    assert_eq!(fs::read(&first.path).unwrap(), saved, "a finished backup never changes");
    let mut names: Vec<_> =
        fs::read_dir(yard.file("backups")).unwrap().map(|entry| entry.unwrap().path()).collect();
    names.sort();
    assert_eq!(names, [first.path, second.path], "names sort as the backups were made");
}

#[test]
fn a_link_to_a_journal_stays_a_link() {
    let yard = Yard::new();
    insert(yard.writer().as_ref(), "a");
    let link = yard.file("link.jsonl");
    std::os::unix::fs::symlink(yard.path(), &link).unwrap();
    let store = support::open(&link, sexton_core::store::Access::Write).unwrap();
    let backup = block_on(store.backup(&yard.file("backups"), moment(0))).unwrap();
    block_on(store.restore(&backup.path, moment(0))).unwrap();
    insert(store.as_ref(), "b");
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(ids(yard.reader().as_ref()), ["b", "a"]);
}

#[test]
fn i6_a_link_that_cannot_be_followed_is_an_error_and_stays() {
    let yard = Yard::new();
    let link = yard.file("link.jsonl");
    // Nobody can say where this leads to, as with a disk that cannot be read.
    std::os::unix::fs::symlink(&link, &link).unwrap();
    assert!(support::open(&link, sexton_core::store::Access::Write).is_err());
    assert!(link.symlink_metadata().unwrap().is_symlink());
    assert_eq!(fs::read_dir(link.parent().unwrap()).unwrap().count(), 1, "nothing is made beside it");
}

/// A journal with the record a, whose mark cannot be read, as on a disk that fails.
fn without_mark() -> Yard {
    let yard = Yard::new();
    insert(yard.writer().as_ref(), "a");
    fs::remove_file(yard.mark()).unwrap();
    fs::create_dir(yard.mark()).unwrap();
    yard
}

#[test]
fn i6_a_journal_whose_mark_cannot_be_read_is_read_with_a_word_about_it_and_not_written() {
    let yard = without_mark();
    let listing = all(yard.reader().as_ref());
    assert_eq!(listing.sessions.len(), 1);
    assert!(matches!(&listing.damage[..], [doubt] if doubt.harmless && doubt.what.contains("mark")));
    let before = yard.bytes();
    let batch = Batch::new().insert(session("b", Status::Running));
    let written = support::open(&yard.path(), sexton_core::store::Access::Write)
        .and_then(|store| block_on(store.commit(batch)).map(drop));
    assert!(written.is_err());
    assert_eq!(yard.bytes(), before);
}

#[test]
fn i6_a_mark_that_cannot_be_read_is_no_sign_of_a_fresh_start() {
    let yard = without_mark();
    // Nobody can say now whether there were records.
    fs::remove_file(yard.path()).unwrap();
    let opened = support::open(&yard.path(), sexton_core::store::Access::Write);
    let written = opened.and_then(|store| {
        block_on(store.commit(Batch::new().insert(session("b", Status::Running)))).map(drop)
    });
    assert!(written.is_err());
    assert!(!yard.path().exists(), "a new journal took the place of the old one");
}
