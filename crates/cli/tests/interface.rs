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

/// Every command with its path, those below others included.
fn commands(command: &clap::Command, above: &[&str], found: &mut Vec<(Vec<String>, clap::Command)>) {
    for below in command.get_subcommands().filter(|below| !below.is_hide_set()) {
        let path = [above, &[below.get_name()]].concat();
        found.push((path.iter().map(|&word| word.to_owned()).collect(), below.clone()));
        commands(below, &path, found);
    }
}

#[test]
fn every_command_has_help_with_an_example() {
    let root = sexton_cli::command();
    let mut found = Vec::new();
    commands(&root, &[], &mut found);
    assert!(found.len() > 20, "{}", found.len());
    let lacks: Vec<_> = found
        .iter()
        .filter(|(path, command)| {
            let help = command.get_after_help().map(ToString::to_string).unwrap_or_default();
            let typed = format!("  sexton {}", path.join(" "));
            let group = command.has_subcommands();
            // An example is one of this very command; a group of commands may show those below it.
            let shows =
                |line: &str| line.starts_with(&typed) || group && line.trim_start().starts_with("sexton");
            !help.contains("Example") || !help.lines().any(shows)
        })
        .map(|(path, _)| path.join(" "))
        .collect();
    assert!(lacks.is_empty(), "these show no example of themselves: {lacks:?}");
    // And what clap's tree says is what people get.
    let yard = Yard::new();
    for arguments in [["rescue", "restore", "--help"].as_slice(), &["ps", "--help"]] {
        assert!(yard.ok(arguments).contains("Examples:\n  sexton "), "{arguments:?}");
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

/// The same with colours, which are shown by name.
fn in_colour(yard: &Yard, columns: &str, arguments: &[&str]) -> Ran {
    let mut command = yard.command(arguments);
    command.env("COLUMNS", columns).env_remove("NO_COLOR").env("CLICOLOR_FORCE", "1");
    let mut ran = Ran::of(&command.output().unwrap());
    for text in [&mut ran.stdout, &mut ran.stderr] {
        *text = text.replace('\x1b', "␛");
    }
    ran
}

/// Sessions of every kind that a table shows differently. Ended ones: they show no pid, whose length differs
/// from run to run.
fn some_sessions(yard: &Yard) {
    let sessions = [
        ("nightly", "T-1", "0"),
        ("a-name-that-is-rather-long-for-a-table", "PROJECT-12345", "0"),
        ("broken", "T-2", "3"),
    ];
    for (name, ticket, code) in sessions {
        let mut agent = Bystander::start();
        yard.ok(&["register", "--pid", &agent.pid(), "--name", name, "--ticket", ticket]);
        agent.end();
        yard.ok(&["finish", name, "--code", code]);
    }
}

#[test]
fn tables_fit_the_terminal_with_and_without_colour() {
    let yard = Yard::new();
    some_sessions(&yard);
    let mut settings = settings();
    settings.add_filter(r"\b\d+s +", "[AGE] ");
    settings.bind(|| {
        for columns in ["80", "120"] {
            let plain = at(&yard, columns, &["ps", "-a"]).stdout;
            insta::assert_snapshot!(format!("ps_at_{columns}"), plain);
            insta::assert_snapshot!(
                format!("ps_at_{columns}_in_colour"),
                in_colour(&yard, columns, &["ps", "-a"]).stdout
            );
        }
    });
    for line in at(&yard, "80", &["ps", "-a"]).stdout.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let both = Ran::of(&yard.command(&["ps", "-a"]).env("CLICOLOR_FORCE", "1").output().unwrap());
    assert!(!both.stdout.contains('\x1b'), "NO_COLOR beats everything");
}

const MISTAKES: [&[&str]; 15] = [
    &["show", "nobody"],
    &["ps", "--status", "runing"],
    &["ps", "--store", "plain"],
    &["finish", "nobody", "--code", "0"],
    &["finish", "x", "--code", "999"],
    &["restore", "nothing"],
    &["register", "--pid", "1", "--name", "bad\nname"],
    &["run", "--timeout", "5", "--", "true"],
    &["run"],
    &["stop"],
    &["wait"],
    &["wait", "nobody"],
    &["logs"],
    &["rescue", "restore"],
    &["top"],
];

#[test]
fn errors_say_what_failed_on_what_and_why_and_what_to_do() {
    let yard = Yard::new();
    let mut settings = settings();
    settings.add_filter(r"linked in: [a-z, ]+", "linked in: [BACKENDS]");
    settings.bind(|| {
        for columns in ["80", "120"] {
            let told = |run: &dyn Fn(&[&str]) -> Ran| {
                let each = MISTAKES.iter().map(|arguments| {
                    format!("$ sexton {}\n{}", arguments.join(" "), run(arguments).shown(&yard))
                });
                each.collect::<Vec<_>>().join("\n\n")
            };
            insta::assert_snapshot!(
                format!("errors_at_{columns}"),
                told(&|arguments| at(&yard, columns, arguments))
            );
            insta::assert_snapshot!(
                format!("errors_at_{columns}_in_colour"),
                told(&|arguments| in_colour(&yard, columns, arguments))
            );
        }
    });
}

#[test]
fn stop_without_a_name_says_what_runs() {
    let yard = Yard::new();
    assert_eq!(yard.sexton(&["stop"]).code, 2);
    assert!(!yard.state_dir().exists(), "asking makes nothing");
    let agent = Bystander::start();
    yard.ok(&["register", "--pid", &agent.pid(), "--name", "nightly"]);
    let ran = yard.sexton(&["stop"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("running: nightly"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("hint: `sexton stop nightly` ends one, `sexton stop --all`"),
        "{}",
        ran.stderr
    );
    assert_eq!(yard.record("nightly")["status"], "running");
}

#[test]
fn stop_all_with_nothing_running_is_done() {
    let yard = Yard::new();
    let ran = yard.sexton(&["stop", "--all"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, "no session is running\n"));
}

#[test]
fn the_program_alone_shows_what_it_can_do() {
    let yard = Yard::new();
    let ran = yard.sexton(&[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("Usage: sexton") && ran.stderr.contains("sexton demo"), "{}", ran.stderr);
}

#[test]
fn times_are_local_for_people_and_utc_for_programs() {
    let yard = Yard::new();
    some_sessions(&yard);
    let record = yard.record("nightly");
    let created = record["created_at"].as_str().unwrap();
    assert!(created.ends_with('Z'), "{created}");
    let in_zone = |zone: &str| {
        let ran = Ran::of(&yard.command(&["show", "nightly"]).env("TZ", zone).output().unwrap());
        let line =
            ran.stdout.lines().find(|line| line.trim_start().starts_with("created")).unwrap().to_owned();
        line.split_whitespace().skip(1).take(2).collect::<Vec<_>>().join(" ")
    };
    // Whole seconds of the moment, as `show` prints it.
    assert_eq!(in_zone("UTC"), created.replace('T', " ")[..19]);
    // Five hours and a half east of Greenwich; POSIX writes that with the other sign.
    let moved = in_zone("XXX-5:30");
    let minutes = |text: &str| text[14..16].parse::<u32>().unwrap();
    assert_eq!((minutes(&moved) + 60 - minutes(created)) % 60, 30, "{moved} and {created}");
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
