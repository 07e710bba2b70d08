//! Processes that are not who they seem: pids given out again, in the same tick and between the look and the
//! signal; hostile names; records of other boots and of real other namespaces. None of them is ever signalled.

mod between;
mod namespaces;
mod stranger;

use std::process::{Command, ExitCode, Stdio};
use std::sync::PoisonError;

use sexton_core::ProcessIdentity;
use sexton_field::records::edit_record;
use sexton_field::{Bystander, Yard, is_running};

use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};
use crate::mounts::{NAMESPACES, require_root};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "identity",
    promises: "I2",
    what: "pids given out again, in one tick and between any look and the signal; hostile names; other boots \
           and namespaces",
    mutants: &["no_identity_check", "signal_by_pid", "no_namespace_check", "no_boot_check"],
    tools: &[("unshare", "util-linux"), ("strace", "strace")],
    minutes: 3,
    run,
};

/// The word that makes this program the first process of a pid namespace.
pub(crate) const ROLE: &str = "namespace-role";

const SETTINGS: &str = "contain = \"tree\"\nowner.grace = \"10m\"\nstop.grace = \"100ms\"\n";

fn run(trials: &mut Trials) {
    require_root();
    for command in ["stop", "recover"] {
        let rounds = trials.either("5", "60");
        trials.trial(&format!("a pid is given out again, {command}"), || apart(&["tick", command, rounds]));
        let points = apart_words(&["points", command, trials.either("near", "all")]);
        trials.announce(&format!("{command}, a pid that changes hands"), points.len());
        for point in points {
            let name = format!("a pid changes hands after {point} of {command}");
            // Each in a namespace of its own: what the calls are depends on who else is there.
            trials.trial(&name, || apart(&["between", command, &point]));
        }
    }
    for _ in 0..trials.either(1, 10) {
        trials.trial("a session of another pid namespace", || apart(&["inner"]));
        trials.trial("a look from another time namespace", || apart(&["shifted"]));
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

/// Plays a part in a pid namespace of its own, where pids can be chosen; gives back how many faults struck.
fn apart(words: &[&str]) -> u64 {
    apart_words(words)[0].parse().unwrap()
}

/// The same, with every word that was said there.
fn apart_words(words: &[&str]) -> Vec<String> {
    let _has_copies_of_mounts = NAMESPACES.read().unwrap_or_else(PoisonError::into_inner);
    let directory = tempfile::tempdir().unwrap();
    let mut unshared = Command::new("unshare");
    unshared.args(["--pid", "--fork", "--mount-proc", "--kill-child"]).arg(std::env::current_exe().unwrap());
    unshared.arg(ROLE).args(words).env("TMPDIR", directory.path()).env("RUST_BACKTRACE", "0");
    let output = unshared.stdin(Stdio::null()).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{}", said.replace('\n', " "));
    String::from_utf8(output.stdout).unwrap().lines().map(str::to_owned).collect()
}

/// The first process of a namespace.
pub(crate) fn play(arguments: &[String]) -> ExitCode {
    let words: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let said = match words.as_slice() {
        ["tick", command, rounds] => vec![between::in_one_tick(command, rounds.parse().unwrap()).to_string()],
        ["points", command, which] => between::points(command, which),
        ["between", command, point] => vec![between::at_point(command, point).to_string()],
        ["inner"] => vec![namespaces::spare_inner().to_string()],
        ["shifted"] => vec![namespaces::spare_shifted().to_string()],
        _ => return ExitCode::from(2),
    };
    println!("{}", said.join("\n"));
    ExitCode::SUCCESS
}

/// A record of another boot or namespace: whoever has its pid here is somebody else.
fn spare(command: &[&str], change: fn(&mut ProcessIdentity)) -> u64 {
    let yard = Yard::new().with_settings(SETTINGS);
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
