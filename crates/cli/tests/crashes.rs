//! Kill -9 at every moment that matters: the command line at each of its system calls while it starts a
//! session, the supervisor, the owner.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::path::Path;

use serde_json::Value;
use support::effort::{crash_stride, trials};
use support::strace::{Call, every_call_alone, kill_alone_at};
use support::{Bystander, Yard, carriers, eventually, is_running, processes_with};

/// Either the command never ran and nothing says that it did, or the session is whole.
fn check_and_clear(yard: &Yard, call: &Call, marker: &Path, trial: &str) {
    let variable = format!("SEXTON_TEST_TRIAL={trial}");
    let mut running: Option<Value> = None;
    eventually("the start came to an end, one way or the other", || {
        running = yard.json(&["ps"]).as_array().unwrap().first().cloned();
        let whole = running.as_ref().is_some_and(|record| record["observed"] == "alive");
        whole || processes_with(&variable).is_empty()
    });
    match running.filter(|record| record["observed"] == "alive") {
        Some(record) => {
            let id = record["id"].as_str().unwrap();
            // Recorded, and the gate opens: the command runs, or it is about to be called off.
            eventually("it ran, or was called off", || {
                marker.exists() || yard.record(id)["exit"]["reason"] == "never_started"
            });
            yard.ok(&["stop", "--force", id]);
            eventually("its processes are gone", || processes_with(&variable).is_empty());
        }
        None => {
            assert!(!marker.exists(), "{call:?}: the command ran, and no record says so");
            let newest = yard.json(&["ps", "-a", "--limit", "1"]);
            let reason = newest[0]["exit"]["reason"].as_str().unwrap_or("absent").to_owned();
            assert!(["absent", "never_started", "stopped"].contains(&reason.as_str()), "{call:?}: {newest}");
        }
    }
}

#[test]
fn i1_a_start_killed_at_any_system_call_never_ran_or_is_whole() {
    let yard = Yard::new().with_settings("store.durability = \"process\"\n");
    let marker = yard.path().join("ran");
    let script = format!("touch {} && exec sleep 600", marker.display());
    let start = ["run", "-d", "--", "sh", "-c", &script];
    // The first start makes the store; what is cut off are the many that follow.
    yard.ok(&start);
    let calls = every_call_alone(&yard, &start);
    yard.ok(&["stop", "--all", "--force"]);
    assert!(calls.len() > 100, "only {} system calls were seen", calls.len());
    let mut killed = 0;
    for (number, call) in calls.iter().enumerate().step_by(crash_stride(2)) {
        let _ = std::fs::remove_file(&marker);
        let trial = format!("{}-{number}", std::process::id());
        killed += usize::from(kill_alone_at(&yard, call, &start, &trial));
        check_and_clear(&yard, call, &marker, &trial);
    }
    let tried = calls.len().div_ceil(crash_stride(2));
    // One that differs from run to run may not be reached.
    assert!(killed * 10 >= tried * 9, "only {killed} of {tried} system calls were cut off");
}

const TREE: &str = "setsid sh -c 'sleep 600 & exec sleep 601' & (setsid sleep 602 &) ; \
                    sh -c 'sh -c \"sh -c \\\"sleep 603 & exec sleep 604\\\" & sleep 605\" & sleep 606' & exec sleep 607";

#[test]
fn i10_a_tree_leaves_no_survivor_however_it_was_held_and_whoever_was_killed_before() {
    for contain in ["auto", "tree"] {
        let yard =
            Yard::new().with_settings(&format!("contain = \"{contain}\"\nstore.durability = \"process\"\n"));
        let bystander = Bystander::start();
        for trial in 0..trials(10) {
            let id = yard.ok(&["run", "-d", "--", "sh", "-c", TREE]);
            eventually("the tree has grown", || carriers(&id).len() >= 9);
            let record = yard.record(&id);
            if trial % 2 == 1 {
                let supervisor = record["supervisor"]["pid"].as_u64().unwrap();
                kill_9(supervisor);
                eventually("the supervisor is gone", || !is_running(supervisor));
            }
            yard.ok(&["stop", "--grace", "100ms", &id]);
            assert_eq!(carriers(&id), [0; 0], "{contain}, trial {trial}");
            let record = yard.record(&id);
            assert_eq!(record["status"], "stopped");
            let cgroup = record["cgroup"]["path"].as_str().map(std::path::PathBuf::from);
            assert!(
                !cgroup.is_some_and(|path| path.exists()),
                "{contain}, trial {trial}: the cgroup is left"
            );
        }
        assert!(is_running(bystander.0.id().into()));
    }
}

fn kill_9(pid: u64) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, rustix::process::Signal::KILL).unwrap();
}

#[test]
fn i10_the_sessions_of_a_killed_owner_end_with_nobody_running_anything() {
    let yard = Yard::new()
        .with_settings("owner.grace = \"50ms\"\nstop.grace = \"100ms\"\nstore.durability = \"process\"\n");
    let free = yard.ok(&["run", "-d", "--", "sleep", "600"]);
    for _ in 0..trials(10) {
        let mut owner = Bystander::start();
        let id = yard.ok(&[
            "run",
            "-d",
            "--owner-pid",
            &owner.pid(),
            "--",
            "sh",
            "-c",
            "setsid sleep 601 & sleep 602",
        ]);
        owner.end();
        assert_eq!(yard.wait_until_ended(&id)["status"], "orphaned");
        eventually("its processes are gone", || carriers(&id).is_empty());
    }
    assert!(is_running(yard.record(&free)["process"]["pid"].as_u64().unwrap()));
}
