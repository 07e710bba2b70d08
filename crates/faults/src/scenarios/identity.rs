//! Processes that are not who they seem: pids given out again, in the same tick and between the look and the
//! signal; hostile names; records of other boots and namespaces. None of them is ever signalled.

use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Child, Command, ExitCode, Stdio};
use std::time::Duration;

use rustix::process::{WaitOptions, wait};
use sexton_core::ProcessIdentity;
use sexton_field::records::edit_record;
use sexton_field::{Bystander, Yard, eventually, is_running, kill_9};

use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};
use crate::mounts::require_root;

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "identity",
    promises: "I2",
    what: "pids given out again, in one tick and between check and signal; other boots and namespaces",
    mutants: &["no_identity_check"],
    tools: &[("unshare", "util-linux"), ("strace", "strace")],
    run,
};

/// The word that makes this program the first process of a pid namespace.
pub(crate) const ROLE: &str = "reuse-role";

fn run(trials: &mut Trials) {
    require_root();
    for command in ["stop", "recover"] {
        let rounds: u64 = trials.either(5, 100);
        trials.trial(&format!("a pid is given out again, {command}"), || reuse(command, rounds));
    }
    type Change = fn(&mut ProcessIdentity);
    let changes: [(&str, Change); 3] = [
        ("another boot", |process| process.boot_id = Some("another-boot".to_owned())),
        ("another pid namespace", |process| process.pid_namespace = Some(1)),
        ("another time namespace", |process| process.time_namespace = Some(1)),
    ];
    for (what, change) in changes {
        for command in [&["recover"][..], &["stop", "--force"]] {
            for _ in 0..trials.either(1, 10) {
                trials.trial(&format!("{what}, {command:?}"), || spare(command, change));
            }
        }
    }
}

/// Plays the rounds in a pid namespace of their own, where pids can be chosen.
fn reuse(command: &str, rounds: u64) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let mut unshared = Command::new("unshare");
    unshared.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).arg(std::env::current_exe().unwrap());
    unshared.args([ROLE, command, &rounds.to_string()]).env("TMPDIR", directory.path());
    let output = unshared.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}", said.replace('\n', " "));
    rounds
}

/// The first process of the namespace: starts a session, kills it, gives its pid to somebody else in what
/// looks like the same tick, and lets the program loose on it.
pub(crate) fn play(arguments: &[String]) -> ExitCode {
    let [command, rounds] = arguments else { return ExitCode::from(2) };
    for _ in 0..rounds.parse::<u64>().unwrap() {
        let yard =
            Yard::new().with_settings("contain = \"tree\"\nowner.grace = \"10m\"\nstop.grace = \"100ms\"\n");
        let id = yard.ok(&["run", "-d", "--", "sleep", "600"]);
        let record = yard.record(&id);
        let pid = |whose: &str| record[whose]["pid"].as_u64().unwrap();
        for whose in ["supervisor", "process"] {
            kill_9(pid(whose));
        }
        for whose in ["supervisor", "process"] {
            eventually("it is reaped", || {
                reap();
                !Path::new(&format!("/proc/{}", pid(whose))).exists()
            });
        }
        let mut stranger = start_as(pid("process"));
        let ticks = start_ticks(pid("process"));
        edit_record(&yard, &id, |session| {
            if let Some(process) = &mut session.process {
                process.start_ticks = Some(ticks);
            }
        });
        let arguments: &[&str] = if command == "stop" { &["stop", "--force", &id] } else { &["recover"] };
        let ran = yard.sexton(arguments);
        assert!(ran.code == 0 || ran.code == 3, "{}{}", ran.stdout, ran.stderr);
        assert!(stranger.try_wait().unwrap().is_none(), "a process that got the pid of a session was ended");
        stranger.kill().unwrap();
        stranger.wait().unwrap();
    }
    ExitCode::SUCCESS
}

/// Starts a process with exactly this pid.
fn start_as(pid: u64) -> Child {
    for _ in 0..1000 {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).unwrap();
        let mut sleep = Command::new("sleep");
        sleep.arg0("a) S 1 (b").arg("600").env_clear().stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = sleep.env("PATH", std::env::var_os("PATH").unwrap()).spawn().unwrap();
        if u64::from(child.id()) == pid {
            return child;
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    panic!("pid {pid} cannot be had");
}

fn start_ticks(pid: u64) -> u64 {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap();
    stat.rsplit(") ").next().unwrap().split(' ').nth(19).unwrap().parse().unwrap()
}

/// The first process of a namespace inherits everybody's children.
fn reap() {
    while let Ok(Some(_)) = wait(WaitOptions::NOHANG) {}
    std::thread::park_timeout(Duration::from_millis(1));
}

/// A record of another boot or namespace: whoever has its pid here is somebody else.
fn spare(command: &[&str], change: fn(&mut ProcessIdentity)) -> u64 {
    let yard = Yard::new().with_settings("contain = \"tree\"\nowner.grace = \"10m\"\n");
    let bystanders = Bystanders::plant(&yard);
    let process = Bystander::start();
    let id = yard.ok(&["register", "--pid", &process.pid()]);
    edit_record(&yard, &id, |session| {
        session.process.iter_mut().for_each(change);
    });
    let mut arguments = command.to_vec();
    if command[0] == "stop" {
        arguments.push(&id);
    }
    yard.sexton(&arguments);
    assert!(is_running(process.0.id().into()), "a process of another boot or namespace was signalled");
    bystanders.require_untouched(&yard);
    1
}
