//! More sessions than descriptors: an ordinary user starts, lists, follows, stops and recovers them, with no
//! process left and no session taken for another.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader, Read};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use sexton_test_harness::{Ran, TestEnv, eventually, is_running, kill_9, peak_memory, program};

use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};
use crate::mounts::require_root;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "crowd",
    promises: "I9 I10",
    what: "more sessions of an ordinary user than the user may have descriptors, stopped and recovered",
    mutants: &["hold_every_handle"],
    tools: &[("xargs", "findutils")],
    minutes: 8,
    runs_alone: false,
    run,
};

const SETTINGS: &str = "store.durability = \"process\"\nstop.grace = \"5s\"\n";
const NOBODY: u32 = 65534;
/// The limit for a stop and for a recovery, in KiB.
const MEMORY: u64 = 128 << 10;

fn run(trials: &mut Trials) {
    require_root();
    // In a full campaign, more followers than the user has inotify instances.
    let (sessions, descriptors, followers) = trials.either((200, 96, 10), (2000, 1024, 150));
    trials.trial(&format!("{sessions} sessions, {descriptors} descriptors"), || {
        crowd(sessions, descriptors, followers)
    });
}

struct Crowd {
    test_env: TestEnv,
    program: PathBuf,
    descriptors: u32,
}

fn crowd(sessions: usize, descriptors: u32, followers: usize) -> u64 {
    let test_env = TestEnv::new().with_settings(SETTINGS);
    let bystanders_test_env = TestEnv::new();
    let bystanders = Bystanders::plant(&bystanders_test_env);
    let program = test_env.path().join("tested");
    std::fs::copy(self::program(), &program).unwrap();
    std::fs::set_permissions(test_env.path(), PermissionsExt::from_mode(0o755)).unwrap();
    chown_to_nobody(test_env.path());
    let crowd = Crowd { test_env, program, descriptors };
    let script =
        format!("seq {sessions} | xargs -P 8 -I N \"$0\" run -d -- sh -c 'echo of N; exec sleep 7200'");
    let started = Ran::of(&crowd.command(&script, &[]).output().unwrap());
    assert_eq!(started.code, 0, "not every session was started: {}", tail(&started.stderr));
    let ids: BTreeSet<String> = started.stdout.lines().map(str::to_owned).collect();
    assert_eq!(ids.len(), sessions);
    let (records, _) = crowd.run(&["ps", "--json"]);
    let records: Vec<Value> = serde_json::from_str(&records.stdout).unwrap();
    assert_eq!(records.len(), sessions, "not every session is listed");
    for id in ids.iter().step_by(sessions / 20) {
        let (logs, _) = crowd.run(&["logs", id]);
        assert!(logs.stdout.starts_with("of "), "{id}: {}{}", logs.stdout, logs.stderr);
    }
    // Every other session is killed with its supervisor and recovered; the others are stopped.
    let pid = |record: &Value, whose: &str| record[whose]["pid"].as_u64().unwrap();
    let (dead, living): (Vec<_>, Vec<_>) =
        records.iter().enumerate().partition::<Vec<_>, _>(|(number, _)| number % 2 == 0);
    for (_, record) in &dead {
        kill_9(pid(record, "supervisor"));
        kill_9(pid(record, "process"));
    }
    let is_gone =
        |record: &Value| !is_running(pid(record, "process")) && !is_running(pid(record, "supervisor"));
    eventually("the killed processes are gone", || dead.iter().all(|(_, record)| is_gone(record)));
    let (recovered, memory) = crowd.run(&["recover", "--json"]);
    assert_eq!(recovered.code, 0, "recover: {}", tail(&recovered.stderr));
    assert!(memory < MEMORY, "recover used {memory} KiB");
    let report: Value = serde_json::from_str(&recovered.stdout).unwrap();
    assert_eq!((report["orphans"].as_u64(), report["failed"].as_u64()), (Some(dead.len() as u64), Some(0)));
    assert!(
        living.iter().all(|(_, record)| is_running(pid(record, "process"))),
        "a recovery ended a running session"
    );
    let followed: Vec<_> = living.iter().step_by((living.len() / followers).max(1)).collect();
    let followers: Vec<_> = followed.iter().map(|(_, record)| crowd.follow(record)).collect();
    let (stopped, used) = crowd.run(&["stop", "--all"]);
    assert_eq!(stopped.code, 0, "stop: {}", tail(&stopped.stderr));
    assert!(used < MEMORY, "stop used {used} KiB");
    assert!(living.iter().all(|(_, record)| is_gone(record)), "a session is left");
    for follower in followers {
        let (code, output) = follower.join().unwrap();
        assert!(
            code == Some(0) && output.starts_with("of "),
            "a follower ended with {code:?} and read {output:?}"
        );
    }
    let (left, _) = crowd.run(&["ps", "--json"]);
    assert_eq!(left.stdout.trim(), "[]", "sessions are left");
    let (all, _) = crowd.run(&["ps", "-a", "--json"]);
    let all: Vec<Value> = serde_json::from_str(&all.stdout).unwrap();
    let count = |status: &str| all.iter().filter(|record| record["status"] == status).count();
    assert_eq!((count("orphaned"), count("stopped")), (dead.len(), living.len()), "an end is wrong");
    bystanders.require_untouched(&bystanders_test_env);
    eprintln!(
        "   crowd: {sessions} sessions, {} followed, recover used {memory} KiB, stop {used} KiB",
        followed.len()
    );
    sessions as u64
}

/// Stops what a failed trial left, as its own user and without the deliberate defect. Followers exit with
/// their sessions.
impl Drop for Crowd {
    fn drop(&mut self) {
        let _ = self.command("unset SEXTON_MUTANT; exec \"$0\" stop --all --force", &[]).output();
    }
}

impl Crowd {
    /// Returns a shell of an ordinary user with this limit of descriptors, whose `$0` is the binary.
    fn command(&self, script: &str, arguments: &[&str]) -> Command {
        let mut command = Command::new("sh");
        self.test_env.enclose(&mut command);
        let script = format!("ulimit -n {}; {script}", self.descriptors);
        command.args(["-c", &script]).arg(&self.program).args(arguments).uid(NOBODY).gid(NOBODY);
        command
    }

    /// Follows the log of a session until it ends; returns after the first line was read.
    fn follow(&self, record: &Value) -> std::thread::JoinHandle<(Option<i32>, String)> {
        let id = record["id"].as_str().unwrap();
        let mut command = self.command("exec \"$0\" \"$@\"", &["logs", "-f", id]);
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut stdout = BufReader::new(child.stdout.take().unwrap());
        let mut output = String::new();
        stdout.read_line(&mut output).unwrap();
        std::thread::spawn(move || {
            stdout.read_to_string(&mut output).unwrap();
            (child.wait().unwrap().code(), output)
        })
    }

    /// Runs the binary, and returns its peak memory in KiB as well.
    fn run(&self, arguments: &[&str]) -> (Ran, u64) {
        let mut command = self.command("exec \"$0\" \"$@\"", arguments);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let (pid, mut peak) = (child.id(), 0);
        let stdout = read(child.stdout.take().unwrap());
        let stderr = read(child.stderr.take().unwrap());
        let status = loop {
            peak = peak_memory(pid.into()).unwrap_or(0).max(peak);
            match child.try_wait().unwrap() {
                Some(status) => break status,
                None => std::thread::park_timeout(Duration::from_millis(5)),
            }
        };
        let (stdout, stderr) = (stdout.join().unwrap(), stderr.join().unwrap());
        (Ran { code: status.code().unwrap_or(-1), stdout, stderr }, peak)
    }
}

fn read(mut from: impl Read + Send + 'static) -> std::thread::JoinHandle<String> {
    std::thread::spawn(move || {
        let mut text = String::new();
        from.read_to_string(&mut text).unwrap();
        text
    })
}

fn chown_to_nobody(path: &Path) {
    chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
    if path.is_dir() {
        std::fs::read_dir(path).unwrap().for_each(|entry| chown_to_nobody(&entry.unwrap().path()));
    }
}

fn tail(text: &str) -> String {
    let lines: Vec<_> = text.lines().collect();
    lines[lines.len().saturating_sub(3)..].join("; ")
}
