//! SIGKILL at every critical moment: to the program at each of its system calls while it starts a session, to the
//! supervisor, to the owner.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::path::Path;

use serde_json::Value;
use support::effort::{crash_stride, trials};
use support::strace::{Call, every_call_alone, kill_alone_at};
use support::{Bystander, TestEnv, carriers, eventually, is_running, processes_with};

/// Requires that the session is complete, and stops it, or that the command never ran and no record claims it did.
fn check_and_clear(test_env: &TestEnv, call: &Call, marker: &Path, trial: &str) {
    let variable = format!("SEXTON_TEST_TRIAL={trial}");
    let mut running: Option<Value> = None;
    eventually("the start is complete or has failed", || {
        running = test_env.json(&["ps"]).as_array().unwrap().first().cloned();
        let complete = running.as_ref().is_some_and(|record| record["observed"] == "alive");
        complete || processes_with(&variable).is_empty()
    });
    match running.filter(|record| record["observed"] == "alive") {
        Some(record) => {
            let id = record["id"].as_str().unwrap();
            // The session is recorded: either the gate opens and the command runs, or the start is cancelled.
            eventually("it ran or was cancelled", || {
                marker.exists() || test_env.record(id)["exit"]["reason"] == "never_started"
            });
            test_env.ok(&["stop", "--force", id]);
            eventually("its processes are gone", || processes_with(&variable).is_empty());
        }
        None => {
            assert!(!marker.exists(), "{call:?}: the command ran without a record");
            let newest = test_env.json(&["ps", "-a", "--limit", "1"]);
            let reason = newest[0]["exit"]["reason"].as_str().unwrap_or("absent").to_owned();
            assert!(["absent", "never_started", "stopped"].contains(&reason.as_str()), "{call:?}: {newest}");
        }
    }
}

#[test]
fn i1_a_start_killed_at_any_system_call_completes_or_never_runs() {
    let test_env = TestEnv::new().with_settings("store.durability = \"process\"\n");
    let marker = test_env.path().join("ran");
    let script = format!("touch {} && exec sleep 600", marker.display());
    let start = ["run", "-d", "--", "sh", "-c", &script];
    // The first start creates the store; only later starts are killed.
    test_env.ok(&start);
    let calls = every_call_alone(&test_env, &start);
    test_env.ok(&["stop", "--all", "--force"]);
    assert!(calls.len() > 100, "only {} system calls were seen", calls.len());
    let mut killed = 0;
    for (number, call) in calls.iter().enumerate().step_by(crash_stride(2)) {
        let _ = std::fs::remove_file(&marker);
        let trial = format!("{}-{number}", std::process::id());
        killed += usize::from(kill_alone_at(&test_env, call, &start, &trial));
        check_and_clear(&test_env, call, &marker, &trial);
    }
    let tried = calls.len().div_ceil(crash_stride(2));
    // A call that differs from run to run may not be reached.
    assert!(killed * 10 >= tried * 9, "only {killed} of {tried} starts were killed");
}

const TREE: &str = "setsid sh -c 'sleep 600 & exec sleep 601' & (setsid sleep 602 &) ; \
                    sh -c 'sh -c \"sh -c \\\"sleep 603 & exec sleep 604\\\" & sleep 605\" & sleep 606' & exec sleep 607";

#[test]
fn i10_stop_leaves_no_process_with_any_containment_and_without_a_supervisor() {
    for contain in ["auto", "tree"] {
        let test_env = TestEnv::new()
            .with_settings(&format!("contain = \"{contain}\"\nstore.durability = \"process\"\n"));
        let bystander = Bystander::start();
        for trial in 0..trials(10) {
            let id = test_env.ok(&["run", "-d", "--", "sh", "-c", TREE]);
            eventually("all processes are started", || carriers(&id).len() >= 9);
            let record = test_env.record(&id);
            if trial % 2 == 1 {
                let supervisor = record["supervisor"]["pid"].as_u64().unwrap();
                kill_9(supervisor);
                eventually("the supervisor is gone", || !is_running(supervisor));
            }
            test_env.ok(&["stop", "--grace", "100ms", &id]);
            assert_eq!(carriers(&id), [0; 0], "{contain}, trial {trial}");
            let record = test_env.record(&id);
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
fn i10_the_sessions_of_a_killed_owner_end_without_any_command() {
    let test_env = TestEnv::new()
        .with_settings("owner.grace = \"50ms\"\nstop.grace = \"100ms\"\nstore.durability = \"process\"\n");
    let free = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    for _ in 0..trials(10) {
        let mut owner = Bystander::start();
        let id = test_env.ok(&[
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
        assert_eq!(test_env.wait_until_ended(&id)["status"], "orphaned");
        eventually("its processes are gone", || carriers(&id).is_empty());
    }
    assert!(is_running(test_env.record(&free)["process"]["pid"].as_u64().unwrap()));
}
