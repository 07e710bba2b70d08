//! A session whose supervisor was killed while its command runs: it is shown as unsupervised, and recovery starts a
//! new supervisor with the settings of the lost one.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::Stdio;

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Bystander, TestEnv, carriers, eventually, is_running};

fn pid(record: &Value, whose: &str) -> u64 {
    record[whose]["pid"].as_u64().unwrap()
}

fn kill(pid: u64) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), Signal::KILL).unwrap();
    eventually("it is gone", || !is_running(pid));
}

fn lose_supervisor(test_env: &TestEnv, id: &str) {
    kill(pid(&test_env.record(id), "supervisor"));
}

/// Creates a session whose supervisor was killed.
fn lost(test_env: &TestEnv, options: &[&str], script: &str) -> String {
    let id = test_env.ok(&[&["run", "-d"], options, &["--", "sh", "-c", script]].concat());
    lose_supervisor(test_env, &id);
    id
}

/// Returns the processes with the session's cookie, except its command and supervisor.
fn others(test_env: &TestEnv, id: &str) -> Vec<u64> {
    let record = test_env.record(id);
    let known = [pid(&record, "process"), pid(&record, "supervisor")];
    carriers(id).into_iter().filter(|pid| !known.contains(pid)).collect()
}

#[test]
fn only_a_session_that_lost_its_supervisor_is_shown_as_unsupervised() {
    let test_env = TestEnv::new();
    let id = lost(&test_env, &[], "exec sleep 600");
    let stranger = Bystander::start();
    let registered = test_env.ok(&["register", "--pid", &stranger.pid()]);
    for listed in test_env.json(&["ps"]).as_array().unwrap() {
        let expected = if listed["id"] == *id { "unsupervised" } else { "alive" };
        assert_eq!((&listed["observed"], &listed["status"]), (&expected.into(), &"running".into()));
    }
    assert_eq!(test_env.record(&id)["observed"], "unsupervised");
    assert!(test_env.ok(&["ps"]).contains("running (unsupervised)"));
    assert!(test_env.ok(&["show", &id]).contains("unsupervised"));
    let report = test_env.json(&["recover"]);
    assert_eq!((&report["resupervised"], &report["left_alone"]), (&1.into(), &1.into()), "{report}");
    assert_eq!(test_env.record(&id)["observed"], "alive");
    assert!(test_env.record(&registered)["supervisor"].is_null());
}

#[test]
fn i7_recovery_starts_a_new_supervisor_and_a_second_recovery_changes_nothing() {
    let test_env = TestEnv::new();
    let id = lost(&test_env, &[], "exec sleep 600");
    let before = test_env.record(&id);
    let report = test_env.json(&["recover", "--dry-run"]);
    assert_eq!(report["resupervised"], 1, "{report}");
    assert_eq!(test_env.record(&id), before, "a dry run changed something");
    let report = test_env.json(&["recover"]);
    let session = &report["sessions"][0];
    assert_eq!(
        (&session["action"], &session["outcome"]),
        (&"resupervised".into(), &"done".into()),
        "{report}"
    );
    assert_eq!((&report["resupervised"], &report["left_alone"]), (&1.into(), &0.into()), "{report}");
    let after = test_env.record(&id);
    assert_eq!((&after["observed"], &after["process"]), (&"alive".into(), &before["process"]));
    assert!(is_running(pid(&after, "supervisor")));
    let again = test_env.sexton(&["recover"]);
    assert_eq!((again.code, again.stdout.as_str()), (0, ""), "{}", again.stderr);
    assert!(again.stderr.contains("nothing to recover"), "{}", again.stderr);
    assert_eq!(test_env.record(&id), after, "a second recovery changed something");
    assert_eq!(others(&test_env, &id), [0; 0]);
}

#[test]
fn i7_parallel_recoveries_start_one_supervisor() {
    let test_env = TestEnv::new();
    let id = lost(&test_env, &[], "exec sleep 600");
    let mut recoveries = Vec::new();
    for _ in 0..6 {
        let mut command = test_env.command(&["recover"]);
        recoveries.push(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap());
    }
    for mut recovery in recoveries {
        assert!(recovery.wait().unwrap().success());
    }
    assert_eq!(test_env.record(&id)["observed"], "alive");
    eventually("there is one supervisor", || others(&test_env, &id).is_empty());
}

#[test]
fn a_new_supervisor_keeps_the_timeout_and_the_notify_command() {
    let test_env = TestEnv::new().with_settings("stop.grace = \"200ms\"\n");
    let note = test_env.path().join("note");
    let notify = format!("echo $SEXTON_ENDED_STATUS > {0}.new; mv {0}.new {0}", note.display());
    let id = lost(&test_env, &["--timeout", "3s", "--notify", &notify], "exec sleep 600");
    assert_eq!(test_env.json(&["recover"])["resupervised"], 1);
    assert_eq!(test_env.sexton(&["wait", &id]).code, 124);
    assert_eq!(test_env.record(&id)["status"], "timed_out");
    eventually("the notify command has run", || note.exists());
    assert_eq!(std::fs::read_to_string(&note).unwrap(), "timed_out\n");
    assert_eq!(carriers(&id), [0; 0]);
}

#[test]
fn i9_a_new_supervisor_keeps_the_log_limit_of_the_start() {
    let test_env = TestEnv::new().with_settings("log.max_bytes = \"64KiB\"\n");
    let script = "until [ -e go ]; do sleep 0.02; done; head -c 3000000 /dev/zero; exec sleep 600";
    let id = lost(&test_env, &[], script);
    // Change the configured limit after the start.
    let test_env = test_env.with_settings("");
    std::fs::write(test_env.path().join("config/sexton/config.toml"), "log.max_bytes = \"off\"\n").unwrap();
    test_env.ok(&["recover"]);
    std::fs::write(test_env.work_dir().join("go"), "").unwrap();
    let log: PathBuf = test_env.record(&id)["log"]["path"].as_str().unwrap().into();
    eventually("the log is trimmed", || {
        let metadata = log.metadata().unwrap();
        metadata.size() == 3_000_000 && metadata.blocks() * 512 < 1_000_000
    });
}

#[test]
fn a_new_supervisor_stops_the_session_when_its_owner_dies() {
    let test_env = TestEnv::new().with_settings("owner.grace = \"100ms\"\nstop.grace = \"200ms\"\n");
    let mut owner = Bystander::start();
    let id = lost(&test_env, &["--owner-pid", &owner.pid()], "exec sleep 600");
    test_env.ok(&["recover"]);
    owner.end();
    let ended = test_env.wait_until_ended(&id);
    assert_eq!((&ended["status"], &ended["recovery"]["cause"]), (&"orphaned".into(), &"owner_dead".into()));
    assert_eq!(carriers(&id), [0; 0]);
}

#[test]
fn i10_a_new_supervisor_stops_processes_that_the_command_left_behind() {
    for contain in ["tree", "auto"] {
        let settings = format!("contain = \"{contain}\"\nstop.grace = \"200ms\"\n");
        let test_env = TestEnv::new().with_settings(&settings);
        let script = "setsid sleep 601 & (setsid sleep 602 &); until [ -e go ]; do sleep 0.02; done; exit 7";
        let id = test_env.ok(&["run", "-d", "--", "sh", "-c", script]);
        eventually("both are left", || others(&test_env, &id).len() >= 2);
        lose_supervisor(&test_env, &id);
        test_env.ok(&["recover"]);
        std::fs::write(test_env.work_dir().join("go"), "").unwrap();
        let ran = test_env.sexton(&["wait", &id]);
        assert_eq!(ran.code, 122, "{contain}: {}", ran.stderr);
        assert!(ran.stderr.contains("is unknown"), "{contain}: {}", ran.stderr);
        let ended = test_env.record(&id);
        assert_eq!((&ended["exit"]["reason"], &ended["exit"]["code"]), (&"unknown".into(), &Value::Null));
        assert_eq!(carriers(&id), [0; 0], "{contain}");
    }
}

#[test]
fn i8_an_unknown_exit_status_makes_wait_and_run_exit_122() {
    let test_env = TestEnv::new();
    let id = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    let record = test_env.record(&id);
    kill(pid(&record, "supervisor"));
    kill(pid(&record, "process"));
    for _ in 0..2 {
        let ran = test_env.sexton(&["wait", &id]);
        assert_eq!(ran.code, 122, "{}", ran.stderr);
        assert!(ran.stderr.contains("is unknown"), "{}", ran.stderr);
        test_env.ok(&["recover"]);
    }
    let mut run =
        test_env.command(&["run", "--name", "front", "--", "sh", "-c", "echo begun; exec sleep 600"]);
    let run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The record is there before the command is executed.
    eventually("it runs", || test_env.sexton(&["logs", "front"]).stdout == "begun\n");
    let record = test_env.record("front");
    kill(pid(&record, "supervisor"));
    kill(pid(&record, "process"));
    let output = run.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    assert_eq!((output.status.code(), output.stdout.as_slice()), (Some(122), &b"begun\n"[..]), "{stderr}");
    assert!(stderr.contains("is unknown"), "{stderr}");
}

#[test]
fn a_foreground_run_continues_when_the_supervisor_is_killed_and_replaced() {
    let test_env = TestEnv::new();
    let script = "echo begun; until [ -e go ]; do sleep 0.02; done; echo ended";
    let mut run = test_env.command(&["run", "--name", "front", "--", "sh", "-c", script]);
    let mut run = run.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    // The record is there before the command is executed.
    eventually("it runs", || test_env.sexton(&["logs", "front"]).stdout == "begun\n");
    lose_supervisor(&test_env, "front");
    assert!(run.try_wait().unwrap().is_none(), "the foreground run exited");
    assert_eq!(test_env.json(&["recover"])["resupervised"], 1);
    std::fs::write(test_env.work_dir().join("go"), "").unwrap();
    let output = run.wait_with_output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "begun\nended\n");
    assert_eq!(output.status.code(), Some(122));
}

#[test]
fn a_session_without_a_supervision_file_is_supervised_with_the_configuration() {
    let test_env = TestEnv::new().with_settings("stop.grace = \"200ms\"\n");
    let id = lost(&test_env, &["--timeout", "3s"], "exec sleep 600");
    std::fs::remove_file(test_env.state_dir().join("sessions").join(&id).join("supervision.json")).unwrap();
    assert_eq!(test_env.json(&["recover"])["resupervised"], 1);
    assert_eq!(test_env.sexton(&["wait", &id]).code, 124);
}

#[test]
fn i11_the_supervision_file_is_private() {
    let test_env = TestEnv::new();
    let id = test_env.ok(&["run", "-d", "--notify", "echo secret", "--", "sleep", "600"]);
    let kept = test_env.state_dir().join("sessions").join(&id).join("supervision.json");
    assert_eq!(kept.metadata().unwrap().mode() & 0o777, 0o600);
    assert!(std::fs::read_to_string(&kept).unwrap().contains("echo secret"));
}

/// The new supervisor may not be able to look at the command at first, for example because no file descriptor is left.
/// That does not mean that the command has ended.
#[cfg(feature = "proc-linux")]
#[test]
fn i2_one_failed_look_at_the_command_does_not_end_a_session_with_a_new_supervisor() {
    for number in 1..=4 {
        let test_env = TestEnv::new();
        let id = lost(&test_env, &[], "exec sleep 600");
        let command = pid(&test_env.record(&id), "process");
        let mut traced = std::process::Command::new("strace");
        test_env.enclose(&mut traced);
        let inject = format!("inject=pidfd_open:error=EMFILE:when={number}");
        traced.args(["-f", "-qq", "-o", "/dev/null", "-e", "trace=pidfd_open", "-e", &inject]);
        let mut traced = traced.arg(support::program()).arg("recover").stdout(Stdio::null()).spawn().unwrap();
        // Without an injected error this changes nothing if the first one was successful.
        eventually("it has a supervisor", || {
            test_env.sexton(&["recover"]);
            test_env.record(&id)["observed"] == "alive"
        });
        assert!(is_running(command), "call {number}");
        test_env.ok(&["stop", &id]);
        assert_eq!(test_env.wait_until_ended(&id)["status"], "stopped", "call {number}");
        traced.wait().unwrap();
    }
}
