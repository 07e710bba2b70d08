//! Starting, following, waiting for and stopping sessions, with the real program.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::process::Stdio;

use support::{Bystander, Ran, TestEnv, carriers, eventually, is_running};

fn pid(record: &serde_json::Value, whose: &str) -> u64 {
    record[whose]["pid"].as_u64().unwrap()
}

fn kill(pid: u64, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn a_foreground_run_shows_the_output_and_exits_with_the_code() {
    let test_env = TestEnv::new();
    let ran = test_env.sexton(&["run", "--split-output", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (7, "out\n", "err\n"));
    let ran = test_env.sexton(&["run", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(ran.code, 137);
    let records = test_env.json(&["ps", "-a"]);
    assert_eq!(records[0]["exit"]["signal"], 9);
    assert_eq!(records[1]["exit"]["code"], 7);
}

#[test]
fn a_detached_session_is_running_when_its_id_is_printed() {
    let test_env = TestEnv::new();
    let id = test_env.ok(&["run", "-d", "--name", "work", "--", "sleep", "600"]);
    let record = test_env.record(&id);
    assert_eq!(record["status"], "running");
    let command = std::fs::read(format!("/proc/{}/cmdline", pid(&record, "process"))).unwrap();
    assert_eq!(command, b"sleep\x00600\x00");
    assert!(is_running(pid(&record, "supervisor")));
    test_env.ok(&["stop", "work"]);
    assert_eq!(test_env.record(&id)["status"], "stopped");
    assert_eq!(carriers(&id), [0; 0]);
}

#[test]
fn standard_input_reaches_a_foreground_command() {
    let test_env = TestEnv::new();
    let mut child =
        test_env.command(&["run", "--", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"through the gate\n").unwrap();
    assert_eq!(Ran::of(&child.wait_with_output().unwrap()).stdout, "through the gate\n");
}

#[test]
fn arguments_and_environment_are_passed_byte_for_byte() {
    let test_env = TestEnv::new();
    let odd = std::ffi::OsString::from_vec(b"sp ace 'quote' \"double\"\nline \xff\xfe".to_vec());
    let mut variable = std::ffi::OsString::from("ODD=");
    variable.push(&odd);
    let mut command = test_env.command(&["run", "--env"]);
    command.arg(&variable).args(["--", "sh", "-c", "printf '%s|%s' \"$1\" \"$ODD\"", "sh"]).arg(&odd);
    let output = command.output().unwrap();
    let mut expected = odd.clone().into_vec();
    expected.push(b'|');
    expected.extend(odd.into_vec());
    assert_eq!(output.stdout, expected);
}

#[test]
fn a_command_that_cannot_be_executed_leaves_a_failed_record_and_nothing_else() {
    let test_env = TestEnv::new();
    assert_eq!(test_env.sexton(&["run", "--", "no-such-program"]).code, 127);
    assert_eq!(test_env.sexton(&["run", "-d", "--", "/etc/passwd"]).code, 126);
    let records = test_env.json(&["ps", "-a"]);
    for (record, code) in records.as_array().unwrap().iter().zip([126, 127]) {
        assert_eq!(record["status"], "failed");
        assert_eq!(record["exit"]["reason"], "exec_failed");
        assert_eq!(record["exit"]["code"], code);
        assert_eq!(carriers(record["id"].as_str().unwrap()), [0; 0]);
    }
    let ran = test_env.sexton(&["run", "--cwd", "/no/such/place", "--", "true"]);
    assert_eq!(ran.code, 125, "{}", ran.stderr);
    assert_eq!(test_env.json(&["ps", "-a"]).as_array().unwrap().len(), 2);
}

#[test]
fn a_name_in_use_starts_nothing() {
    let test_env = TestEnv::new();
    test_env.ok(&["run", "-d", "--name", "one", "--", "sleep", "600"]);
    let ran = test_env.sexton(&["run", "-d", "--name", "one", "--", "sleep", "601"]);
    assert_eq!(ran.code, 125);
    assert!(ran.stderr.contains("the name `one` is in use"), "{}", ran.stderr);
    assert_eq!(test_env.json(&["ps", "-a"]).as_array().unwrap().len(), 1);
    let directories = std::fs::read_dir(test_env.state_dir().join("sessions")).unwrap().count();
    assert_eq!(directories, 1, "the session that did not start left its directory");
}

#[test]
fn a_timeout_stops_the_session_and_is_recorded() {
    let test_env = TestEnv::new();
    let ran = test_env.sexton(&["run", "--timeout", "100ms", "--", "sleep", "600"]);
    assert_eq!(ran.code, 124);
    assert_eq!(test_env.json(&["ps", "-a"])[0]["status"], "timed_out");
}

#[test]
fn wait_exits_with_the_code_of_the_session() {
    let test_env = TestEnv::new();
    let good = test_env.ok(&["run", "-d", "--", "true"]);
    let bad = test_env.ok(&["run", "-d", "--", "sh", "-c", "exit 9"]);
    assert_eq!(test_env.sexton(&["wait", &good]).code, 0);
    assert_eq!(test_env.sexton(&["wait", &good, &bad]).code, 9);
    let long = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    assert_eq!(test_env.sexton(&["wait", "--timeout", "50ms", &long]).code, 123);
    assert_eq!(test_env.sexton(&["wait", "missing"]).code, 125);
}

#[test]
fn logs_supports_tail_cursor_and_follow() {
    let test_env = TestEnv::new();
    let id = test_env.ok(&["run", "-d", "--", "sh", "-c", "echo one; echo two; echo three; sleep 600"]);
    eventually("all is written", || test_env.ok(&["logs", &id]).ends_with("three"));
    assert_eq!(test_env.ok(&["logs", &id, "--tail", "1"]), "three");
    assert_eq!(test_env.ok(&["logs", "--tail", "2"]), "two\nthree");
    let part = test_env.json(&["logs", &id]);
    assert_eq!((part["output"].as_str(), part["cursor"].as_u64()), (Some("one\ntwo\nthree\n"), Some(14)));
    assert_eq!((part["eof"].as_bool(), part["truncated"].as_bool()), (Some(false), Some(false)));
    let next = test_env.json(&["logs", &id, "--cursor", "14"]);
    assert_eq!((next["output"].as_str(), next["cursor"].as_u64()), (Some(""), Some(14)));
    let beyond = test_env.json(&["logs", &id, "--cursor", "5000"]);
    assert_eq!((beyond["cursor"].as_u64(), beyond["truncated"].as_bool()), (Some(14), Some(true)));
    let following = test_env.command(&["logs", &id, "-f"]).stdout(Stdio::piped()).spawn().unwrap();
    test_env.ok(&["stop", &id]);
    assert_eq!(Ran::of(&following.wait_with_output().unwrap()).stdout, "one\ntwo\nthree\n");
    assert_eq!(test_env.json(&["logs", &id, "--cursor", "14"])["eof"], true);
}

#[test]
fn i9_a_log_is_bounded_and_cursors_stay_valid() {
    let test_env = TestEnv::new().with_settings("log.max_bytes = \"64KiB\"\n");
    let script = "head -c 1000000 /dev/zero | tr '\\0' x; echo; echo end; sleep 600";
    let id = test_env.ok(&["run", "-d", "--", "sh", "-c", script]);
    let log = test_env.record(&id)["log"]["path"].as_str().unwrap().to_owned();
    let held = || std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&log).unwrap()) * 512;
    let size = || std::fs::metadata(&log).unwrap().len();
    eventually("all is written and the log is trimmed", || size() == 1_000_005 && held() < 100_000);
    let part = test_env.json(&["logs", &id]);
    assert_eq!(part["truncated"], true);
    assert_eq!(part["cursor"], 1_000_005);
    assert_eq!(test_env.json(&["logs", &id, "--cursor", "1000001"])["output"], "end\n");
}

#[test]
fn i10_no_process_of_a_session_survives_stop() {
    for contain in ["auto", "tree"] {
        let test_env = TestEnv::new().with_settings(&format!("contain = \"{contain}\"\n"));
        let script =
            "setsid sleep 600 & (setsid sh -c 'sleep 601 & sleep 602' &) ; sleep 603 & exec sleep 604";
        let id = test_env.ok(&["run", "-d", "--", "sh", "-c", script]);
        // The supervisor, five sleeps, and the shell that waits for two of them.
        eventually("all processes are started", || carriers(&id).len() >= 7);
        test_env.ok(&["stop", "--grace", "200ms", &id]);
        assert_eq!(carriers(&id), [0; 0], "{contain}");
        assert_eq!(test_env.record(&id)["status"], "stopped");
    }
}

#[test]
fn i10_processes_that_a_command_leaves_behind_are_stopped() {
    let test_env = TestEnv::new().with_settings("stop.grace = \"200ms\"\n");
    let ran = test_env.sexton(&["run", "--", "sh", "-c", "setsid sleep 600 & exit 3"]);
    assert_eq!(ran.code, 3);
    let record = &test_env.json(&["ps", "-a"])[0];
    assert_eq!(carriers(record["id"].as_str().unwrap()), [0; 0]);
}

#[test]
fn i10_a_session_without_a_supervisor_keeps_running_and_can_be_stopped() {
    for contain in ["auto", "tree"] {
        let test_env = TestEnv::new().with_settings(&format!("contain = \"{contain}\"\n"));
        let id = test_env.ok(&["run", "-d", "--", "sh", "-c", "setsid sleep 600 & sleep 601"]);
        eventually("both run", || carriers(&id).len() >= 4);
        let record = test_env.record(&id);
        kill(pid(&record, "supervisor"), rustix::process::Signal::KILL);
        eventually("the supervisor is gone", || !is_running(pid(&record, "supervisor")));
        assert!(is_running(pid(&record, "process")), "the command died with its supervisor");
        assert_eq!(test_env.json(&["ps"])[0]["observed"], "unsupervised");
        test_env.ok(&["stop", "--grace", "200ms", &id]);
        assert_eq!(carriers(&id), [0; 0], "{contain}");
        assert_eq!(test_env.record(&id)["status"], "stopped");
    }
}

#[test]
fn stopping_twice_is_reported_and_is_no_error() {
    let test_env = TestEnv::new();
    let id = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    test_env.ok(&["stop", &id]);
    let again = test_env.sexton(&["stop", &id]);
    assert_eq!(again.code, 0);
    assert!(again.stderr.contains("has already ended (stopped)"), "{}", again.stderr);
    assert_eq!(test_env.sexton(&["stop", "--all"]).code, 0);
    assert_eq!(test_env.sexton(&["stop", "missing"]).code, 4);
}

#[test]
fn a_session_can_stop_itself() {
    let test_env = TestEnv::new().with_settings("stop.grace = \"200ms\"\n");
    let sexton = support::quoted_program();
    let script = format!("sleep 600 & {sexton} stop $SEXTON_SESSION_ID; sleep 601");
    let id = test_env.ok(&["run", "-d", "--", "sh", "-c", &script]);
    let record = test_env.wait_until_ended(&id);
    assert_eq!(record["status"], "stopped");
    eventually("everything has ended", || carriers(&id).is_empty());
}

#[test]
fn the_supervisor_stops_a_session_when_its_owner_dies() {
    let test_env = TestEnv::new().with_settings("owner.grace = \"50ms\"\nstop.grace = \"200ms\"\n");
    let mut owner = Bystander::start();
    let owned = test_env.ok(&["run", "-d", "--owner-pid", &owner.pid(), "--", "sleep", "600"]);
    let kept = test_env.ok(&[
        "run",
        "-d",
        "--owner-pid",
        &owner.pid(),
        "--on-owner-death",
        "keep",
        "--",
        "sleep",
        "601",
    ]);
    let free = test_env.ok(&["run", "-d", "--", "sleep", "602"]);
    owner.end();
    let record = test_env.wait_until_ended(&owned);
    assert_eq!(
        (record["status"].as_str(), record["recovery"]["cause"].as_str()),
        (Some("orphaned"), Some("owner_dead"))
    );
    eventually("its processes are gone", || carriers(&owned).is_empty());
    for id in [kept, free] {
        assert!(is_running(pid(&test_env.record(&id), "process")));
    }
    let gone = test_env.sexton(&["run", "-d", "--owner-pid", &owner.pid(), "--", "true"]);
    assert_eq!(gone.code, 2, "{}", gone.stderr);
}

#[test]
fn a_nested_session_ends_with_its_parent_unless_no_owner_is_given() {
    let test_env = TestEnv::new().with_settings("owner.grace = \"50ms\"\nstop.grace = \"200ms\"\n");
    let sexton = support::quoted_program();
    let script = format!(
        "{sexton} run -d --name inner -- sleep 600; {sexton} run -d --no-owner --name free -- sleep 601; sleep 602"
    );
    let outer = test_env.ok(&["run", "-d", "--", "sh", "-c", &script]);
    eventually("all three run", || test_env.json(&["ps"]).as_array().unwrap().len() == 3);
    let free = test_env.record("free");
    test_env.ok(&["stop", &outer]);
    assert_eq!(test_env.wait_until_ended("inner")["status"], "orphaned");
    assert!(is_running(pid(&free, "process")));
}

#[test]
fn i8_an_exit_that_cannot_be_stored_is_kept_shown_and_committed_once() {
    let test_env = TestEnv::new();
    let mut command = test_env.command(&["run", "--name", "kept", "--", "sh", "-c", "read line; exit 5"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    eventually("it runs", || test_env.sexton(&["show", "kept"]).code == 0);
    // With a directory in place of the lock no user can write the store, not even root.
    let lock =
        test_env.state_dir().join(format!("{}.lock", test_env.store_path().file_name().unwrap().display()));
    std::fs::rename(&lock, lock.with_extension("aside")).unwrap();
    std::fs::create_dir(&lock).unwrap();
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let exits = || std::fs::read_dir(test_env.state_dir().join("exits")).map_or(0, Iterator::count);
    assert_eq!(exits(), 1);
    assert_eq!(test_env.record("kept")["exit"]["code"], 5, "a reader does not show the exit file");
    std::fs::remove_dir(&lock).unwrap();
    std::fs::rename(lock.with_extension("aside"), &lock).unwrap();
    let other = Bystander::start();
    test_env.ok(&["register", "--pid", &other.pid()]);
    assert_eq!(exits(), 0);
    let record = test_env.record("kept");
    assert_eq!((record["status"].as_str(), record["exit"]["code"].as_i64()), (Some("failed"), Some(5)));
}

#[test]
fn the_notify_command_runs_when_the_session_has_ended() {
    let test_env = TestEnv::new();
    let note = test_env.path().join("note");
    let notify = format!("echo $SEXTON_ENDED_STATUS $SEXTON_ENDED_CODE > {}", note.display());
    test_env.sexton(&["run", "--notify", &notify, "--", "sh", "-c", "exit 4"]);
    eventually("the notification ran", || {
        std::fs::read_to_string(&note).is_ok_and(|text| text == "failed 4\n")
    });
}

#[test]
fn a_signal_to_a_foreground_run_reaches_the_whole_session() {
    let test_env = TestEnv::new();
    let script = "trap 'exit 8' INT; while :; do sleep 600; done";
    let mut command = test_env.command(&["run", "--name", "front", "--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    eventually("it runs", || test_env.sexton(&["show", "front"]).code == 0);
    let id = test_env.record("front")["id"].as_str().unwrap().to_owned();
    eventually("its child runs", || carriers(&id).len() >= 3);
    kill(child.id().into(), rustix::process::Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(8));
}

#[test]
fn many_quick_sessions_leave_nothing_behind() {
    let test_env = TestEnv::new().with_settings("store.durability = \"process\"\n");
    let ids: Vec<_> = (0..50).map(|_| test_env.ok(&["run", "-d", "--", "true"])).collect();
    for id in &ids {
        assert_eq!(test_env.wait_until_ended(id)["status"], "completed");
        eventually("its processes are gone", || carriers(id).is_empty());
    }
}

#[test]
fn i10_a_process_that_clears_its_cookie_is_stopped() {
    for contain in ["auto", "tree"] {
        let test_env = TestEnv::new().with_settings(&format!("contain = \"{contain}\"\n"));
        let id = test_env.ok(&[
            "run",
            "-d",
            "--",
            "sh",
            "-c",
            "SEXTON_SESSION_ID= sleep 654 & echo $!; sleep 655",
        ]);
        let mut escaped = 0;
        eventually("the child has printed its pid", || {
            escaped = test_env.ok(&["logs", &id]).trim().parse().unwrap_or(0);
            escaped != 0
        });
        test_env.ok(&["stop", "--grace", "200ms", &id]);
        assert!(!is_running(escaped), "{contain}");
    }
    let test_env = TestEnv::new();
    assert_eq!(test_env.sexton(&["run", "--env", "SEXTON_SESSION_ID=other", "--", "true"]).code, 2);
}

#[test]
fn logs_follow_json_loses_nothing_and_splits_no_character() {
    let test_env = TestEnv::new();
    let script = "printf a; i=0; while [ $i -lt 60 ]; do printf '%010000d' 0 | tr 0 é; i=$((i+1)); done";
    let script = script.replace("tr 0 é", "sed s/0/é/g");
    let id = test_env.ok(&["run", "-d", "--", "sh", "-c", &script]);
    test_env.wait_until_ended(&id);
    let text = test_env.ok(&["logs", &id, "-f", "--json"]);
    let parts: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let whole: String = parts.iter().map(|part| part["output"].as_str().unwrap()).collect();
    assert_eq!(whole.chars().count(), 600_001);
    assert!(whole.chars().skip(1).all(|character| character == 'é'), "a character was split");
    assert_eq!(parts.last().unwrap()["eof"], true);
}

#[test]
fn ps_watch_exits_when_its_output_is_closed() {
    let test_env = TestEnv::new();
    test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    let mut child = test_env.command(&["ps", "--watch", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    let mut reader = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut reader, &mut first).unwrap();
    assert!(first.starts_with('['), "{first}");
    drop(reader);
    eventually("it ends", || {
        test_env.ok(&["run", "-d", "--", "true"]);
        child.try_wait().unwrap().is_some()
    });
}

#[test]
fn a_process_of_a_session_cannot_be_registered_again() {
    let test_env = TestEnv::new();
    let id = test_env.ok(&["run", "-d", "--", "sleep", "600"]);
    let record = test_env.record(&id);
    for whose in ["process", "supervisor"] {
        let ran = test_env.sexton(&["register", "--pid", &pid(&record, whose).to_string()]);
        assert_eq!(ran.code, 1, "{whose}");
        assert!(ran.stderr.contains("already belongs to session"), "{}", ran.stderr);
    }
}

/// The supervisor is ready before or after the starter has given up; both must remove what it created.
#[test]
fn i9_refused_start_leaves_nothing() {
    let test_env = TestEnv::new();
    let file = test_env.path().join("a-file");
    std::fs::write(&file, "").unwrap();
    let store = format!("json:{}/store", file.display());
    for _ in 0..20 {
        let refused = test_env.sexton(&["--store", &store, "run", "--", "true"]);
        assert_eq!(refused.code, 125, "{}", refused.stderr);
    }
    for directory in ["exits", "sessions"] {
        let left = std::fs::read_dir(test_env.state_dir().join(directory));
        let left: Vec<_> = left.into_iter().flatten().map(|entry| entry.unwrap().path()).collect();
        assert!(left.is_empty(), "{left:?}");
    }
}
