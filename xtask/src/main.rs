//! The project's own commands: `cargo xtask test`, `tidy`, `docs`, `audit`, `bench`, `faults`, `dist`.
//!
//! Architecture invariant: what CI checks is decided here and nowhere else, so that a developer's machine
//! and CI never disagree. Nothing in here is part of the product.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "talking to its user is all it does")]

mod audit;
mod bench;
mod dist;
mod docs;
mod faults;
mod fuzz;
mod picture;
mod steps;
mod test;
mod tidy;
mod tools;
mod unprivileged;
mod workspace;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// What a task gives: its value, or a sentence that says what went wrong.
type Result<T = ()> = std::result::Result<T, Box<dyn std::error::Error>>;

/// The project's own commands.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Everything that CI checks: format, lints, tests, documentation, house rules
    Test,
    /// The process tests once more, as a user without privileges; a part of `test` where root runs it
    Unprivileged,
    /// The house rules that no compiler knows
    Tidy,
    /// Write the man pages, completions and JSON Schema below docs/
    Docs(docs::DocsArguments),
    /// Check the licences, sources and versions of all dependencies with cargo-deny
    Audit,
    /// Measure, and write docs/benchmarks.md
    Bench(bench::BenchArguments),
    /// Attack every promise: kills, failing disks, power cuts, reused pids, races, damage
    Faults(faults::FaultsArguments),
    /// Build the program as it is meant to be given to people
    Dist,
}

/// Whether `cargo xtask` followed by `words` names a task; what follows a task are its own arguments.
fn has_task(words: &[&str]) -> bool {
    let mut command = <Arguments as clap::CommandFactory>::command();
    for word in words {
        if !command.has_subcommands() {
            return true;
        }
        let Some(below) = command.find_subcommand(word) else { return false };
        command = below.clone();
    }
    true
}

fn main() -> ExitCode {
    let outcome = match Arguments::parse().task {
        Task::Test => test::run(),
        Task::Unprivileged => unprivileged::run(),
        Task::Tidy => tidy::run(),
        Task::Docs(arguments) => docs::run(&arguments),
        Task::Audit => audit::run(),
        Task::Bench(arguments) => bench::run(&arguments),
        Task::Faults(arguments) => faults::run(&arguments),
        Task::Dist => dist::run(),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
