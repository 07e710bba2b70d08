//! Completion as a shell asks for it: the real binary, in the shells that are there.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::os::unix::fs::symlink;
use std::process::Command;

use support::{Bystander, Ran, Yard, program};

/// What bash offers for the last of `words`.
fn in_bash(yard: &Yard, words: &[&str]) -> Vec<String> {
    let bin = yard.path().join("bin");
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
    yard.enclose(&mut bash);
    bash.env("PATH", format!("{}:{}", bin.display(), std::env::var("PATH").unwrap()));
    bash.args(["--norc", "--noprofile", "-c", script, "bash", "sexton"]).args(words);
    let ran = Ran::of(&bash.output().unwrap());
    assert_eq!(ran.code, 0, "{}{}", ran.stdout, ran.stderr);
    assert_eq!(ran.stderr, "", "a shell in the middle of a line shows no messages");
    ran.stdout.lines().filter(|line| !line.is_empty()).map(str::to_owned).collect()
}

#[test]
fn bash_completes_commands_sessions_and_words() {
    let yard = Yard::new();
    let (mut ended, running) = (Bystander::start(), Bystander::start());
    yard.ok(&["register", "--pid", &ended.pid(), "--name", "yesterday"]);
    ended.end();
    yard.ok(&["finish", "yesterday", "--code", "0"]);
    yard.ok(&["register", "--pid", &running.pid(), "--name", "today"]);
    let unnamed = Bystander::start();
    let id = yard.ok(&["register", "--pid", &unnamed.pid()]);

    assert_eq!(in_bash(&yard, &["resc"]), ["rescue"]);
    assert_eq!(in_bash(&yard, &["rescue", "res"]), ["restore"]);
    let shown = in_bash(&yard, &["show", ""]);
    for name in ["today", "yesterday", id.as_str()] {
        assert!(shown.contains(&name.to_owned()), "{name} is not among {shown:?}");
    }
    assert_eq!(in_bash(&yard, &["show", "yes"]), ["yesterday"]);
    assert_eq!(in_bash(&yard, &["logs", &id[..5]]), std::slice::from_ref(&id));
    let stopped = in_bash(&yard, &["stop", ""]);
    assert!(
        stopped.contains(&"today".to_owned()) && !stopped.contains(&"yesterday".to_owned()),
        "{stopped:?}"
    );
    assert_eq!(in_bash(&yard, &["wait", "today", "tod"]), ["today"], "more than one can be named");

    assert_eq!(in_bash(&yard, &["ps", "--status", "o"]), ["orphaned"]);
    assert_eq!(in_bash(&yard, &["--probe", "a"]), ["auto"]);
    assert_eq!(in_bash(&yard, &["stop", "--signal", "TE"]), ["TERM"]);
    let schemes = in_bash(&yard, &["--store", ""]);
    for store in support::stores() {
        assert!(schemes.contains(&format!("{store}:")), "{schemes:?}");
    }
}

#[test]
fn the_line_decides_which_store_is_asked() {
    let (here, there) = (Yard::new(), Yard::new());
    let agent = Bystander::start();
    there.ok(&["register", "--pid", &agent.pid(), "--name", "elsewhere"]);
    let url = there.store_url();
    assert_eq!(in_bash(&here, &["show", "else"]), Vec::<String>::new());
    assert_eq!(in_bash(&here, &["--store", &url, "show", "else"]), ["elsewhere"]);
}

/// The sessions that can be stopped; bash offers options where there is nothing else.
fn sessions(yard: &Yard) -> Vec<String> {
    in_bash(yard, &["stop", ""]).into_iter().filter(|word| !word.starts_with("--")).collect()
}

#[test]
fn completing_makes_nothing_and_says_nothing() {
    let yard = Yard::new();
    assert_eq!(sessions(&yard), Vec::<String>::new());
    assert!(!yard.state_dir().exists());
    std::fs::create_dir(yard.state_dir()).unwrap();
    std::fs::write(yard.store_path(), "not a store\n").unwrap();
    assert_eq!(sessions(&yard), Vec::<String>::new());
    assert_eq!(std::fs::read_to_string(yard.store_path()).unwrap(), "not a store\n");
}

#[test]
fn every_shell_gets_its_script() {
    let yard = Yard::new();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell", "/usr/bin/zsh"] {
        let ran = Ran::of(&yard.command(&[]).env("COMPLETE", shell).output().unwrap());
        assert_eq!(ran.code, 0, "{shell}: {}", ran.stderr);
        assert!(ran.stdout.contains("sexton") && ran.stdout.contains("COMPLETE"), "{shell}: {}", ran.stdout);
    }
}

#[test]
fn a_variable_that_means_something_else_changes_nothing() {
    let yard = Yard::new();
    for value in ["1", "true", "", "0", "nushell"] {
        let ran = Ran::of(&yard.command(&["ps"]).env("COMPLETE", value).output().unwrap());
        assert_eq!((ran.code, ran.stdout.as_str()), (0, ""), "{value}: {}", ran.stderr);
    }
}
