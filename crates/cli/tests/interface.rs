//! What people read: help, tables, errors, at 80 and at 120 columns.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use support::{Bystander, Ran, Yard};

fn at(yard: &Yard, columns: &str, arguments: &[&str]) -> Ran {
    Ran::of(&yard.command(arguments).env("COLUMNS", columns).output().unwrap())
}

/// Replaces what differs from run to run.
fn settings() -> insta::Settings {
    let mut settings = insta::Settings::clone_current();
    settings.add_filter(r"\b[a-z0-9]{16}\b", "[SESSION-ID-16CH]");
    settings.set_omit_expression(true);
    settings
}

#[test]
fn the_help_lists_every_command() {
    let yard = Yard::new();
    insta::assert_snapshot!(yard.ok(&["--help"]));
}

#[test]
fn every_command_has_help_with_an_example() {
    let yard = Yard::new();
    let help = yard.ok(&["--help"]);
    let commands =
        help.lines().skip_while(|line| *line != "Commands:").skip(1).take_while(|line| !line.is_empty());
    let names: Vec<_> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(names.len() > 10, "{names:?}");
    for name in names {
        let help = yard.ok(&[name, "--help"]);
        assert!(help.contains("Example"), "sexton {name} --help shows no example");
    }
}

#[test]
#[cfg(all(
    feature = "store-sqlite",
    feature = "store-json",
    feature = "store-tf",
    feature = "proc-linux",
    feature = "proc-portable",
    feature = "worktree-git"
))]
fn every_backend_is_linked_in() {
    let yard = Yard::new();
    let backends = yard.json(&["backends"]);
    let names: Vec<_> = backends
        .as_array()
        .unwrap()
        .iter()
        .map(|backend| format!("{} {}", backend["kind"].as_str().unwrap(), backend["name"].as_str().unwrap()))
        .collect();
    let stores = ["store json", "store omx", "store sqlite", "store tf"];
    let others = ["probe linux", "probe portable", "worktree git"];
    assert_eq!(names, [&stores[..], &others[..]].concat());
}

#[test]
fn tables_fit_the_terminal() {
    let yard = Yard::new();
    // Ended ones: they show no pid, whose length differs from run to run.
    for (name, ticket) in [("nightly", "T-1"), ("a-name-that-is-rather-long-for-a-table", "PROJECT-12345")] {
        let mut agent = Bystander::start();
        yard.ok(&["register", "--pid", &agent.pid(), "--name", name, "--ticket", ticket]);
        agent.end();
        yard.ok(&["finish", name, "--code", "0"]);
    }
    settings().bind(|| {
        insta::assert_snapshot!("ps_at_80", at(&yard, "80", &["ps", "-a"]).stdout);
        insta::assert_snapshot!("ps_at_120", at(&yard, "120", &["ps", "-a"]).stdout);
    });
    for line in at(&yard, "80", &["ps", "-a"]).stdout.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
}

#[test]
fn errors_say_what_failed_on_what_and_why_and_what_to_do() {
    let yard = Yard::new();
    let shown = |arguments: &[&str]| at(&yard, "80", arguments).shown(&yard);
    let errors = [
        vec!["show", "nobody"],
        vec!["ps", "--status", "runing"],
        vec!["ps", "--store", "plain"],
        vec!["finish", "nobody", "--code", "0"],
        vec!["finish", "x", "--code", "999"],
        vec!["restore", "nothing"],
        vec!["register", "--pid", "1", "--name", "bad\nname"],
        vec!["run", "--timeout", "5", "--", "true"],
        vec!["run"],
        vec!["stop"],
        vec!["wait", "nobody"],
        vec!["logs"],
    ];
    let told: Vec<_> = errors
        .iter()
        .map(|arguments| format!("$ sexton {}\n{}", arguments.join(" "), shown(arguments)))
        .collect();
    let mut settings = settings();
    settings.add_filter(r"linked in: [a-z, ]+", "linked in: [BACKENDS]");
    settings.bind(|| insta::assert_snapshot!(told.join("\n\n")));
}

#[test]
fn json_is_the_only_thing_on_stdout() {
    let yard = Yard::new();
    for command in
        [["ps"].as_slice(), &["config"], &["backends"], &["schema"], &["doctor"], &["backup", "--list"]]
    {
        yard.json(command);
    }
}

#[test]
fn the_version_is_the_same_however_it_is_asked_for() {
    let yard = Yard::new();
    let version = format!("sexton {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        [yard.ok(&["--version"]), yard.ok(&["-V"]), yard.ok(&["--json", "--version"])],
        [(); 3].map(|()| version.clone())
    );
}

#[test]
fn completions_come_for_every_shell() {
    let yard = Yard::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(yard.ok(&["completions", shell]).contains("sexton"), "{shell}");
    }
}
