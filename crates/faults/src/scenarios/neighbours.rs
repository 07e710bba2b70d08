//! Hostile neighbours, and an ordinary user without a control group: processes that hide or forge their
//! cookie, other users' processes that cannot be read or copy a mark, and nested sessions.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use sexton_test_harness::{TestEnv, eventually, is_running, kill_9, program, quoted_program};

use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};
use crate::mounts::{Mounted, must, require_root};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "neighbours",
    promises: "I2 I8 I10",
    what: "members that hide or forge a cookie, as root and as an ordinary user; processes that cannot be read; other users' marks; nested sessions",
    mutants: &[
        "foreign_cookie_exempts",
        "no_limit_mark",
        "scan_first",
        "mark_is_enough",
        "any_users_cookie",
        "no_read_deadline",
    ],
    tools: &[
        ("setpriv", "util-linux"),
        ("prlimit", "util-linux"),
        ("perl", "perl-base"),
        ("ssh-agent", "openssh-client"),
        ("mkfs.ext4", "e2fsprogs"),
        ("fsfreeze", "util-linux"),
        ("cc", "gcc"),
    ],
    minutes: 2,
    runs_alone: true,
    run,
};

/// The users that sessions belong to here.
const USERS: [u32; 2] = [0, 65534];
/// A user that has no session.
const STRANGER: u32 = 60001;
/// How long a command may take beside processes that cannot be read.
const PATIENCE: Duration = Duration::from_secs(60);
/// How long it may take until the command of a session is signalled, whatever else cannot be read.
const FIRST_SIGNAL: Duration = Duration::from_secs(6);
/// This many cannot be read. To wait for each takes longer than the limit.
const MANY: u32 = 40;

fn run(trials: &mut Trials) {
    for _ in 0..trials.either(1, 5) {
        for user in USERS {
            trials.trial(&format!("hidden members, user {user}"), || recover_hidden(user));
            trials.trial(&format!("forged cookies, user {user}"), || stop_forged(user));
        }
        for containment in ["tree", "auto"] {
            trials.trial(&format!("a nested session, {containment}"), || stop_around(containment));
        }
        trials.trial("a stranger's copy of a mark", stop_beside_a_copied_mark);
        trials.trial("another user's process that cannot be read", || stop_beside_stuck(STRANGER, 1));
        trials.trial("many processes of the same user that cannot be read", || stop_beside_stuck(0, MANY));
    }
}

/// A test environment, and the user whose sessions it has.
struct Fixture {
    test_env: TestEnv,
    user: u32,
}

impl Fixture {
    fn new(containment: &str, user: u32) -> Fixture {
        require_root();
        let settings = format!(
            "contain = \"{containment}\"\nowner.grace = \"10m\"\nstop.grace = \"500ms\"\nbackup.keep = 1\n"
        );
        let test_env = TestEnv::new().with_settings(&settings);
        std::fs::create_dir_all(test_env.path().join("play")).unwrap();
        must("chown", &["-R", &format!("{user}:{user}"), &test_env.path().display().to_string()]);
        Fixture { test_env, user }
    }

    fn play(&self) -> PathBuf {
        self.test_env.path().join("play")
    }

    /// Runs the program as the user, with a time limit: a hang is a violation.
    fn sexton(&self, arguments: &[&str]) -> Output {
        let mut command = Command::new("timeout");
        command.args(["-s", "KILL", &PATIENCE.as_secs().to_string(), "setpriv"]);
        let user = self.user.to_string();
        command.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups"]);
        command.arg(program()).args(arguments);
        self.test_env.enclose(&mut command);
        command.output().unwrap()
    }

    fn ok(&self, arguments: &[&str]) -> String {
        let output = self.sexton(arguments);
        let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(output.status.success(), "{arguments:?}: {}: {stderr}", output.status);
        String::from_utf8_lossy(&output.stdout).trim().to_owned()
    }

    fn start(&self, script: &str) -> String {
        let whole = format!("cd '{}'; {script}", self.play().display());
        let id = self.ok(&["run", "-d", "--", "sh", "-c", &whole]);
        eventually("the script is ready", || self.play().join("ready").exists());
        id
    }

    fn pid(&self, id: &str, whose: &str) -> u64 {
        self.show(id)[whose]["pid"].as_u64().unwrap()
    }

    fn show(&self, id: &str) -> serde_json::Value {
        serde_json::from_str(&self.ok(&["show", "--json", id])).unwrap()
    }

    fn load_pid(&self, file: &str) -> u64 {
        let path = self.play().join(file);
        let mut pid = None;
        eventually("a process has written its pid", || {
            pid = std::fs::read_to_string(&path).ok().and_then(|text| text.trim().parse().ok());
            pid.is_some()
        });
        pid.unwrap()
    }
}

const HIDERS: &str = r#"
    env -i setsid sh -c 'echo $$ > cleared; exec sleep 777' &
    perl -e 'open F, ">rewritten"; print F "$$\n"; close F; $0 = "x" x 4000; sleep 999' &
    ssh-agent -s | sed -n 's/.*SSH_AGENT_PID=\([0-9]*\);.*/\1/p' > agent
    touch ready; exec sleep 600
"#;

/// Supervisor and command are killed, and only the limit mark identifies the rest.
fn recover_hidden(user: u32) -> u64 {
    let fixture = Fixture::new("tree", user);
    let id = fixture.start(HIDERS);
    let hidden = ["cleared", "rewritten", "agent"].map(|file| fixture.load_pid(file));
    let _ends = hidden.map(KilledAtTheEnd);
    for whose in ["supervisor", "process"] {
        let pid = fixture.pid(&id, whose);
        kill_9(pid);
        eventually("it is gone", || !is_running(pid));
    }
    fixture.ok(&["recover"]);
    assert_eq!(hidden.map(is_running), [false; 3], "processes of the session are left");
    1
}

fn stop_forged(user: u32) -> u64 {
    let fixture = Fixture::new("auto", user);
    let script = "SEXTON_SESSION_ID=nosuchsession setsid sh -c 'echo $$ > forged; exec sleep 777' & \
                  touch ready; exec sleep 600";
    let id = fixture.start(script);
    let forged = fixture.load_pid("forged");
    let _ends = KilledAtTheEnd(forged);
    fixture.ok(&["stop", &id]);
    assert!(!is_running(forged), "a forged cookie escaped");
    1
}

/// The outer session is stopped; the nested one keeps running, including its process that cleared its
/// environment.
fn stop_around(containment: &str) -> u64 {
    let fixture = Fixture::new(containment, 0);
    let bystanders = Bystanders::plant(&fixture.test_env);
    let inner = "env -i sh -c 'echo $$ > cleared; exec sleep 777' & exec sleep 600";
    std::fs::write(fixture.play().join("inner.sh"), inner).unwrap();
    let script =
        format!("{} run -d --name inner -- sh inner.sh; touch ready; exec sleep 600", quoted_program());
    let outer = fixture.start(&script);
    let (cleared, command) = (fixture.load_pid("cleared"), fixture.pid("inner", "process"));
    fixture.ok(&["stop", &outer]);
    assert!(is_running(command) && is_running(cleared), "the nested session was stopped too");
    fixture.ok(&["stop", "inner"]);
    assert!(!is_running(command) && !is_running(cleared));
    bystanders.require_untouched(&fixture.test_env);
    1
}

/// Any user can read a mark, and set it. Another user's copy is not killed, and does not prevent the stop.
fn stop_beside_a_copied_mark() -> u64 {
    let fixture = Fixture::new("tree", 0);
    let id = fixture.start("touch ready; exec sleep 600");
    let mark = fixture.show(&id)["limit_mark"].as_u64().expect("it has a mark");
    let cookie = format!("SEXTON_SESSION_ID={id}");
    let limit = format!("--locks={mark}:{mark}");
    let copier = Guest::start(STRANGER, &["prlimit", &limit, "env", &cookie, "sleep", "600"]);
    eventually("it has the mark", || {
        let limits = std::fs::read_to_string(format!("/proc/{}/limits", copier.pid())).unwrap_or_default();
        let environment = std::fs::read(format!("/proc/{}/environ", copier.pid())).unwrap_or_default();
        limits.contains(&mark.to_string()) && String::from_utf8_lossy(&environment).contains(&cookie)
    });
    fixture.ok(&["stop", &id]);
    assert!(is_running(copier.pid()), "another user's process was ended");
    1
}

/// Processes whose environment cannot be read, because they hold the lock of their memory while they wait for
/// a frozen disk. The session's command is signalled at once, and the session ends.
fn stop_beside_stuck(user: u32, count: u32) -> u64 {
    let fixture = Fixture::new("tree", 0);
    let bystanders = Bystanders::plant(&fixture.test_env);
    // It records when the first signal arrived, and exits.
    let script = "trap 'touch signalled; exit 0' INT; touch ready; while :; do sleep 0.05; done";
    let id = fixture.start(script);
    let stuck = Stuck::start(&fixture, user, count);
    let began = Instant::now();
    let signalled = fixture.play().join("signalled");
    let seen = std::thread::spawn(move || {
        while !signalled.exists() && began.elapsed() < PATIENCE {
            std::thread::sleep(Duration::from_millis(10));
        }
        began.elapsed()
    });
    let stopped = fixture.sexton(&["stop", &id]);
    let (took, first) = (began.elapsed(), seen.join().unwrap());
    drop(stuck);
    let stderr = String::from_utf8_lossy(&stopped.stderr).into_owned();
    assert_eq!(stopped.status.code(), Some(0), "it took {took:?}: {stderr}");
    assert!(first < FIRST_SIGNAL, "the first signal came after {first:?}");
    assert_eq!(fixture.show(&id)["status"], "stopped");
    bystanders.require_untouched(&fixture.test_env);
    1
}

/// A process of another user, killed at the end of the trial.
struct Guest(Child);

impl Guest {
    fn start(user: u32, command: &[&str]) -> Guest {
        let mut setpriv = Command::new("setpriv");
        setpriv.args([&format!("--reuid={user}"), &format!("--regid={user}"), "--clear-groups"]);
        Guest(setpriv.args(command).stdin(Stdio::null()).stdout(Stdio::null()).spawn().unwrap())
    }

    fn pid(&self) -> u64 {
        u64::from(self.0.id())
    }
}

impl Drop for Guest {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A process that a failed trial may leave.
struct KilledAtTheEnd(u64);

impl Drop for KilledAtTheEnd {
    fn drop(&mut self) {
        if is_running(self.0) {
            kill_9(self.0);
        }
    }
}

/// Processes that hold the lock of their memory, and the disk for which they wait.
struct Stuck {
    first: Guest,
    all: Vec<u64>,
    disk: Mounted,
}

/// One thread waits until the disk accepts a page; another holds the lock while it waits for the first.
const PROGRAM: &str = r#"
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>
static char *page;
static void *touch(void *unused) { page[0] = 1; return unused; }
static void *unmap(void *unused) { munmap(page, 4096); return unused; }
static void be_stuck(int file) {
    pthread_t first, second;
    page = mmap(0, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (page == MAP_FAILED) exit(1);
    pthread_create(&first, 0, touch, 0);
    usleep(50000);
    pthread_create(&second, 0, unmap, 0);
    sleep(600);
}
int main(int count, char **arguments) {
    int file = count == 3 ? open(arguments[1], O_RDWR) : -1;
    if (file < 0) return 1;
    for (int child = 1; child < atoi(arguments[2]); child++) if (!fork()) { be_stuck(file); return 0; }
    be_stuck(file);
    return 0;
}
"#;

impl Stuck {
    fn start(fixture: &Fixture, user: u32, count: u32) -> Stuck {
        let directory = fixture.test_env.path();
        must("chmod", &["755", &directory.display().to_string()]);
        let source = directory.join("stuck.c");
        let program = directory.join("stuck");
        std::fs::write(&source, PROGRAM).unwrap();
        must("cc", &["-pthread", "-o", &shown(&program), &shown(&source)]);
        let disk = Mounted::ext4(&directory.join("disk"), &directory.join("image"), 16 << 20);
        let file = disk.path().join("file");
        std::fs::write(&file, [0; 4096]).unwrap();
        must("chmod", &["777", &shown(disk.path()), &shown(&file)]);
        must("sync", &["-f", &shown(&file)]);
        disk.freeze();
        let first = Guest::start(user, &[&shown(&program), &shown(&file), &count.to_string()]);
        let mut all = Vec::new();
        eventually("they are stuck", || {
            all = threads_in_d(&program);
            all.len() == count as usize
        });
        Stuck { first, all, disk }
    }
}

impl Drop for Stuck {
    fn drop(&mut self) {
        for pid in &self.all {
            kill_9(*pid);
        }
        self.disk.thaw();
        let _ = self.first.0.wait();
        eventually("they are gone", || !self.all.iter().any(|pid| is_running(*pid)));
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Returns the processes of this program of which two threads are in uninterruptible sleep.
fn threads_in_d(program: &Path) -> Vec<u64> {
    let is_waiting = |thread: &Path| {
        let stat = std::fs::read_to_string(thread.join("stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_some_and(|rest| rest.starts_with('D'))
    };
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let ours = processes.filter(|process| {
        std::fs::read_link(process.join("exe")).is_ok_and(|executed| executed == program)
            && std::fs::read_dir(process.join("task")).is_ok_and(|threads| {
                threads.flatten().filter(|thread| is_waiting(&thread.path())).count() >= 2
            })
    });
    ours.filter_map(|process| process.file_name()?.to_str()?.parse().ok()).collect()
}
