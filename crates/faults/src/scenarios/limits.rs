//! The limits of a user, used up: inotify instances, the size of files, processes. A start that cannot
//! succeed is refused and leaves nothing; a session that began is finished, and its end recorded. One
//! function for each limit.

use std::io::Write;
use std::os::unix::fs::{MetadataExt, PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::Command;

use rustix::process::{Pid, Resource, Rlimit, prlimit};
use serde_json::Value;
use sexton_test_harness::limits::{limited, without_inotify};
use sexton_test_harness::{Ran, TestEnv, carriers, eventually, is_running, program};

use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "limits",
    promises: "I1 I8 I9 I10",
    what: "inotify instances used up, files that may not grow, users who may start no more processes",
    mutants: &["drop_log_bound", "xfsz_kills"],
    tools: &[("unshare", "util-linux"), ("setpriv", "util-linux"), ("prlimit", "util-linux")],
    minutes: 2,
    runs_alone: false,
    run,
};

const SETTINGS: &str = "stop.grace = \"200ms\"\nlog.max_bytes = \"64KiB\"\n";

/// An exit code that does not occur by accident.
const CODE: i64 = 73;

fn run(trials: &mut Trials) {
    for store in ["sqlite", "json"] {
        exhaust_inotify(trials, store);
        limit_file_sizes_of_supervisors(trials, store);
        limit_file_sizes_of_starts(trials, store);
    }
    limit_processes(trials);
}

/// No inotify instance is available: sessions start, are followed, have bounded logs, and end as usual.
fn exhaust_inotify(trials: &mut Trials, store: &'static str) {
    trials.trial(&format!("{store}, no inotify instance"), || {
        const WRITTEN: u64 = 3_000_000;
        let test_env = TestEnv::on(store).with_settings(SETTINGS);
        let bystanders = Bystanders::plant(&test_env);
        let ran = |arguments: &[&str]| Ran::of(&without_inotify(&test_env, arguments).output().unwrap());
        let script =
            format!("head -c {WRITTEN} /dev/zero; until [ -e go ]; do sleep 0.02; done; exit {CODE}");
        let started = ran(&["run", "-d", "--", "sh", "-c", &script]);
        assert_eq!(started.code, 0, "it did not start: {}", started.stderr);
        let id = started.stdout.trim_end();
        let shown = ran(&["run", "--", "sh", "-c", "echo begun; sleep 0.1; echo ended; exit 5"]);
        assert_eq!((shown.code, shown.stdout.as_str()), (5, "begun\nended\n"), "{}", shown.stderr);
        let log: PathBuf = test_env.record(id)["log"]["path"].as_str().unwrap().into();
        eventually("its log is kept below its limit", || {
            let metadata = log.metadata().unwrap();
            metadata.size() == WRITTEN && metadata.blocks() * 512 < WRITTEN / 4
        });
        std::fs::write(test_env.work_dir().join("go"), "").unwrap();
        let followed = ran(&["logs", "-f", "--tail", "1", id]);
        assert_eq!(followed.code, 0, "{}", followed.stderr);
        assert_eq!(i64::from(ran(&["wait", id]).code), CODE);
        bystanders.require_untouched(&test_env);
        require_recorded(&test_env, id);
        4
    });
}

/// Supervisors that may only write files of this many bytes, from shortly after the start.
fn limit_file_sizes_of_supervisors(trials: &mut Trials, store: &'static str) {
    let sizes = [600, 1000, 2000, 4096, 5000, 8192, 20_000, 33_000, 65_536, 100_000, 200_000];
    for bytes in trials.some_of(&sizes, 4) {
        trials.trial(&format!("{store}, a supervisor whose files may have {bytes} bytes"), || {
            let test_env = TestEnv::on(store).with_settings(SETTINGS);
            let bystanders = Bystanders::plant(&test_env);
            let script = format!("until [ -e go ]; do sleep 0.02; done; exit {CODE}");
            let id = test_env.ok(&["run", "-d", "--", "sh", "-c", &script]);
            let supervisor = test_env.record(&id)["supervisor"]["pid"].as_u64().unwrap();
            limit_file_size(supervisor, bytes);
            std::fs::write(test_env.work_dir().join("go"), "").unwrap();
            eventually("the supervisor has ended", || !is_running(supervisor));
            bystanders.require_untouched(&test_env);
            require_recorded(&test_env, &id);
            1
        });
    }
}

/// Starts by a shell that may only write files of this many blocks: they succeed completely, or leave
/// nothing.
fn limit_file_sizes_of_starts(trials: &mut Trials, store: &'static str) {
    let blocks = [0, 1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024];
    for (kind, blocks) in
        trials.some_of(&blocks, 6).into_iter().flat_map(|blocks| [("", blocks), ("-S ", blocks)])
    {
        trials.trial(&format!("{store}, a start under `ulimit {kind}-f {blocks}`"), || {
            let test_env = TestEnv::on(store).with_settings(SETTINGS);
            let bystanders = Bystanders::plant(&test_env);
            let script = format!("exit {CODE}");
            let start = ["run", "-d", "--", "sh", "-c", &script];
            let ran =
                Ran::of(&limited(&test_env, &format!("ulimit {kind}-f {blocks}"), &start).output().unwrap());
            bystanders.require_untouched(&test_env);
            if ran.code == 0 {
                require_recorded(&test_env, ran.stdout.trim_end());
                return 1;
            }
            assert!(
                ran.code > 0 && ran.stderr.starts_with("error:"),
                "not refused but ended: {}",
                ran.stderr
            );
            let records = test_env.json(&["ps", "-a"]);
            assert_eq!(records.as_array().unwrap().len(), 1, "a start that was refused left {records}");
            for folder in ["sessions", "exits"] {
                let left = names_in(&test_env.state_dir().join(folder));
                assert_eq!(left, [""; 0], "a start that was refused left files in {folder}");
            }
            1
        });
    }
}

/// A user that may have no more processes, threads included. Needs a user that has no other processes.
fn limit_processes(trials: &mut Trials) {
    let counts: Vec<u64> = (1..=12).collect();
    for count in trials.some_of(&counts, 6) {
        trials.trial(&format!("a start by a user who may have {count} processes"), || {
            let user = User::new();
            let ran =
                user.run(&[&format!("--nproc={count}")], &["run", "-d", "--", "sh", "-c", &user.script()]);
            if ran.code != 0 {
                assert!(
                    ran.code > 0 && ran.stderr.starts_with("error:"),
                    "not refused but ended: {}",
                    ran.stderr
                );
                let records = user.json(&["ps", "-a"]);
                assert_eq!(records, Value::Array(Vec::new()), "a start that was refused left a record");
                return 1;
            }
            user.release();
            user.require_recorded(ran.stdout.trim_end());
            1
        });
    }
    trials.trial("an end by a user who may have no more processes", || {
        let user = User::new();
        let started = user.run(&[], &["run", "-d", "--", "sh", "-c", &user.script()]);
        let id = started.stdout.trim_end();
        let supervisor = user.json(&["show", id])["supervisor"]["pid"].as_u64().unwrap();
        user.limit(supervisor, "--nproc=1");
        user.release();
        eventually("the supervisor has ended", || !is_running(supervisor));
        user.require_recorded(id);
        1
    });
}

fn limit_file_size(pid: u64, bytes: u64) {
    let limit = Rlimit { current: Some(bytes), maximum: Some(bytes) };
    prlimit(Pid::from_raw(pid.try_into().unwrap()), Resource::Fsize, limit).unwrap();
}

fn names_in(directory: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(directory).into_iter().flatten();
    entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Requires that the end of a session is recorded correctly, in whichever way, and that no process of it is
/// left.
fn require_recorded(test_env: &TestEnv, id: &str) {
    let shown = test_env.wait_until_ended(id);
    test_env.ok(&["recover"]);
    require_end(&shown, &test_env.record(id), id);
    assert_eq!(names_in(&test_env.state_dir().join("exits")), [""; 0], "an exit file is left");
}

fn require_end(shown: &Value, committed: &Value, id: &str) {
    assert_eq!(shown["exit"]["code"], CODE, "the recorded exit is wrong: {shown}");
    for field in ["exit", "status", "finished_at"] {
        assert_eq!(shown[field], committed[field], "the record shown differs from the record committed");
    }
    assert_eq!(carriers(id), [0; 0], "processes of the session are left");
}

/// A user for this scenario only, with a test environment and a program that this user can reach.
struct User {
    test_env: TestEnv,
}

impl User {
    const UID: u32 = 60_117;

    fn new() -> User {
        let test_env = TestEnv::on("sqlite").with_settings(SETTINGS);
        let reachable = test_env.path().join("sexton");
        std::fs::copy(program(), &reachable).unwrap();
        std::fs::set_permissions(&reachable, PermissionsExt::from_mode(0o755)).unwrap();
        let owned = Command::new("chown").arg("-R").arg(User::UID.to_string()).arg(test_env.path()).status();
        assert!(owned.unwrap().success(), "only root can be another user");
        rustix::fs::mkfifoat(rustix::fs::CWD, test_env.path().join("gate"), 0o600.into()).unwrap();
        chown(test_env.path().join("gate"), Some(User::UID), None).unwrap();
        User { test_env }
    }

    /// Returns a command that waits without starting another process.
    fn script(&self) -> String {
        format!("read word < {}; exit {CODE}", self.test_env.path().join("gate").display())
    }

    /// Lets the command exit.
    fn release(&self) {
        let mut gate =
            std::fs::OpenOptions::new().write(true).open(self.test_env.path().join("gate")).unwrap();
        gate.write_all(b"go\n").unwrap();
    }

    /// Returns `prlimit`, run as this user.
    fn prlimit(&self) -> Command {
        let uid = User::UID.to_string();
        let mut command = Command::new("setpriv");
        command.args(["--reuid", &uid, "--regid", &uid, "--clear-groups", "prlimit"]);
        command
    }

    /// Limits a process of this user; only the same user may do that without a privilege.
    fn limit(&self, pid: u64, limit: &str) {
        let limited = self.prlimit().args(["--pid", &pid.to_string(), limit]).status();
        assert!(limited.unwrap().success(), "{pid} could not be limited");
    }

    /// Runs the program as this user, under these limits.
    fn run(&self, limits: &[&str], arguments: &[&str]) -> Ran {
        let mut command = self.prlimit();
        command.args(limits);
        command.arg(self.test_env.path().join("sexton")).args(arguments);
        self.test_env.enclose(&mut command);
        Ran::of(&command.output().unwrap())
    }

    fn json(&self, arguments: &[&str]) -> Value {
        let ran = self.run(&[], &[arguments, &["--json"]].concat());
        assert_eq!(ran.code, 0, "{arguments:?}: {}", ran.stderr);
        serde_json::from_str(&ran.stdout).unwrap()
    }

    fn require_recorded(&self, id: &str) {
        let mut shown = Value::Null;
        eventually("the session ends", || {
            shown = self.json(&["show", id]);
            !shown["finished_at"].is_null()
        });
        self.json(&["recover"]);
        require_end(&shown, &self.json(&["show", id]), id);
    }
}

impl Drop for User {
    fn drop(&mut self) {
        self.run(&[], &["stop", "--all", "--force"]);
    }
}
