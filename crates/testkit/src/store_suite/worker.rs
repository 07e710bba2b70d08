//! The roles of the re-executed test binary: operations of other processes on a store.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use serde_json::json;
use sexton_core::store::{Access, Durability};
use sexton_core::{Batch, Query, Session};

use super::Subject;
use super::samples::{completed, id, number_of, running};
use super::test_env::{Handle, open_at};
use crate::role::{LIMIT, print_line, read_line, wait_for_stdin_close};

/// Takes a lock, prints `held`, and holds the lock until standard input closes.
pub(super) const HOLD: &str = "store-hold";
/// Prints `ready`, reads `go`, commits its own records, increments a number in a shared one, and prints `done`.
pub(super) const CONTEND: &str = "store-contend";
/// Changes pairs of records, each time in one batch, and prints the number of each acknowledged batch.
pub(super) const FLIP: &str = "store-flip";
/// Reads the pairs repeatedly until standard input closes; prints `half: …` or how often it read.
pub(super) const WATCH: &str = "store-watch";
/// Inserts records one by one and prints the id of each acknowledged one.
pub(super) const APPEND: &str = "store-append";

/// Makes [`CONTEND`] never change the shared record.
pub(super) const NEVER: usize = usize::MAX;

/// Number of inserted pairs that [`FLIP`] keeps in the store.
const PAIRS: u64 = 12;

/// Runs `role` in this process. The arguments are the store's path, its durability, and those of the role.
pub(super) fn run_role(subject: &Subject, role: &str, arguments: &[OsString]) {
    let [path, durability, rest @ ..] = arguments else { panic!("a role without a store") };
    let rest: Vec<&str> = rest.iter().map(|argument| argument.to_str().expect("a plain argument")).collect();
    let durability = if durability == "Power" { Durability::Power } else { Durability::Process };
    let open = |access| open_at(subject, Path::new(path), access, durability).expect("the store opens");
    match (role, rest.as_slice()) {
        (HOLD, [lock]) => hold(&open(Access::Write), lock),
        (CONTEND, [worker, commits, shared_every]) => {
            contend(&open(Access::Write), worker, number(commits), number(shared_every));
        }
        (FLIP, [limit]) => flip(&open(Access::Write), number(limit)),
        (WATCH, []) => watch(&open(Access::Read)),
        (APPEND, [count]) => append(&open(Access::Write), number(count)),
        (other, rest) => panic!("unknown role `{other}` with {rest:?}"),
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn hold(store: &Handle, lock: &str) {
    let _guard = store.lock(lock, LIMIT).expect("the lock is free");
    print_line("held");
    wait_for_stdin_close();
}

fn contend(store: &Handle, worker: &str, commits: u64, shared_every: u64) {
    print_line("ready");
    assert_eq!(read_line(), "go");
    for n in 0..commits {
        store.commit(Batch::new().insert(completed(&format!("w{worker}-{n}"))).count("commits", 1));
        if (n + 1) % shared_every == 0 {
            store.update(&id("shared"), |session| {
                store.count_up(session);
                true
            });
        }
    }
    print_line("done");
}

fn append(store: &Handle, count: u64) {
    for n in 0..count {
        let session = completed(&format!("appended-{n:06}"));
        store.insert(session.clone());
        print_line(session.id);
    }
}

/// Returns the two records that [`FLIP`] always changes together.
pub(super) fn pair() -> [Session; 2] {
    ["left", "right"].map(running)
}

fn flip(store: &Handle, limit: u64) {
    for _ in 0..limit {
        let [left, right] = ["left", "right"].map(|side| store.require(&id(side)));
        let flip = number_of(&left) + 1;
        let mut batch = Batch::new().count("flips", 1);
        for mut side in [left, right] {
            store.count_up(&mut side);
            // Enough bytes that a journal is compacted while the writer is killed.
            side.extra.insert("payload".to_owned(), json!(format!("{flip:08}").repeat(1000)));
            batch = batch.replace(side);
        }
        for half in ["a", "b"] {
            batch = batch.insert(completed(&format!("{half}{flip}")));
            if let Some(old) = flip.checked_sub(PAIRS).filter(|old| *old > 0) {
                batch = batch.remove(&store.require(&id(&format!("{half}{old}"))));
            }
        }
        store.commit(batch);
        print_line(flip);
    }
}

/// Checks that `sessions` is the result of a whole number of flips. Returns that number, or what is wrong.
pub(super) fn require_whole(sessions: &[Session]) -> Result<u64, String> {
    let find = |name: &str| sessions.iter().find(|session| session.id.as_str() == name);
    let side = |name: &str| find(name).map(number_of).ok_or(format!("half: {name} is missing"));
    let flips = side("left")?;
    let mut expected = vec!["left".to_owned(), "right".to_owned()];
    for flip in flips.saturating_sub(PAIRS - 1).max(1)..=flips {
        expected.extend([format!("a{flip}"), format!("b{flip}")]);
    }
    let mut found: Vec<&str> = sessions.iter().map(|session| session.id.as_str()).collect();
    found.sort_unstable();
    expected.sort_unstable();
    if side("right")? != flips || found != expected {
        return Err(format!("half: left {flips}, right {}, records {found:?}", side("right")?));
    }
    Ok(flips)
}

fn watch(store: &Handle) {
    let closed = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&closed);
    thread::spawn(move || {
        wait_for_stdin_close();
        seen.store(true, Ordering::Relaxed);
    });
    let (mut reads, mut last) = (0_u64, 0);
    print_line("ready");
    while !closed.load(Ordering::Relaxed) {
        match require_whole(&store.listing(&Query::all()).sessions) {
            Ok(flips) if flips < last => {
                return print_line(format!("half: went back from flip {last} to {flips}"));
            }
            Ok(flips) => last = flips,
            Err(half) => return print_line(half),
        }
        reads += 1;
    }
    print_line(format!("read {reads} times"));
}
