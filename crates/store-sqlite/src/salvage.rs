//! Reads what it can of a damaged store. SQLite is not used: it stops at a broken tree, and here every row is
//! verified by its own checksum.
//!
//! Architecture invariant: this only reads. The files of a damaged store stay as they are until `repair`.

use std::collections::{BTreeMap, BTreeSet};

use rusqlite::types::Value;
use sexton_core::SessionId;

use crate::counters;
use crate::meta::Meta;
use crate::page::{self, Kind, PAGE_SIZE, Pages};
use crate::rows::{COLUMN_COUNT, Row};
use crate::wal::Wal;

/// The readable content.
#[derive(Debug, Default)]
pub(crate) struct Salvage {
    /// The newest revision of each row.
    pub(crate) rows: BTreeMap<SessionId, Row>,
    /// The newest metadata.
    pub(crate) meta: Option<Meta>,
    /// The counters.
    pub(crate) counters: BTreeMap<String, u64>,
    /// Records that existed and cannot be read.
    pub(crate) lost: BTreeSet<SessionId>,
}

/// The database as SQLite would see it: the file overlaid with the committed part of the log.
struct Image<'a> {
    database: &'a [u8],
    log: BTreeMap<u32, &'a [u8]>,
    page_count: u32,
    in_file: u32,
}

impl<'a> Image<'a> {
    fn new(database: &'a [u8], wal: &'a Wal) -> Image<'a> {
        let in_file = u32::try_from(database.len().div_ceil(PAGE_SIZE)).unwrap_or(u32::MAX);
        let (log, page_count) = wal.committed().unwrap_or((BTreeMap::new(), in_file));
        Image { database, log, page_count, in_file }
    }

    /// Returns the numbers of the existing pages. A log may claim billions of pages; those that do not exist
    /// are not tried.
    fn numbers(&self) -> impl Iterator<Item = u32> + '_ {
        let beyond = self.log.keys().copied().filter(|number| *number > self.in_file);
        (1..=self.in_file).chain(beyond).filter(|number| *number <= self.page_count)
    }
}

impl Pages for Image<'_> {
    fn find_page(&self, number: u32) -> Option<&[u8]> {
        if let Some(page) = self.log.get(&number) {
            return Some(page);
        }
        let start = usize::try_from(number.checked_sub(1)?).ok()?.checked_mul(PAGE_SIZE)?;
        // The last page of a truncated file may still contain rows.
        self.database
            .get(start..)
            .map(|rest| &rest[..rest.len().min(PAGE_SIZE)])
            .filter(|page| !page.is_empty())
    }
}

/// The pages after a break in the log, over the image below them.
struct Detached<'a> {
    pages: BTreeMap<u32, &'a [u8]>,
    below: &'a Image<'a>,
}

impl Pages for Detached<'_> {
    fn find_page(&self, number: u32) -> Option<&[u8]> {
        self.pages.get(&number).copied().or_else(|| self.below.find_page(number))
    }
}

impl Salvage {
    /// Reads what it can of a database file and its log.
    pub(crate) fn of(database: &[u8], wal: &Wal) -> Salvage {
        let image = Image::new(database, wal);
        let mut salvage = Salvage::default();
        let free = page::free_pages(&image);
        for number in image.numbers().filter(|number| !free.contains(number)) {
            let Some(page) = image.find_page(number) else { continue };
            salvage.add_page(number, page, &image, None);
        }
        salvage.add_detached(wal, &image);
        salvage.lost.retain(|id| !salvage.rows.contains_key(id));
        salvage
    }

    /// Returns the highest commit number found.
    pub(crate) fn seq(&self) -> u64 {
        let newest_row = self.rows.values().map(|row| row.revision).max();
        newest_row.max(self.meta.as_ref().map(|meta| meta.seq)).unwrap_or(0)
    }

    /// Adds the content after a break in the log. Remains of a write that was never acknowledged are old:
    /// only content newer than everything before the break counts.
    fn add_detached(&mut self, wal: &Wal, image: &Image<'_>) {
        let known = Some(self.seq());
        let pages = Detached { pages: wal.detached().collect(), below: image };
        for (number, page) in wal.detached() {
            self.add_page(number, page, &pages, known);
        }
    }

    /// Adds the rows of a page; if `after` is given, only those of later commits.
    fn add_page(&mut self, number: u32, page: &[u8], pages: &dyn Pages, after: Option<u64>) {
        let is_later = |seq: u64| after.is_none_or(|after| seq > after);
        let Some(kind) = page::kind_of(number, page) else { return };
        for values in page::records(number, page, kind, pages) {
            match (kind, values.len()) {
                (Kind::TableLeaf, COLUMN_COUNT) => self.add_row(values, is_later),
                (Kind::TableLeaf, 6) => self.add_meta(&values, is_later),
                (Kind::TableLeaf, 3) => self.add_counter(values),
                (Kind::IndexLeaf | Kind::IndexInner, 2) if after.is_none() => self.add_known_id(&values),
                _ => {}
            }
        }
    }

    fn add_row(&mut self, values: Vec<Value>, is_later: impl Fn(u64) -> bool) {
        match Row::from_values(values) {
            Ok(row) => {
                let newest = self.rows.get(&row.id).is_none_or(|known| known.revision < row.revision);
                if newest && is_later(row.revision) {
                    self.rows.insert(row.id.clone(), row);
                }
            }
            Err(bad) => self.lost.extend(bad.id),
        }
    }

    fn add_meta(&mut self, values: &[Value], is_later: impl Fn(u64) -> bool) {
        // The first column is the key, which SQLite stores outside of the record.
        let meta = Meta::from_values(values[1..].to_vec()).filter(|meta| is_later(meta.seq));
        let newest = meta.filter(|meta| self.meta.as_ref().is_none_or(|known| known.seq < meta.seq));
        self.meta = newest.or_else(|| self.meta.take());
    }

    fn add_counter(&mut self, values: Vec<Value>) {
        if let Some((name, value)) = counters::from_values(values) {
            let known = self.counters.entry(name).or_default();
            *known = value.max(*known);
        }
    }

    /// Adds an id from the id index, the only index of a single text column: it names records whose rows are
    /// lost.
    fn add_known_id(&mut self, values: &[Value]) {
        if let [Value::Text(id), Value::Integer(_)] = values
            && let Ok(id) = id.parse()
        {
            self.lost.insert(id);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use pollster::block_on;
    use sexton_core::plugin::StoreOptions;
    use sexton_core::session::Exit;
    use sexton_core::store::{Access, Durability};
    use sexton_core::{Batch, Host, Query, Session, Store};

    use super::*;
    use crate::broken::load_wal;
    use crate::files::Files;
    use crate::presence::read_database;
    use crate::wal::checksum;

    fn open(path: &Path) -> Box<dyn Store> {
        let options = StoreOptions::new(path.to_owned(), Access::Write, Durability::Process);
        crate::open(&options).unwrap()
    }

    /// Returns a record whose document fills from a fraction of a page to many pages.
    fn session(number: usize) -> Session {
        let host = Host::new("m", "h");
        let now = "2026-11-16T03:15:00Z".parse().unwrap();
        let mut session = Session::new(format!("session-{number}").parse().unwrap(), host, now);
        session.name = Some(format!("name-{number}"));
        session.tags.insert("note".to_owned(), "x".repeat(number * number % 17_000));
        session
    }

    /// Asserts that the content read without SQLite equals what SQLite lists.
    fn assert_same(path: &Path, store: &dyn Store) {
        let listed = block_on(store.list(&Query::all())).unwrap().sessions;
        let files = Files::of(path).unwrap();
        let salvage = Salvage::of(&read_database(path).unwrap(), &load_wal(&files).unwrap());
        let mut found = BTreeMap::new();
        for (id, row) in &salvage.rows {
            found.insert(id.clone(), row.parse().unwrap());
        }
        assert_eq!(found, listed.into_iter().map(|session| (session.id.clone(), session)).collect());
        assert_eq!(salvage.lost, BTreeSet::new());
        assert_eq!(salvage.counters, block_on(store.counters()).unwrap());
        assert_eq!(salvage.meta.unwrap().store, store.describe().uuid.unwrap());
    }

    #[test]
    fn an_intact_store_can_be_read_completely_without_sqlite() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sessions.db");
        let store = open(&path);
        for round in 0..12 {
            let fresh = (0..20).map(|number| session(round * 20 + number));
            let batch = fresh.fold(Batch::new(), Batch::insert).count("rounds", 1);
            block_on(store.commit(batch)).unwrap();
            let listed = block_on(store.list(&Query::all())).unwrap().sessions;
            let batch =
                listed.iter().enumerate().fold(Batch::new(), |batch, (place, session)| match place % 5 {
                    0 => batch.remove(session),
                    1 => {
                        let mut longer = session.clone();
                        longer.tags.insert("more".to_owned(), "y".repeat(place * 37 % 6_000));
                        batch.replace(longer)
                    }
                    _ => batch,
                });
            block_on(store.commit(batch)).unwrap();
            assert_same(&path, &*store);
        }
    }

    /// Returns a log of the page `number`, whose commit gives the database `count` pages.
    fn log_of(number: u32, count: u32) -> Wal {
        let mut bytes = Vec::new();
        let words = |bytes: &mut Vec<u8>, words: &[u32]| {
            bytes.extend(words.iter().flat_map(|word| word.to_be_bytes()));
        };
        words(&mut bytes, &[0x377f_0683, 3_007_000, 4096, 0, 7, 8]);
        let (first, second) = checksum(true, (0, 0), &bytes);
        words(&mut bytes, &[first, second, number, count, 7, 8]);
        let page = [0; PAGE_SIZE];
        let sum = checksum(true, checksum(true, (first, second), &bytes[32..40]), &page);
        words(&mut bytes, &[sum.0, sum.1]);
        bytes.extend(page);
        Wal::parse(bytes)
    }

    #[test]
    fn pages_that_do_not_exist_are_not_tried() {
        let numbers = |pages: usize, wal: &Wal| -> Vec<u32> {
            Image::new(&vec![0; pages * PAGE_SIZE], wal).numbers().collect()
        };
        let wal = log_of(2, u32::MAX);
        assert!(wal.committed().is_some_and(|(_, count)| count == u32::MAX), "the log is intact");
        assert_eq!(numbers(0, &wal), [2]);
        assert_eq!(numbers(3, &wal), [1, 2, 3]);
        assert_eq!(numbers(3, &log_of(u32::MAX, u32::MAX)), [1, 2, 3, u32::MAX]);
        assert_eq!(numbers(3, &log_of(4, 2)), [1, 2]);
    }

    #[test]
    fn records_removed_by_a_restore_are_not_salvaged_from_free_pages() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sessions.db");
        let store = open(&path);
        let now = "2026-11-16T03:15:00Z".parse().unwrap();
        let finished = |number| {
            let mut session = session(number);
            session.finish(Exit::exited(0), now);
            session
        };
        block_on(store.commit(Batch::new().insert(finished(1)))).unwrap();
        let backup = block_on(store.backup(directory.path(), now)).unwrap();
        block_on(store.commit((2..80).map(finished).fold(Batch::new(), Batch::insert))).unwrap();
        assert_eq!(block_on(store.restore(&backup.path, now)).unwrap().restored, 1);
        assert_same(&path, &*store);
    }
}
