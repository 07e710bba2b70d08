//! What other processes do to a store while a case looks on: the roles of the re-executed test binary.

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
use super::site::{Handle, open_at};
use crate::role::{LIMIT, hear, say, wait_for_the_leash};

/// Holds a lock: says `held`, and keeps it until the leash is let go.
pub(super) const HOLD: &str = "store-hold";
/// Commits records of its own and counts in a shared one: says `ready`, hears `go`, says `done`.
pub(super) const CONTEND: &str = "store-contend";
/// Changes pairs of records, each time in one batch, and says the number of each acknowledged one.
pub(super) const FLIP: &str = "store-flip";
/// Reads the pairs over and over until the leash is let go; says `half: …` or how often it read.
pub(super) const WATCH: &str = "store-watch";
/// Inserts records one by one and says the id of each acknowledged one.
pub(super) const APPEND: &str = "store-append";

/// Tells [`CONTEND`] to leave the shared record alone.
pub(super) const NEVER: usize = usize::MAX;

/// How many of the pairs that [`FLIP`] inserts are left in the store.
const PAIRS: u64 = 12;

/// Plays `role` in this process. Its arguments: the store's path, its durability, and the role's own.
pub(super) fn play(subject: &Subject, role: &str, arguments: &[OsString]) {
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
        (other, rest) => panic!("there is no role `{other}` with {rest:?}"),
    }
}

fn number(text: &str) -> u64 {
    text.parse().expect("a number")
}

fn hold(store: &Handle, lock: &str) {
    let _guard = store.lock(lock, LIMIT).expect("the lock is free");
    say("held");
    wait_for_the_leash();
}

fn contend(store: &Handle, worker: &str, commits: u64, shared_every: u64) {
    say("ready");
    assert_eq!(hear(), "go");
    for n in 0..commits {
        store.commit(Batch::new().insert(completed(&format!("w{worker}-{n}"))).count("commits", 1));
        if (n + 1) % shared_every == 0 {
            store.update(&id("shared"), |session| {
                store.count_up(session);
                true
            });
        }
    }
    say("done");
}

fn append(store: &Handle, count: u64) {
    for n in 0..count {
        let session = completed(&format!("appended-{n:06}"));
        store.insert(session.clone());
        say(session.id);
    }
}

/// The two records that [`FLIP`] always changes together.
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
            // Enough bytes that a journal has to be compacted while it is being killed.
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
        say(flip);
    }
}

/// Checks that `sessions` is what some whole number of flips leaves; gives that number, or what is wrong.
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
    let over = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&over);
    thread::spawn(move || {
        wait_for_the_leash();
        seen.store(true, Ordering::Relaxed);
    });
    let (mut reads, mut last) = (0_u64, 0);
    say("ready");
    while !over.load(Ordering::Relaxed) {
        match require_whole(&store.listing(&Query::all()).sessions) {
            Ok(flips) if flips < last => return say(format!("half: went back from flip {last} to {flips}")),
            Ok(flips) => last = flips,
            Err(half) => return say(half),
        }
        reads += 1;
    }
    say(format!("read {reads} times"));
}
