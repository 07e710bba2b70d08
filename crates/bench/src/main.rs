//! `cargo xtask bench`: the figures of docs/benchmarks.md, each a ratio measured within one run.
//!
//! A ratio holds on another machine, a time does not. What is compared runs in turns (A, B, A, B …), so that
//! a slow minute of the machine affects both. Nothing here decides whether a change is good: a missed goal is
//! printed as missed, and the task still succeeds. Nothing here is part of the product.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

mod measure;
mod peers;
mod processes;
mod pueue;
mod recover;
mod report;
mod resume;
mod run;
mod store;
mod table;
mod worker;

use std::process::{Command, ExitCode};

use clap::Parser;
use sexton_workspace::Result;
use sexton_workspace::bench_arguments::{BenchArguments, Part};

/// Measure, and write docs/benchmarks.md
#[derive(Parser)]
#[command(bin_name = "cargo xtask bench", disable_help_subcommand = true)]
struct Arguments {
    #[command(flatten)]
    bench: BenchArguments,
}

/// All parts, in the order of the page.
const ALL: [&str; 5] = ["peers", "store", "run", "recover", "resume"];

/// Measures one part in a separate process. One part leaves thousands of exited children to the process that
/// watches them, which would slow down every start of the next part.
fn run_separately(name: &str) -> Result {
    let status = Command::new(std::env::current_exe()?).arg(name).status()?;
    if status.success() { Ok(()) } else { Err(format!("bench {name}: {status}").into()) }
}

fn main() -> ExitCode {
    match run(Arguments::parse().bench.only.as_ref()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}

/// Measures, prints the tables, and writes each into its section of docs/benchmarks.md.
fn run(only: Option<&Part>) -> Result {
    let Some(part) = only else {
        // Each part is written before the next begins; one that fails does not hide the others.
        let failed: Vec<String> =
            ALL.iter().filter_map(|name| run_separately(name).err()).map(|error| error.to_string()).collect();
        return if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) };
    };
    match part {
        Part::Peers { questions } => peers::run(questions),
        Part::Store => store::run(),
        Part::Run => run::run(),
        Part::Recover => recover::run(),
        Part::Resume => resume::run(),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory;

    use super::*;

    #[test]
    fn every_part_is_measured_by_default() {
        let command = Arguments::command();
        let parts: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(parts, ALL);
    }
}
