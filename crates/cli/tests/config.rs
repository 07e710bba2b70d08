//! Settings: where they come from, what a repository may set, and how mistakes are told.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use support::Yard;

#[test]
fn each_value_says_where_it_came_from() {
    let yard = Yard::new().with_settings("[stop]\ngrace = \"7s\"\n");
    let shown = yard.json(&["config", "--probe", "auto"]);
    assert_eq!(shown["stop.grace"]["value"], "7s");
    assert!(shown["stop.grace"]["origin"].as_str().unwrap().ends_with("config/sexton/config.toml"));
    assert_eq!(shown["store.url"]["origin"], "$SEXTON_STORE");
    assert_eq!(shown["probe"]["origin"], "--probe");
    assert_eq!(shown["backup.keep"]["origin"], "default");
}

#[test]
fn an_unknown_key_and_a_bad_value_stop_every_command_that_reads_settings() {
    let yard = Yard::new().with_settings("stop.gracee = \"7s\"\n");
    let ran = yard.sexton(&["ps"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("unknown key `stop.gracee` (did you mean `stop.grace`?)"), "{}", ran.stderr);
    let yard = Yard::new().with_settings("stop.grace = \"7\"\n");
    let ran = yard.sexton(&["ps"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("must be a duration"), "{}", ran.stderr);
    assert_eq!(yard.sexton(&["backends"]).code, 0, "a broken configuration stops what does not need it");
}

#[test]
fn a_cloned_repository_sets_nothing_that_could_do_harm_until_it_is_trusted() {
    let yard = Yard::new();
    let repo = yard.work_dir();
    std::fs::create_dir(repo.join(".git")).unwrap();
    let theirs = yard.path().join("theirs");
    let text = format!("state_dir = \"{}\"\nstop.grace = \"9s\"\n", theirs.display());
    std::fs::write(repo.join(".sexton.toml"), &text).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = yard.command(arguments);
        command.env_remove("SEXTON_STATE_DIR").env_remove("SEXTON_STORE");
        support::Ran::of(&command.output().unwrap())
    };
    let config = |ran: &support::Ran| serde_json::from_str::<serde_json::Value>(&ran.stdout).unwrap();
    let before = run(&["config", "--json"]);
    assert_eq!(config(&before)["state_dir"]["origin"], "default");
    assert_eq!(config(&before)["stop.grace"]["value"], "9s");
    assert!(before.stderr.contains("`state_dir` is ignored"), "{}", before.stderr);
    assert!(before.stderr.contains("sexton trust"), "{}", before.stderr);

    assert_eq!(run(&["trust"]).code, 0);
    let trusted = run(&["config", "--json"]);
    assert_eq!(config(&trusted)["state_dir"]["value"], theirs.display().to_string());
    assert_eq!(trusted.stderr, "");

    std::fs::write(repo.join(".sexton.toml"), format!("{text}probe = \"auto\"\n")).unwrap();
    assert_eq!(
        config(&run(&["config", "--json"]))["state_dir"]["origin"],
        "default",
        "a changed file is trusted"
    );
}

#[test]
fn trust_without_a_file_says_so() {
    let yard = Yard::new();
    let ran = yard.sexton(&["trust"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("there is no .sexton.toml"), "{}", ran.stderr);
}
