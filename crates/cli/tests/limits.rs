//! Sessions whose user has reached a limit: inotify instances, and the size of files.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]
#![cfg(target_os = "linux")]

mod support;

use std::io::{BufRead, BufReader};
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Pid, Resource, Rlimit, Signal, kill_process, prlimit};
use serde_json::Value;
use support::limits::{inotify_instances, limited, without_inotify};
use support::{Ran, TestEnv, eventually};

fn pid(record: &Value, whose: &str) -> u64 {
    record[whose]["pid"].as_u64().unwrap()
}

fn log_of(record: &Value) -> PathBuf {
    record["log"]["path"].as_str().unwrap().into()
}

/// Runs a command without inotify instances.
fn starved(test_env: &TestEnv, arguments: &[&str]) -> Ran {
    Ran::of(&without_inotify(test_env, arguments).output().unwrap())
}

#[test]
fn i9_a_supervisor_uses_no_inotify_instance() {
    let test_env = TestEnv::new();
    let id = test_env.ok(&["run", "-d", "--", "sh", "-c", "echo begun; exec sleep 600"]);
    let record = test_env.record(&id);
    eventually("it watches its log", || log_of(&record).metadata().unwrap().size() > 0);
    assert_eq!(inotify_instances(pid(&record, "supervisor")), 0);
}

#[test]
fn i9_a_log_is_bounded_without_inotify() {
    const WRITTEN: u64 = 3_000_000;
    let test_env = TestEnv::new().with_settings("log.max_bytes = \"64KiB\"\n");
    let script = format!("head -c {WRITTEN} /dev/zero; exec sleep 600");
    let ran = starved(&test_env, &["run", "-d", "--name", "loud", "--", "sh", "-c", &script]);
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    let log = log_of(&test_env.record("loud"));
    eventually("the log is trimmed", || {
        let metadata = log.metadata().unwrap();
        metadata.size() == WRITTEN && metadata.blocks() * 512 < WRITTEN / 4
    });
}

#[test]
fn i9_a_foreground_run_shows_all_output_without_inotify() {
    let test_env = TestEnv::new();
    let script = "echo first; sleep 0.3; echo second; exit 7";
    let ran = starved(&test_env, &["run", "--", "sh", "-c", script]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (7, "first\nsecond\n", ""));
    let ran =
        starved(&test_env, &["run", "--split-output", "--", "sh", "-c", "echo out; echo err >&2; exit 8"]);
    assert_eq!((ran.code, ran.stdout.as_str(), ran.stderr.as_str()), (8, "out\n", "err\n"));
}

#[test]
fn i9_logs_follow_works_without_inotify() {
    let test_env = TestEnv::new();
    let script = "echo first; until [ -e go ]; do sleep 0.02; done; echo second";
    let id = test_env.ok(&["run", "-d", "--", "sh", "-c", script]);
    let mut follow = without_inotify(&test_env, &["logs", "-f", &id]);
    let mut follow = follow.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    assert_eq!(lines.next().unwrap().unwrap(), "first");
    std::fs::write(test_env.work_dir().join("go"), "").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "second");
    assert!(lines.next().is_none());
    let ran = Ran::of(&follow.wait_with_output().unwrap());
    assert_eq!((ran.code, ran.stderr.as_str()), (0, ""));
}

#[test]
fn i9_ps_watch_works_without_inotify() {
    let test_env = TestEnv::new();
    test_env.ok(&["run", "-d", "--name", "one", "--", "sleep", "600"]);
    let mut watch = without_inotify(&test_env, &["ps", "--watch", "--json"]);
    let mut watch = watch.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(watch.stdout.take().unwrap()).lines();
    let mut names = || {
        let listed: Value = serde_json::from_str(&lines.next().unwrap().unwrap()).unwrap();
        let names = listed.as_array().unwrap().iter().map(|one| one["name"].as_str().unwrap().to_owned());
        names.collect::<Vec<_>>()
    };
    assert_eq!(names(), ["one"]);
    test_env.ok(&["run", "-d", "--name", "two", "--", "sleep", "600"]);
    while names() != ["two", "one"] {}
    watch.kill().unwrap();
    watch.wait().unwrap();
}

/// Starts a session whose command exits with 7 when the returned file exists.
fn gated(test_env: &TestEnv, limit: &str) -> (String, PathBuf) {
    let gate = test_env.path().join("gate");
    let script = format!("until [ -e {} ]; do sleep 0.02; done; exit 7", gate.display());
    let ran = Ran::of(&limited(test_env, limit, &["run", "-d", "--", "sh", "-c", &script]).output().unwrap());
    assert_eq!(ran.code, 0, "{}", ran.stderr);
    (ran.stdout.trim_end().to_owned(), gate)
}

#[test]
fn i8_an_exit_is_recorded_when_the_supervisor_can_write_only_600_bytes() {
    for store in support::stores() {
        let test_env = TestEnv::on(store);
        let (id, gate) = gated(&test_env, "true");
        let supervisor = pid(&test_env.record(&id), "supervisor");
        // Enough for an exit file, and too little for every store.
        let limit = Rlimit { current: Some(600), maximum: Some(600) };
        prlimit(Pid::from_raw(supervisor.try_into().unwrap()), Resource::Fsize, limit).unwrap();
        std::fs::write(&gate, "").unwrap();
        let ended = test_env.wait_until_ended(&id);
        assert_eq!((&ended["exit"]["code"], &ended["status"]), (&7.into(), &"failed".into()), "{store}");
        assert_eq!(test_env.sexton(&["wait", &id]).code, 7, "{store}");
        test_env.ok(&["recover"]);
        let recorded = test_env.record(&id);
        for field in ["exit", "status", "finished_at"] {
            assert_eq!(recorded[field], ended[field], "{store}: {field} differs from what was shown");
        }
        assert_eq!(std::fs::read_dir(test_env.state_dir().join("exits")).unwrap().count(), 0, "{store}");
    }
}

#[test]
fn i8_a_soft_file_size_limit_applies_to_the_command_and_not_to_the_supervisor() {
    let test_env = TestEnv::new();
    let (id, gate) = gated(&test_env, "ulimit -S -f 1024");
    let record = test_env.record(&id);
    let soft = |whose: &str| {
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", pid(&record, whose))).unwrap();
        let line = limits.lines().find(|line| line.starts_with("Max file size")).unwrap().to_owned();
        line.split_whitespace().nth(3).unwrap().to_owned()
    };
    assert_eq!((soft("process"), soft("supervisor")), ("524288".to_owned(), "unlimited".to_owned()));
    let ignored = std::fs::read_to_string(format!("/proc/{}/status", pid(&record, "process"))).unwrap();
    let ignored = ignored.lines().find_map(|line| line.strip_prefix("SigIgn:\t")).unwrap().to_owned();
    let (xcpu, xfsz) = (1 << 23, 1 << 24);
    let ignored = u64::from_str_radix(&ignored, 16).unwrap();
    assert_eq!(ignored & (xcpu | xfsz), 0, "the command ignores SIGXCPU or SIGXFSZ");
    std::fs::write(&gate, "").unwrap();
    assert_eq!(test_env.wait_until_ended(&id)["exit"]["code"], 7);
}

#[test]
fn i8_a_command_that_exceeds_the_file_size_limit_gets_sigxfsz() {
    let test_env = TestEnv::new();
    let write = ["run", "--", "head", "-c", "2000000", "/dev/zero"];
    let ran = limited(&test_env, "ulimit -f 1024", &write).output().unwrap();
    assert_eq!(Ran::of(&ran).code, 128 + 25, "SIGXFSZ is 25");
    let listed = test_env.json(&["ps", "-a"]);
    assert_eq!((&listed[0]["exit"]["signal"], &listed[0]["status"]), (&25.into(), &"failed".into()));
}

#[test]
fn i1_a_start_that_cannot_write_files_is_an_error_and_leaves_nothing() {
    for store in support::stores() {
        let test_env = TestEnv::on(store);
        test_env.ok(&["run", "--", "true"]);
        let before = test_env.json(&["ps", "-a"]);
        let names = || std::fs::read_dir(test_env.state_dir().join("sessions")).unwrap().count();
        let files = names();
        for limit in ["ulimit -f 0", "ulimit -f 1", "ulimit -f 16", "ulimit -S -f 0", "ulimit -S -f 1"] {
            let ran = limited(&test_env, limit, &["run", "-d", "--", "touch", "it-ran"]).output().unwrap();
            let ran = Ran::of(&ran);
            assert!(ran.code > 0, "{store}, {limit}: it ran, or a signal killed it");
            assert!(ran.stderr.starts_with("error:"), "{store}, {limit}: {}", ran.stderr);
            assert_eq!((test_env.json(&["ps", "-a"]), names()), (before.clone(), files), "{store}, {limit}");
            let exits = std::fs::read_dir(test_env.state_dir().join("exits")).into_iter().flatten().count();
            assert_eq!(exits, 0, "{store}, {limit}");
            assert!(!test_env.work_dir().join("it-ran").exists(), "{store}, {limit}");
        }
    }
}

#[test]
fn i9_a_log_is_bounded_when_the_kernel_sends_no_change_notifications() {
    let test_env = TestEnv::new().with_settings("log.max_bytes = \"64KiB\"\n");
    let script = "for n in one two; do until [ -e $n ]; do sleep 0.02; done; head -c 1000000 /dev/zero; done; sleep 600";
    let id = test_env.ok(&["run", "-d", "--", "sh", "-c", script]);
    let record = test_env.record(&id);
    let log = log_of(&record);
    let held = |size: u64| {
        let metadata = log.metadata().unwrap();
        metadata.size() == size && metadata.blocks() * 512 < 500_000
    };
    // From here on the supervisor's requests for notifications fail.
    let supervisor = pid(&record, "supervisor");
    let mut strace = Command::new("strace");
    strace.args(["-f", "-e", "trace=fcntl", "-e", "inject=fcntl:error=EINVAL", "-o", "/dev/null"]);
    let mut strace = strace.args(["-p", &supervisor.to_string()]).stderr(Stdio::null()).spawn().unwrap();
    eventually("strace is attached", || {
        let status = std::fs::read_to_string(format!("/proc/{supervisor}/status")).unwrap();
        !status.lines().any(|line| line == "TracerPid:\t0")
    });
    std::fs::write(test_env.work_dir().join("one"), "").unwrap();
    eventually("the output with a notification is trimmed", || held(1_000_000));
    std::fs::write(test_env.work_dir().join("two"), "").unwrap();
    eventually("the output without a notification is trimmed", || held(2_000_000));
    kill_process(Pid::from_child(&strace), Signal::TERM).unwrap();
    strace.wait().unwrap();
}
