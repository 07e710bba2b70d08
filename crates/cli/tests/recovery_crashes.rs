//! Recovery under attack: killed at each of its system calls, run by many at once, run again with nothing
//! left to do. Whatever happens, all work is saved, everybody else's things stay, and the end is the same.

#![cfg(feature = "worktree-git")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![allow(clippy::print_stderr, reason = "how much of a campaign was run is worth knowing")]

mod support;

use std::path::Path;

use serde_json::Value;
use support::effort::{crash_stride, trials};
use support::repository::Repository;
use support::scene::{Scene, stamps_under};
use support::strace::{
    changes_under, kill_alone_at, kill_at, mutating_calls, signals_in, trace, trace_alone,
};
use support::{Bystander, Yard, carriers, eventually, is_running, kill_9, processes_with, stores};

const SETTINGS: &str = "contain = \"tree\"\nstore.durability = \"process\"\n\
                        owner.grace = \"10m\"\nstop.grace = \"1s\"\n";

/// Requires that this command changes nothing, neither in the state directory nor in the repository, and
/// signals nobody.
fn require_changes_nothing(scene: &Scene, arguments: &[&str], when: &str) {
    let stamps = || [scene.yard.state_dir(), scene.yard.work_dir()].map(|directory| stamps_under(&directory));
    let before = stamps();
    let traced = trace(&scene.yard, arguments);
    let changes = changes_under(&traced, scene.yard.path());
    assert_eq!(changes, [""; 0], "{when}: {arguments:?} changed something");
    assert_eq!(signals_in(&traced), [""; 0], "{when}");
    assert_eq!(stamps(), before, "{when}");
}

#[test]
#[cfg(feature = "store-sqlite")]
fn i7_a_recovery_killed_at_any_change_ends_as_if_it_had_not_been_on_sqlite() {
    kill_recovery_everywhere("sqlite");
}

#[test]
#[cfg(feature = "store-json")]
fn i7_a_recovery_killed_at_any_change_ends_as_if_it_had_not_been_on_json() {
    kill_recovery_everywhere("json");
}

fn kill_recovery_everywhere(store: &'static str) {
    let scene = Scene::set(store, 10);
    let calls = mutating_calls(&trace(&scene.yard, &["recover"]));
    scene.require_settled();
    scene.require_nothing_lost();
    let whole = scene.outcome();
    require_changes_nothing(&scene, &["recover"], store);
    let tried: Vec<_> = calls.iter().step_by(crash_stride(80)).collect();
    let mut killed = 0;
    for call in &tried {
        scene.reset();
        killed += usize::from(kill_at(&scene.yard, call, &["recover"]));
        let when = format!("{store}, killed before {} number {}", call.name, call.nth);
        let ran = scene.yard.sexton(&["recover"]);
        assert_eq!(ran.code, 0, "{when}:\n{}{}", ran.stdout, ran.stderr);
        scene.require_nothing_lost();
        require_same(&scene.outcome(), &whole, &when);
        require_changes_nothing(&scene, &["recover"], &when);
    }
    eprintln!(
        "{store}: {killed} of {} runs were killed; {} calls change something",
        tried.len(),
        calls.len()
    );
    assert!(calls.len() > 300, "{store}: only {} calls change something", calls.len());
    // Where a call stands in a run moves a little with how many processes the machine has.
    assert!(killed * 10 >= tried.len() * 8, "{store}: only {killed} of {} runs were killed", tried.len());
}

/// Compares part by part, so that a difference can be read.
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
fn a_dry_run_says_what_would_be_done_and_changes_nothing() {
    for store in stores() {
        let scene = Scene::set(store, 5);
        require_changes_nothing(&scene, &["recover", "--dry-run"], store);
        let report = scene.yard.json(&["recover", "--dry-run"]);
        assert_eq!(report["dry_run"], true);
        let said = |key: &str| report["worktrees"][key].as_u64();
        assert_eq!((said("rescued"), said("removed")), (Some(5), Some(5)), "{report}");
        assert!(report["backup"].is_null());
        assert_eq!(scene.repository.rescues(), [""; 0]);
        let done = scene.yard.json(&["recover"]);
        for key in ["orphans", "ended", "left_alone", "unknown", "failed", "worktrees", "pruned"] {
            assert_eq!(report[key], done[key], "{key} is not what was said before");
        }
        scene.require_settled();
        scene.require_nothing_lost();
    }
}

/// Runs so many recoveries at once, and gives back their reports.
fn recover_at_once(yard: &Yard, recoveries: usize) -> Vec<Value> {
    let started: Vec<_> = (0..recoveries)
        .map(|_| {
            let mut command = yard.command(&["recover", "--json"]);
            command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::piped()).spawn().unwrap()
        })
        .collect();
    let reports = started.into_iter().map(|child| {
        let output = child.wait_with_output().unwrap();
        let complaint = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "{complaint}");
        assert!(!complaint.contains("error") && !complaint.contains("warning"), "{complaint}");
        serde_json::from_slice(&output.stdout).unwrap()
    });
    reports.collect()
}

/// How often each session was dealt with, whoever did it.
fn times_handled(reports: &[Value], id: &str) -> usize {
    let sessions = reports.iter().flat_map(|report| report["sessions"].as_array().unwrap());
    sessions.filter(|session| session["id"] == id && session["outcome"] == "done").count()
}

#[test]
fn i7_many_recoveries_at_once_do_the_work_once() {
    let rounds = trials(5);
    for store in stores() {
        let scene = Scene::set(store, 10);
        scene.yard.ok(&["recover"]);
        let whole = scene.outcome();
        for round in 0..rounds {
            scene.reset();
            let reports = recover_at_once(&scene.yard, 16);
            for id in &scene.orphans {
                assert_eq!(times_handled(&reports, id), 1, "{store}, round {round}: {reports:#?}");
            }
            scene.require_nothing_lost();
            require_same(&scene.outcome(), &whole, &format!("{store}, round {round}"));
        }
    }
}

#[test]
fn i7_many_recoveries_at_once_signal_each_process_once() {
    let yard = Yard::new().with_settings(SETTINGS);
    let script =
        "trap 'echo int' INT; trap 'echo term; exit 0' TERM; echo ready; while :; do sleep 0.05; done";
    let orphans: Vec<_> = (0..4)
        .map(|_| {
            let mut owner = Bystander::start();
            let id = yard.ok(&["run", "-d", "--owner-pid", &owner.pid(), "--", "sh", "-c", script]);
            eventually("it is ready", || yard.ok(&["logs", &id]) == "ready");
            let supervisor = yard.record(&id)["supervisor"]["pid"].as_u64().unwrap();
            kill_9(supervisor);
            eventually("its supervisor is gone", || !is_running(supervisor));
            owner.end();
            id
        })
        .collect();
    let reports = recover_at_once(&yard, 16);
    for id in &orphans {
        assert_eq!(times_handled(&reports, id), 1, "{reports:#?}");
        assert_eq!(carriers(id), [0; 0]);
        assert_eq!(yard.record(id)["status"], "orphaned");
        let log = yard.ok(&["logs", id]);
        // The shell has a word of its own to say about the child it lost.
        let heard: Vec<_> = log.lines().filter(|line| *line != "Terminated").collect();
        assert_eq!(heard, ["ready", "int", "term"]);
    }
}

/// Either the session is whole, and is ended, or nothing says that it ever ran; in both cases nothing is left
/// of it after a recovery.
fn require_whole_or_nothing(yard: &Yard, trial: &str, marker: &Path, when: &str) {
    let mut newest = Value::Null;
    // A command that still waits at its gate is alive too; its record goes when its shim has noticed.
    let is_whole =
        |record: &Value| record["status"] == "running" && record["observed"] == "alive" && marker.exists();
    eventually("the start came to an end, one way or the other", || {
        newest = yard.json(&["ps", "-a", "--limit", "1"])[0].clone();
        is_whole(&newest) || processes_with(trial).is_empty()
    });
    if is_whole(&newest) {
        let id = newest["id"].as_str().unwrap();
        yard.ok(&["stop", "--force", id]);
        eventually("its processes are gone", || processes_with(trial).is_empty());
        yard.ok(&["worktree", "rm", id]);
        return;
    }
    assert!(!marker.exists(), "{when}: it ran, and no record says so");
    let ran = yard.sexton(&["recover"]);
    assert_eq!(ran.code, 0, "{when}:\n{}{}", ran.stdout, ran.stderr);
    let newest = yard.json(&["ps", "-a", "--limit", "1"])[0].clone();
    assert!(newest.is_null() || newest["finished_at"].is_string(), "{when}: {newest}");
}

#[test]
fn i1_a_start_with_a_worktree_killed_at_any_change_is_whole_or_leaves_nothing() {
    for store in stores() {
        let yard = Yard::on(store).with_settings(SETTINGS);
        let repository = Repository::in_work_dir(&yard);
        let branches = repository.branches();
        let marker = yard.path().join("ran");
        let script = format!("touch {}; exec sleep 600", marker.display());
        let start = ["run", "-d", "-w", "--", "sh", "-c", &script];
        let calls = mutating_calls(&trace_alone(&yard, &start));
        let first = yard.json(&["ps"])[0]["id"].as_str().unwrap().to_owned();
        yard.ok(&["stop", "--force", &first]);
        yard.ok(&["worktree", "rm", &first]);
        let tried: Vec<_> = calls.iter().step_by(crash_stride(5)).collect();
        for call in &tried {
            let when = format!("{store}, killed before {} number {}", call.name, call.nth);
            let _ = std::fs::remove_file(&marker);
            let trial = format!("{}-{}-{}", yard.path().display(), call.name, call.nth);
            kill_alone_at(&yard, call, &start, &trial);
            require_whole_or_nothing(&yard, &format!("SEXTON_TEST_TRIAL={trial}"), &marker, &when);
            let trees = left_in_yards(&yard);
            assert_eq!(trees, [""; 0], "{when}");
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

/// What is in the yards besides their own folders.
fn left_in_yards(yard: &Yard) -> Vec<String> {
    let yards = std::fs::read_dir(yard.state_dir().join("worktrees")).into_iter().flatten();
    let entries = yards.flat_map(|yard| std::fs::read_dir(yard.unwrap().path()).unwrap());
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| ![".locks", ".trash"].contains(&name.as_str())).collect()
}
