//! Converts `.tf/ralph/config.json`, the configuration of the loop that this one replaces, to Sexton's settings.

use std::path::Path;

use serde_json::{Map, Value};

use crate::settings::{TK_FIRST, TK_LEFT};

/// Path of the file, relative to the repository.
pub const FILE: &str = ".tf/ralph/config.json";

/// Path of that loop's records, relative to the repository.
pub const RECORDS: &str = ".tf/ralph/dispatch-sessions.json";

/// The variable that made old versions of that loop manage the sessions of its agent.
pub const LEGACY_VARIABLE: &str = "RALPH_FORCE_LEGACY_SESSIONS";

/// Keys with the same former effect as that variable.
const DEPRECATED: [&str; 2] = ["sessionDir", "sessionPerTicket"];

/// The contents of the file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Ticketflow {
    /// Sexton's keys and values, written as for a flag.
    pub values: Vec<(&'static str, String)>,
    /// Warnings for the user.
    pub warnings: Vec<String>,
}

/// Why the file cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum TicketflowError {
    /// It is not JSON.
    #[error("not valid JSON")]
    Syntax(#[from] serde_json::Error),
    /// It is not an object.
    #[error("not a JSON object")]
    NotAnObject,
}

/// Type of a value in the file.
#[derive(Clone, Copy)]
enum Kind {
    /// A whole number.
    Count,
    /// A number of milliseconds.
    Milliseconds,
    /// A number of milliseconds, where 0 means no limit.
    MillisecondsOrNone,
    /// A string that is not empty.
    Text,
    /// A string that may be empty.
    TextOrNone,
    /// A retention time in milliseconds, where 0 means forever.
    MillisecondsOrForever,
    /// `true` for on, `false` for off.
    Switch,
    /// `true` for the default promise, `false` for none.
    Promise,
    /// A directory, relative to the repository.
    Directory,
}

/// A key of the file, Sexton's key, and the default in the file's loop.
struct Key {
    theirs: &'static str,
    ours: &'static str,
    kind: Kind,
    default: &'static str,
}

const fn key(theirs: &'static str, ours: &'static str, kind: Kind, default: &'static str) -> Key {
    Key { theirs, ours, kind, default }
}

const KEYS: [Key; 16] = [
    key("maxIterations", "ralph.max_iterations", Kind::Count, "50"),
    key("maxIterationsPerTicket", "ralph.max_iterations_per_ticket", Kind::Count, "5"),
    key("ticketQuery", "ralph.ticket_query", Kind::Text, "auto"),
    key("completionCheck", "ralph.completion_check", Kind::Text, "auto"),
    key("workflow", "ralph.workflow", Kind::Text, "/tf"),
    key("workflowFlags", "ralph.workflow_flags", Kind::TextOrNone, "--auto"),
    key("sleepBetweenTickets", "ralph.sleep_between_tickets", Kind::Milliseconds, "5000ms"),
    key("sleepBetweenRetries", "ralph.sleep_between_retries", Kind::Milliseconds, "10000ms"),
    key("promiseOnComplete", "ralph.promise", Kind::Promise, PROMISE),
    key("parallelWorktreesDir", WORKTREES, Kind::Directory, WORKTREES_DEFAULT),
    key("parallelDispatchTimeoutMs", "ralph.dispatch_timeout", Kind::MillisecondsOrNone, "1800000ms"),
    key("attemptTimeoutMs", "ralph.attempt_timeout", Kind::MillisecondsOrNone, "600000ms"),
    key("maxRestarts", "ralph.max_restarts", Kind::Count, "2"),
    key("captureJson", "ralph.capture_json", Kind::Switch, "off"),
    key("sessionTtlMs", "retention.ttl", Kind::MillisecondsOrForever, "604800000ms"),
    key("orphanGracePeriodMs", "recover.min_age", Kind::Milliseconds, "0ms"),
];

/// Stands for the file's retention time of 0, which means forever.
const FOREVER: &str = "36500d";

const PROMISE: &str = "<promise>COMPLETE</promise>";
const WORKTREES: &str = "ralph.worktrees";
const WORKTREES_DEFAULT: &str = ".tf/ralph/worktrees";

/// Reads the file of the repository at `root`. An invalid value is replaced by its default with a warning. If the
/// repository is `trusted`, worktrees are placed where that loop placed them.
pub fn read(text: &str, root: &Path, trusted: bool) -> Result<Ticketflow, TicketflowError> {
    let Value::Object(file) = serde_json::from_str(text)? else { return Err(TicketflowError::NotAnObject) };
    let mut read = Ticketflow::default();
    for key in &KEYS {
        match file.get(key.theirs) {
            None if key.ours == WORKTREES && trusted => read.set(key, key.default, root),
            None => {}
            Some(value) => match key.kind.translate(value) {
                Some(text) => read.set(key, &text, root),
                None => {
                    read.warnings.push(key.warning(value));
                    read.set(key, key.default, root);
                }
            },
        }
    }
    read.warn_of_deprecated(&file);
    Ok(read)
}

/// Returns the file's name of Sexton's key `ours`.
pub fn name_of(ours: &str) -> Option<&'static str> {
    KEYS.iter().find(|key| key.ours == ours).map(|key| key.theirs)
}

/// Returns the warning for users of [`LEGACY_VARIABLE`].
pub fn legacy_warning() -> String {
    deprecated(LEGACY_VARIABLE)
}

fn deprecated(name: &str) -> String {
    format!("`{name}` is deprecated and has no effect: the agent manages its sessions")
}

impl Ticketflow {
    fn set(&mut self, key: &Key, text: &str, root: &Path) {
        let text = match key.kind {
            Kind::Directory => root.join(text).display().to_string(),
            _ => text.to_owned(),
        };
        self.values.push((key.ours, text));
    }

    fn warn_of_deprecated(&mut self, file: &Map<String, Value>) {
        let found = DEPRECATED.into_iter().filter(|key| file.contains_key(*key));
        self.warnings.extend(found.map(deprecated));
    }
}

impl Key {
    fn warning(&self, value: &Value) -> String {
        let expected = match self.kind {
            Kind::Count => "a whole number",
            Kind::Milliseconds | Kind::MillisecondsOrNone | Kind::MillisecondsOrForever => {
                "a whole number of milliseconds"
            }
            Kind::Text => "a string",
            Kind::TextOrNone => "a string, which may be empty",
            Kind::Switch | Kind::Promise => "`true` or `false`",
            Kind::Directory => "a directory",
        };
        let default = match self.kind {
            Kind::Milliseconds | Kind::MillisecondsOrNone | Kind::MillisecondsOrForever => {
                self.default.trim_end_matches("ms")
            }
            Kind::Promise => "true",
            Kind::Switch => "false",
            _ if self.theirs == "ticketQuery" => TK_FIRST,
            _ if self.theirs == "completionCheck" => TK_LEFT,
            _ => self.default,
        };
        format!("`{}` is `{value}` but must be {expected}; its default is used: {default}", self.theirs)
    }
}

impl Kind {
    fn translate(self, value: &Value) -> Option<String> {
        let text = || value.as_str().map(str::trim).filter(|text| !text.contains('\0'));
        match self {
            Kind::Count => {
                value.as_u64().filter(|count| *count <= u64::from(u32::MAX)).map(|n| n.to_string())
            }
            Kind::Milliseconds => value.as_u64().map(|ms| format!("{ms}ms")),
            Kind::MillisecondsOrNone => match value.as_u64()? {
                0 => Some("off".to_owned()),
                ms => Some(format!("{ms}ms")),
            },
            Kind::MillisecondsOrForever => match value.as_u64()? {
                0 => Some(FOREVER.to_owned()),
                ms => Some(format!("{ms}ms")),
            },
            Kind::Switch => value.as_bool().map(|on| if on { "on" } else { "off" }.to_owned()),
            Kind::Text | Kind::Directory => text().filter(|text| !text.is_empty()).map(str::to_owned),
            Kind::TextOrNone => text().map(|text| if text.is_empty() { "off" } else { text }.to_owned()),
            Kind::Promise => value.as_bool().map(|wanted| if wanted { PROMISE } else { "off" }.to_owned()),
        }
    }
}

#[cfg(test)]
mod tests {
    use sexton_core::config::{Config, ForeignLayer, Layers};

    use super::*;

    const ROOT: &str = "/repo";

    fn resolve(text: &str) -> (Config, Vec<String>) {
        let Ticketflow { values, warnings } = read(text, Path::new(ROOT), true).unwrap();
        let layers = Layers {
            env: [("HOME".to_owned(), "/home/ann".to_owned())].into(),
            foreign: Some(ForeignLayer {
                path: "/repo/config.json".into(),
                trusted: true,
                own_store: false,
                values,
            }),
            ..Layers::default()
        };
        (Config::resolve(&layers).unwrap(), warnings)
    }

    fn shown(text: &str) -> String {
        let (config, warnings) = resolve(text);
        let set = config.shown().into_iter().filter(|shown| shown.origin != "default");
        let lines = set.map(|shown| format!("{} = {}", shown.info.key, shown.value));
        lines.chain(warnings).collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn every_key_is_converted() {
        insta::assert_snapshot!(shown(
            r#"{"maxIterations": 7, "maxIterationsPerTicket": 1, "ticketQuery": "list | head", "completionCheck": "left",
            "workflow": "/work", "workflowFlags": "", "sleepBetweenTickets": 0, "sleepBetweenRetries": 1500,
            "promiseOnComplete": false, "parallelWorktreesDir": "../trees", "parallelDispatchTimeoutMs": 0,
            "attemptTimeoutMs": 60000, "maxRestarts": 0, "sessionTtlMs": 86400000, "orphanGracePeriodMs": 2000,
            "captureJson": true}"#
        ));
    }

    #[test]
    fn invalid_value_is_reported_with_its_default() {
        insta::assert_snapshot!(shown(
            r#"{"maxIterations": "many", "ticketQuery": "", "workflow": 7, "sleepBetweenTickets": -1,
            "promiseOnComplete": "yes", "attemptTimeoutMs": 1.5, "sessionTtlMs": null, "maxRestarts": 99999999999}"#
        ));
    }

    #[test]
    fn retention_time_of_zero_keeps_records_forever() {
        let (config, _) = resolve(r#"{"sessionTtlMs": 0}"#);
        assert!(config.retention_ttl.value > std::time::Duration::from_secs(50 * 365 * 24 * 60 * 60));
    }

    #[test]
    fn deprecated_keys_are_reported_and_ignored() {
        let (config, warnings) = resolve(r#"{"sessionDir": "x", "sessionPerTicket": true, "unknown": 1}"#);
        assert_eq!(warnings, ["sessionDir", "sessionPerTicket"].map(deprecated));
        let set = config.shown().into_iter().filter(|shown| shown.origin != "default");
        assert_eq!(set.map(|shown| shown.info.key).collect::<Vec<_>>(), ["ralph.worktrees"]);
    }

    #[test]
    fn invalid_file_is_an_error() {
        assert!(matches!(read("{", Path::new(ROOT), true), Err(TicketflowError::Syntax(_))));
        assert!(matches!(read("[]", Path::new(ROOT), true), Err(TicketflowError::NotAnObject)));
    }

    #[test]
    fn untrusted_repository_gets_no_default_worktree_directory() {
        assert_eq!(read("{}", Path::new(ROOT), false).unwrap(), Ticketflow::default());
    }
}
