//! Sexton's own stores: lines of a journal, whole journals, pages of a database, and both as files.
//!
//! The first letter selects the format: `l` a line; `j` two bytes for the mark, then a journal; `f` two bytes
//! that select the bit to flip, then a journal; `s` a journal to open; `p` changes of a database that is read
//! without SQLite, `d` of one that is opened.
#![no_main]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::path::Path;
use std::sync::OnceLock;

use libfuzzer_sys::fuzz_target;
use pollster::block_on;
use sexton_core::plugin::StoreOptions;
use sexton_core::store::{Access, Durability};
use sexton_core::{Batch, Host, Query, Session, Store, StoreError, Time};
use sexton_fuzz::edits::{self, PAGE};
use sexton_fuzz::{split_kind, split_number};
use sexton_store_json::fuzzing as json;
use sexton_store_sqlite::fuzzing as sqlite;

/// A database with a few sessions, some of whose records fill pages, and its log with a few more commits.
const DATABASE: &[u8] = include_bytes!("../templates/sessions.db");
const LOG: &[u8] = include_bytes!("../templates/sessions.db-wal");

type Open = fn(&StoreOptions) -> Result<Box<dyn Store>, StoreError>;

fuzz_target!(|input: &[u8]| {
    let Some((kind, input)) = split_kind(input) else { return };
    match kind {
        b'j' => with_sealed(split_number::<2>(input), |mark, journal| {
            let claimed = (mark & 3 != 0).then_some(((mark >> 2) as u64, mark & 1 == 1));
            json::journal(journal, claimed);
        }),
        b'f' => with_sealed(split_number::<2>(input), |position, journal| json::flipped(journal, position)),
        b's' => with_sealed((0, input), |_, journal| {
            open("sessions.jsonl", &[("sessions.jsonl", journal)], sexton_store_json::open);
        }),
        b'p' => read_pages(input),
        // SQLite takes ten times as long as all the rest: one input in eight is enough. The choice depends
        // only on the input.
        b'd' if input.iter().fold(0_u8, |sum, byte| sum.rotate_left(3) ^ byte).is_multiple_of(8) => {
            let edited = edits::edit(DATABASE, LOG, input);
            let files = [("sessions.db", &*edited.file), ("sessions.db-wal", &*edited.log)];
            open("sessions.db", &files, sexton_store_sqlite::open);
        }
        b'd' => {}
        _ => with_sealed((0, input), |_, line| json::line(line)),
    }
});

fn with_sealed((number, input): (usize, &[u8]), check: impl FnOnce(usize, &[u8])) {
    let mut bytes = input.to_vec();
    json::seal(&mut bytes);
    check(number, &bytes);
}

/// Reads a damaged database. Damage in one page must cost no more than the loss of that page.
fn read_pages(input: &[u8]) {
    let mut edited = edits::edit(DATABASE, LOG, input);
    sqlite::seal(&mut edited.log);
    let found: BTreeMap<String, u64> = sqlite::salvage(&edited.file, &edited.log).into_iter().collect();
    // The first page lists the free pages: damage there is not checked here.
    if let (Some(page), 1, false) = (edited.pages.first(), edited.pages.len(), edited.beyond_pages)
        && *page > 0
    {
        for id in &outside_of_each_page()[*page] {
            assert!(found.contains_key(id), "{id} is lost, although page {page} holds no part of it");
        }
    }
}

/// Returns, for each page of the template, the sessions that can be read without it.
fn outside_of_each_page() -> &'static [BTreeSet<String>] {
    static OUTSIDE: OnceLock<Vec<BTreeSet<String>>> = OnceLock::new();
    OUTSIDE.get_or_init(|| {
        let without = |page: usize| {
            let mut file = DATABASE.to_vec();
            file[page * PAGE..(page + 1) * PAGE].fill(0);
            sqlite::salvage(&file, LOG).into_iter().map(|(id, _)| id).collect()
        };
        (0..DATABASE.len() / PAGE).map(without).collect()
    })
}

/// Opens a store of hostile bytes: reading changes no byte, damage is reported and not overwritten, and a
/// repair keeps every record that could be read.
fn open(name: &str, files: &[(&str, &[u8])], open: Open) {
    let directory = tempfile::tempdir().expect("a directory in memory");
    for (name, bytes) in files {
        fs::write(directory.path().join(name), bytes).expect("a file in memory");
    }
    let path = directory.path().join(name);
    let with = |access| open(&StoreOptions::new(path.clone(), access, Durability::Process));
    let unchanged = |directory: &Path| {
        files.iter().all(|(name, bytes)| fs::read(directory.join(name)).is_ok_and(|now| now == *bytes))
    };
    let before = with(Access::Read).ok().and_then(|store| read(&*store));
    assert!(unchanged(directory.path()), "reading changed something");
    let Ok(store) = with(Access::Write) else {
        return assert!(unchanged(directory.path()), "a store that was refused is changed");
    };
    let batch = || Batch::new().insert(fresh());
    if store.damage().iter().any(|damage| !damage.harmless) {
        assert!(block_on(store.commit(batch())).is_err(), "a damaged store is written to");
        if name == "sessions.jsonl" {
            assert!(unchanged(directory.path()), "a damaged journal is changed before it is repaired");
        }
    }
    if block_on(store.repair(now())).is_err() {
        return;
    }
    let after = read(&*store).expect("a repaired store can be read");
    for (id, session) in before.unwrap_or_default() {
        let kept = after.get(&id).unwrap_or_else(|| panic!("{id} could be read before the repair"));
        assert_eq!(Session { revision: 0, ..kept.clone() }, Session { revision: 0, ..session });
    }
    if !after.contains_key(fresh().id.as_str()) {
        block_on(store.commit(batch())).expect("a repaired store can be written");
    }
}

fn read(store: &dyn Store) -> Option<BTreeMap<String, Session>> {
    let listing = block_on(store.list(&Query::all())).ok()?;
    let _ = (block_on(store.tally()), block_on(store.counters()), block_on(store.check()));
    Some(listing.sessions.into_iter().map(|session| (session.id.to_string(), session)).collect())
}

fn fresh() -> Session {
    let host = Host::new("m", "h");
    Session::new("fresh-session-of-the-fuzzer".parse().expect("an id"), host, now())
}

fn now() -> Time {
    "2026-11-16T03:15:00Z".parse().expect("a time")
}
