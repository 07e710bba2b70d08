//! Starting, following, waiting for and stopping sessions, through the real program.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::io::Write;
use std::os::unix::ffi::OsStringExt;
use std::process::Stdio;

use support::{Bystander, Ran, Yard, carriers, eventually, is_running};

fn pid(record: &serde_json::Value, whose: &str) -> u64 {
    record[whose]["pid"].as_u64().unwrap()
}

fn kill(pid: u64, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    rustix::process::kill_process(pid, signal).unwrap();
}

#[test]
fn the_foreground_shows_the_output_and_exits_with_the_code() {
    let yard = Yard::new();
    let ran = yard.sexton(&["run", "--split-output", "--", "sh", "-c", "echo out; echo err >&2; exit 7"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (7, "out\n", "err\n"));
    let ran = yard.sexton(&["run", "--", "sh", "-c", "kill -9 $$"]);
    assert_eq!(ran.code, 137);
    let records = yard.json(&["ps", "-a"]);
    assert_eq!(records[0]["exit"]["signal"], 9);
    assert_eq!(records[1]["exit"]["code"], 7);
}

#[test]
fn a_detached_session_runs_when_its_id_is_printed() {
    let yard = Yard::new();
    let id = yard.ok(&["run", "-d", "--name", "work", "--", "sleep", "600"]);
    let record = yard.record(&id);
    assert_eq!(record["status"], "running");
    let command = std::fs::read(format!("/proc/{}/cmdline", pid(&record, "process"))).unwrap();
    assert_eq!(command, b"sleep\x00600\x00");
    assert!(is_running(pid(&record, "supervisor")));
    yard.ok(&["stop", "work"]);
    assert_eq!(yard.record(&id)["status"], "stopped");
    assert_eq!(carriers(&id), [0; 0]);
}

#[test]
fn standard_input_reaches_a_foreground_command() {
    let yard = Yard::new();
    let mut child =
        yard.command(&["run", "--", "cat"]).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"through the gate\n").unwrap();
    assert_eq!(Ran::of(&child.wait_with_output().unwrap()).stdout, "through the gate\n");
}

#[test]
fn arguments_and_environment_arrive_unchanged_whatever_bytes_they_have() {
    let yard = Yard::new();
    let odd = std::ffi::OsString::from_vec(b"sp ace 'quote' \"double\"\nline \xff\xfe".to_vec());
    let mut variable = std::ffi::OsString::from("ODD=");
    variable.push(&odd);
    let mut command = yard.command(&["run", "--env"]);
    command.arg(&variable).args(["--", "sh", "-c", "printf '%s|%s' \"$1\" \"$ODD\"", "sh"]).arg(&odd);
    let output = command.output().unwrap();
    let mut expected = odd.clone().into_vec();
    expected.push(b'|');
    expected.extend(odd.into_vec());
    assert_eq!(output.stdout, expected);
}

#[test]
fn a_command_that_cannot_be_executed_leaves_a_failed_record_and_nothing_else() {
    let yard = Yard::new();
    assert_eq!(yard.sexton(&["run", "--", "no-such-program"]).code, 127);
    assert_eq!(yard.sexton(&["run", "-d", "--", "/etc/passwd"]).code, 126);
    let records = yard.json(&["ps", "-a"]);
    for (record, code) in records.as_array().unwrap().iter().zip([126, 127]) {
        assert_eq!(record["status"], "failed");
        assert_eq!(record["exit"]["reason"], "exec_failed");
        assert_eq!(record["exit"]["code"], code);
        assert_eq!(carriers(record["id"].as_str().unwrap()), [0; 0]);
    }
    let ran = yard.sexton(&["run", "--cwd", "/no/such/place", "--", "true"]);
    assert_eq!(ran.code, 125, "{}", ran.stderr);
    assert_eq!(yard.json(&["ps", "-a"]).as_array().unwrap().len(), 2);
}

#[test]
fn a_name_in_use_starts_nothing() {
    let yard = Yard::new();
    yard.ok(&["run", "-d", "--name", "one", "--", "sleep", "600"]);
    let ran = yard.sexton(&["run", "-d", "--name", "one", "--", "sleep", "601"]);
    assert_eq!(ran.code, 125);
    assert!(ran.stderr.contains("the name `one` is in use"), "{}", ran.stderr);
    assert_eq!(yard.json(&["ps", "-a"]).as_array().unwrap().len(), 1);
    let directories = std::fs::read_dir(yard.state_dir().join("sessions")).unwrap().count();
    assert_eq!(directories, 1, "the session that did not start left its directory");
}

#[test]
fn a_timeout_ends_the_session_and_says_so() {
    let yard = Yard::new();
    let ran = yard.sexton(&["run", "--timeout", "100ms", "--", "sleep", "600"]);
    assert_eq!(ran.code, 124);
    assert_eq!(yard.json(&["ps", "-a"])[0]["status"], "timed_out");
}

#[test]
fn waiting_passes_the_exit_code_on() {
    let yard = Yard::new();
    let good = yard.ok(&["run", "-d", "--", "true"]);
    let bad = yard.ok(&["run", "-d", "--", "sh", "-c", "exit 9"]);
    assert_eq!(yard.sexton(&["wait", &good]).code, 0);
    assert_eq!(yard.sexton(&["wait", &good, &bad]).code, 9);
    let long = yard.ok(&["run", "-d", "--", "sleep", "600"]);
    assert_eq!(yard.sexton(&["wait", "--timeout", "50ms", &long]).code, 124);
    assert_eq!(yard.sexton(&["wait", "nobody"]).code, 125);
}

#[test]
fn logs_are_read_from_the_end_from_a_cursor_and_as_they_come() {
    let yard = Yard::new();
    let id = yard.ok(&["run", "-d", "--", "sh", "-c", "echo one; echo two; echo three; sleep 600"]);
    eventually("all is written", || yard.ok(&["logs", &id]).ends_with("three"));
    assert_eq!(yard.ok(&["logs", &id, "--tail", "1"]), "three");
    assert_eq!(yard.ok(&["logs", "--tail", "2"]), "two\nthree");
    let part = yard.json(&["logs", &id]);
    assert_eq!((part["output"].as_str(), part["cursor"].as_u64()), (Some("one\ntwo\nthree\n"), Some(14)));
    assert_eq!((part["eof"].as_bool(), part["truncated"].as_bool()), (Some(false), Some(false)));
    let next = yard.json(&["logs", &id, "--cursor", "14"]);
    assert_eq!((next["output"].as_str(), next["cursor"].as_u64()), (Some(""), Some(14)));
    let beyond = yard.json(&["logs", &id, "--cursor", "5000"]);
    assert_eq!((beyond["cursor"].as_u64(), beyond["truncated"].as_bool()), (Some(14), Some(true)));
    let following = yard.command(&["logs", &id, "-f"]).stdout(Stdio::piped()).spawn().unwrap();
    yard.ok(&["stop", &id]);
    assert_eq!(Ran::of(&following.wait_with_output().unwrap()).stdout, "one\ntwo\nthree\n");
    assert_eq!(yard.json(&["logs", &id, "--cursor", "14"])["eof"], true);
}

#[test]
fn i9_a_log_is_bounded_and_cursors_stay_valid() {
    let yard = Yard::new().with_settings("log.max_bytes = \"64KiB\"\n");
    let script = "head -c 1000000 /dev/zero | tr '\\0' x; echo; echo end; sleep 600";
    let id = yard.ok(&["run", "-d", "--", "sh", "-c", script]);
    let log = yard.record(&id)["log"]["path"].as_str().unwrap().to_owned();
    let held = || std::os::unix::fs::MetadataExt::blocks(&std::fs::metadata(&log).unwrap()) * 512;
    let size = || std::fs::metadata(&log).unwrap().len();
    eventually("all is written and the log is trimmed", || size() == 1_000_005 && held() < 100_000);
    let part = yard.json(&["logs", &id]);
    assert_eq!(part["truncated"], true);
    assert_eq!(part["cursor"], 1_000_005);
    assert_eq!(yard.json(&["logs", &id, "--cursor", "1000001"])["output"], "end\n");
}

#[test]
fn i10_nothing_of_a_session_survives_its_end() {
    for contain in ["auto", "tree"] {
        let yard = Yard::new().with_settings(&format!("contain = \"{contain}\"\n"));
        let script =
            "setsid sleep 600 & (setsid sh -c 'sleep 601 & sleep 602' &) ; sleep 603 & exec sleep 604";
        let id = yard.ok(&["run", "-d", "--", "sh", "-c", script]);
        // The supervisor and the five sleepers, with the shell that waits for two of them.
        eventually("the tree has grown", || carriers(&id).len() >= 7);
        yard.ok(&["stop", "--grace", "200ms", &id]);
        assert_eq!(carriers(&id), [0; 0], "{contain}");
        assert_eq!(yard.record(&id)["status"], "stopped");
    }
}

#[test]
fn i10_what_a_command_leaves_behind_is_ended_with_it() {
    let yard = Yard::new().with_settings("stop.grace = \"200ms\"\n");
    let ran = yard.sexton(&["run", "--", "sh", "-c", "setsid sleep 600 & exit 3"]);
    assert_eq!(ran.code, 3);
    let record = &yard.json(&["ps", "-a"])[0];
    assert_eq!(carriers(record["id"].as_str().unwrap()), [0; 0]);
}

#[test]
fn i10_a_session_whose_supervisor_was_killed_lives_on_and_is_stopped_whole() {
    for contain in ["auto", "tree"] {
        let yard = Yard::new().with_settings(&format!("contain = \"{contain}\"\n"));
        let id = yard.ok(&["run", "-d", "--", "sh", "-c", "setsid sleep 600 & sleep 601"]);
        eventually("both run", || carriers(&id).len() >= 4);
        let record = yard.record(&id);
        kill(pid(&record, "supervisor"), rustix::process::Signal::KILL);
        eventually("the supervisor is gone", || !is_running(pid(&record, "supervisor")));
        assert!(is_running(pid(&record, "process")), "the command died with its supervisor");
        assert_eq!(yard.json(&["ps"])[0]["observed"], "alive");
        yard.ok(&["stop", "--grace", "200ms", &id]);
        assert_eq!(carriers(&id), [0; 0], "{contain}");
        assert_eq!(yard.record(&id)["status"], "stopped");
    }
}

#[test]
fn stopping_twice_says_so_and_is_no_error() {
    let yard = Yard::new();
    let id = yard.ok(&["run", "-d", "--", "sleep", "600"]);
    yard.ok(&["stop", &id]);
    let again = yard.sexton(&["stop", &id]);
    assert_eq!(again.code, 0);
    assert!(again.stderr.contains("has ended already (stopped)"), "{}", again.stderr);
    assert_eq!(yard.sexton(&["stop", "--all"]).code, 0);
    assert_eq!(yard.sexton(&["stop", "nobody"]).code, 4);
}

#[test]
fn a_session_can_stop_itself() {
    let yard = Yard::new().with_settings("stop.grace = \"200ms\"\n");
    let sexton = support::program();
    let script = format!("sleep 600 & {sexton} stop $SEXTON_SESSION_ID; sleep 601");
    let id = yard.ok(&["run", "-d", "--", "sh", "-c", &script]);
    let record = yard.wait_until_ended(&id);
    assert_eq!(record["status"], "stopped");
    eventually("everything has ended", || carriers(&id).is_empty());
}

#[test]
fn an_orphan_ends_by_itself_when_its_owner_dies() {
    let yard = Yard::new().with_settings("owner.grace = \"50ms\"\nstop.grace = \"200ms\"\n");
    let mut owner = Bystander::start();
    let owned = yard.ok(&["run", "-d", "--owner-pid", &owner.pid(), "--", "sleep", "600"]);
    let kept = yard.ok(&[
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
    let free = yard.ok(&["run", "-d", "--", "sleep", "602"]);
    owner.end();
    let record = yard.wait_until_ended(&owned);
    assert_eq!(
        (record["status"].as_str(), record["recovery"]["cause"].as_str()),
        (Some("orphaned"), Some("owner_dead"))
    );
    eventually("its processes are gone", || carriers(&owned).is_empty());
    for id in [kept, free] {
        assert!(is_running(pid(&yard.record(&id), "process")));
    }
    let gone = yard.sexton(&["run", "-d", "--owner-pid", &owner.pid(), "--", "true"]);
    assert_eq!(gone.code, 2, "{}", gone.stderr);
}

#[test]
fn a_nested_session_dies_with_its_parent_unless_it_was_told_not_to() {
    let yard = Yard::new().with_settings("owner.grace = \"50ms\"\nstop.grace = \"200ms\"\n");
    let sexton = support::program();
    let script = format!(
        "{sexton} run -d --name inner -- sleep 600; {sexton} run -d --no-owner --name free -- sleep 601; sleep 602"
    );
    let outer = yard.ok(&["run", "-d", "--", "sh", "-c", &script]);
    eventually("all three run", || yard.json(&["ps"]).as_array().unwrap().len() == 3);
    let free = yard.record("free");
    yard.ok(&["stop", &outer]);
    assert_eq!(yard.wait_until_ended("inner")["status"], "orphaned");
    assert!(is_running(pid(&free, "process")));
}

#[test]
fn i8_an_end_that_the_store_cannot_take_is_kept_shown_and_committed_once() {
    let yard = Yard::new();
    let mut command = yard.command(&["run", "--name", "kept", "--", "sh", "-c", "read line; exit 5"]);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    eventually("it runs", || yard.sexton(&["show", "kept"]).code == 0);
    // A directory in the place of the lock: nobody can write, whoever they are.
    let lock = yard.state_dir().join(format!("{}.lock", yard.store_path().file_name().unwrap().display()));
    std::fs::rename(&lock, lock.with_extension("aside")).unwrap();
    std::fs::create_dir(&lock).unwrap();
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(5));
    let exits = || std::fs::read_dir(yard.state_dir().join("exits")).map_or(0, Iterator::count);
    assert_eq!(exits(), 1);
    assert_eq!(yard.record("kept")["exit"]["code"], 5, "a reader does not show what the exit file says");
    std::fs::remove_dir(&lock).unwrap();
    std::fs::rename(lock.with_extension("aside"), &lock).unwrap();
    let other = Bystander::start();
    yard.ok(&["register", "--pid", &other.pid()]);
    assert_eq!(exits(), 0);
    let record = yard.record("kept");
    assert_eq!((record["status"].as_str(), record["exit"]["code"].as_i64()), (Some("failed"), Some(5)));
}

#[test]
fn a_notification_runs_when_the_session_has_ended() {
    let yard = Yard::new();
    let note = yard.path().join("note");
    let notify = format!("echo $SEXTON_ENDED_STATUS $SEXTON_ENDED_CODE > {}", note.display());
    yard.sexton(&["run", "--notify", &notify, "--", "sh", "-c", "exit 4"]);
    eventually("the notification ran", || {
        std::fs::read_to_string(&note).is_ok_and(|text| text == "failed 4\n")
    });
}

#[test]
fn a_signal_to_the_foreground_reaches_the_whole_session() {
    let yard = Yard::new();
    let script = "trap 'exit 8' INT; while :; do sleep 600; done";
    let mut command = yard.command(&["run", "--name", "front", "--", "sh", "-c", script]);
    let mut child = command.stdout(Stdio::null()).spawn().unwrap();
    eventually("it runs", || yard.sexton(&["show", "front"]).code == 0);
    let id = yard.record("front")["id"].as_str().unwrap().to_owned();
    eventually("its child runs", || carriers(&id).len() >= 3);
    kill(child.id().into(), rustix::process::Signal::INT);
    assert_eq!(child.wait().unwrap().code(), Some(8));
}

#[test]
fn many_quick_sessions_leave_nothing_behind() {
    let yard = Yard::new().with_settings("store.durability = \"process\"\n");
    let ids: Vec<_> = (0..50).map(|_| yard.ok(&["run", "-d", "--", "true"])).collect();
    for id in &ids {
        assert_eq!(yard.wait_until_ended(id)["status"], "completed");
        eventually("its processes are gone", || carriers(id).is_empty());
    }
}

#[test]
fn i10_a_process_that_empties_its_cookie_does_not_escape() {
    for contain in ["auto", "tree"] {
        let yard = Yard::new().with_settings(&format!("contain = \"{contain}\"\n"));
        let id =
            yard.ok(&["run", "-d", "--", "sh", "-c", "SEXTON_SESSION_ID= sleep 654 & echo $!; sleep 655"]);
        let mut escaped = 0;
        eventually("the child has said its pid", || {
            escaped = yard.ok(&["logs", &id]).trim().parse().unwrap_or(0);
            escaped != 0
        });
        yard.ok(&["stop", "--grace", "200ms", &id]);
        assert!(!is_running(escaped), "{contain}");
    }
    let yard = Yard::new();
    assert_eq!(yard.sexton(&["run", "--env", "SEXTON_SESSION_ID=other", "--", "true"]).code, 2);
}

#[test]
fn following_as_json_loses_nothing_and_splits_no_character() {
    let yard = Yard::new();
    let script = "printf a; i=0; while [ $i -lt 60 ]; do printf '%010000d' 0 | tr 0 é; i=$((i+1)); done";
    let script = script.replace("tr 0 é", "sed s/0/é/g");
    let id = yard.ok(&["run", "-d", "--", "sh", "-c", &script]);
    yard.wait_until_ended(&id);
    let text = yard.ok(&["logs", &id, "-f", "--json"]);
    let parts: Vec<serde_json::Value> =
        text.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    let whole: String = parts.iter().map(|part| part["output"].as_str().unwrap()).collect();
    assert_eq!(whole.chars().count(), 600_001);
    assert!(whole.chars().skip(1).all(|character| character == 'é'), "a character was split");
    assert_eq!(parts.last().unwrap()["eof"], true);
}

#[test]
fn watching_ends_when_nobody_reads_any_more() {
    let yard = Yard::new();
    yard.ok(&["run", "-d", "--", "sleep", "600"]);
    let mut child = yard.command(&["ps", "--watch", "--json"]).stdout(Stdio::piped()).spawn().unwrap();
    let mut first = String::new();
    let mut reader = std::io::BufReader::new(child.stdout.take().unwrap());
    std::io::BufRead::read_line(&mut reader, &mut first).unwrap();
    assert!(first.starts_with('['), "{first}");
    drop(reader);
    eventually("it ends", || {
        yard.ok(&["run", "-d", "--", "true"]);
        child.try_wait().unwrap().is_some()
    });
}

#[test]
fn a_process_that_a_session_has_is_not_registered_again() {
    let yard = Yard::new();
    let id = yard.ok(&["run", "-d", "--", "sleep", "600"]);
    let record = yard.record(&id);
    for whose in ["process", "supervisor"] {
        let ran = yard.sexton(&["register", "--pid", &pid(&record, whose).to_string()]);
        assert_eq!(ran.code, 1, "{whose}");
        assert!(ran.stderr.contains("has it already"), "{}", ran.stderr);
    }
}
