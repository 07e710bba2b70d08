//! Text from other sources: the kernel's data about processes, configuration, and arguments of the command
//! line.
//!
//! The first letter selects the format: `p` a /proc/PID/stat, `u` a status, `e` an environ, `m` a mountinfo
//! and a cgroup with an empty line between them, `c` a configuration in TOML, `r` a .tf/ralph/config.json,
//! `w` a word.
#![no_main]

use std::path::Path;

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use sexton_core::config::{
    ByteSize, Config, FileLayer, ForeignLayer, Layers, Origin, RepoLayer, SettingValue,
};
use sexton_core::duration::{format_age, format_duration, parse_duration};
use sexton_core::plugin::Registry;
use sexton_core::store::LockName;
use sexton_core::{SessionId, Status, Time};
use sexton_fuzz::split_kind;
use sexton_proc_linux::fuzzing as proc;
use sexton_ralph::{Settings, Ticket, ticketflow};
use {sexton_store_json as _, sexton_store_omx as _, sexton_store_sqlite as _, sexton_store_tf as _};

fuzz_target!(|input: &[u8]| {
    let Some((kind, input)) = split_kind(input) else { return };
    match (kind, str::from_utf8(input)) {
        (b'p', _) => proc::stat(input),
        (b'u', _) => proc::status(input),
        (b'e', _) => proc::environment(input),
        (b'm', _) => proc::place(input),
        (b'c', Ok(text)) => configure(text),
        (b'r', Ok(text)) => configure_loop(text),
        (_, Ok(word)) => read_word(word),
        (_, Err(_)) => {}
    }
});

/// Requires that what `sexton config` shows can be read back with the same meaning, and that an untrusted
/// repository sets nothing that needs trust.
fn configure(text: &str) {
    let file = || FileLayer { path: "/c.toml".into(), text: text.to_owned() };
    let user = Layers { user: Some(file()), ..layers() };
    if let Ok(config) = Config::resolve(&user) {
        require_same(&config);
        let _ = Settings::from_config(&config);
    }
    let repo = RepoLayer { file: file(), trusted: false };
    if let Ok(config) = Config::resolve(&Layers { repo: Some(repo), ..layers() }) {
        require_no_trust(&config);
    }
}

fn configure_loop(text: &str) {
    for trusted in [true, false] {
        let Ok(read) = ticketflow::read(text, Path::new("/repo"), trusted) else { return };
        let path = "/repo/.tf/ralph/config.json".into();
        let foreign = ForeignLayer { path, trusted, own_store: false, values: read.values };
        let config = Config::resolve(&Layers { foreign: Some(foreign), ..layers() });
        // A bad value is replaced by its default and reported: the result is always valid.
        let config = config.unwrap_or_else(|error| panic!("{error}: {text}"));
        require_same(&config);
        let _ = Settings::from_config(&config);
        if !trusted {
            require_no_trust(&config);
        }
    }
}

fn layers() -> Layers {
    Layers {
        env: [("HOME".to_owned(), "/home/ann".to_owned())].into(),
        default_store: ("sqlite", "s.db"),
        ..Layers::default()
    }
}

fn require_same(config: &Config) {
    let shown = config.shown();
    let flags = shown.iter().filter(|one| one.origin != Origin::Default.to_string()).filter_map(|one| {
        match &one.value {
            // A secret is not shown, and a list cannot be a flag.
            Value::String(text) if text != "set" => Some((one.info.key, "--flag", text.clone())),
            Value::Number(number) => Some((one.info.key, "--flag", number.to_string())),
            _ => None,
        }
    });
    let flags: Vec<_> = flags.collect();
    let again = Config::resolve(&Layers { flags: flags.clone(), ..layers() });
    let again = again.unwrap_or_else(|error| panic!("what is shown is refused: {error}")).shown();
    for (key, _, text) in flags {
        let value = |shown: &[sexton_core::config::ShownSetting]| {
            shown.iter().find(|one| one.info.key == key).map(|one| one.value.clone())
        };
        assert_eq!(value(&again), value(&shown), "{key} = {text}");
    }
}

fn require_no_trust(config: &Config) {
    for one in config.shown().iter().filter(|one| one.info.needs_trust()) {
        assert_eq!(one.origin, Origin::Default.to_string(), "{} was set without trust", one.info.key);
    }
}

/// Tries every kind of word: an accepted one is written so that it means the same, and is a valid file name
/// if needed.
fn read_word(word: &str) {
    if let Ok(id) = word.parse::<SessionId>() {
        assert_eq!(id.to_string(), word);
        require_file_name(word);
    }
    if let Ok(ticket) = word.parse::<Ticket>() {
        require_file_name(ticket.as_str());
        assert!(!word.starts_with(['-', '.']) && !word.contains("..") && !ticket.branch().ends_with(".lock"));
    }
    if LockName::new(word).is_ok() {
        require_file_name(word);
    }
    if let Ok(duration) = parse_duration(word) {
        assert_eq!(parse_duration(&format_duration(duration)), Ok(duration), "{word}");
        let _ = format_age(duration);
        if let Ok(time) = "2026-11-16T03:15:00Z".parse::<Time>() {
            assert!(time.saturating_sub(duration) <= time && time <= time.saturating_add(duration));
        }
    }
    if let Some(size) = ByteSize::from_text(word) {
        let shown = size.to_json();
        assert_eq!(shown.as_str().and_then(ByteSize::from_text), Some(size), "{word}");
    }
    if let Ok(time) = word.parse::<Time>() {
        assert_eq!(time.to_string().parse::<Time>().ok(), Some(time), "{word}");
        let _ = (time.as_nanoseconds(), time.age_at(time.saturating_add(std::time::Duration::MAX)));
    }
    if let Ok(status) = word.parse::<Status>() {
        assert_eq!(status.to_string(), word);
    }
    let registry = Registry::linked().expect("every backend has its own name");
    if let Ok((plugin, path)) = registry.require_store(word) {
        assert_eq!(format!("{}:{}", plugin.name, path.display()), word);
    }
}

fn require_file_name(word: &str) {
    let mut parts = Path::new(word).components();
    assert!(
        matches!((parts.next(), parts.next()), (Some(std::path::Component::Normal(part)), None) if part == word),
        "{word:?} is not a file name"
    );
    assert!(!word.contains(['\0', '\n']) && word.len() <= 255);
}
