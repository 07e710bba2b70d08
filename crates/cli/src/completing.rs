//! Dynamic shell completion: session ids and names, stores, probes, statuses.
//!
//! A shell requests completions by running this program with `COMPLETE` set to the shell's name. Only then are
//! completers attached to the arguments, by argument name: normal parsing does not need them, and an argument of
//! a new command with an existing name is completed in the same way.
//!
//! Architecture invariant: completion only reads. It creates nothing, and if something cannot be read it offers no
//! candidates, because an error in the middle of a command line is of no use.

use std::ffi::OsStr;
use std::path::Path;

use clap::{Arg, CommandFactory};
use clap_complete::CompleteEnv;
use clap_complete::engine::{ArgValueCompleter, CompletionCandidate};
use clap_complete::env::Shells;
use jiff::Timestamp;
use sexton_core::config::Config;
use sexton_core::duration::format_age;
use sexton_core::plugin::Registry;
use sexton_core::{Query, Session, Status, Time};
use sexton_service::Service;

use crate::args::{Cli, GlobalArgs};
use crate::commands::ps::command_line;
use crate::layers::load_layers;
use crate::screen::visible;
use crate::signal::signal_names;

/// The variable with which shells request completions.
const COMPLETE_VARIABLE: &str = "COMPLETE";

/// The maximum number of sessions to offer, newest first.
const OFFERED: usize = 200;

/// Answers a shell's request for completions. Returns `false` if there is none, or if the variable names no known
/// shell: another program may use a variable of that name.
pub fn answer_shell() -> bool {
    let Some(shell) = std::env::var_os(COMPLETE_VARIABLE) else { return false };
    let name = Path::new(&shell).file_stem().and_then(OsStr::to_str).unwrap_or_default();
    if Shells::builtins().completer(name).is_none() {
        return false;
    }
    let here = std::env::current_dir().ok();
    let answered = CompleteEnv::with_factory(command).try_complete(std::env::args_os(), here.as_deref());
    // The shell ignores errors: it shows candidates or none.
    answered.unwrap_or(true)
}

/// Returns the commands, with completers on their arguments.
fn command() -> clap::Command {
    with_completers(Cli::command(), "")
}

fn with_completers(command: clap::Command, above: &str) -> clap::Command {
    let path = format!("{above} {}", command.get_name());
    let command = command.mut_args(|argument| match completer_of(&path, &argument) {
        Some(completer) => argument.add(completer),
        None => argument,
    });
    command.mut_subcommands(|below| with_completers(below, &path))
}

/// Returns the completer for an argument of the command at `path`, by the argument's name.
fn completer_of(path: &str, argument: &Arg) -> Option<ArgValueCompleter> {
    let offer = |words: fn() -> Vec<String>| {
        ArgValueCompleter::new(move |current: &OsStr| {
            let current = current.to_string_lossy().into_owned();
            words()
                .into_iter()
                .filter(|word| word.starts_with(&current))
                .map(CompletionCandidate::new)
                .collect()
        })
    };
    Some(match argument.get_id().as_str() {
        // The first word of `loop set` may be a session.
        "session" | "sessions" | "words" => sessions(session_filter(path)),
        "status" => offer(|| Status::ALL.map(|status| status.to_string()).to_vec()),
        "store" | "from" | "to" => offer(store_schemes),
        "probe" => offer(probe_names),
        "signal" => offer(|| signal_names().map(str::to_owned).collect()),
        _ => return None,
    })
}

/// Returns which sessions a command accepts.
fn session_filter(path: &str) -> fn(&Session) -> bool {
    let mut words = path.split_whitespace().skip(1);
    match (words.next(), words.next()) {
        (Some("stop" | "wait" | "finish" | "forget"), _) => |session| session.status.is_active(),
        (Some("worktree"), _) => |session| session.worktree.is_some(),
        (Some("rescue"), _) => {
            |session| session.recovery.as_ref().is_some_and(|recovery| recovery.rescue_ref.is_some())
        }
        _ => |_| true,
    }
}

fn sessions(which: fn(&Session) -> bool) -> ArgValueCompleter {
    ArgValueCompleter::new(move |current: &OsStr| {
        let sessions = load_sessions().unwrap_or_default();
        let matching: Vec<_> = sessions.into_iter().filter(which).collect();
        candidates(&matching, &current.to_string_lossy(), Timestamp::now().into())
    })
}

/// Returns the candidates: names, and ids for sessions without a name or if `current` is the beginning of an id.
fn candidates(sessions: &[Session], current: &str, now: Time) -> Vec<CompletionCandidate> {
    let mut offered: Vec<CompletionCandidate> = Vec::new();
    for session in sessions {
        let name = session.name.as_deref().filter(|name| name.starts_with(current));
        let id = Some(session.id.as_str())
            .filter(|id| id.starts_with(current) && (session.name.is_none() || !current.is_empty()));
        for word in name.into_iter().chain(id) {
            // Several sessions may have had this name; it refers to the newest.
            if !offered.iter().any(|known| known.get_value() == word) {
                let age = format_age(session.created_at.age_at(now));
                let about = format!("{}, {age}, {}", session.status, command_line(session));
                offered.push(CompletionCandidate::new(word).help(Some(visible(&about).into_owned().into())));
            }
        }
    }
    offered
}

/// Loads the newest sessions of the store that the command line, the environment or the configuration names.
fn load_sessions() -> Option<Vec<Session>> {
    let config = Config::resolve(&load_layers(&typed_so_far(), Vec::new()).ok()?.layers).ok()?;
    let store = Service::new(config).ok()?.open_for_reading().ok()?;
    Some(pollster::block_on(store.list(&Query::all().limit(OFFERED))).ok()?.sessions)
}

/// Returns the store options on the command line that is being completed.
fn typed_so_far() -> GlobalArgs {
    let words: Vec<String> = std::env::args_os().filter_map(|word| word.into_string().ok()).collect();
    let value_of = |option: &str| {
        let glued = words.iter().find_map(|word| word.strip_prefix(option)?.strip_prefix('='));
        let apart = || words.iter().skip_while(|word| *word != option).nth(1).map(String::as_str);
        glued.or_else(apart).map(str::to_owned)
    };
    GlobalArgs { state_dir: value_of("--state-dir"), store: value_of("--store"), ..GlobalArgs::default() }
}

fn store_schemes() -> Vec<String> {
    let names =
        Registry::linked().map(|registry| registry.stores.iter().map(|store| store.name).collect::<Vec<_>>());
    names.unwrap_or_default().into_iter().map(|name| format!("{name}:")).collect()
}

fn probe_names() -> Vec<String> {
    let names =
        Registry::linked().map(|registry| registry.probes.iter().map(|probe| probe.name).collect::<Vec<_>>());
    ["auto"].into_iter().chain(names.unwrap_or_default()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use sexton_core::{Host, SessionId};

    use super::*;

    fn session(id: &str, name: Option<&str>) -> Session {
        let host = Host::new("m", "h");
        let id: SessionId = id.parse().unwrap();
        let mut session = Session::new(id, host, "2026-01-02T03:04:05Z".parse().unwrap());
        session.name = name.map(str::to_owned);
        session
    }

    #[test]
    fn names_are_offered_and_ids_when_one_is_being_typed() {
        let sessions = [
            session("parsley", Some("parser")),
            session("k3v9", None),
            session("k3v0", Some("parser")),
            session("m2x7", Some("docs")),
        ];
        let offered = |current: &str| {
            let now = "2026-01-02T03:05:05Z".parse().unwrap();
            let found = candidates(&sessions, current, now);
            found.iter().map(|one| one.get_value().to_string_lossy().into_owned()).collect::<Vec<_>>()
        };
        assert_eq!(offered(""), ["parser", "k3v9", "docs"]);
        assert_eq!(offered("pars"), ["parser", "parsley"]);
        assert_eq!(offered("k3"), ["k3v9", "k3v0"]);
        assert_eq!(offered("x"), [""; 0]);
    }

    #[test]
    fn every_argument_that_names_sessions_is_completed() {
        fn count(command: &clap::Command, path: &str, found: &mut Vec<String>) {
            let path = format!("{path} {}", command.get_name());
            let ids = command.get_arguments().filter(|argument| {
                argument.get_value_names().is_some_and(|names| names.iter().any(|name| name == "ID"))
                    && argument.is_positional()
            });
            for argument in ids {
                if completer_of(&path, argument).is_none() {
                    found.push(format!("{path} {}", argument.get_id()));
                }
            }
            command.get_subcommands().for_each(|below| count(below, &path, found));
        }
        let mut missing = Vec::new();
        count(&Cli::command(), "", &mut missing);
        assert_eq!(missing, Vec::<String>::new(), "name these arguments `session` or `sessions`");
    }
}
