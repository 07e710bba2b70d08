//! The layers, the trust rule, and the errors of a configuration.

use super::super::{FileLayer, ForeignLayer, Origin, RepoLayer};
use super::*;

fn home() -> Layers {
    Layers {
        env: [("HOME".to_owned(), "/home/ann".to_owned())].into(),
        default_store: ("sqlite", "sessions.db"),
        ..Layers::default()
    }
}

fn file(text: &str) -> FileLayer {
    FileLayer { path: "/etc/sexton.toml".into(), text: text.to_owned() }
}

fn repo(text: &str, trusted: bool) -> RepoLayer {
    RepoLayer { file: FileLayer { path: "/repo/.sexton.toml".into(), text: text.to_owned() }, trusted }
}

fn error(layers: &Layers) -> String {
    Config::resolve(layers).unwrap_err().to_string()
}

#[test]
fn the_defaults_need_nothing_but_a_home() {
    let config = Config::resolve(&home()).unwrap();
    assert_eq!(config.state_dir.value, PathBuf::from("/home/ann/.local/state/sexton"));
    assert_eq!(config.store_url.value.0, "sqlite:/home/ann/.local/state/sexton/sessions.db");
    assert_eq!(config.state_dir.origin, Origin::Default);
}

#[test]
fn xdg_state_home_beats_home_where_it_is_absolute() {
    let mut layers = home();
    layers.env.insert("XDG_STATE_HOME".into(), "/state".into());
    assert_eq!(Config::resolve(&layers).unwrap().state_dir.value, PathBuf::from("/state/sexton"));
    layers.env.insert("XDG_STATE_HOME".into(), "relative".into());
    let config = Config::resolve(&layers).unwrap();
    assert_eq!(config.state_dir.value, PathBuf::from("/home/ann/.local/state/sexton"));
}

#[test]
fn without_a_home_the_error_says_what_is_missing() {
    assert!(error(&Layers::default()).contains("neither HOME nor XDG_STATE_HOME"));
}

#[test]
fn each_layer_beats_the_one_before_and_is_named_as_the_origin() {
    let mut layers = home();
    layers.user = Some(file("probe = \"user\""));
    assert_eq!(Config::resolve(&layers).unwrap().probe.value, "user");
    layers.repo = Some(repo("probe = \"repo\"", false));
    assert_eq!(Config::resolve(&layers).unwrap().probe.value, "repo");
    layers.env.insert("SEXTON_PROBE".into(), "env".into());
    assert_eq!(Config::resolve(&layers).unwrap().probe.value, "env");
    layers.flags.push(("probe", "--probe", "flag".into()));
    let probe = Config::resolve(&layers).unwrap().probe;
    assert_eq!((probe.value.as_str(), probe.origin), ("flag", Origin::Flag("--probe")));
}

#[test]
fn the_default_store_lies_in_the_state_dir_wherever_that_is() {
    let mut layers = home();
    layers.flags.push(("state_dir", "--state-dir", "/elsewhere".into()));
    let config = Config::resolve(&layers).unwrap();
    assert_eq!(config.store_url.value.0, "sqlite:/elsewhere/sessions.db");
    assert_eq!(config.store_url.origin, Origin::Default);
}

#[test]
fn an_untrusted_repository_sets_only_what_is_harmless() {
    let mut layers = home();
    let text = "state_dir = \"/tmp/theirs\"\nprobe = \"portable\"\n[store]\nurl = \"json:/tmp/x\"\n";
    layers.repo = Some(repo(text, false));
    let config = Config::resolve(&layers).unwrap();
    assert_eq!(config.store_url.origin, Origin::Default);
    assert_eq!(config.state_dir.origin, Origin::Default);
    assert_eq!(config.probe.value, "portable");
    let ignored: Vec<_> = config.ignored.iter().map(|ignored| ignored.key).collect();
    assert_eq!(ignored, ["state_dir", "store.url"]);

    layers.repo = Some(repo(text, true));
    let config = Config::resolve(&layers).unwrap();
    assert_eq!(config.store_url.value.0, "json:/tmp/x");
    assert_eq!(config.ignored, []);
}

#[test]
fn another_tools_file_stands_between_the_user_and_the_repository() {
    let foreign = |trusted| {
        let values = vec![("retention.ttl", "1d".to_owned()), ("ralph.ticket_query", "list".to_owned())];
        Some(ForeignLayer { path: "/repo/config.json".into(), trusted, values })
    };
    let mut layers = Layers { user: Some(file("[retention]\nttl = \"2d\"")), ..home() };
    layers.foreign = foreign(false);
    let config = Config::resolve(&layers).unwrap();
    assert_eq!(config.retention_ttl.value, DAY);
    assert_eq!(config.ralph_ticket_query.value, OrAuto(None));
    let ignored: Vec<_> = config.ignored.iter().map(|ignored| ignored.key).collect();
    assert_eq!(ignored, ["ralph.ticket_query"]);

    layers.foreign = foreign(true);
    layers.repo = Some(repo("[retention]\nttl = \"3d\"", false));
    let config = Config::resolve(&layers).unwrap();
    assert_eq!(config.retention_ttl.value, 3 * DAY);
    assert_eq!(config.ralph_ticket_query.value, OrAuto(Some("list".to_owned())));
}

#[test]
fn an_unknown_key_names_the_nearest_one() {
    let unknown = |text| error(&Layers { user: Some(file(text)), ..home() });
    assert_eq!(unknown("prob = 1"), "/etc/sexton.toml: unknown key `prob` (did you mean `probe`?)");
    assert_eq!(
        unknown("[store]\ndurabilty = 1"),
        "/etc/sexton.toml: unknown key `store.durabilty` (did you mean `store.durability`?)"
    );
    assert_eq!(
        unknown("durability = \"power\""),
        "/etc/sexton.toml: unknown key `durability` (did you mean `store.durability`?)"
    );
    assert_eq!(unknown("[zzz]\nq = 1"), "/etc/sexton.toml: unknown key `zzz`");
}

#[test]
fn a_bad_value_names_its_key_its_place_and_what_was_expected() {
    let layers = Layers { user: Some(file("[store]\ndurability = \"maybe\"")), ..home() };
    assert_eq!(
        error(&layers),
        "/etc/sexton.toml: `store.durability` is `\"maybe\"` but must be `power` or `process`"
    );
    let mut layers = home();
    layers.env.insert("SEXTON_STATE_DIR".into(), "here".into());
    assert_eq!(error(&layers), "$SEXTON_STATE_DIR: `state_dir` is `here` but must be an absolute path");
    layers = Layers { user: Some(file("[backup]\nkeep = -1")), ..home() };
    assert_eq!(error(&layers), "/etc/sexton.toml: `backup.keep` is `-1` but must be a whole number");
}

#[test]
fn a_mistake_in_a_file_is_found_even_where_a_flag_covers_it() {
    let mut layers = Layers { user: Some(file("probe = 7")), ..home() };
    layers.flags.push(("probe", "--probe", "linux".into()));
    assert!(error(&layers).contains("`probe`"));
}

#[test]
fn broken_toml_names_its_file() {
    assert_eq!(
        error(&Layers { user: Some(file("= nothing")), ..home() }),
        "/etc/sexton.toml: not valid TOML"
    );
}

#[test]
fn every_setting_is_shown_once_with_its_origin() {
    let shown = Config::resolve(&home()).unwrap().shown();
    let lines: Vec<_> = shown
        .iter()
        .map(|shown| format!("{} = {} ({})", shown.info.key, shown.value, shown.origin))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn a_secret_is_shown_nowhere_not_even_in_the_error_that_refuses_it() {
    let mut layers = home();
    layers.user = Some(file("mcp.token = \"open-sesame-open-sesame\""));
    let config = Config::resolve(&layers).unwrap();
    assert_eq!(config.mcp_token.value.0.as_ref().unwrap().reveal(), "open-sesame-open-sesame");
    let shown = config.shown().into_iter().find(|shown| shown.info.key == "mcp.token").unwrap();
    assert_eq!(shown.value, "set");
    assert!(!format!("{config:?}").contains("sesame"));
    for bad in ["\"sesame\"", "\"open sesame open sesame\"", "[\"open-sesame-open-sesame\"]"] {
        layers.user = Some(file(&format!("mcp.token = {bad}")));
        let complaint = error(&layers);
        assert!(complaint.contains("`mcp.token`") && !complaint.contains("sesame"), "{complaint}");
    }
}

#[test]
fn an_untrusted_repository_cannot_widen_what_the_mcp_server_may_do() {
    let mut layers = home();
    let wish = "[mcp]\nallow = [\"*\"]\ndeny = []\ntoken = \"off\"\nhosts = [\"evil.example\"]";
    layers.repo = Some(repo(wish, false));
    let config = Config::resolve(&layers).unwrap();
    assert!(config.mcp_allow.value.0.is_empty() && config.mcp_hosts.value.0.is_empty());
    let ignored: Vec<_> = config.ignored.iter().map(|ignored| ignored.key).collect();
    assert_eq!(ignored, ["mcp.allow", "mcp.deny", "mcp.token", "mcp.hosts"]);
    layers.repo = Some(repo(wish, true));
    assert_eq!(Config::resolve(&layers).unwrap().mcp_allow.value.0, ["*"]);
}
