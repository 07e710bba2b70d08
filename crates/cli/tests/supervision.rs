//! Supervisors: a stray signal does not terminate one, a failed start leaves nothing, a nested supervisor is outside of
//! the outer session, and missing output is reported.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{TestEnv, eventually, is_running};

fn pid(record: &Value, whose: &str) -> u64 {
    record[whose]["pid"].as_u64().unwrap()
}

fn kill(pid: u64, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

/// Returns the names in a directory; none if it does not exist.
fn names_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn i8_a_supervisor_records_the_exit_despite_stray_signals() {
    let test_env = TestEnv::new();
    let id = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    let record = test_env.record(&id);
    for signal in [
        Signal::ALARM,
        Signal::VTALARM,
        Signal::PROF,
        Signal::USR1,
        Signal::USR2,
        Signal::HUP,
        Signal::INT,
        Signal::TERM,
        Signal::QUIT,
        Signal::PIPE,
        Signal::IO,
    ] {
        kill(pid(&record, "supervisor"), signal);
    }
    kill(pid(&record, "process"), Signal::ABORT);
    // Only the parent of the command knows the signal.
    assert_eq!(test_env.wait_until_ended(&id)["exit"]["signal"], Signal::ABORT.as_raw());
}

#[test]
fn a_refused_start_leaves_no_directory_and_no_exit_file() {
    let test_env = TestEnv::new();
    let id = test_env.ok(&["run", "-d", "--name", "taken", "--", "sleep", "600"]);
    let refused: [&[&str]; 4] = [
        &["--name", "taken", "--", "true"],
        &["--cwd", "/nowhere/at/all", "--", "true"],
        &["--owner-pid", "4194303", "--", "true"],
        &["--name", "with\nline", "--", "true"],
    ];
    for arguments in refused {
        let ran = test_env.sexton(&[&["run", "-d"], arguments].concat());
        assert_ne!(ran.code, 0, "{arguments:?}");
        assert_eq!(
            names_in(&test_env.state_dir().join("sessions")),
            std::slice::from_ref(&id),
            "{arguments:?}"
        );
        assert_eq!(names_in(&test_env.state_dir().join("exits")), [""; 0], "{arguments:?}");
    }
}

#[test]
fn a_start_that_the_store_refuses_leaves_nothing() {
    let test_env = TestEnv::new();
    test_env.ok(&["run", "--", "true"]);
    let before = names_in(&test_env.state_dir().join("sessions"));
    // With a directory in place of the lock no user can write the store, not even root.
    let lock =
        test_env.state_dir().join(format!("{}.lock", test_env.store_path().file_name().unwrap().display()));
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    let ran = test_env.sexton(&["run", "-d", "--", "touch", "it-ran"]);
    assert_ne!(ran.code, 0);
    assert!(!test_env.work_dir().join("it-ran").exists());
    assert_eq!(names_in(&test_env.state_dir().join("sessions")), before);
    std::fs::remove_dir(&lock).unwrap();
}

#[test]
fn a_wait_that_times_out_still_prints_the_session_as_json() {
    let test_env = TestEnv::new();
    let id = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    let ran = test_env.sexton(&["wait", "--json", "--timeout", "50ms", &id]);
    assert_eq!(ran.code, 123, "{}", ran.stderr);
    let records: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((records[0]["id"].as_str(), records[0]["status"].as_str()), (Some(&*id), Some("running")));
}

#[test]
fn i10_the_supervisor_of_a_nested_session_is_outside_of_the_outer_session() {
    let test_env = TestEnv::new().with_settings("stop.grace = \"200ms\"\n");
    let sexton = support::quoted_program();
    let script = format!("{sexton} run -d --no-owner --name inner -- sleep 600; sleep 601");
    let outer = test_env.ok(&["run", "-d", "--", "sh", "-c", &script]);
    eventually("both run", || test_env.json(&["ps"]).as_array().unwrap().len() == 2);
    let (inner, group) = (test_env.record("inner"), test_env.record(&outer)["cgroup"]["path"].clone());
    let supervisor = pid(&inner, "supervisor");
    let place = std::fs::read_to_string(format!("/proc/{supervisor}/cgroup")).unwrap();
    assert!(!place.contains(&outer), "{place}");
    test_env.ok(&["stop", &outer]);
    assert!(is_running(supervisor), "stopping the outer session killed the supervisor of the inner one");
    // Without control groups on this machine there is nothing to check.
    if let Some(group) = group.as_str() {
        assert!(!Path::new(group).exists(), "{group} is left behind");
    }
}

/// Starts a foreground session whose output goes into a pipe that is not read yet.
fn start_unread(test_env: &TestEnv, script: &str) -> Child {
    let mut command = test_env.command(&["run", "--name", "loud", "--", "sh", "-c", script]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Waits for that session to start, and returns the path of its log.
fn log_of(test_env: &TestEnv) -> std::path::PathBuf {
    eventually("it runs", || test_env.sexton(&["show", "loud"]).code == 0);
    test_env.record("loud")["log"]["path"].as_str().unwrap().into()
}

#[test]
fn output_trimmed_before_a_slow_reader_read_it_is_counted_and_reported() {
    const WRITTEN: u64 = 3_000_000;
    let test_env = TestEnv::new().with_settings("log.max_bytes = \"64KiB\"\n");
    let script = format!("head -c {WRITTEN} /dev/zero; while [ ! -e read ]; do sleep 0.1; done");
    let child = start_unread(&test_env, &script);
    let log = log_of(&test_env);
    eventually("the log is trimmed", || {
        let metadata = log.metadata().unwrap();
        metadata.size() == WRITTEN && metadata.blocks() * 512 < WRITTEN / 2
    });
    std::fs::write(test_env.work_dir().join("read"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    let stderr = String::from_utf8(output.stderr).unwrap();
    let missing = stderr.split(' ').find_map(|word| word.parse::<u64>().ok());
    assert_eq!(missing, Some(WRITTEN - output.stdout.len() as u64), "{stderr}");
}

#[test]
fn a_signal_reaches_the_session_although_its_output_is_not_read() {
    let test_env = TestEnv::new();
    let mut child = start_unread(&test_env, "head -c 1000000 /dev/zero; exec sleep 600");
    let log = log_of(&test_env);
    eventually("all was written", || log.metadata().unwrap().size() == 1_000_000);
    kill(child.id().into(), Signal::INT);
    assert_eq!(test_env.wait_until_ended("loud")["exit"]["signal"], Signal::INT.as_raw());
    let mut shown = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut shown).unwrap();
    assert_eq!(shown.len(), 1_000_000);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}

/// A program that ignores SIGCHLD passes that on. The kernel would then reap the command itself.
#[test]
fn i8_an_exit_is_recorded_although_the_starter_ignores_sigchld() {
    let test_env = TestEnv::new();
    let program = support::program();
    for arguments in [&["run", "--name", "one"][..], &["run", "-d", "--name", "two"]] {
        let mut command = std::process::Command::new("perl");
        test_env.enclose(&mut command);
        command.args(["-e", "$SIG{CHLD} = 'IGNORE'; exec @ARGV", &program]).args(arguments);
        command.args(["--", "sh", "-c", "sleep 0.1; exit 7"]);
        let ran = support::Ran::of(&command.output().unwrap());
        let name = arguments[arguments.len() - 1];
        assert_eq!(ran.code, if name == "one" { 7 } else { 0 }, "{}", ran.stderr);
        assert_eq!(test_env.wait_until_ended(name)["exit"]["code"], 7, "{name}");
    }
}
