//! Tests of layers, trust and configuration errors.

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
fn defaults_require_only_home() {
    let config = Config::resolve(&home()).unwrap();
    assert_eq!(config.state_dir.value, PathBuf::from("/home/ann/.local/state/sexton"));
    assert_eq!(config.store_url.value.0, "sqlite:/home/ann/.local/state/sexton/sessions.db");
    assert_eq!(config.state_dir.origin, Origin::Default);
}

#[test]
fn absolute_xdg_state_home_overrides_home() {
    let mut layers = home();
    layers.env.insert("XDG_STATE_HOME".into(), "/state".into());
    assert_eq!(Config::resolve(&layers).unwrap().state_dir.value, PathBuf::from("/state/sexton"));
    layers.env.insert("XDG_STATE_HOME".into(), "relative".into());
    let config = Config::resolve(&layers).unwrap();
    assert_eq!(config.state_dir.value, PathBuf::from("/home/ann/.local/state/sexton"));
}

#[test]
fn missing_home_error_names_the_variables() {
    assert!(error(&Layers::default()).contains("neither HOME nor XDG_STATE_HOME"));
}

#[test]
fn each_layer_overrides_the_previous_and_is_the_origin() {
    let mut layers = home();
    layers.user = Some(file("probe = \"user\""));
    assert_eq!(Config::resolve(&layers).unwrap().probe.value, "user");
    layers.repo = Some(repo("probe = \"repo\"", true));
    assert_eq!(Config::resolve(&layers).unwrap().probe.value, "repo");
    layers.env.insert("SEXTON_PROBE".into(), "env".into());
    assert_eq!(Config::resolve(&layers).unwrap().probe.value, "env");
    layers.flags.push(("probe", "--probe", "flag".into()));
    let probe = Config::resolve(&layers).unwrap().probe;
    assert_eq!((probe.value.as_str(), probe.origin), ("flag", Origin::Flag("--probe")));
}

#[test]
fn default_store_is_in_the_state_dir() {
    let mut layers = home();
    layers.flags.push(("state_dir", "--state-dir", "/elsewhere".into()));
    let config = Config::resolve(&layers).unwrap();
    assert_eq!(config.store_url.value.0, "sqlite:/elsewhere/sessions.db");
    assert_eq!(config.store_url.origin, Origin::Default);
}

/// The keys that a repository may set without trust, repeated on purpose: a key that is added to the program's
/// list must also be added here.
const WITHOUT_TRUST: [&str; 5] = [
    "ralph.sleep_between_tickets",
    "ralph.sleep_between_retries",
    "ralph.base",
    "ralph.capture_json",
    "ralph.promise",
];

/// Returns a TOML line with a valid value for every setting.
fn every_setting() -> Vec<(&'static str, String)> {
    let shown = Config::resolve(&home()).unwrap().shown();
    shown.into_iter().map(|shown| (shown.info.key, format!("{} = {}", shown.info.key, shown.value))).collect()
}

/// Returns the keys whose value comes from the repository, and the keys that were ignored.
fn set_and_ignored(layers: &Layers) -> (Vec<&'static str>, Vec<&'static str>) {
    let config = Config::resolve(layers).unwrap();
    let set = config.shown().into_iter().filter(|shown| shown.origin.starts_with("/repo/"));
    let ignored = config.ignored.iter().map(|ignored| ignored.key);
    (set.map(|shown| shown.info.key).collect(), ignored.collect())
}

#[test]
fn i11_untrusted_repository_may_set_only_five_keys() {
    let lines = every_setting();
    assert_eq!(lines.len(), Config::SETTINGS.len());
    for (key, line) in &lines {
        let layers = Layers { repo: Some(repo(line, false)), ..home() };
        let expected = if WITHOUT_TRUST.contains(key) { (vec![*key], vec![]) } else { (vec![], vec![*key]) };
        assert_eq!(set_and_ignored(&layers), expected, "{line}");
        let layers = Layers { repo: Some(repo(line, true)), ..home() };
        assert_eq!(set_and_ignored(&layers), (vec![*key], vec![]), "{line}, trusted");
    }
    let all: Vec<_> = lines.iter().map(|(_, line)| line.as_str()).collect();
    let layers = Layers { repo: Some(repo(&all.join("\n"), false)), ..home() };
    let (set, ignored) = set_and_ignored(&layers);
    assert_eq!(set, WITHOUT_TRUST);
    assert_eq!(ignored.len(), Config::SETTINGS.len() - WITHOUT_TRUST.len());
}

#[test]
fn i11_untrusted_foreign_file_may_also_set_retention_of_its_own_records() {
    let shown = Config::resolve(&home()).unwrap().shown();
    for one in shown {
        let key = one.info.key;
        // A flag cannot write a list as a whole, so its JSON is used.
        let text = one.value.as_str().map_or_else(|| one.value.to_string(), str::to_owned);
        for own_store in [false, true] {
            let values = vec![(key, text.clone())];
            let foreign =
                ForeignLayer { path: "/repo/config.json".into(), trusted: false, own_store, values };
            let layers = Layers { foreign: Some(foreign), ..home() };
            let of_records = own_store && ["retention.ttl", "recover.min_age"].contains(&key);
            let allowed = WITHOUT_TRUST.contains(&key) || of_records;
            let expected = if allowed { (vec![key], vec![]) } else { (vec![], vec![key]) };
            assert_eq!(set_and_ignored(&layers), expected, "{key}, its own store: {own_store}");
        }
    }
}

#[test]
fn i11_ignored_values_are_not_parsed() {
    let layers = Layers { repo: Some(repo("probe = 7\n[stop]\ngrace = [\"1s\"]", false)), ..home() };
    assert_eq!(set_and_ignored(&layers).1, ["probe", "stop.grace"]);
    assert!(error(&Layers { repo: Some(repo("probe = 7", true)), ..home() }).contains("`probe`"));
    assert!(error(&Layers { repo: Some(repo("prob = 7", false)), ..home() }).contains("unknown key"));
}

#[test]
fn i11_repository_cannot_choose_the_trust_directory() {
    let mut layers = home();
    layers.repo = Some(repo("state_dir = \"/tmp/theirs\"", true));
    let config = Config::resolve(&layers).unwrap();
    assert_eq!(config.state_dir.value, PathBuf::from("/tmp/theirs"));
    assert_eq!(config.trust_dir, PathBuf::from("/home/ann/.local/state/sexton"));
    layers.flags.push(("state_dir", "--state-dir", "/mine".into()));
    assert_eq!(Config::resolve(&layers).unwrap().trust_dir, PathBuf::from("/mine"));
}

#[test]
fn foreign_file_is_between_user_and_repository_layers() {
    let foreign = |trusted| {
        let values = vec![("retention.ttl", "1d".to_owned()), ("ralph.ticket_query", "list".to_owned())];
        Some(ForeignLayer { path: "/repo/config.json".into(), trusted, own_store: false, values })
    };
    let mut layers = Layers { user: Some(file("[retention]\nttl = \"2d\"")), ..home() };
    layers.foreign = foreign(false);
    let config = Config::resolve(&layers).unwrap();
    assert_eq!(config.retention_ttl.value, 2 * DAY);
    assert_eq!(config.ralph_ticket_query.value, OrAuto(None));
    let ignored: Vec<_> = config.ignored.iter().map(|ignored| ignored.key).collect();
    assert_eq!(ignored, ["retention.ttl", "ralph.ticket_query"]);

    layers.foreign = foreign(true);
    assert_eq!(Config::resolve(&layers).unwrap().retention_ttl.value, DAY);
    layers.repo = Some(repo("[retention]\nttl = \"3d\"", true));
    let config = Config::resolve(&layers).unwrap();
    assert_eq!(config.retention_ttl.value, 3 * DAY);
    assert_eq!(config.ralph_ticket_query.value, OrAuto(Some("list".to_owned())));
}

#[test]
fn unknown_key_error_suggests_the_nearest() {
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
fn bad_value_error_names_key_origin_and_expectation() {
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
fn error_in_file_is_found_even_if_a_flag_overrides_it() {
    let mut layers = Layers { user: Some(file("probe = 7")), ..home() };
    layers.flags.push(("probe", "--probe", "linux".into()));
    assert!(error(&layers).contains("`probe`"));
}

#[test]
fn invalid_toml_error_names_the_file() {
    assert_eq!(
        error(&Layers { user: Some(file("= nothing")), ..home() }),
        "/etc/sexton.toml: not valid TOML"
    );
}

#[test]
fn settings_are_shown_with_their_origin() {
    let shown = Config::resolve(&home()).unwrap().shown();
    let lines: Vec<_> = shown
        .iter()
        .map(|shown| format!("{} = {} ({})", shown.info.key, shown.value, shown.origin))
        .collect();
    insta::assert_snapshot!(lines.join("\n"));
}

#[test]
fn secret_is_never_shown_even_in_errors() {
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
fn untrusted_repository_cannot_extend_mcp_permissions() {
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
