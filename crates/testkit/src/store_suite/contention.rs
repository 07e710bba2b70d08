//! Many processes at the same time: no commit is lost or fails as busy, and no reader sees a partial batch.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::Signal;
use sexton_core::StoreError;
use sexton_core::store::{Access, Durability};

use super::Subject;
use super::samples::{completed, id, number_of, running};
use super::test_env::TestEnv;
use super::worker::{self, require_whole};
use crate::role::{Helper, LIMIT};
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("contention":
    i6_concurrent_commits_of_16_processes_are_not_lost,
    i6_concurrent_commits_with_power_durability_are_not_lost,
    i6_16_processes_create_one_store,
    i6_readers_never_see_a_partial_batch,
    stopped_writer_does_not_block_readers,
    writer_waits_for_a_stopped_writer,
);

const WRITERS: usize = 16;
/// A writer updates the shared record after this many of its own commits.
const SHARED_EVERY: usize = 10;

/// Runs all writers at the same time. Each commits `commits` own records and updates the shared one periodically.
fn write_together(test_env: &TestEnv, durability: Durability, commits: usize, shared_every: usize) {
    let (count, every) = (commits.to_string(), shared_every.to_string());
    let writer = |n: usize| test_env.helper(worker::CONTEND, durability, &[&n.to_string(), &count, &every]);
    let mut writers: Vec<Helper> = (0..WRITERS).map(writer).collect();
    for writer in &writers {
        assert_eq!(writer.line(), "ready");
    }
    for writer in &mut writers {
        writer.send_line("go");
    }
    for writer in writers {
        assert_eq!(writer.line(), "done");
        assert!(writer.finish().0.success());
    }
}

fn i6_16_processes_create_one_store(subject: &Subject) {
    const COMMITS: usize = 5;
    for durability in [Durability::Power, Durability::Process] {
        let test_env = TestEnv::new(subject);
        write_together(&test_env, durability, COMMITS, worker::NEVER);
        assert_eq!(test_env.reader().all().len(), WRITERS * COMMITS, "a new store was created twice");
    }
}

fn contend(subject: &Subject, durability: Durability, commits: usize) {
    let test_env = TestEnv::with(subject, [running("shared")]);
    write_together(&test_env, durability, commits, SHARED_EVERY);
    let store = test_env.writer();
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

fn i6_concurrent_commits_of_16_processes_are_not_lost(subject: &Subject) {
    contend(subject, Durability::Process, subject.contended_commits);
}

fn i6_concurrent_commits_with_power_durability_are_not_lost(subject: &Subject) {
    contend(subject, Durability::Power, 30);
}

fn i6_readers_never_see_a_partial_batch(subject: &Subject) {
    const READERS: usize = 3;
    const FLIPS: &str = "400";
    let test_env = TestEnv::with(subject, worker::pair());
    let reader = |_| test_env.helper(worker::WATCH, Durability::Process, &[]);
    let readers: Vec<Helper> = (0..READERS).map(reader).collect();
    for reader in &readers {
        assert_eq!(reader.line(), "ready");
    }
    let writer = test_env.helper(worker::FLIP, Durability::Process, &[FLIPS]);
    let flips = writer.remaining_lines();
    assert_eq!(flips.last().map(String::as_str), Some(FLIPS), "the writer did not finish");
    for reader in readers {
        let (status, lines) = reader.finish();
        assert!(status.success() && lines.len() == 1, "{lines:?}");
        assert!(lines[0].starts_with("read ") && lines[0] != "read 0 times", "{lines:?}");
    }
}

/// Starts a writer that flips until it is killed.
fn endless_writer(test_env: &TestEnv, durability: Durability) -> Helper {
    let writer = test_env.helper(worker::FLIP, durability, &[&u64::MAX.to_string()]);
    writer.line();
    writer
}

/// Returns a delay that differs by round and is not random, so that a failure can be reproduced.
fn delay_of(round: u32) -> Duration {
    Duration::from_micros(u64::from(round * 7919 % 9973))
}

/// A writer may be stopped in the few instructions in which it updates an index that readers need. Then a reader
/// gets an error after a while. That is rare; more than one in all rounds is a defect.
fn stopped_writer_does_not_block_readers(subject: &Subject) {
    let test_env = TestEnv::with(subject, worker::pair());
    let writer = endless_writer(&test_env, Durability::Power);
    let mut refused = 0;
    for round in 0..30 {
        thread::sleep(delay_of(round));
        writer.signal(Signal::STOP);
        let start = Instant::now();
        match test_env.try_open(Access::Read, Durability::Process) {
            Ok(reader) => {
                let sessions = reader.listing(&sexton_core::Query::all()).sessions;
                require_whole(&sessions).unwrap_or_else(|half| panic!("{half}"));
            }
            Err(error) => {
                assert!(is_caused_by_stop(&error), "{error}");
                refused += 1;
            }
        }
        assert!(start.elapsed() < Duration::from_secs(20), "the reader waited for a stopped writer");
        writer.signal(Signal::CONT);
    }
    assert!(refused <= 1, "{refused} readers were refused");
    test_env.reader();
}

fn is_caused_by_stop(error: &StoreError) -> bool {
    let StoreError::Backend { source, .. } = error else { return false };
    source
        .downcast_ref::<std::io::Error>()
        .is_some_and(|source| source.kind() == std::io::ErrorKind::TimedOut)
}

fn writer_waits_for_a_stopped_writer(subject: &Subject) {
    /// A commit that takes longer is waiting for the stopped writer, as expected.
    const PROMPT: Duration = Duration::from_millis(500);
    /// Longer than the default busy timeout of databases.
    const LONG: Duration = Duration::from_secs(7);
    let test_env = TestEnv::with(subject, worker::pair());
    let writer = endless_writer(&test_env, Durability::Power);
    let store = test_env.try_open(Access::Write, Durability::Power).expect("the store opens");
    let mut waited = false;
    for round in 0..30 {
        thread::sleep(delay_of(round));
        writer.signal(Signal::STOP);
        thread::scope(|scope| {
            let (sender, outcome) = channel();
            let store = &store;
            scope.spawn(move || {
                let batch = sexton_core::Batch::new().insert(completed(&format!("waited-{round}")));
                sender.send(store.try_commit(batch).map(drop)).expect("the case waits for the outcome");
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
    assert!(test_env.reader().find(&id("waited-0")).is_some());
}
