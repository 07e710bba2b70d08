//! Many processes at once: nothing is lost, nobody is told "busy", and no reader sees half a batch.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sexton_core::store::{Access, Durability};

use super::Subject;
use super::samples::{completed, id, number_of, running};
use super::site::Site;
use super::worker::{self, require_whole};
use crate::role::{Helper, LIMIT};
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("contention":
    i6_sixteen_processes_commit_many_times_and_nothing_is_lost,
    i6_sixteen_processes_commit_through_power_cuts_and_nothing_is_lost,
    i6_sixteen_processes_make_one_store_together,
    i6_readers_never_see_half_a_batch,
    a_stopped_writer_does_not_stop_a_reader,
    a_writer_waits_for_a_stopped_one_instead_of_failing,
);

const WRITERS: usize = 16;
/// How many of its commits a writer makes for each that it makes to the shared record.
const SHARED_EVERY: usize = 10;

/// Lets all writers commit at once, each `commits` records of its own and every so often the shared one.
fn write_together(site: &Site, durability: Durability, commits: usize, shared_every: usize) {
    let (count, every) = (commits.to_string(), shared_every.to_string());
    let writer = |n: usize| site.helper(worker::CONTEND, durability, &[&n.to_string(), &count, &every]);
    let mut writers: Vec<Helper> = (0..WRITERS).map(writer).collect();
    for writer in &writers {
        assert_eq!(writer.line(), "ready");
    }
    for writer in &mut writers {
        writer.tell("go");
    }
    for writer in writers {
        assert_eq!(writer.line(), "done");
        assert!(writer.finish().0.success());
    }
}

fn i6_sixteen_processes_make_one_store_together(subject: &Subject) {
    const COMMITS: usize = 5;
    for durability in [Durability::Power, Durability::Process] {
        let site = Site::new(subject);
        write_together(&site, durability, COMMITS, worker::NEVER);
        assert_eq!(site.reader().all().len(), WRITERS * COMMITS, "a store that was just made was made again");
    }
}

fn contend(subject: &Subject, durability: Durability, commits: usize) {
    let site = Site::with(subject, [running("shared")]);
    write_together(&site, durability, commits, SHARED_EVERY);
    let store = site.writer();
    let all = store.all();
    for n in 0..WRITERS {
        let prefix = format!("w{n}-");
        let own = all.iter().filter(|session| session.id.as_str().starts_with(&prefix)).count();
        assert_eq!(own, commits, "writer {n} lost acknowledged records");
    }
    assert_eq!(all.len(), WRITERS * commits + 1);
    let number = |count: usize| u64::try_from(count).expect("a small number");
    if subject.capabilities.counters {
        assert_eq!(store.counters().get("commits"), Some(&number(WRITERS * commits)));
    }
    let shared = number_of(&store.require(&id("shared")));
    assert_eq!(shared, number(WRITERS * (commits / SHARED_EVERY)), "an update was lost");
}

fn i6_sixteen_processes_commit_many_times_and_nothing_is_lost(subject: &Subject) {
    contend(subject, Durability::Process, subject.contended_commits);
}

fn i6_sixteen_processes_commit_through_power_cuts_and_nothing_is_lost(subject: &Subject) {
    contend(subject, Durability::Power, 30);
}

fn i6_readers_never_see_half_a_batch(subject: &Subject) {
    const READERS: usize = 3;
    const FLIPS: &str = "400";
    let site = Site::with(subject, worker::pair());
    let reader = |_| site.helper(worker::WATCH, Durability::Process, &[]);
    let readers: Vec<Helper> = (0..READERS).map(reader).collect();
    for reader in &readers {
        assert_eq!(reader.line(), "ready");
    }
    let writer = site.helper(worker::FLIP, Durability::Process, &[FLIPS]);
    let flips = writer.remaining_lines();
    assert_eq!(flips.last().map(String::as_str), Some(FLIPS), "the writer did not finish");
    for reader in readers {
        let (status, said) = reader.finish();
        assert!(status.success() && said.len() == 1, "{said:?}");
        assert!(said[0].starts_with("read ") && said[0] != "read 0 times", "{said:?}");
    }
}

/// A writer that flips until it is told otherwise.
fn endless_writer(site: &Site, durability: Durability) -> Helper {
    let writer = site.helper(worker::FLIP, durability, &[&u64::MAX.to_string()]);
    writer.line();
    writer
}

/// Moments that differ from round to round without being random: a failure can be looked for again.
fn moment_of(round: u32) -> Duration {
    Duration::from_micros(u64::from(round * 7919 % 9973))
}

fn a_stopped_writer_does_not_stop_a_reader(subject: &Subject) {
    let site = Site::with(subject, worker::pair());
    let writer = endless_writer(&site, Durability::Power);
    for round in 0..30 {
        thread::sleep(moment_of(round));
        writer.signal(Signal::STOP);
        let start = Instant::now();
        let sessions = site.reader().listing(&sexton_core::Query::all()).sessions;
        require_whole(&sessions).unwrap_or_else(|half| panic!("{half}"));
        assert!(start.elapsed() < Duration::from_secs(20), "the reader waited for a stopped writer");
        writer.signal(Signal::CONT);
    }
}

fn a_writer_waits_for_a_stopped_one_instead_of_failing(subject: &Subject) {
    /// Whoever has not finished by then waits for the stopped writer, as it should.
    const PROMPT: Duration = Duration::from_millis(500);
    /// Longer than the patience that databases come with.
    const LONG: Duration = Duration::from_secs(7);
    let site = Site::with(subject, worker::pair());
    let writer = endless_writer(&site, Durability::Power);
    let store = site.try_open(Access::Write, Durability::Power).expect("the store opens");
    let mut waited = false;
    for round in 0..30 {
        thread::sleep(moment_of(round));
        writer.signal(Signal::STOP);
        thread::scope(|scope| {
            let (sender, outcome) = channel();
            let store = &store;
            scope.spawn(move || {
                let batch = sexton_core::Batch::new().insert(completed(&format!("waited-{round}")));
                sender.send(store.try_commit(batch).map(drop)).expect("somebody waits for the outcome");
            });
            let mut early = outcome.recv_timeout(PROMPT);
            if matches!(early, Err(RecvTimeoutError::Timeout)) && !waited {
                waited = true;
                early = outcome.recv_timeout(LONG);
            }
            writer.signal(Signal::CONT);
            let outcome = early.or_else(|_| outcome.recv_timeout(LIMIT)).expect("the commit ends");
            outcome.unwrap_or_else(|error| panic!("round {round}: {error}"));
        });
        if waited {
            break;
        }
    }
    drop(writer);
    assert!(site.reader().find(&id("waited-0")).is_some());
}
