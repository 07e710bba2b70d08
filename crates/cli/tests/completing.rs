//! Shell completion, with the real binary in bash.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::os::unix::fs::symlink;
use std::process::Command;

use support::{Bystander, Ran, TestEnv, program};

/// Returns the completions that bash offers for the last of `words`.
fn in_bash(test_env: &TestEnv, words: &[&str]) -> Vec<String> {
    let bin = test_env.path().join("bin");
    if !bin.exists() {
        std::fs::create_dir(&bin).unwrap();
        symlink(program(), bin.join("sexton")).unwrap();
    }
    let script = r#"
        source <(COMPLETE=bash sexton)
        COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); COMP_TYPE=9; COMP_LINE="$*"; COMP_POINT=${#COMP_LINE}
        complete -p sexton | grep -q _clap_complete_sexton || exit 9
        _clap_complete_sexton sexton "${COMP_WORDS[COMP_CWORD]}" "${COMP_WORDS[COMP_CWORD-1]}"
        printf '%s\n' "${COMPREPLY[@]}""#;
    let mut bash = Command::new("bash");
    test_env.enclose(&mut bash);
    bash.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    bash.args(["--norc", "--noprofile", "-c", script, "bash", "sexton"]).args(words);
    let ran = Ran::of(&bash.output().unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.stderr, "", "completion must print no messages");
    ran.stdout.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_sessions_and_words() {
    let test_env = TestEnv::new();
    let (mut ended, running) = (Bystander::start(), Bystander::start());
    test_env.ok(&["register", "--pid", &ended.pid(), "--name", "yesterday"]);
    ended.end();
    test_env.ok(&["finish", "yesterday", "--code", "0"]);
    test_env.ok(&["register", "--pid", &running.pid(), "--name", "today"]);
    let unnamed = Bystander::start();
    let id = test_env.ok(&["register", "--pid", &unnamed.pid()]);

    assert_eq!(in_bash(&test_env, &["resc"]), ["rescue"]);
    assert_eq!(in_bash(&test_env, &["rescue", "res"]), ["restore"]);
    let shown = in_bash(&test_env, &["show", ""]);
    for name in ["today", "yesterday", id.as_str()] {
        assert!(shown.contains(&name.to_owned()), "{name} is not among {shown:?}");
    }
    assert_eq!(in_bash(&test_env, &["show", "yes"]), ["yesterday"]);
    assert_eq!(in_bash(&test_env, &["logs", &id[..5]]), std::slice::from_ref(&id));
    let stopped = in_bash(&test_env, &["stop", ""]);
    assert!(
        stopped.contains(&"today".to_owned()) && !stopped.contains(&"yesterday".to_owned()),
        "{stopped:?}"
    );
    assert_eq!(
        in_bash(&test_env, &["wait", "today", "tod"]),
        ["today"],
        "a second session must be completed"
    );

    assert_eq!(in_bash(&test_env, &["ps", "--status", "o"]), ["orphaned"]);
    assert_eq!(in_bash(&test_env, &["--probe", "a"]), ["auto"]);
    assert_eq!(in_bash(&test_env, &["stop", "--signal", "TE"]), ["TERM"]);
    let schemes = in_bash(&test_env, &["--store", ""]);
    for store in support::stores() {
        assert!(schemes.contains(&format!("{store}:")), "{schemes:?}");
    }
}

#[test]
fn completion_uses_the_store_of_the_command_line() {
    let (here, there) = (TestEnv::new(), TestEnv::new());
    let agent = Bystander::start();
    there.ok(&["register", "--pid", &agent.pid(), "--name", "elsewhere"]);
    let url = there.store_url();
    assert_eq!(in_bash(&here, &["show", "else"]), Vec::<String>::new());
    assert_eq!(in_bash(&here, &["--store", &url, "show", "else"]), ["elsewhere"]);
}

/// Returns the sessions offered for `stop`, without the options that bash offers if there are no sessions.
fn sessions(test_env: &TestEnv) -> Vec<String> {
    in_bash(test_env, &["stop", ""]).into_iter().filter(|word| !word.starts_with("--")).collect()
}

#[test]
fn completion_creates_nothing_and_prints_no_messages() {
    let test_env = TestEnv::new();
    assert_eq!(sessions(&test_env), Vec::<String>::new());
    assert!(!test_env.state_dir().exists());
    std::fs::create_dir(test_env.state_dir()).unwrap();
    std::fs::write(test_env.store_path(), "not a store\n").unwrap();
    assert_eq!(sessions(&test_env), Vec::<String>::new());
    assert_eq!(std::fs::read_to_string(test_env.store_path()).unwrap(), "not a store\n");
}

#[test]
fn every_shell_gets_its_script() {
    let test_env = TestEnv::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell", "/usr/bin/zsh"] {
        let ran = Ran::of(&test_env.command(&[]).env("COMPLETE", shell).output().unwrap());
        assert_eq!(ran.code, 0, "{shell}: {}", ran.stderr);
        assert!(ran.stdout.contains("sexton") && ran.stdout.contains("COMPLETE"), "{shell}: {}", ran.stdout);
    }
}

#[test]
fn other_values_of_complete_are_ignored() {
    let test_env = TestEnv::new();
    for value in ["1", "true", "", "0", "nushell"] {
        let ran = Ran::of(&test_env.command(&["ps"]).env("COMPLETE", value).output().unwrap());
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{value}: {}", ran.stderr);
    }
}
