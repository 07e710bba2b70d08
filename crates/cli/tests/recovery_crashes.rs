//! Recovery under faults: killed at each of its system calls, run many times in parallel, and run again with nothing
//! to do. In every case all work is saved, unrelated files and processes stay, and the final state is the same.

#![cfg(feature = "worktree-git")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![allow(clippy::print_stderr, reason = "prints how much of the campaign ran")]

mod support;

use std::path::Path;

use serde_json::Value;
use support::crashed_env::{CrashedEnv, stamps_under};
use support::effort::{crash_stride, trials};
use support::repository::Repository;
use support::strace::{
    changes_under, kill_alone_at, kill_at, mutating_calls, signals_in, trace, trace_alone,
};
use support::{Bystander, TestEnv, carriers, eventually, is_running, kill_9, processes_with, stores};

const SETTINGS: &str = "contain = \"tree\"\nstore.durability = \"process\"\n\
                        owner.grace = \"10m\"\nstop.grace = \"1s\"\n";

/// Requires that this command changes nothing in the state directory and the repository, and sends no signal.
fn require_changes_nothing(crashed_env: &CrashedEnv, arguments: &[&str], when: &str) {
    let stamps = || {
        [crashed_env.test_env.state_dir(), crashed_env.test_env.work_dir()]
            .map(|directory| stamps_under(&directory))
    };
    let before = stamps();
    let traced = trace(&crashed_env.test_env, arguments);
    let changes = changes_under(&traced, crashed_env.test_env.path());
    assert_eq!(changes, [""; 0], "{when}: {arguments:?} changed something");
    assert_eq!(signals_in(&traced), [""; 0], "{when}");
    assert_eq!(stamps(), before, "{when}");
}

#[test]
#[cfg(feature = "store-sqlite")]
fn i7_interrupted_recovery_converges_on_sqlite() {
    kill_recovery_everywhere("sqlite");
}

#[test]
#[cfg(feature = "store-json")]
fn i7_interrupted_recovery_converges_on_json() {
    kill_recovery_everywhere("json");
}

fn kill_recovery_everywhere(store: &'static str) {
    let crashed_env = CrashedEnv::set(store, 10);
    let calls = mutating_calls(&trace(&crashed_env.test_env, &["recover"]));
    crashed_env.require_settled();
    crashed_env.require_nothing_lost();
    let whole = crashed_env.outcome();
    require_changes_nothing(&crashed_env, &["recover"], store);
    let tried: Vec<_> = calls.iter().step_by(crash_stride(80)).collect();
    let mut killed = 0;
    for call in &tried {
        crashed_env.reset();
        killed += usize::from(kill_at(&crashed_env.test_env, call, &["recover"]));
        let when = format!("{store}, killed before {} number {}", call.name, call.nth);
        let ran = crashed_env.test_env.sexton(&["recover"]);
        assert_eq!(ran.code, 0, "{when}:\n{}{}", ran.stdout, ran.stderr);
        crashed_env.require_nothing_lost();
        require_same(&crashed_env.outcome(), &whole, &when);
        require_changes_nothing(&crashed_env, &["recover"], &when);
    }
    eprintln!(
        "{store}: {killed} of {} runs were killed; {} calls change something",
        tried.len(),
        calls.len()
    );
    assert!(calls.len() > 300, "{store}: only {} calls change something", calls.len());
    // The position of a call in a run depends on the number of processes on the machine.
    assert!(killed * 10 >= tried.len() * 8, "{store}: only {killed} of {} runs were killed", tried.len());
}

/// Compares part by part, so that the failure message is readable.
fn require_same(found: &serde_json::Value, expected: &serde_json::Value, when: &str) {
    for (part, expected) in expected.as_object().unwrap() {
        let found = &found[part];
        if let (Some(found), Some(expected)) = (found.as_array(), expected.as_array()) {
            let without = |these: &[serde_json::Value], those: &[serde_json::Value]| -> Vec<_> {
                these.iter().filter(|one| !those.contains(one)).cloned().collect()
            };
            let (new, missing) = (without(found, expected), without(expected, found));
            assert!(new.is_empty() && missing.is_empty(), "{when}: {part}: {new:#?} instead of {missing:#?}");
        }
        assert_eq!(found, expected, "{when}: {part}");
    }
}

#[test]
fn a_dry_run_reports_the_same_as_the_recovery_and_changes_nothing() {
    for store in stores() {
        let crashed_env = CrashedEnv::set(store, 5);
        require_changes_nothing(&crashed_env, &["recover", "--dry-run"], store);
        let report = crashed_env.test_env.json(&["recover", "--dry-run"]);
        assert_eq!(report["dry_run"], true);
        let count = |key: &str| report["worktrees"][key].as_u64();
        assert_eq!((count("rescued"), count("removed")), (Some(5), Some(5)), "{report}");
        assert!(report["backup"].is_null());
        assert_eq!(crashed_env.repository.rescues(), [""; 0]);
        let done = crashed_env.test_env.json(&["recover"]);
        for key in ["orphans", "ended", "left_alone", "unknown", "failed", "worktrees", "pruned"] {
            assert_eq!(report[key], done[key], "{key} differs from the dry run");
        }
        crashed_env.require_settled();
        crashed_env.require_nothing_lost();
    }
}

/// Runs this number of recoveries in parallel, and returns their reports.
fn recover_at_once(test_env: &TestEnv, recoveries: usize) -> Vec<Value> {
    let started: Vec<_> = (0..recoveries)
        .map(|_| {
            let mut command = test_env.command(&["recover", "--json"]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let reports = started.into_iter().map(|child| {
        let output = child.wait_with_output().unwrap();
        let stderr = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{stderr}");
        assert!(!stderr.contains("error") && !stderr.contains("warning"), "{stderr}");
        serde_json::from_slice(&output.stdout).unwrap()
    });
    reports.collect()
}

/// Returns how often a session was handled, by all recoveries together.
fn times_handled(reports: &[Value], id: &str) -> usize {
    let sessions = reports.iter().flat_map(|report| report["sessions"].as_array().unwrap());
    sessions.filter(|session| session["id"] == id && session["outcome"] == "done").count()
}

#[test]
fn i7_parallel_recoveries_do_the_work_once() {
    let rounds = trials(5);
    for store in stores() {
        let crashed_env = CrashedEnv::set(store, 10);
        crashed_env.test_env.ok(&["recover"]);
        let whole = crashed_env.outcome();
        for round in 0..rounds {
            crashed_env.reset();
            let reports = recover_at_once(&crashed_env.test_env, 16);
            for id in &crashed_env.orphans {
                assert_eq!(times_handled(&reports, id), 1, "{store}, round {round}: {reports:#?}");
            }
            crashed_env.require_nothing_lost();
            require_same(&crashed_env.outcome(), &whole, &format!("{store}, round {round}"));
        }
    }
}

#[test]
fn i7_parallel_recoveries_signal_each_process_once() {
    let test_env = TestEnv::new().with_settings(SETTINGS);
    let script =
        "trap 'echo int' INT; trap 'echo term; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let orphans: Vec<_> = (0..4)
        .map(|_| {
            let mut owner = Bystander::start();
            let id = test_env.ok(&["run", "-d", "--owner-pid", &owner.pid(), "--", "sh", "-c", script]);
            eventually("it is ready", || test_env.ok(&["logs", &id]) == "ready");
            let supervisor = test_env.record(&id)["supervisor"]["pid"].as_u64().unwrap();
            kill_9(supervisor);
            eventually("its supervisor is gone", || !is_running(supervisor));
            owner.end();
            id
        })
        .collect();
    let reports = recover_at_once(&test_env, 16);
    for id in &orphans {
        assert_eq!(times_handled(&reports, id), 1, "{reports:#?}");
        assert_eq!(carriers(id), [0; 0]);
        assert_eq!(test_env.record(id)["status"], "orphaned");
        let log = test_env.ok(&["logs", id]);
        // The shell prints `Terminated` for its child.
        let received: Vec<_> = log.lines().filter(|line| *line != "Terminated").collect();
        assert_eq!(received, ["ready", "int", "term"]);
    }
}

/// Requires that the session is complete, and stops it, or that it never ran and has no unfinished record. In both
/// cases nothing is left of it after a recovery.
fn require_complete_or_nothing(test_env: &TestEnv, trial: &str, marker: &Path, when: &str) {
    let mut newest = Value::Null;
    // A command that still waits at its gate is alive too; its supervisor deletes its record later.
    let is_complete =
        |record: &Value| record["status"] == "running" && record["observed"] == "alive" && marker.exists();
    eventually("the start is complete or has failed", || {
        newest = test_env.json(&["ps", "-a", "--limit", "1"])[0].clone();
        is_complete(&newest) || processes_with(trial).is_empty()
    });
    if is_complete(&newest) {
        let id = newest["id"].as_str().unwrap();
        test_env.ok(&["stop", "--force", id]);
        eventually("its processes are gone", || processes_with(trial).is_empty());
        test_env.ok(&["worktree", "rm", id]);
        return;
    }
    assert!(!marker.exists(), "{when}: it ran without a record");
    let ran = test_env.sexton(&["recover"]);
    assert_eq!(ran.code, 0, "{when}:\n{}{}", ran.stdout, ran.stderr);
    let newest = test_env.json(&["ps", "-a", "--limit", "1"])[0].clone();
    let is_finished = newest.is_null() || newest["finished_at"].is_string();
    assert!(is_finished, "{when}: {newest}\n{}{}", ran.stdout, ran.stderr);
}

#[test]
fn i1_a_start_with_a_worktree_killed_at_any_change_completes_or_leaves_nothing() {
    for store in stores() {
        let test_env = TestEnv::on(store).with_settings(SETTINGS);
        let repository = Repository::in_work_dir(&test_env);
        let branches = repository.branches();
        let marker = test_env.path().join("ran");
        let script = format!("touch {}; exec sleep 600", marker.display());
        let start = ["run", "-d", "-w", "--", "sh", "-c", &script];
        let calls = mutating_calls(&trace_alone(&test_env, &start));
        let first = test_env.json(&["ps"])[0]["id"].as_str().unwrap().to_owned();
        test_env.ok(&["stop", "--force", &first]);
        test_env.ok(&["worktree", "rm", &first]);
        let tried: Vec<_> = calls.iter().step_by(crash_stride(5)).collect();
        for call in &tried {
            let when = format!("{store}, killed before {} number {}", call.name, call.nth);
            let _ = std::fs::remove_file(&marker);
            let trial = format!("{}-{}-{}", test_env.path().display(), call.name, call.nth);
            kill_alone_at(&test_env, call, &start, &trial);
            require_complete_or_nothing(&test_env, &format!("SEXTON_TEST_TRIAL={trial}"), &marker, &when);
            // The supervisor of a start that was killed removes the worktree itself, which may take a while.
            eventually(&format!("no worktree is left ({when})"), || {
                left_in_worktree_roots(&test_env).is_empty()
            });
            assert_eq!(
                (repository.worktrees().len(), repository.branches()),
                (1, branches.clone()),
                "{when}"
            );
            assert_eq!(repository.rescues(), [""; 0], "{when}");
        }
        eprintln!("{store}: {} tried, {} calls", tried.len(), calls.len());
        assert!(calls.len() > 20, "{store}: only {} calls change something", calls.len());
    }
}

/// Returns the entries of the worktree roots, except their own directories.
fn left_in_worktree_roots(test_env: &TestEnv) -> Vec<String> {
    let test_envs = std::fs::read_dir(test_env.state_dir().join("worktrees")).into_iter().flatten();
    let entries = test_envs.flat_map(|test_env| std::fs::read_dir(test_env.unwrap().path()).unwrap());
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| ![".locks", ".trash"].contains(&name.as_str())).collect()
}
