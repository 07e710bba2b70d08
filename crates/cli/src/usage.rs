//! Errors in the arguments: clap's message, or for a missing argument an example of the command.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

use crate::args::Cli;
use crate::commands::resume::is_lenient;
use crate::failure::{Exit, Failure};
use crate::screen::Screen;

/// Parses the arguments. Returns the exit code if help was requested or an argument is invalid.
pub fn parse_arguments() -> Result<Cli, Exit> {
    Cli::read().map_err(|error| {
        let exit = explain(&error);
        if is_lenient(std::env::args_os()) { Exit::DONE } else { exit }
    })
}

/// Prints the error or the requested help.
fn explain(error: &clap::Error) -> Exit {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    if let Some(failure) = explain_missing(error, words) {
        return Screen::for_terminal(false).fail(&failure);
    }
    // Without a working stderr there is nowhere to report the error.
    let _ = error.print();
    Exit(u8::try_from(error.exit_code()).unwrap_or(Exit::USAGE.0))
}

/// Describes a missing argument, with the first example of the command as a hint.
fn explain_missing(error: &clap::Error, words: impl Iterator<Item = String>) -> Option<Failure> {
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return None;
    }
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else { return None };
    let (path, command) = find_command(words)?;
    let failure = Failure::usage(format!("`{path}` requires {}", missing.join(" and ")));
    let example = first_example(&command);
    let example = example.map(|example| format!("for example `{example}`; ")).unwrap_or_default();
    Some(failure.hint(format!("{example}see `{path} --help`")))
}

/// Returns the innermost command that `words` name, and its path.
fn find_command(words: impl Iterator<Item = String>) -> Option<(String, Command)> {
    let mut command = Cli::command();
    let mut path = command.get_name().to_owned();
    for word in words.take_while(|word| word != "--") {
        if let Some(below) = command.find_subcommand(&word) {
            path = format!("{path} {word}");
            command = below.clone();
        }
    }
    (command.get_name() != "sexton").then_some((path, command))
}

/// Returns the first example in a command's help, without the description beside it.
fn first_example(command: &Command) -> Option<String> {
    let help = command.get_after_help()?.to_string();
    let mut lines = help.lines().skip_while(|line| !line.starts_with("Example"));
    let example = lines.nth(1)?.trim();
    Some(example.split("   ").next().unwrap_or(example).trim_end().to_owned())
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    fn explained(words: &[&str]) -> Option<Failure> {
        let all = ["sexton"].iter().chain(words);
        let error = Cli::try_parse_from(all).err().unwrap();
        explain_missing(&error, words.iter().map(|&word| word.to_owned()))
    }

    #[test]
    fn missing_argument_is_reported_with_an_example() {
        let failure = explained(&["rescue", "restore"]).unwrap();
        assert_eq!(failure.message, "`sexton rescue restore` requires <ID>");
        assert_eq!(
            failure.hint.as_deref(),
            Some("for example `sexton rescue restore nightly`; see `sexton rescue restore --help`")
        );
        assert_eq!(failure.exit, Exit::USAGE);
    }

    #[test]
    fn clap_reports_all_other_errors() {
        assert!(explained(&["ps", "--no-such-option"]).is_none());
        assert!(explained(&["--help"]).is_none());
        assert!(explained(&[]).is_none());
    }
}
