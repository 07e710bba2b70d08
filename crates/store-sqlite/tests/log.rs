//! Damage in the write-ahead log that SQLite does not detect: it treats everything before the first bad frame
//! as complete. Tested without the mark, which may be outdated after a power cut.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use pollster::block_on;
use sexton_core::plugin::StoreOptions;
use sexton_core::store::{Access, Damage, Durability};
use sexton_core::{Batch, Host, Query, Session, Store};
use sexton_durable::{Mark, MarkFile};
use tempfile::TempDir;

const HEADER: usize = 32;
const FRAME: usize = 24 + 4096;

fn open(path: &Path, access: Access) -> Box<dyn Store> {
    let options = StoreOptions::new(path.to_owned(), access, Durability::Process);
    sexton_store_sqlite::open(&options).unwrap()
}

fn insert(store: &dyn Store, id: &str) {
    let host = Host::new("m", "h");
    let mut session = Session::new(id.parse().unwrap(), host, "2026-11-16T03:15:00Z".parse().unwrap());
    // Each record has a page of its own, near the end of its commit.
    session.tags.insert("note".to_owned(), "x".repeat(2_500));
    block_on(store.commit(Batch::new().insert(session).count("made", 1))).unwrap();
}

fn ids(store: &dyn Store) -> Vec<String> {
    let listing = block_on(store.list(&Query::all())).unwrap();
    let mut ids: Vec<_> = listing.sessions.into_iter().map(|session| session.id.to_string()).collect();
    ids.sort();
    ids
}

fn named(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// A store with the records a to e, all of them in the log, and the start of each commit in the log.
struct TestEnv {
    directory: TempDir,
    begins: Vec<usize>,
}

impl TestEnv {
    fn new() -> TestEnv {
        let directory = TempDir::new().unwrap();
        let mut test_env = TestEnv { directory, begins: Vec::new() };
        let store = open(&test_env.path(), Access::Write);
        for id in ["a", "b", "c", "d", "e"] {
            test_env.begins.push(fs::read(test_env.wal()).map_or(HEADER, |log| log.len().max(HEADER)));
            insert(&*store, id);
        }
        test_env
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("sessions.db")
    }

    fn wal(&self) -> PathBuf {
        named(&self.path(), "-wal")
    }

    fn flip(&self, at: usize) {
        let mut bytes = fs::read(self.wal()).unwrap();
        bytes[at] ^= 0x20;
        fs::write(self.wal(), bytes).unwrap();
    }

    fn forget_mark(&self) {
        fs::remove_file(named(&self.path(), ".mark")).unwrap();
    }

    fn damage(&self) -> Vec<Damage> {
        open(&self.path(), Access::Read).damage()
    }
}

#[test]
fn i6_commits_after_a_bad_frame_are_damage_and_readable() {
    let test_env = TestEnv::new();
    test_env.flip(test_env.begins[1] + FRAME - 1);
    test_env.forget_mark();
    let store = open(&test_env.path(), Access::Write);
    assert_eq!(store.damage()[0].place, "write-ahead log");
    assert!(store.damage()[0].what.contains("(2 to 5) are not visible"), "{:?}", store.damage());
    let readable = ids(&*store);
    assert!(readable.len() >= 4 && readable.contains(&"e".to_owned()), "{readable:?}");
}

#[test]
fn i6_a_bad_log_header_before_commits_is_damage() {
    for at in [0, 5, 16, 30] {
        let test_env = TestEnv::new();
        test_env.flip(at);
        test_env.forget_mark();
        assert!(
            test_env.damage().iter().any(|damage| !damage.harmless),
            "byte {at}: {:?}",
            test_env.damage()
        );
        let readable = ids(&*open(&test_env.path(), Access::Read));
        assert!(readable.len() >= 4, "byte {at}: {readable:?}");
    }
}

#[test]
fn an_interrupted_last_write_is_harmless_and_replaced_by_the_next() {
    let test_env = TestEnv::new();
    test_env.flip(fs::read(test_env.wal()).unwrap().len() - 1);
    test_env.forget_mark();
    let store = open(&test_env.path(), Access::Write);
    let damage = store.damage();
    assert!(damage.len() == 1 && damage[0].harmless, "{damage:?}");
    assert_eq!(ids(&*store), ["a", "b", "c", "d"]);
    insert(&*store, "f");
    assert_eq!(ids(&*open(&test_env.path(), Access::Read)), ["a", "b", "c", "d", "f"]);
    assert_eq!(test_env.damage(), []);
}

#[test]
fn a_log_with_a_truncated_last_write_is_intact() {
    let test_env = TestEnv::new();
    let log = fs::OpenOptions::new().write(true).open(test_env.wal()).unwrap();
    log.set_len(test_env.begins[4] as u64 + 100).unwrap();
    test_env.forget_mark();
    assert_eq!(test_env.damage(), []);
    assert_eq!(ids(&*open(&test_env.path(), Access::Read)), ["a", "b", "c", "d"]);
}

#[test]
fn an_outdated_mark_is_not_damage() {
    let test_env = TestEnv::new();
    let mark = fs::read(named(&test_env.path(), ".mark")).unwrap();
    let store = open(&test_env.path(), Access::Write);
    insert(&*store, "f");
    insert(&*store, "g");
    fs::write(named(&test_env.path(), ".mark"), mark).unwrap();
    assert_eq!(test_env.damage(), []);
    insert(&*open(&test_env.path(), Access::Write), "h");
    assert_eq!(ids(&*store).len(), 8);
}

#[test]
fn frames_of_an_overwritten_write_are_not_hidden_commits() {
    let test_env = TestEnv::new();
    // The log as it was when "e" was interrupted; then two smaller writes over its start, followed by the
    // rest of the old frames, with the same salt.
    let old = fs::read(test_env.wal()).unwrap();
    let log = fs::OpenOptions::new().write(true).open(test_env.wal()).unwrap();
    log.set_len(test_env.begins[4] as u64 + 100).unwrap();
    test_env.forget_mark();
    let store = open(&test_env.path(), Access::Write);
    block_on(store.commit(Batch::new().count("made", 1))).unwrap();
    drop(store);
    let mut new = fs::read(test_env.wal()).unwrap();
    assert!(new.len() < old.len(), "the second write is the smaller one");
    new.extend_from_slice(&old[new.len()..]);
    fs::write(test_env.wal(), new).unwrap();
    test_env.forget_mark();
    assert_eq!(test_env.damage(), []);
    // They are not salvaged as a record either, if the store is damaged in another way.
    let store = open(&test_env.path(), Access::Read).describe().uuid.unwrap();
    MarkFile::beside(&test_env.path()).store(&Mark { store, sequence: 99, stamp: None }).unwrap();
    assert_ne!(test_env.damage(), []);
    assert_eq!(ids(&*open(&test_env.path(), Access::Read)), ["a", "b", "c", "d"]);
}
