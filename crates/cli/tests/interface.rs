//! Output for people: help, tables and errors, at 80 and at 120 columns.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use support::{Bystander, Ran, TestEnv};

fn at(test_env: &TestEnv, columns: &str, arguments: &[&str]) -> Ran {
    Ran::of(&test_env.command(arguments).env("COLUMNS", columns).output().unwrap())
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
    let test_env = TestEnv::new();
    insta::assert_snapshot!(test_env.ok(&["--help"]));
}

/// Collects every command and subcommand with its path.
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
            // The example must use this command; for a group, an example of a subcommand is enough.
            let shows =
                |line: &str| line.starts_with(&typed) || group && line.trim_start().starts_with("sexton");
            !help.contains("Example") || !help.lines().any(shows)
        })
        .map(|(path, _)| path.join(" "))
        .collect();
    assert!(lacks.is_empty(), "commands without an example: {lacks:?}");
    // The printed help contains the examples as well.
    let test_env = TestEnv::new();
    for arguments in [["rescue", "restore", "--help"].as_slice(), &["ps", "--help"]] {
        assert!(test_env.ok(arguments).contains("Examples:\n  sexton "), "{arguments:?}");
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
    let test_env = TestEnv::new();
    let backends = test_env.json(&["backends"]);
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

/// Does the same with colours, with the escape character made visible.
fn in_colour(test_env: &TestEnv, columns: &str, arguments: &[&str]) -> Ran {
    let mut command = test_env.command(arguments);
    command.env("COLUMNS", columns).env_remove("NO_COLOR").env("CLICOLOR_FORCE", "1");
    let mut ran = Ran::of(&command.output().unwrap());
    for text in [&mut ran.stdout, &mut ran.stderr] {
        *text = text.replace('\x1b', "␛");
    }
    ran
}

/// Creates sessions of every kind that a table shows differently. They have ended, because a pid in the table would
/// have a different length in each run.
fn some_sessions(test_env: &TestEnv) {
    let sessions = [
        ("nightly", "T-1", "0"),
        ("a-name-that-is-rather-long-for-a-table", "PROJECT-12345", "0"),
        ("broken", "T-2", "3"),
    ];
    for (name, ticket, code) in sessions {
        let mut agent = Bystander::start();
        test_env.ok(&["register", "--pid", &agent.pid(), "--name", name, "--ticket", ticket]);
        agent.end();
        test_env.ok(&["finish", name, "--code", code]);
    }
}

#[test]
fn tables_fit_the_terminal_with_and_without_colour() {
    let test_env = TestEnv::new();
    some_sessions(&test_env);
    let mut settings = settings();
    settings.add_filter(r"\b\d+s +", "[AGE] ");
    settings.bind(|| {
        for columns in ["80", "120"] {
            let plain = at(&test_env, columns, &["ps", "-a"]).stdout;
            insta::assert_snapshot!(format!("ps_at_{columns}"), plain);
            insta::assert_snapshot!(
                format!("ps_at_{columns}_in_colour"),
                in_colour(&test_env, columns, &["ps", "-a"]).stdout
            );
        }
    });
    for line in at(&test_env, "80", &["ps", "-a"]).stdout.lines() {
        assert!(line.chars().count() <= 80, "{line}");
    }
    let both = Ran::of(&test_env.command(&["ps", "-a"]).env("CLICOLOR_FORCE", "1").output().unwrap());
    assert!(!both.stdout.contains('\x1b'), "NO_COLOR must override CLICOLOR_FORCE");
}

const MISTAKES: [&[&str]; 15] = [
    &["show", "missing"],
    &["ps", "--status", "runing"],
    &["ps", "--store", "plain"],
    &["finish", "missing", "--code", "0"],
    &["finish", "x", "--code", "999"],
    &["restore", "nothing"],
    &["register", "--pid", "1", "--name", "bad\nname"],
    &["run", "--timeout", "5", "--", "true"],
    &["run"],
    &["stop"],
    &["wait"],
    &["wait", "missing"],
    &["logs"],
    &["rescue", "restore"],
    &["top"],
];

#[test]
fn errors_name_the_cause_and_a_hint() {
    let test_env = TestEnv::new();
    let mut settings = settings();
    settings.add_filter(r"linked in: [a-z, ]+", "linked in: [BACKENDS]");
    settings.bind(|| {
        for columns in ["80", "120"] {
            let outputs = |run: &dyn Fn(&[&str]) -> Ran| {
                let each = MISTAKES.iter().map(|arguments| {
                    format!("$ sexton {}\n{}", arguments.join(" "), run(arguments).shown(&test_env))
                });
                each.collect::<Vec<_>>().join("\n\n")
            };
            insta::assert_snapshot!(
                format!("errors_at_{columns}"),
                outputs(&|arguments| at(&test_env, columns, arguments))
            );
            insta::assert_snapshot!(
                format!("errors_at_{columns}_in_colour"),
                outputs(&|arguments| in_colour(&test_env, columns, arguments))
            );
        }
    });
}

#[test]
fn stop_without_a_name_lists_running_sessions() {
    let test_env = TestEnv::new();
    assert_eq!(test_env.sexton(&["stop"]).code, 2);
    assert!(!test_env.state_dir().exists(), "a refused command created the state directory");
    let agent = Bystander::start();
    test_env.ok(&["register", "--pid", &agent.pid(), "--name", "nightly"]);
    let ran = test_env.sexton(&["stop"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("running: nightly"), "{}", ran.stderr);
    assert!(
        ran.stderr.contains("hint: `sexton stop nightly` stops one, `sexton stop --all`"),
        "{}",
        ran.stderr
    );
    assert_eq!(test_env.record("nightly")["status"], "running");
}

#[test]
fn stop_all_succeeds_when_nothing_is_running() {
    let test_env = TestEnv::new();
    let ran = test_env.sexton(&["stop", "--all"]);
    assert_eq!((ran.code, ran.stderr.as_str()), (0, "no session is running\n"));
}

#[test]
fn without_arguments_the_help_is_shown() {
    let test_env = TestEnv::new();
    let ran = test_env.sexton(&[]);
    assert_eq!((ran.code, ran.stdout.as_str()), (2, ""));
    assert!(ran.stderr.contains("Usage: sexton") && ran.stderr.contains("sexton demo"), "{}", ran.stderr);
}

#[test]
fn times_are_local_in_text_and_utc_in_json() {
    let test_env = TestEnv::new();
    some_sessions(&test_env);
    let record = test_env.record("nightly");
    let created = record["created_at"].as_str().unwrap();
    assert!(created.ends_with('Z'), "{created}");
    let in_zone = |zone: &str| {
        let ran = Ran::of(&test_env.command(&["show", "nightly"]).env("TZ", zone).output().unwrap());
        let line =
            ran.stdout.lines().find(|line| line.trim_start().starts_with("created")).unwrap().to_owned();
        line.split_whitespace().skip(1).take(2).collect::<Vec<_>>().join(" ")
    };
    // `show` prints whole seconds.
    assert_eq!(in_zone("UTC"), created.replace('T', " ")[..19]);
    // UTC+05:30; POSIX writes the offset with the opposite sign.
    let moved = in_zone("XXX-5:30");
    let minutes = |text: &str| text[14..16].parse::<u32>().unwrap();
    assert_eq!((minutes(&moved) + 60 - minutes(created)) % 60, 30, "{moved} and {created}");
}

#[test]
fn json_is_the_only_thing_on_stdout() {
    let test_env = TestEnv::new();
    for command in
        [["ps"].as_slice(), &["config"], &["backends"], &["schema"], &["doctor"], &["backup", "--list"]]
    {
        test_env.json(command);
    }
}

#[test]
fn every_version_flag_prints_the_same() {
    let test_env = TestEnv::new();
    let version = format!("sexton {}", env!("CARGO_PKG_VERSION"));
    assert_eq!(
        [test_env.ok(&["--version"]), test_env.ok(&["-V"]), test_env.ok(&["--json", "--version"])],
        [(); 3].map(|()| version.clone())
    );
}

#[test]
fn completions_are_generated_for_every_shell() {
    let test_env = TestEnv::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        assert!(test_env.ok(&["completions", shell]).contains("sexton"), "{shell}");
    }
}

#[test]
fn help_shows_commands_and_exit_codes() {
    let test_env = TestEnv::new();
    for command in [&["ps"][..], &["rescue", "restore"], &[]] {
        let topic = [&["help"], command].concat();
        let option = [command, &["--help"]].concat();
        assert_eq!(test_env.ok(&topic), test_env.ok(&option));
    }
    let codes = test_env.json(&["help", "exit-codes"]);
    assert!(codes.as_array().unwrap().iter().any(|code| code["code"] == "122"), "{codes}");
    let unknown = test_env.sexton(&["help", "no-such-command"]);
    assert_eq!(unknown.code, 2);
    assert!(unknown.stderr.contains("hint: `sexton --help`"), "{}", unknown.stderr);
}

#[test]
fn an_unknown_worktree_cleaner_is_named() {
    let test_env = TestEnv::new().with_settings("worktree.cleaner = \"jj\"\n");
    let refused = test_env.sexton(&["recover"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("there is no worktree backend `jj`"), "{}", refused.stderr);
}
