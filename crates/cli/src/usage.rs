//! Arguments that make no sense: what clap says, and where something is missing, what to type instead.

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Command, CommandFactory};

use crate::args::Cli;
use crate::commands::resume::is_lenient;
use crate::failure::{Exit, Failure};
use crate::screen::Screen;

/// The arguments of this program, or the code to exit with: help was asked for, or something is wrong.
pub fn parse_arguments() -> Result<Cli, Exit> {
    Cli::read().map_err(|error| {
        let exit = explain(&error);
        if is_lenient(std::env::args_os()) { Exit::DONE } else { exit }
    })
}

/// Says what is wrong, or prints the help that was asked for.
fn explain(error: &clap::Error) -> Exit {
    let words = std::env::args_os().skip(1).map(|word| word.to_string_lossy().into_owned());
    if let Some(failure) = explain_missing(error, words) {
        return Screen::for_terminal(false).fail(&failure);
    }
    // Where even that cannot be printed there is nobody left to tell.
    let _ = error.print();
    Exit(u8::try_from(error.exit_code()).unwrap_or(Exit::USAGE.0))
}

/// Says what is missing, and shows the first example of the command.
fn explain_missing(error: &clap::Error, words: impl Iterator<Item = String>) -> Option<Failure> {
    if error.kind() != ErrorKind::MissingRequiredArgument {
        return None;
    }
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else { return None };
    let (path, command) = find_command(words)?;
    let failure = Failure::usage(format!("`{path}` needs {}", missing.join(" and ")));
    let example = first_example(&command);
    let such_as = example.map(|example| format!("such as `{example}`; ")).unwrap_or_default();
    Some(failure.hint(format!("{such_as}`{path} --help` says more")))
}

/// The command that `words` name, as far as they do.
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

/// The first example of a command's help, without the remark beside it.
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
    fn what_is_missing_is_named_with_an_example() {
        let failure = explained(&["rescue", "restore"]).unwrap();
        assert_eq!(failure.message, "`sexton rescue restore` needs <ID>");
        assert_eq!(
            failure.hint.as_deref(),
            Some("such as `sexton rescue restore nightly`; `sexton rescue restore --help` says more")
        );
        assert_eq!(failure.exit, Exit::USAGE);
    }

    #[test]
    fn other_mistakes_are_explained_by_the_parser() {
        assert!(explained(&["ps", "--no-such-option"]).is_none());
        assert!(explained(&["--help"]).is_none());
        assert!(explained(&[]).is_none());
    }
}
