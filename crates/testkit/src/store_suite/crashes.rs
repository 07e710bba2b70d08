//! Killed writers: acknowledged batches are kept, and every batch is complete or absent.

use std::process::Stdio;
use std::thread;
use std::time::Duration;

use sexton_core::store::{Damage, Durability};
use sexton_core::{Batch, Query};

use super::Subject;
use super::samples::completed;
use super::test_env::TestEnv;
use super::worker::{self, require_whole};
use crate::role::Helper;
use crate::strace::traced;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("crashes":
    i6_writer_killed_at_any_time_keeps_acknowledged_batches,
    i6_writer_killed_at_any_system_call_keeps_acknowledged_batches,
    i6_store_is_usable_after_many_writers_are_killed,
    i6_commit_is_not_acknowledged_if_sync_fails,
    i6_full_disk_is_an_error_and_loses_nothing,
);

/// Checks the store after its writer died: it is consistent and has every acknowledged flip and at most one more.
fn require_survived(test_env: &TestEnv, acknowledged: u64, context: &str) -> u64 {
    let mut flips = 0;
    for store in [test_env.reader(), test_env.writer()] {
        let listing = store.listing(&Query::all());
        let harmful: Vec<&Damage> = listing.damage.iter().filter(|damage| !damage.harmless).collect();
        assert!(harmful.is_empty(), "{context}: {harmful:?}");
        flips = require_whole(&listing.sessions).unwrap_or_else(|half| panic!("{context}: {half}"));
        assert!(
            flips == acknowledged || flips == acknowledged + 1,
            "{context}: flip {acknowledged} was acknowledged, the store is at {flips}"
        );
        if test_env.counts() {
            let counted = store.counters().get("flips").copied().unwrap_or(0);
            assert_eq!(counted, flips, "{context}: the counter was not part of its batch");
        }
    }
    flips
}

/// Returns the last flip that a dead writer acknowledged.
fn last_flip(writer: &Helper, before: u64) -> u64 {
    writer.remaining_lines().last().map_or(before, |flip| flip.parse().expect("a number"))
}

fn i6_writer_killed_at_any_time_keeps_acknowledged_batches(subject: &Subject) {
    const ROUNDS: u32 = 40;
    let test_env = TestEnv::with(subject, worker::pair());
    let mut flips = 0;
    for round in 0..ROUNDS {
        let durability = if round % 2 == 0 { Durability::Process } else { Durability::Power };
        let mut writer = test_env.helper(worker::FLIP, durability, &[&u64::MAX.to_string()]);
        flips = writer.line().parse().expect("a number");
        thread::sleep(Duration::from_micros(u64::from(round * 7919 % 29_989)));
        writer.kill();
        flips = last_flip(&writer, flips);
        flips = require_survived(&test_env, flips, &format!("round {round}"));
    }
    assert!(flips > u64::from(ROUNDS), "every round makes progress");
}

/// Runs a writer of `flips` flips with `fault` in strace's syntax. Returns the last acknowledged flip, and whether the
/// writer finished.
fn flip_with(test_env: &TestEnv, fault: &str, flips: &str, before: u64) -> (u64, bool) {
    let plain = test_env.helper_command(worker::FLIP, Durability::Power, &[flips]);
    let call = fault.split(':').next().unwrap_or_default();
    let (only, inject) = (format!("trace={call}"), format!("inject={fault}"));
    let writer = Helper::spawn(traced(&plain, "/dev/null", &[&only, &inject]).stderr(Stdio::null()));
    let acknowledged = last_flip(&writer, before);
    (acknowledged, writer.finish().0.success())
}

fn i6_writer_killed_at_any_system_call_keeps_acknowledged_batches(subject: &Subject) {
    const CALLS: [&str; 8] =
        ["write", "pwrite64", "writev", "fdatasync", "fsync", "rename", "ftruncate", "openat"];
    const TIMES: [usize; 6] = [1, 2, 3, 5, 8, 13];
    const FLIPS: &str = "4";
    let test_env = TestEnv::with(subject, worker::pair());
    let (mut flips, mut killed) = (0, 0);
    for call in CALLS {
        for when in TIMES {
            let fault = format!("{call}:signal=SIGKILL:when={when}");
            // strace ends by the same signal as its child.
            let (acknowledged, success) = flip_with(&test_env, &fault, FLIPS, flips);
            killed += usize::from(!success);
            flips = require_survived(&test_env, acknowledged, &fault);
            if success {
                break;
            }
        }
    }
    assert!(killed > 10, "only {killed} writers were killed: the case proves too little");
}

fn i6_commit_is_not_acknowledged_if_sync_fails(subject: &Subject) {
    let test_env = TestEnv::with(subject, worker::pair());
    let mut flips = 0;
    // From the first sync on, and after some successful syncs.
    for when in ["1+", "2+", "3+", "5+"] {
        let fault = format!("fsync,fdatasync:error=EIO:when={when}");
        let (acknowledged, success) = flip_with(&test_env, &fault, "12", flips);
        assert!(!success, "{fault}: twelve commits were acknowledged on a disk that cannot sync");
        flips = require_survived(&test_env, acknowledged, &fault);
        // A failed sync must not prevent later commits.
        let next = test_env.helper(worker::FLIP, Durability::Power, &["1"]);
        assert_eq!(last_flip(&next, flips), flips + 1, "{fault}: the next commit fails");
        flips += 1;
    }
}

fn i6_full_disk_is_an_error_and_loses_nothing(subject: &Subject) {
    let test_env = TestEnv::with(subject, worker::pair());
    let (mut flips, mut refused) = (0, 0);
    for call in ["write", "pwrite64", "ftruncate", "openat"] {
        for when in 1..=6 {
            let fault = format!("{call}:error=ENOSPC:when={when}+");
            let (acknowledged, success) = flip_with(&test_env, &fault, "3", flips);
            refused += usize::from(!success);
            flips = require_survived(&test_env, acknowledged, &fault);
        }
    }
    assert!(refused > 6, "only {refused} writers failed: the case proves too little");
}

fn i6_store_is_usable_after_many_writers_are_killed(subject: &Subject) {
    const WRITERS: usize = 6;
    let test_env = TestEnv::with(subject, [completed("shared")]);
    let mut acknowledged = 0_u64;
    for round in 0..4_u32 {
        let start = |n: usize| {
            let name = format!("{round}x{n}");
            let (endless, never) = (u64::MAX.to_string(), worker::NEVER.to_string());
            let mut writer =
                test_env.helper(worker::CONTEND, Durability::Process, &[&name, &endless, &never]);
            assert_eq!(writer.line(), "ready");
            writer.send_line("go");
            writer
        };
        let mut writers: Vec<Helper> = (0..WRITERS).map(start).collect();
        thread::sleep(Duration::from_millis(u64::from(30 + round * 17)));
        writers.iter_mut().for_each(Helper::kill);
        let store = test_env.writer();
        store.commit(Batch::new().insert(completed(&format!("after-{round}"))).count("after", 1));
        let counters = store.counters();
        let all = store.listing(&Query::all());
        assert!(all.damage.iter().all(|damage| damage.harmless), "{:?}", all.damage);
        let found = u64::try_from(all.sessions.len()).expect("a small number");
        if test_env.counts() {
            let counted = counters.get("commits").copied().unwrap_or(0);
            assert_eq!(found, counted + u64::from(round) + 2);
        }
        assert!(found > acknowledged, "no writer committed anything");
        acknowledged = found;
    }
}
