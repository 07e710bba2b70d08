//! Flips every byte of a store and truncates it to every length: every loss is reported, nothing outside of
//! the damage is lost, and both repair and restore work.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::collections::BTreeMap;
use std::fs::{self, File, FileTimes, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use pollster::block_on;
use sexton_core::plugin::StoreOptions;
use sexton_core::store::{Access, Damage, Durability};
use sexton_core::{Batch, Host, Query, Session, SessionId, Store, StoreError, Time};
use tempfile::TempDir;

const RECORDS: usize = 50;

/// More records than fit on any one page.
const RECORDS_PER_PAGE: usize = 8;

/// A store of fifty records, some in the database and some still in the log, and a backup of it.
struct TestEnv {
    directory: TempDir,
    sessions: BTreeMap<SessionId, Session>,
}

fn now() -> Time {
    "2026-11-16T03:15:00Z".parse().unwrap()
}

fn session(number: usize) -> Session {
    let host = Host::new("m", "h");
    let mut session = Session::new(format!("session{number:03}").parse().unwrap(), host, now());
    session.name = number.is_multiple_of(3).then(|| format!("name{number}"));
    session.ticket = number.is_multiple_of(4).then(|| format!("T-{number}"));
    session
}

fn open(path: &Path, access: Access) -> Result<Box<dyn Store>, StoreError> {
    sexton_store_sqlite::open(&StoreOptions::new(path.to_owned(), access, Durability::Process))
}

fn commit(store: &dyn Store, batch: Batch) {
    block_on(store.commit(batch)).unwrap();
}

impl TestEnv {
    fn new() -> TestEnv {
        let directory = TempDir::new().unwrap();
        let path = directory.path().join("sessions.db");
        let first = open(&directory.path().join("first.db"), Access::Write).unwrap();
        // More than fifty, so that the database also has free pages with old rows in them.
        commit(&*first, (0..RECORDS + 20).fold(Batch::new(), |batch, number| batch.insert(session(number))));
        let surplus: Vec<_> =
            list(&*first).0.into_iter().filter(|(id, _)| id.as_str() >= "session050").collect();
        commit(&*first, surplus.iter().fold(Batch::new(), |batch, (_, session)| batch.remove(session)));
        let moved = block_on(first.backup(directory.path(), now())).unwrap().path;
        fs::rename(moved, &path).unwrap();
        let store = open(&path, Access::Write).unwrap();
        for number in [3, 17, 44] {
            let mut session = block_on(store.load(&session(number).id)).unwrap().unwrap();
            session.ticket = Some("changed".to_owned());
            commit(&*store, Batch::new().replace(session).count("changes", 1));
        }
        let backup = block_on(store.backup(&directory.path().join("backups"), now())).unwrap();
        fs::rename(backup.path, directory.path().join("backup.db")).unwrap();
        let (sessions, damage) = list(&*store);
        assert_eq!((sessions.len(), damage.len()), (RECORDS, 0));
        TestEnv { directory, sessions }
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("sessions.db")
    }

    fn backup(&self) -> PathBuf {
        self.directory.path().join("backup.db")
    }

    /// Returns a copy of the store for a test case to damage.
    fn copy(&self) -> Copy {
        let copy = Copy { directory: TempDir::new().unwrap() };
        for suffix in FILES {
            fs::copy(named(&self.path(), suffix), named(&copy.path(), suffix)).unwrap();
        }
        copy
    }
}

/// The files with a store's content: the database, the log, and the mark.
const FILES: [&str; 3] = ["", "-wal", ".mark"];

struct Copy {
    directory: TempDir,
}

impl Copy {
    fn path(&self) -> PathBuf {
        self.directory.path().join("sessions.db")
    }
}

fn named(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

fn list(store: &dyn Store) -> (BTreeMap<SessionId, Session>, Vec<Damage>) {
    let listing = block_on(store.list(&Query::all())).unwrap();
    let sessions = listing.sessions.into_iter().map(|session| (session.id.clone(), session)).collect();
    (sessions, [store.damage(), listing.damage].concat())
}

/// Reads the store and compares it with what was written. Returns the number of missing records, which the
/// store must have reported.
fn missing(test_env: &TestEnv, path: &Path, place: &str) -> usize {
    let store = open(path, Access::Read).unwrap_or_else(|error| panic!("{place}: {error:?}"));
    let (sessions, damage) = list(&*store);
    let changed = sessions.iter().filter(|(id, session)| test_env.sessions.get(id) != Some(session)).count();
    let missing = test_env.sessions.keys().filter(|id| !sessions.contains_key(id)).count();
    let reported = damage.iter().any(|damage| !damage.harmless);
    assert!(
        reported || missing + changed == 0,
        "{place}: {missing} records are missing and {changed} changed, without a report"
    );
    missing + changed
}

/// Changes bytes of one file until it is dropped.
struct Scratch<'a> {
    file: &'a File,
    changed: Vec<(u64, u8)>,
}

impl<'a> Scratch<'a> {
    fn flip(file: &'a File, whole: &[u8], positions: impl IntoIterator<Item = usize>) -> Scratch<'a> {
        let flip = |at: usize| {
            file.write_all_at(&[whole[at] ^ PATTERN[at % PATTERN.len()]], at as u64).unwrap();
            (at as u64, whole[at])
        };
        Scratch { file, changed: positions.into_iter().map(flip).collect() }
    }
}

impl Drop for Scratch<'_> {
    fn drop(&mut self) {
        for (at, byte) in &self.changed {
            self.file.write_all_at(&[*byte], *at).unwrap();
        }
    }
}

/// The masks that a byte is flipped with: single bits, and several at once.
const PATTERN: [u8; 5] = [0x01, 0x80, 0xff, 0x10, 0x03];

/// Opens a file of a store and reads its content. An open file can be changed without being replaced.
fn open_file(path: &Path, suffix: &str) -> (File, Vec<u8>) {
    let path = named(path, suffix);
    let bytes = fs::read(&path).unwrap();
    (OpenOptions::new().write(true).open(path).unwrap(), bytes)
}

/// Returns the distance between sampled positions. `SEXTON_DAMAGE_STRIDE=1` tries every position, which takes
/// an hour without optimisation.
fn stride(usual: usize) -> usize {
    std::env::var("SEXTON_DAMAGE_STRIDE").map_or(usual, |stride| stride.parse().unwrap())
}

/// Returns the positions in a file where one byte matters most, and a sample of all others.
fn key_positions(suffix: &str, length: usize, usual: usize) -> Vec<usize> {
    let (first, unit, heads) = match suffix {
        "" => (100, 4096, 16),
        "-wal" => (32, 24 + 4096, 40),
        _ => (length, length, 0),
    };
    let is_key = |at: &usize| *at < first || (*at - first.min(32)) % unit < heads;
    let mut positions: Vec<_> = (0..length).filter(is_key).collect();
    positions.extend((0..length).step_by(stride(usual)));
    positions
}

#[test]
fn i6_a_flipped_byte_loses_at_most_one_page_and_is_reported() {
    let test_env = TestEnv::new();
    let copy = test_env.copy();
    for suffix in FILES {
        let (file, whole) = open_file(&copy.path(), suffix);
        for at in key_positions(suffix, whole.len(), 251) {
            let flipped = Scratch::flip(&file, &whole, [at]);
            let place = format!("byte {at} of sessions.db{suffix}");
            let lost = missing(&test_env, &copy.path(), &place);
            assert!(lost <= RECORDS_PER_PAGE, "{place}: {lost} records are lost");
            drop(flipped);
        }
    }
    assert_eq!(missing(&test_env, &copy.path(), "the untouched store"), 0);
}

#[test]
fn i6_a_byte_flipped_in_all_pages_at_once_is_reported() {
    let test_env = TestEnv::new();
    let workers = 2;
    std::thread::scope(|scope| {
        for worker in 0..workers {
            let test_env = &test_env;
            scope.spawn(move || {
                let copy = test_env.copy();
                let (database, pages) = open_file(&copy.path(), "");
                let (log, frames) = open_file(&copy.path(), "-wal");
                for offset in (worker..4096 + 24).step_by(workers) {
                    let _pages = Scratch::flip(&database, &pages, (offset..pages.len()).step_by(4096));
                    let _frames = Scratch::flip(&log, &frames, (offset..frames.len()).step_by(4096 + 24));
                    missing(test_env, &copy.path(), &format!("byte {offset} of every page"));
                }
            });
        }
    });
}

#[test]
fn i6_a_flipped_byte_with_unchanged_file_times_is_detected() {
    let test_env = TestEnv::new();
    let copy = test_env.copy();
    // Records the copied file as intact, so that only the bytes themselves reveal the damage.
    drop(open(&copy.path(), Access::Write).unwrap());
    for suffix in ["", "-wal"] {
        let (file, whole) = open_file(&copy.path(), suffix);
        let written = fs::metadata(named(&copy.path(), suffix)).unwrap().modified().unwrap();
        for at in key_positions(suffix, whole.len(), 509) {
            let flipped = Scratch::flip(&file, &whole, [at]);
            file.set_times(FileTimes::new().set_modified(written)).unwrap();
            missing(&test_env, &copy.path(), &format!("byte {at} of sessions.db{suffix}"));
            drop(flipped);
        }
    }
}

/// Returns the lengths to truncate a file to: around every page or frame, and a sample of all others.
fn key_lengths(length: usize) -> Vec<usize> {
    let ends =
        (0..length).filter(|at| *at < 120 || [4095, 0, 1].contains(&(at % 4096)) || (at + 4088) % 4120 < 3);
    let mut lengths: Vec<_> = ends.collect();
    lengths.extend((0..length).step_by(stride(977)));
    lengths.sort_unstable_by(|a, b| b.cmp(a));
    lengths
}

#[test]
fn i6_truncation_to_any_length_is_reported() {
    let test_env = TestEnv::new();
    for suffix in FILES {
        let copy = test_env.copy();
        let (file, whole) = open_file(&copy.path(), suffix);
        for length in key_lengths(whole.len()) {
            file.set_len(length as u64).unwrap();
            let place = format!("sessions.db{suffix} cut to {length} bytes");
            let lost = missing(&test_env, &copy.path(), &place);
            let bound = if suffix == ".mark" { 0 } else { RECORDS };
            assert!(lost <= bound, "{place}: {lost} records are lost");
        }
        fs::remove_file(named(&copy.path(), suffix)).unwrap();
        missing(&test_env, &copy.path(), &format!("without sessions.db{suffix}"));
    }
}

/// Returns the content of a store's files, except for SQLite's log index.
fn content(path: &Path) -> BTreeMap<&'static str, Vec<u8>> {
    FILES.into_iter().filter_map(|suffix| Some((suffix, fs::read(named(path, suffix)).ok()?))).collect()
}

/// Returns damaged stores of every kind: flipped and truncated, in each file.
fn damaged_stores(test_env: &TestEnv) -> Vec<(String, Copy)> {
    let mut stores = Vec::new();
    for suffix in ["", "-wal"] {
        let length = fs::metadata(named(&test_env.path(), suffix)).unwrap().len();
        for part in 0..12 {
            let at = length * part / 12 + 24 + part;
            let (flipped, cut) = (test_env.copy(), test_env.copy());
            let (file, whole) = open_file(&flipped.path(), suffix);
            let at = usize::try_from(at).unwrap();
            file.write_all_at(&[whole[at] ^ 0xff], at as u64).unwrap();
            stores.push((format!("byte {at} of sessions.db{suffix}"), flipped));
            open_file(&cut.path(), suffix).0.set_len(length * part / 12).unwrap();
            stores.push((format!("sessions.db{suffix} cut to {part}/12"), cut));
        }
    }
    stores.retain(|(_, copy)| !open(&copy.path(), Access::Read).unwrap().damage().is_empty());
    assert!(stores.len() > 20, "only {} of the stores are damaged", stores.len());
    stores
}

#[test]
fn i6_a_damaged_store_is_not_written_and_a_repair_keeps_readable_records() {
    let test_env = TestEnv::new();
    for (place, copy) in damaged_stores(&test_env) {
        let store = open(&copy.path(), Access::Write).unwrap();
        let (readable, _) = list(&*store);
        let before = content(&copy.path());
        let refused = block_on(store.commit(Batch::new().insert(session(900))));
        assert!(matches!(refused, Err(StoreError::Damaged { .. })), "{place}: {refused:?}");
        assert!(content(&copy.path()) == before, "{place}: a refused commit changed the store");

        let report = block_on(store.repair(now())).unwrap();
        assert_eq!(report.kept, readable.len() as u64, "{place}");
        assert!(
            fs::read_dir(report.quarantine.unwrap()).unwrap().count() > 0,
            "{place}: nothing was quarantined"
        );
        assert_eq!(list(&*store), (readable.clone(), Vec::new()), "{place}");
        commit(&*store, Batch::new().insert(session(900)));
        let again = block_on(store.repair(now())).unwrap();
        assert_eq!((again.kept, again.quarantine), (readable.len() as u64 + 1, None), "{place}");
        assert_eq!(list(&*open(&copy.path(), Access::Read).unwrap()).0.len(), readable.len() + 1, "{place}");
    }
}

#[test]
fn i6_a_restore_recovers_every_record_after_any_damage() {
    let test_env = TestEnv::new();
    for (place, copy) in damaged_stores(&test_env) {
        let store = open(&copy.path(), Access::Write).unwrap();
        let uuid = store.describe().uuid;
        block_on(store.restore(&test_env.backup(), now()))
            .unwrap_or_else(|error| panic!("{place}: {error:?}"));
        let (sessions, damage) = list(&*store);
        assert_eq!((sessions.len(), damage), (RECORDS, Vec::new()), "{place}");
        assert_eq!(store.describe().uuid, uuid, "{place}");
        commit(&*store, Batch::new().insert(session(900)));
    }
}

#[test]
fn i6_an_empty_index_with_a_wrong_page_is_detected_and_repaired() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("sessions.db");
    let mut finished = session(1);
    finished.finish(sexton_core::session::Exit::exited(0), now());
    commit(&*open(&path, Access::Write).unwrap(), Batch::new().insert(finished.clone()));
    let connection = rusqlite::Connection::open(&path).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    let page_of = |name: &str| {
        let sql = "SELECT rootpage FROM sqlite_schema WHERE name = ?1";
        connection.query_row(sql, [name], |row| row.get::<_, u32>(0).map(u64::from)).unwrap() - 1
    };
    let (table, index) = (page_of("meta") * 4096, page_of("sessions_unfinished") * 4096);
    connection.close().unwrap();
    let mut page = [0; 4096];
    let file = OpenOptions::new().read(true).write(true).open(&path).unwrap();
    file.read_exact_at(&mut page, table).unwrap();
    file.write_all_at(&page, index).unwrap();
    let store = open(&path, Access::Write).unwrap();
    assert_ne!(block_on(store.check()).unwrap().damage, [], "the next insert would fail");
    block_on(store.repair(now())).unwrap();
    commit(&*store, Batch::new().insert(session(2)));
    assert_eq!(list(&*store).0.len(), 2);
}
