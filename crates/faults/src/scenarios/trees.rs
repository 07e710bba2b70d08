//! Trees of processes that evade detection, and members that cannot be killed at once: no process of a
//! session survives it, and those that cannot be killed yet are reported.

use std::process::{Command, Stdio};

use sexton_test_harness::{TestEnv, eventually, is_running, kill_9, processes_with, state_of};

use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};
use crate::mounts::{Mounted, require_root};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "trees",
    promises: "I8 I10",
    what: "trees that fork, setsid, double-fork and chain; zombies, stopped, frozen and D-state members",
    mutants: &["command_only", "no_survivors"],
    tools: &[
        ("setsid", "util-linux"),
        ("mkfs.ext4", "e2fsprogs"),
        ("fsfreeze", "util-linux"),
        ("perl", "perl-base"),
    ],
    minutes: 2,
    runs_alone: false,
    run,
};

/// What the command of a session does before it waits. `$READY` is touched when it is ready.
const SHAPES: &[(&str, &str)] = &[
    ("children", "sleep 600 & sleep 600 & wait_here"),
    ("setsid", "setsid sleep 600 & setsid -f sleep 600; wait_here"),
    ("double fork", "(setsid sh -c 'sleep 600 & exit 0' &) ; wait_here"),
    ("chain", "deep() { if [ $1 -gt 0 ]; then (deep $(($1 - 1)) &); fi; sleep 600; }; deep 8 & wait_here"),
    (
        "running away",
        "perl -MPOSIX -e '$SIG{INT}=$SIG{TERM}=\"IGNORE\"; while (1) { exit if fork; setsid; \
         select undef, undef, undef, 0.02 }' & wait_here",
    ),
    ("stubborn", "sh -c 'trap \"\" INT TERM HUP; while :; do sleep 1; done' & wait_here"),
    ("zombies", "sh -c 'sleep 0 & exec sleep 600' & wait_here"),
    ("stopped", "sleep 600 & kill -STOP $!; wait_here"),
    ("own names", "cp $(command -v sleep) 'a) S 1 (b'; './a) S 1 (b' 600 & wait_here"),
];

/// How a session ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    Stopped,
    CommandKilled,
    /// It was stopped after its supervisor was killed.
    SupervisorKilled,
    Recovered,
}

fn run(trials: &mut Trials) {
    let ends = [End::Stopped, End::CommandKilled, End::SupervisorKilled, End::Recovered];
    for (turn, containment) in ["tree", "auto"].into_iter().enumerate() {
        for (number, (shape, script)) in SHAPES.iter().enumerate() {
            for (which, end) in ends.into_iter().enumerate() {
                // A quick campaign takes half of all combinations, and some of each kind.
                if trials.either((turn + number + which) % 2 == 1, false) {
                    continue;
                }
                for _ in 0..trials.either(1, 4) {
                    if trials.has_enough_violations() {
                        return;
                    }
                    let name = format!("{containment}, {shape}, {end:?}");
                    trials.trial(&name, || end_whole(containment, script, end));
                }
            }
        }
    }
    for _ in 0..trials.either(1, 5) {
        trials.trial("frozen in its control group", end_frozen);
        trials.trial("in D state", end_sleeping);
    }
}

/// Returns a test environment, and a mark that every process started in it inherits.
fn new_env(containment: &str) -> (TestEnv, String) {
    let settings = format!("contain = \"{containment}\"\nowner.grace = \"10m\"\nstop.grace = \"500ms\"\n");
    let test_env = TestEnv::new().with_settings(&settings);
    let mark = format!("SEXTON_FAULTS_TREE={}", test_env.path().display());
    (test_env, mark)
}

fn start(test_env: &TestEnv, mark: &str, script: &str) -> String {
    let ready = test_env.path().join("ready");
    let whole = format!("wait_here() {{ touch {}; exec sleep 600; }}; {script}", ready.display());
    let id = test_env.ok(&["run", "-d", "--env", mark, "--", "sh", "-c", &whole]);
    eventually("the tree is complete", || ready.exists());
    id
}

fn end_whole(containment: &str, script: &str, end: End) -> u64 {
    let (test_env, mark) = new_env(containment);
    let bystanders = Bystanders::plant(&test_env);
    let id = start(&test_env, &mark, script);
    eventually("the tree is complete", || processes_with(&mark).len() > 1);
    let record = test_env.record(&id);
    let pid = |whose: &str| record[whose]["pid"].as_u64().unwrap();
    match end {
        End::Stopped => _ = test_env.ok(&["stop", &id]),
        End::CommandKilled => {
            kill_9(pid("process"));
            test_env.sexton(&["wait", &id]);
        }
        End::SupervisorKilled => {
            kill_9(pid("supervisor"));
            eventually("it is gone", || !is_running(pid("supervisor")));
            test_env.ok(&["stop", &id]);
        }
        End::Recovered => {
            for whose in ["supervisor", "process"] {
                kill_9(pid(whose));
                eventually("it is gone", || !is_running(pid(whose)));
            }
            test_env.ok(&["recover"]);
        }
    }
    let left = processes_with(&mark);
    assert_eq!(left, [0; 0], "processes of the session are left");
    assert!(!test_env.record(&id)["finished_at"].is_null());
    bystanders.require_untouched(&test_env);
    1
}

/// Processes in a frozen control group handle no signal except SIGKILL.
fn end_frozen() -> u64 {
    require_root();
    let (test_env, mark) = new_env("cgroup");
    let bystanders = Bystanders::plant(&test_env);
    let id = start(&test_env, &mark, "sleep 600 & wait_here");
    let group = test_env.record(&id)["cgroup"]["path"].as_str().expect("it has a control group").to_owned();
    std::fs::write(format!("{group}/cgroup.freeze"), "1").unwrap();
    test_env.ok(&["stop", &id]);
    assert_eq!(processes_with(&mark), [0; 0]);
    bystanders.require_untouched(&test_env);
    1
}

/// A member in uninterruptible sleep survives SIGKILL: that is reported, the record is kept, and the session
/// can be ended when the member wakes.
fn end_sleeping() -> u64 {
    require_root();
    let (test_env, mark) = new_env("tree");
    let bystanders = Bystanders::plant(&test_env);
    let disk = Mounted::ext4(&test_env.path().join("disk"), &test_env.path().join("image"), 16 << 20);
    disk.freeze();
    let file = disk.path().join("file");
    let script = format!("dd if=/dev/zero of={} bs=4k count=1 & wait_here", file.display());
    let id = start(&test_env, &mark, &script);
    // A process that waits for a page is in this state too, but only briefly.
    let mut seen = 0;
    eventually("a member sleeps in the kernel, and stays there", || {
        let sleeps = processes_with(&mark).into_iter().any(|pid| state_of(pid) == Some('D'));
        seen = if sleeps { seen + 1 } else { 0 };
        seen >= 20
    });
    let mut stop = test_env.command(&["stop", "--force", &id]);
    let stopped = stop.stdout(Stdio::piped()).stderr(Stdio::piped()).output().unwrap();
    let stderr = String::from_utf8_lossy(&stopped.stderr).into_owned();
    assert_eq!(stopped.status.code(), Some(3), "{stderr}");
    assert!(stderr.contains("is still alive"), "{stderr}");
    assert_eq!(processes_with(&mark).len(), 1, "only the sleeper is left");
    disk.thaw();
    eventually("the sleeper woke and died", || processes_with(&mark).is_empty());
    test_env.wait_until_ended(&id);
    bystanders.require_untouched(&test_env);
    let _ = Command::new("sync").arg("-f").arg(disk.path()).status();
    1
}
