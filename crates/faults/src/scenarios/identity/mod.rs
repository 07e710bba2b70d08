//! Processes that are not what their record says: reused pids, in the same tick and between the check and the
//! signal; hostile names; records of other boots and of real other namespaces. None of them is ever
//! signalled.

mod between;
mod namespaces;
mod stranger;

use std::process::{Command, ExitCode, Stdio};
use std::sync::PoisonError;

use sexton_core::ProcessIdentity;
use sexton_test_harness::records::edit_record;
use sexton_test_harness::{Bystander, TestEnv, is_running};

use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};
use crate::mounts::{NAMESPACES, require_root};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "identity",
    promises: "I2",
    what: "reused pids, in one tick and between any check and the signal; hostile names; other boots \
           and namespaces",
    mutants: &["no_identity_check", "signal_by_pid", "no_namespace_check", "no_boot_check"],
    tools: &[("unshare", "util-linux"), ("strace", "strace")],
    minutes: 3,
    runs_alone: false,
    run,
};

/// The argument that makes this program the first process of a pid namespace.
pub(crate) const ROLE: &str = "namespace-role";

const SETTINGS: &str = "contain = \"tree\"\nowner.grace = \"10m\"\nstop.grace = \"100ms\"\n";

fn run(trials: &mut Trials) {
    require_root();
    for command in ["stop", "recover"] {
        let rounds = trials.either("5", "60");
        trials.trial(&format!("a pid is reused, {command}"), || in_namespace(&["tick", command, rounds]));
        let points = in_namespace_lines(&["points", command, trials.either("near", "all")]);
        trials.announce(&format!("{command}, a reused pid"), points.len());
        for point in points {
            let name = format!("a pid is reused after {point} of {command}");
            // Each in its own namespace: the calls depend on which other processes exist.
            trials.trial(&name, || in_namespace(&["between", command, &point]));
        }
    }
    for _ in 0..trials.either(1, 10) {
        trials.trial("a session of another pid namespace", || in_namespace(&["inner"]));
        trials.trial("recovery from another time namespace", || in_namespace(&["shifted"]));
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
                trials.trial(&format!("a record of {what}, {command:?}"), || spare(command, change));
            }
        }
    }
}

/// Runs a role in a new pid namespace, where pids can be chosen; returns how many faults were injected.
fn in_namespace(words: &[&str]) -> u64 {
    in_namespace_lines(words)[0].parse().unwrap()
}

/// Like `in_namespace`, and returns every line that the role printed.
fn in_namespace_lines(words: &[&str]) -> Vec<String> {
    let _has_copies_of_mounts = NAMESPACES.read().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let mut unshared = Command::new("unshare");
    unshared.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).arg(std::env::current_exe().unwrap());
    unshared.arg(ROLE).args(words).env("TMPDIR", directory.path()).env("RUST_BACKTRACE", "0");
    let output = unshared.stdin(Stdio::null()).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}", stderr.replace('\n', " "));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// Runs as the first process of a namespace.
pub(crate) fn play(arguments: &[String]) -> ExitCode {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let lines = match words.as_slice() {
        ["tick", command, rounds] => vec![between::in_one_tick(command, rounds.parse().unwrap()).to_string()],
        ["points", command, which] => between::points(command, which),
        ["between", command, point] => vec![between::at_point(command, point).to_string()],
        ["inner"] => vec![namespaces::spare_inner().to_string()],
        ["shifted"] => vec![namespaces::spare_shifted().to_string()],
        _ => return ExitCode::from(2),
    };
    println!("{}", lines.join("\n"));
    ExitCode::SUCCESS
}

/// A record of another boot or namespace: a process with its pid here is a different one.
fn spare(command: &[&str], change: fn(&mut ProcessIdentity)) -> u64 {
    let test_env = TestEnv::new().with_settings(SETTINGS);
    let bystanders = Bystanders::plant(&test_env);
    let process = Bystander::start();
    let id = test_env.ok(&["register", "--pid", &process.pid()]);
    edit_record(&test_env, &id, |session| {
        session.process.iter_mut().for_each(change);
    });
    let mut arguments = command.to_vec();
    if command[0] == "stop" {
        arguments.push(&id);
    }
    test_env.sexton(&arguments);
    assert!(is_running(process.0.id().into()), "a process of another boot or namespace was signalled");
    bystanders.require_untouched(&test_env);
    1
}
