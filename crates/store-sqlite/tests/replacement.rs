//! Replacement of a store's file: handles that are open meanwhile, and an interrupted replacement.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::path::{Path, PathBuf};

use pollster::block_on;
use sexton_core::plugin::StoreOptions;
use sexton_core::store::{Access, Durability};
use sexton_core::{Batch, Host, Query, Session, Store, StoreError, Time};
use tempfile::TempDir;

fn now() -> Time {
    "2026-11-16T03:15:00Z".parse().unwrap()
}

fn session(id: &str) -> Session {
    let host = Host::new("m", "h");
    Session::new(id.parse().unwrap(), host, now())
}

fn open(path: &Path, access: Access) -> Box<dyn Store> {
    let options = StoreOptions::new(path.to_owned(), access, Durability::Process);
    sexton_store_sqlite::open(&options).unwrap()
}

fn insert(store: &dyn Store, id: &str) -> Result<(), StoreError> {
    block_on(store.commit(Batch::new().insert(session(id)))).map(drop)
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

/// Returns a store with the records a, b and c, whose last commit is no longer in the log.
fn damaged_store(directory: &TempDir) -> PathBuf {
    let path = directory.path().join("sessions.db");
    let store = open(&path, Access::Write);
    for id in ["a", "b", "c", "d"] {
        insert(&*store, id).unwrap();
    }
    drop(store);
    let wal = named(&path, "-wal");
    let length = fs::metadata(&wal).unwrap().len();
    fs::OpenOptions::new().write(true).open(&wal).unwrap().set_len(length - 1).unwrap();
    path
}

#[test]
fn a_missing_acknowledged_commit_is_damage() {
    let directory = TempDir::new().unwrap();
    let store = open(&damaged_store(&directory), Access::Write);
    let what = store.damage()[0].what.clone();
    assert!(what.starts_with("1 acknowledged commits are missing (4 to 4)"), "{what}");
    assert!(what.contains("`sexton restore BACKUP`") && what.contains("`sexton doctor --repair`"), "{what}");
    assert_eq!(ids(&*store), ["a", "b", "c"]);
}

#[test]
fn handles_opened_before_a_repair_use_the_repaired_store() {
    let directory = TempDir::new().unwrap();
    let path = damaged_store(&directory);
    let (reader, writer) = (open(&path, Access::Read), open(&path, Access::Write));
    let repairer = open(&path, Access::Write);
    let refused = insert(&*writer, "e");
    assert!(matches!(refused, Err(StoreError::Damaged { .. })), "{refused:?}");
    block_on(repairer.repair(now())).unwrap();
    insert(&*writer, "e").unwrap();
    assert_eq!(ids(&*reader), ["a", "b", "c", "e"]);
    assert_eq!(reader.damage(), []);
    assert_eq!(reader.describe().uuid, repairer.describe().uuid);
}

#[test]
fn a_reader_opened_before_the_damage_uses_the_repaired_file() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("sessions.db");
    let writer = open(&path, Access::Write);
    for id in ["a", "b"] {
        insert(&*writer, id).unwrap();
    }
    let reader = open(&path, Access::Read);
    assert_eq!(ids(&*reader), ["a", "b"]);
    let foreign = rusqlite::Connection::open(&path).unwrap();
    foreign.execute("UPDATE sessions SET status = 'completed' WHERE id = 'a'", []).unwrap();
    drop(foreign);
    assert_eq!(block_on(open(&path, Access::Write).repair(now())).unwrap().kept, 1);
    insert(&*writer, "c").unwrap();
    assert_eq!(ids(&*reader), ["b", "c"]);
    assert_eq!(reader.damage(), []);
}

#[test]
fn an_open_handle_detects_that_its_store_was_replaced() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("sessions.db");
    let store = open(&path, Access::Write);
    insert(&*store, "a").unwrap();
    let backup = block_on(store.backup(directory.path(), now())).unwrap().path;
    insert(&*store, "b").unwrap();
    fs::remove_file(named(&path, "-wal")).unwrap();
    fs::rename(backup, &path).unwrap();
    let refused = insert(&*store, "c");
    assert!(matches!(refused, Err(StoreError::Damaged { .. })), "an older copy was written: {refused:?}");
    assert_eq!(ids(&*store), ["a"]);
}

#[test]
fn a_store_with_another_identifier_is_damage() {
    let directory = TempDir::new().unwrap();
    let (ours, other) = (directory.path().join("sessions.db"), directory.path().join("other.db"));
    for path in [&ours, &other] {
        insert(&*open(path, Access::Write), "a").unwrap();
    }
    for suffix in ["", "-wal"] {
        fs::rename(named(&other, suffix), named(&ours, suffix)).unwrap();
    }
    let store = open(&ours, Access::Write);
    assert!(store.damage()[0].what.starts_with("another store ("), "{:?}", store.damage());
    assert_eq!(block_on(store.repair(now())).unwrap().kept, 1);
    insert(&*store, "b").unwrap();
}

/// Returns a damaged store, and the file that a repair would replace it with.
fn store_and_successor(directory: &TempDir) -> (PathBuf, PathBuf) {
    let path = damaged_store(directory);
    let elsewhere = TempDir::new_in(directory.path()).unwrap().keep().join("sessions.db");
    for suffix in ["", "-wal", ".mark"] {
        fs::copy(named(&path, suffix), named(&elsewhere, suffix)).unwrap();
    }
    block_on(open(&elsewhere, Access::Write).repair(now())).unwrap();
    (path, elsewhere)
}

#[test]
fn i7_the_next_writer_completes_an_interrupted_replacement() {
    for log_is_gone in [false, true] {
        let directory = TempDir::new().unwrap();
        let (path, repaired) = store_and_successor(&directory);
        fs::copy(repaired, named(&path, ".successor")).unwrap();
        if log_is_gone {
            fs::remove_file(named(&path, "-wal")).unwrap();
        }
        assert_ne!(open(&path, Access::Read).damage(), [], "the store is still damaged before that");
        let store = open(&path, Access::Write);
        assert_eq!(store.damage(), []);
        insert(&*store, "e").unwrap();
        assert_eq!(ids(&*store), ["a", "b", "c", "e"]);
        assert!(!named(&path, ".successor").exists());
    }
}

#[test]
fn i7_leftovers_of_a_killed_repair_do_not_block_the_next() {
    let directory = TempDir::new().unwrap();
    let path = damaged_store(&directory);
    for suffix in [".new", ".new-wal", ".new-journal"] {
        fs::write(named(&path, suffix), "half").unwrap();
    }
    let store = open(&path, Access::Write);
    assert_eq!(block_on(store.repair(now())).unwrap().kept, 3);
    assert_eq!(ids(&*store), ["a", "b", "c"]);
    assert!(!named(&path, ".new").exists() && !named(&path, ".new-wal").exists());
}

#[test]
fn i6_a_deleted_store_is_never_created_again() {
    let directory = TempDir::new().unwrap();
    let path = damaged_store(&directory);
    for suffix in ["", "-wal", "-shm"] {
        fs::remove_file(named(&path, suffix)).unwrap();
    }
    let store = open(&path, Access::Write);
    assert!(store.damage()[0].what.starts_with("the file is missing or empty"), "{:?}", store.damage());
    assert!(matches!(insert(&*store, "e"), Err(StoreError::Damaged { .. })));
    assert!(!path.exists());
    assert_eq!(block_on(store.repair(now())).unwrap().kept, 0);
    insert(&*store, "e").unwrap();
}

#[test]
fn an_empty_file_without_a_mark_is_a_new_store() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("sessions.db");
    fs::write(&path, "").unwrap();
    assert_eq!(open(&path, Access::Read).damage(), []);
    let store = open(&path, Access::Write);
    insert(&*store, "a").unwrap();
    assert_eq!(ids(&*store), ["a"]);
}

#[test]
fn the_next_backup_removes_what_a_killed_one_left() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory.path().join("sessions.db"), Access::Write);
    insert(&*store, "a").unwrap();
    let backups = directory.path().join("backups");
    let first = block_on(store.backup(&backups, now())).unwrap().path;
    // Killed after the copy got its name and before the partial name was removed.
    fs::hard_link(&first, backups.join(".sessions.db.part")).unwrap();
    insert(&*store, "b").unwrap();
    let second = block_on(store.backup(&backups, now())).unwrap().path;
    assert_eq!(fs::read_dir(&backups).unwrap().count(), 2, "a partial file is left");
    assert_eq!(ids(&*open(&first, Access::Read)), ["a"]);
    assert_eq!(ids(&*open(&second, Access::Read)), ["a", "b"]);
}

#[test]
fn a_backup_can_be_opened_as_a_store() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("sessions.db");
    let store = open(&path, Access::Write);
    insert(&*store, "a").unwrap();
    let backups = directory.path().join("backups");
    let backup = block_on(store.backup(&backups, now())).unwrap().path;
    let before = fs::read(&backup).unwrap();
    assert_eq!(ids(&*open(&backup, Access::Read)), ["a"]);
    assert_eq!(fs::read_dir(&backups).unwrap().count(), 1, "reading created a file");
    assert!(fs::read(&backup).unwrap() == before);
    let again = open(&backup, Access::Write);
    insert(&*again, "b").unwrap();
    assert_eq!(ids(&*open(&backup, Access::Read)), ["a", "b"]);
}

#[test]
fn i6_a_backup_with_a_missing_record_is_rejected() {
    let directory = TempDir::new().unwrap();
    let store = open(&directory.path().join("sessions.db"), Access::Write);
    for id in ["a", "b"] {
        insert(&*store, id).unwrap();
    }
    let backup = block_on(store.backup(&directory.path().join("backups"), now())).unwrap().path;
    let foreign = rusqlite::Connection::open(&backup).unwrap();
    foreign.execute("DELETE FROM sessions WHERE id = 'a'", []).unwrap();
    drop(foreign);
    let refused = block_on(store.restore(&backup, now()));
    assert!(matches!(refused, Err(StoreError::BadBackup { .. })), "{refused:?}");
    assert_eq!(ids(&*store), ["a", "b"]);
}

#[test]
fn a_path_like_a_uri_or_with_non_utf8_bytes_is_a_plain_file() {
    use std::os::unix::ffi::OsStringExt;
    let directory = TempDir::new().unwrap();
    let odd = std::ffi::OsString::from_vec(b"file:odd?mode=ro\xff.db".to_vec());
    let path = directory.path().join(odd);
    let store = open(&path, Access::Write);
    insert(&*store, "a").unwrap();
    let backup = block_on(store.backup(&directory.path().join(path.file_stem().unwrap()), now())).unwrap();
    assert_eq!(backup.records, 1);
    assert!(path.exists());
}
