//! Settings: their origin, what a repository may set, and how mistakes are reported.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use support::TestEnv;

#[test]
fn config_shows_the_origin_of_each_value() {
    let test_env = TestEnv::new().with_settings("[stop]\ngrace = \"7s\"\n");
    let shown = test_env.json(&["config", "--probe", "auto"]);
    assert_eq!(shown["stop.grace"]["value"], "7s");
    assert!(shown["stop.grace"]["origin"].as_str().unwrap().ends_with("config/sexton/config.toml"));
    assert_eq!(shown["store.url"]["origin"], "$SEXTON_STORE");
    assert_eq!(shown["probe"]["origin"], "--probe");
    assert_eq!(shown["backup.keep"]["origin"], "default");
}

#[test]
fn an_unknown_key_or_an_invalid_value_stops_commands_that_read_settings() {
    let test_env = TestEnv::new().with_settings("stop.gracee = \"7s\"\n");
    let ran = test_env.sexton(&["ps"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("unknown key `stop.gracee` (did you mean `stop.grace`?)"), "{}", ran.stderr);
    let test_env = TestEnv::new().with_settings("stop.grace = \"7\"\n");
    let ran = test_env.sexton(&["ps"]);
    assert_eq!(ran.code, 2);
    assert!(ran.stderr.contains("must be a duration"), "{}", ran.stderr);
    assert_eq!(
        test_env.sexton(&["backends"]).code,
        0,
        "a broken configuration stopped a command that does not need it"
    );
}

#[test]
fn an_untrusted_repository_cannot_change_safety_settings() {
    let test_env = TestEnv::new();
    let repo = test_env.work_dir();
    std::fs::create_dir(repo.join(".git")).unwrap();
    let theirs = test_env.path().join("theirs");
    let text = format!("state_dir = \"{}\"\nstop.grace = \"9s\"\n", theirs.display());
    std::fs::write(repo.join(".sexton.toml"), &text).unwrap();
    let run = |arguments: &[&str]| {
        let mut command = test_env.command(arguments);
        command.env_remove("SEXTON_STATE_DIR").env_remove("SEXTON_STORE");
        support::Ran::of(&command.output().unwrap())
    };
    let config = |ran: &support::Ran| serde_json::from_str::<serde_json::Value>(&ran.stdout).unwrap();
    let before = run(&["config", "--json"]);
    assert_eq!(config(&before)["state_dir"]["origin"], "default");
    assert_eq!(config(&before)["stop.grace"]["origin"], "default");
    for key in ["state_dir", "stop.grace"] {
        assert!(before.stderr.contains(&format!("`{key}` is ignored")), "{}", before.stderr);
    }
    assert!(before.stderr.contains("sexton trust"), "{}", before.stderr);

    assert_eq!(run(&["trust"]).code, 0);
    let trusted = run(&["config", "--json"]);
    assert_eq!(config(&trusted)["state_dir"]["value"], theirs.display().to_string());
    assert_eq!(config(&trusted)["stop.grace"]["value"], "9s");
    assert_eq!(trusted.stderr, "");

    std::fs::write(repo.join(".sexton.toml"), format!("{text}probe = \"auto\"\n")).unwrap();
    assert_eq!(
        config(&run(&["config", "--json"]))["state_dir"]["origin"],
        "default",
        "a changed file is still trusted"
    );
}

#[test]
fn trust_without_a_file_is_an_error() {
    let test_env = TestEnv::new();
    let ran = test_env.sexton(&["trust"]);
    assert_eq!(ran.code, 1);
    assert!(ran.stderr.contains("no .sexton.toml or"), "{}", ran.stderr);
}

#[test]
fn i11_the_configuration_page_states_for_every_setting_whether_it_needs_trust() {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/configuration.md");
    let page = std::fs::read_to_string(page).unwrap();
    for info in sexton_core::config::Config::SETTINGS {
        let row = page.lines().find(|line| line.starts_with(&format!("| `{}` |", info.key)));
        let row = row.unwrap_or_else(|| panic!("{} is not on the page", info.key));
        assert_eq!(row.contains(" | yes | "), info.needs_trust(), "{row}");
    }
}
