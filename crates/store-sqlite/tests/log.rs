//! Damage in the write-ahead log, where SQLite itself sees none: it takes what lies before the first bad
//! frame for everything there is. Here without the mark, which a power cut may have left behind.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails, and says where")]

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
    let options = StoreOptions { path: path.to_owned(), access, durability: Durability::Process };
    sexton_store_sqlite::open(&options).unwrap()
}

fn insert(store: &dyn Store, id: &str) {
    let host = Host::new("m", "h");
    let mut session = Session::new(id.parse().unwrap(), host, "2026-11-16T03:15:00Z".parse().unwrap());
    // Each has a page of its own, near the end of its commit.
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

/// A store with the records a to e, all of them in the log, and where in the log each commit begins.
struct Site {
    directory: TempDir,
    begins: Vec<usize>,
}

impl Site {
    fn new() -> Site {
        let directory = TempDir::new().unwrap();
        let mut site = Site { directory, begins: Vec::new() };
        let store = open(&site.path(), Access::Write);
        for id in ["a", "b", "c", "d", "e"] {
            site.begins.push(fs::read(site.wal()).map_or(HEADER, |log| log.len().max(HEADER)));
            insert(&*store, id);
        }
        site
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
fn i6_commits_hidden_behind_a_bad_frame_are_damage_and_can_be_read() {
    let site = Site::new();
    site.flip(site.begins[1] + FRAME - 1);
    site.forget_mark();
    let store = open(&site.path(), Access::Write);
    assert_eq!(store.damage()[0].place, "write-ahead log");
    assert!(store.damage()[0].what.contains("(2 to 5) are hidden"), "{:?}", store.damage());
    let readable = ids(&*store);
    assert!(readable.len() >= 4 && readable.contains(&"e".to_owned()), "{readable:?}");
}

#[test]
fn i6_a_bad_header_with_commits_behind_it_is_damage() {
    for at in [0, 5, 16, 30] {
        let site = Site::new();
        site.flip(at);
        site.forget_mark();
        assert!(site.damage().iter().any(|damage| !damage.harmless), "byte {at}: {:?}", site.damage());
        let readable = ids(&*open(&site.path(), Access::Read));
        assert!(readable.len() >= 4, "byte {at}: {readable:?}");
    }
}

#[test]
fn a_last_write_that_was_cut_off_is_harmless_and_the_next_one_takes_its_place() {
    let site = Site::new();
    site.flip(fs::read(site.wal()).unwrap().len() - 1);
    site.forget_mark();
    let store = open(&site.path(), Access::Write);
    let damage = store.damage();
    assert!(damage.len() == 1 && damage[0].harmless, "{damage:?}");
    assert_eq!(ids(&*store), ["a", "b", "c", "d"]);
    insert(&*store, "f");
    assert_eq!(ids(&*open(&site.path(), Access::Read)), ["a", "b", "c", "d", "f"]);
    assert_eq!(site.damage(), []);
}

#[test]
fn a_log_without_the_end_of_its_last_write_is_whole() {
    let site = Site::new();
    let log = fs::OpenOptions::new().write(true).open(site.wal()).unwrap();
    log.set_len(site.begins[4] as u64 + 100).unwrap();
    site.forget_mark();
    assert_eq!(site.damage(), []);
    assert_eq!(ids(&*open(&site.path(), Access::Read)), ["a", "b", "c", "d"]);
}

#[test]
fn a_mark_that_a_power_cut_left_behind_proves_nothing_wrong() {
    let site = Site::new();
    let mark = fs::read(named(&site.path(), ".mark")).unwrap();
    let store = open(&site.path(), Access::Write);
    insert(&*store, "f");
    insert(&*store, "g");
    fs::write(named(&site.path(), ".mark"), mark).unwrap();
    assert_eq!(site.damage(), []);
    insert(&*open(&site.path(), Access::Write), "h");
    assert_eq!(ids(&*store).len(), 8);
}

#[test]
fn what_is_left_of_a_write_that_was_written_over_is_not_taken_for_hidden_commits() {
    let site = Site::new();
    // The log as it was when "e" was cut off; then two smaller writes over its beginning, and the rest of
    // the old frames behind them, with the salt of this very round.
    let old = fs::read(site.wal()).unwrap();
    let log = fs::OpenOptions::new().write(true).open(site.wal()).unwrap();
    log.set_len(site.begins[4] as u64 + 100).unwrap();
    site.forget_mark();
    let store = open(&site.path(), Access::Write);
    block_on(store.commit(Batch::new().count("made", 1))).unwrap();
    drop(store);
    let mut new = fs::read(site.wal()).unwrap();
    assert!(new.len() < old.len(), "the second write is the smaller one");
    new.extend_from_slice(&old[new.len()..]);
    fs::write(site.wal(), new).unwrap();
    site.forget_mark();
    assert_eq!(site.damage(), []);
    // Nor for a record, where the store is damaged in another way.
    let store = open(&site.path(), Access::Read).describe().uuid.unwrap();
    MarkFile::beside(&site.path()).store(&Mark { store, sequence: 99, stamp: None }).unwrap();
    assert_ne!(site.damage(), []);
    assert_eq!(ids(&*open(&site.path(), Access::Read)), ["a", "b", "c", "d"]);
}
