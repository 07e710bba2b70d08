//! `sexton help`: the help of a command, and the list of exit codes.

use clap::error::ErrorKind;
use clap::{Args, Parser};
use serde_json::json;

use crate::args::Cli;
use crate::failure::{Exit, Failure};
use crate::screen::{Column, Screen, Table};

/// Show the help of a command, or the meaning of the exit codes.
#[derive(Args)]
#[command(after_help = "\
Examples:
  sexton help rescue restore
  sexton help exit-codes")]
pub struct HelpArgs {
    /// Command, or `exit-codes`
    #[arg(value_name = "TOPIC")]
    topic: Vec<String>,
}

/// The topic that is not a command.
const EXIT_CODES: &str = "exit-codes";

/// What each exit code means.
const MEANINGS: &[(&str, &str)] = &[
    ("0", "done"),
    ("1", "failed"),
    ("2", "the command line or the configuration is invalid; nothing was changed"),
    (
        "3",
        "partly done: some sessions could not be handled, the others were; for `recover` only if the problem is new",
    ),
    ("4", "no such session"),
    (
        "5",
        "the store is damaged or has a newer format; reading commands print what is readable, writing commands change nothing",
    ),
    (
        "122",
        "`run`, `wait`: it is not known how the command ended, because its supervisor and the command were killed",
    ),
    ("123", "`wait --timeout`: the time is over and a session still runs"),
    ("124", "`run`, `wait`: the session reached its time limit"),
    (
        "125",
        "`run`, `wait`: an error of Sexton itself, not of the command; also an unknown session in `wait`",
    ),
    ("126, 127", "`run`: the command cannot be executed, or was not found"),
    ("128 + N", "`run`, `wait`: signal N ended the command"),
];

/// Prints the help.
pub fn run(args: &HelpArgs, screen: &Screen) -> Result<Exit, Failure> {
    let topic: Vec<&str> = args.topic.iter().map(String::as_str).collect();
    match topic[..] {
        [EXIT_CODES] => list_exit_codes(screen),
        _ if screen.json => {
            Err(Failure::usage(format!("`--json` is possible only with `sexton help {EXIT_CODES}`")))
        }
        _ => show_command(&topic),
    }
}

fn list_exit_codes(screen: &Screen) -> Result<Exit, Failure> {
    if screen.json {
        let codes: Vec<_> =
            MEANINGS.iter().map(|(code, meaning)| json!({"code": code, "meaning": meaning})).collect();
        screen.document(&codes)?;
        return Ok(Exit::DONE);
    }
    let mut table = Table::new([Column::fixed("CODE"), Column::fixed("MEANING")]);
    for (code, meaning) in MEANINGS {
        table.row([(*code).into(), (*meaning).into()]);
    }
    screen.table(&table)?;
    Ok(Exit::DONE)
}

/// Prints what `--help` prints for this command.
fn show_command(topic: &[&str]) -> Result<Exit, Failure> {
    let words = ["sexton"].iter().chain(topic).chain(&["--help"]);
    match Cli::try_parse_from(words) {
        Err(help) if help.kind() == ErrorKind::DisplayHelp => {
            help.print().map_err(|error| Failure::new(format!("cannot print the help: {error}")))?;
            Ok(Exit::DONE)
        }
        _ => {
            let hint = format!(
                "`sexton --help` lists the commands; `sexton help {EXIT_CODES}` explains the exit codes"
            );
            Err(Failure::usage(format!("there is no command `sexton {}`", topic.join(" "))).hint(hint))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_lists_the_same_exit_codes() {
        let page = std::fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/terminal.md"));
        let page = page.unwrap();
        let rows: Vec<String> =
            MEANINGS.iter().map(|(code, meaning)| format!("| {code} | {meaning} |\n")).collect();
        assert!(page.contains(&format!("| code | meaning |\n|---|---|\n{}\n", rows.concat())));
    }
}
