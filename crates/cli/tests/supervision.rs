//! What a supervisor owes to those who do not see it: it cannot be ended by accident, leaves nothing of a
//! start that came to nothing, stands outside of other sessions, and hides no missing output.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::{Child, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use support::{Yard, eventually, is_running};

fn pid(record: &Value, whose: &str) -> u64 {
    record[whose]["pid"].as_u64().unwrap()
}

fn kill(pid: u64, signal: Signal) {
    kill_process(Pid::from_raw(i32::try_from(pid).unwrap()).unwrap(), signal).unwrap();
}

/// The names in a directory; none where there is no such directory.
fn names_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

#[test]
fn i8_no_signal_that_a_program_gets_by_accident_keeps_a_supervisor_from_recording_the_end() {
    let yard = Yard::new();
    let id = yard.ok(&["run", "-d", "--", "sleep", "600"]);
    let record = yard.record(&id);
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
    // Only the parent of the command can know which signal it was.
    assert_eq!(yard.wait_until_ended(&id)["exit"]["signal"], Signal::ABORT.as_raw());
}

#[test]
fn a_start_that_is_refused_leaves_neither_directory_nor_exit_file() {
    let yard = Yard::new();
    let id = yard.ok(&["run", "-d", "--name", "taken", "--", "sleep", "600"]);
    let refused: [&[&str]; 4] = [
        &["--name", "taken", "--", "true"],
        &["--cwd", "/nowhere/at/all", "--", "true"],
        &["--owner-pid", "4194303", "--", "true"],
        &["--name", "with\nline", "--", "true"],
    ];
    for arguments in refused {
        let ran = yard.sexton(&[&["run", "-d"], arguments].concat());
        assert_ne!(ran.code, 0, "{arguments:?}");
        assert_eq!(names_in(&yard.state_dir().join("sessions")), std::slice::from_ref(&id), "{arguments:?}");
        assert_eq!(names_in(&yard.state_dir().join("exits")), [""; 0], "{arguments:?}");
    }
}

#[test]
fn a_start_that_the_store_refuses_leaves_nothing() {
    let yard = Yard::new();
    yard.ok(&["run", "--", "true"]);
    let before = names_in(&yard.state_dir().join("sessions"));
    // A directory in the place of the lock: nobody can write, whoever they are.
    let lock = yard.state_dir().join(format!("{}.lock", yard.store_path().file_name().unwrap().display()));
    std::fs::remove_file(&lock).unwrap();
    std::fs::create_dir(&lock).unwrap();
    let ran = yard.sexton(&["run", "-d", "--", "touch", "it-ran"]);
    assert_ne!(ran.code, 0);
    assert!(!yard.work_dir().join("it-ran").exists());
    assert_eq!(names_in(&yard.state_dir().join("sessions")), before);
    std::fs::remove_dir(&lock).unwrap();
}

#[test]
fn a_wait_that_gives_up_still_says_as_json_what_it_waits_for() {
    let yard = Yard::new();
    let id = yard.ok(&["run", "-d", "--", "sleep", "600"]);
    let ran = yard.sexton(&["wait", "--json", "--timeout", "50ms", &id]);
    assert_eq!(ran.code, 124, "{}", ran.stderr);
    let records: Value = serde_json::from_str(&ran.stdout).unwrap();
    assert_eq!((records[0]["id"].as_str(), records[0]["status"].as_str()), (Some(&*id), Some("running")));
}

#[test]
fn i10_the_supervisor_of_a_nested_session_stands_outside_of_the_outer_one() {
    let yard = Yard::new().with_settings("stop.grace = \"200ms\"\n");
    let sexton = support::program();
    let script = format!("{sexton} run -d --no-owner --name inner -- sleep 600; sleep 601");
    let outer = yard.ok(&["run", "-d", "--", "sh", "-c", &script]);
    eventually("both run", || yard.json(&["ps"]).as_array().unwrap().len() == 2);
    let (inner, group) = (yard.record("inner"), yard.record(&outer)["cgroup"]["path"].clone());
    let supervisor = pid(&inner, "supervisor");
    let place = std::fs::read_to_string(format!("/proc/{supervisor}/cgroup")).unwrap();
    assert!(!place.contains(&outer), "{place}");
    yard.ok(&["stop", &outer]);
    assert!(is_running(supervisor), "ending the outer session ended the supervisor of the inner one");
    // Where this machine has no control groups for us, there is none to be left behind.
    if let Some(group) = group.as_str() {
        assert!(!Path::new(group).exists(), "{group} is left behind");
    }
}

/// A foreground session whose output goes into a pipe that nobody reads yet.
fn start_unread(yard: &Yard, script: &str) -> Child {
    let mut command = yard.command(&["run", "--name", "loud", "--", "sh", "-c", script]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// The log of that session, once it is there.
fn log_of(yard: &Yard) -> std::path::PathBuf {
    eventually("it runs", || yard.sexton(&["show", "loud"]).code == 0);
    yard.record("loud")["log"]["path"].as_str().unwrap().into()
}

#[test]
fn output_that_was_freed_before_a_slow_reader_came_to_it_is_counted_and_reported() {
    const WRITTEN: u64 = 3_000_000;
    let yard = Yard::new().with_settings("log.max_bytes = \"64KiB\"\n");
    let script = format!("head -c {WRITTEN} /dev/zero; while [ ! -e read ]; do sleep 0.1; done");
    let child = start_unread(&yard, &script);
    let log = log_of(&yard);
    eventually("the log was shortened", || {
        let metadata = log.metadata().unwrap();
        metadata.size() == WRITTEN && metadata.blocks() * 512 < WRITTEN / 2
    });
    std::fs::write(yard.work_dir().join("read"), "").unwrap();
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8(output.stderr).unwrap();
    let missing = said.split(' ').find_map(|word| word.parse::<u64>().ok());
    assert_eq!(missing, Some(WRITTEN - output.stdout.len() as u64), "{said}");
}

#[test]
fn a_signal_reaches_the_session_though_nobody_reads_its_output() {
    let yard = Yard::new();
    let mut child = start_unread(&yard, "head -c 1000000 /dev/zero; exec sleep 600");
    let log = log_of(&yard);
    eventually("all was written", || log.metadata().unwrap().size() == 1_000_000);
    kill(child.id().into(), Signal::INT);
    assert_eq!(yard.wait_until_ended("loud")["exit"]["signal"], Signal::INT.as_raw());
    let mut shown = Vec::new();
    child.stdout.take().unwrap().read_to_end(&mut shown).unwrap();
    assert_eq!(shown.len(), 1_000_000);
    assert_eq!(child.wait().unwrap().code(), Some(130));
}
