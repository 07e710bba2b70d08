//! Sixteen concurrent writers, killed and stopped at random, whose output is compared with the store; and one
//! that is stopped while it holds the lock.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use sexton_test_harness::{eventually, send_signal};

use super::ledger::{Ledger, prepare, url_in};
use crate::bystanders::Neighbours;
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "writers",
    promises: "I6",
    what: "16 writers, killed and stopped at random or with the lock, their history checked against a model",
    mutants: &["no_lock", "no_revision_check"],
    tools: &[("strace", "strace")],
    minutes: 1,
    runs_alone: false,
    run,
};

const WRITERS: usize = 16;

fn run(trials: &mut Trials) {
    for store in ["sqlite", "json"] {
        for round in 0..trials.either(2, 20) {
            let choices: Vec<u64> = (0..trials.either(24, 64)).map(|_| trials.random(u64::MAX)).collect();
            trials.trial(&format!("{store}, round {round}"), || attack(store, &choices));
        }
        for round in 0..trials.either(2, 20) {
            let nth = 2 + trials.random(20);
            let name = format!("{store}, stopped in the middle of commit {nth}, round {round}");
            trials.trial(&name, || stop_the_holder(store, nth));
        }
    }
}

fn attack(store: &str, choices: &[u64]) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let url = url_in(directory.path(), store);
    let neighbours = prepare(&url);
    let mut working: Vec<Ledger> = (0..WRITERS).map(|_| Ledger::start(&url, true)).collect();
    let mut ended = Vec::new();
    for choice in choices {
        let victim = usize::try_from(*choice).unwrap_or(0) % WRITERS;
        let enough = working[victim].committed() + usize::try_from(choice >> 32).unwrap() % 4;
        working[victim].read_until(enough);
        if choice % 5 == 0 {
            working[victim].signal(Signal::STOP);
            let other = (victim + 1) % WRITERS;
            working[other].read_briefly();
            working[victim].signal(Signal::CONT);
        } else {
            let mut killed = std::mem::replace(&mut working[victim], Ledger::start(&url, true));
            killed.kill();
            ended.push(killed);
        }
    }
    for mut ledger in working {
        ledger.read_until(1);
        ledger.kill();
        ended.push(ledger);
    }
    require_model(&ended, &neighbours, &url);
    choices.len() as u64
}

/// Requires that the store contains what the writers printed, and that none of them failed.
fn require_model(ended: &[Ledger], neighbours: &Neighbours, url: &str) {
    for ledger in ended {
        assert_eq!(ledger.failure, None, "a writer failed");
    }
    Ledger::require_kept(ended, neighbours, url);
}

/// One writer is stopped in its nth sync, while it holds the lock. The others wait: no process breaks a lock
/// because it is old. When the writer continues, they do too.
fn stop_the_holder(store: &str, nth: u64) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let url = url_in(directory.path(), store);
    let neighbours = prepare(&url);
    let mut holder = Ledger::start(&url, true);
    let output = directory.path().join("trace");
    let mut strace = stop_in_sync(holder.pid(), nth, &output);
    // Its output is not read meanwhile: the pipe is large enough for all of it.
    eventually("it stops in a commit", || {
        std::fs::read_to_string(&output).unwrap_or_default().contains("--- stopped by SIGSTOP")
    });
    let mut others: Vec<Ledger> = (0..4).map(|_| Ledger::start(&url, true)).collect();
    for other in &mut others {
        other.read_briefly();
        other.read_briefly();
        assert_eq!(other.committed(), 0, "a writer committed without the lock");
    }
    send_signal(holder.pid(), Signal::CONT);
    for other in &mut others {
        other.read_until(3);
    }
    holder.kill();
    strace.wait().unwrap();
    for other in &mut others {
        other.kill();
    }
    others.push(holder);
    require_model(&others, &neighbours, &url);
    1
}

/// Attaches strace to a process, which stops it in its nth sync from now on.
fn stop_in_sync(pid: u64, nth: u64, output: &Path) -> Child {
    let mut strace = Command::new("strace");
    strace.args(["--quiet=attach,personality", "-f", "-o"]).arg(output);
    strace.args(["-e", "trace=fdatasync", "-e", &format!("inject=fdatasync:signal=SIGSTOP:when={nth}")]);
    strace.args(["-p", &pid.to_string()]);
    strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}
