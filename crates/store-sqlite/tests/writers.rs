//! One writer at a time, by a kernel lock; readers never wait for a writer.
#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::path::{Path, PathBuf};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::time::Duration;

use pollster::block_on;
use sexton_core::plugin::StoreOptions;
use sexton_core::store::{Access, Durability};
use sexton_core::{Batch, Host, Query, Session, Store};
use sexton_durable::FileLock;
use tempfile::TempDir;

const GENEROUS: Duration = Duration::from_secs(60);

fn open(path: &Path, access: Access) -> Box<dyn Store> {
    let options = StoreOptions::new(path.to_owned(), access, Durability::Process);
    sexton_store_sqlite::open(&options).unwrap()
}

fn insert(store: &dyn Store, id: &str) {
    let host = Host::new("m", "h");
    let session = Session::new(id.parse().unwrap(), host, "2026-11-16T03:15:00Z".parse().unwrap());
    block_on(store.commit(Batch::new().insert(session))).unwrap();
}

fn count(store: &dyn Store) -> usize {
    let listing = block_on(store.list(&Query::all())).unwrap();
    assert_eq!(listing.damage, []);
    listing.sessions.len()
}

fn store_with_one_record(directory: &TempDir) -> PathBuf {
    let path = directory.path().join("sessions.db");
    insert(&*open(&path, Access::Write), "a");
    path
}

#[test]
fn i6_writers_wait_for_the_lock_and_readers_do_not() {
    let directory = TempDir::new().unwrap();
    let path = store_with_one_record(&directory);
    let held = FileLock::acquire(&directory.path().join("sessions.db.lock")).unwrap();
    let (done, is_done) = mpsc::channel();
    let writer = open(&path, Access::Write);
    let thread = std::thread::spawn(move || {
        insert(&*writer, "b");
        done.send(()).unwrap();
    });
    assert_eq!(is_done.recv_timeout(Duration::from_millis(300)), Err(RecvTimeoutError::Timeout));
    assert_eq!(count(&*open(&path, Access::Read)), 1);
    drop(held);
    is_done.recv_timeout(GENEROUS).unwrap();
    thread.join().unwrap();
    assert_eq!(count(&*open(&path, Access::Read)), 2);
}

#[test]
fn readers_do_not_wait_for_a_writer_of_the_same_handle() {
    let directory = TempDir::new().unwrap();
    let store = &*open(&store_with_one_record(&directory), Access::Write);
    let held = FileLock::acquire(&directory.path().join("sessions.db.lock")).unwrap();
    std::thread::scope(|scope| {
        let (done, is_done) = mpsc::channel();
        scope.spawn(|| insert(store, "b"));
        scope.spawn(move || done.send(count(store)).unwrap());
        assert_eq!(is_done.recv_timeout(GENEROUS), Ok(1));
        drop(held);
    });
    assert_eq!(count(store), 2);
}

#[test]
fn a_checkpoint_or_vacuum_by_another_program_is_not_damage() {
    let directory = TempDir::new().unwrap();
    let path = store_with_one_record(&directory);
    let store = open(&path, Access::Write);
    // What another program may do without changing a record: a checkpoint, and rewriting the whole file.
    let foreign = rusqlite::Connection::open(&path).unwrap();
    foreign.execute_batch("PRAGMA wal_checkpoint(TRUNCATE); VACUUM;").unwrap();
    drop(foreign);
    insert(&*store, "b");
    drop(store);
    assert_eq!(count(&*open(&path, Access::Read)), 2);
    assert_eq!(open(&path, Access::Write).damage(), []);
}

#[test]
fn i6_a_record_changed_by_another_program_is_damage() {
    let directory = TempDir::new().unwrap();
    let path = store_with_one_record(&directory);
    insert(&*open(&path, Access::Write), "b");
    let foreign = rusqlite::Connection::open(&path).unwrap();
    foreign.execute("UPDATE sessions SET status = 'completed' WHERE id = 'a'", []).unwrap();
    drop(foreign);
    let listing = block_on(open(&path, Access::Read).list(&Query::all())).unwrap();
    assert_eq!(listing.sessions.len(), 1);
    assert!(listing.damage.iter().any(|damage| damage.place == "session a"), "{:?}", listing.damage);
}

#[test]
fn i6_a_record_removed_by_another_program_is_detected() {
    let directory = TempDir::new().unwrap();
    let path = store_with_one_record(&directory);
    insert(&*open(&path, Access::Write), "b");
    let foreign = rusqlite::Connection::open(&path).unwrap();
    foreign.execute("DELETE FROM sessions WHERE id = 'a'", []).unwrap();
    drop(foreign);
    let damage = open(&path, Access::Write).damage();
    assert!(damage[0].what.starts_with("1 intact records found, 2 expected"), "{damage:?}");
}

#[test]
fn i6_a_listing_with_a_missing_record_is_damage() {
    let directory = TempDir::new().unwrap();
    let path = store_with_one_record(&directory);
    let store = open(&path, Access::Write);
    insert(&*store, "b");
    // Through the log, so that the file's stamp does not change.
    rusqlite::Connection::open(&path).unwrap().execute("DELETE FROM sessions WHERE id = 'a'", []).unwrap();
    for query in [Query::all(), Query::active()] {
        let store = open(&path, Access::Read);
        assert_eq!(store.damage(), []);
        let listing = block_on(store.list(&query)).unwrap();
        let what = listing.damage.first().map_or("nothing", |damage| &damage.what);
        assert!(what.starts_with("1 records found, 2 expected"), "{what}");
    }
}

#[test]
fn the_log_is_checkpointed_before_it_grows_long() {
    let directory = TempDir::new().unwrap();
    let path = store_with_one_record(&directory);
    let store = open(&path, Access::Write);
    let log = directory.path().join("sessions.db-wal");
    for number in 0..200 {
        insert(&*store, &format!("session{number}"));
        let length = std::fs::metadata(&log).unwrap().len();
        assert!(length < 120 * 4120, "the log has {length} bytes after {number} commits");
    }
}
