//! The project's own commands: `cargo xtask test`, `tidy`, `docs`, `audit`, `bench`, `faults`, `dist`,
//! `install`.
//!
//! Architecture invariant: only this program decides what CI checks, so that a developer's machine and CI
//! never disagree. Nothing in here is part of the product.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]

mod audit;
mod bench;
mod docs;
mod faults;
mod fuzz;
mod install;
mod picture;
mod previous;
mod steps;
mod surroundings;
mod test;
mod tidy;
mod unprivileged;

use std::process::ExitCode;

use clap::{Parser, Subcommand};
use sexton_workspace::bench_arguments::BenchArguments;
use sexton_workspace::{Result, dist};

/// The project's own commands.
#[derive(Parser)]
#[command(bin_name = "cargo xtask", disable_help_subcommand = true)]
struct Arguments {
    #[command(subcommand)]
    task: Task,
}

#[derive(Subcommand)]
enum Task {
    /// Run everything that CI checks: format, lints, tests, documentation, project rules
    Test,
    /// Run the process tests again as a user without privileges; part of `test` when root runs it
    Unprivileged,
    /// Check the project rules that the compiler does not check
    Tidy,
    /// Write the man pages, completions and JSON Schema below docs/
    Docs(docs::DocsArguments),
    /// Check the licences, sources and versions of all dependencies with cargo-deny
    Audit,
    /// Measure, and write docs/benchmarks.md
    Bench(BenchArguments),
    /// Attack every promise: kills, failing disks, power cuts, reused pids, races, damage
    Faults(faults::FaultsArguments),
    /// Build the program for distribution
    Dist,
    /// Build the program for distribution, and install it with its man pages and completions
    Install(install::InstallArguments),
}

/// Returns whether `cargo xtask` followed by `words` names a task; the words after a task are its arguments.
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

impl Task {
    /// Returns whether it runs tests or measures, and so depends on what it inherits.
    fn needs_plain_surroundings(&self) -> bool {
        matches!(self, Task::Test | Task::Unprivileged | Task::Bench(_) | Task::Faults(_))
    }
}

fn main() -> ExitCode {
    let task = Arguments::parse().task;
    if task.needs_plain_surroundings() {
        match surroundings::run_with_plain_surroundings() {
            Ok(Some(code)) => return code,
            Ok(None) => {}
            Err(error) => {
                eprintln!("error: cannot start with a clean environment: {error}");
                return ExitCode::FAILURE;
            }
        }
    }
    let outcome = match task {
        Task::Test => test::run(),
        Task::Unprivileged => unprivileged::run(),
        Task::Tidy => tidy::run(),
        Task::Docs(arguments) => docs::run(&arguments),
        Task::Audit => audit::run(),
        Task::Bench(_) => bench::run(),
        Task::Faults(arguments) => faults::run(&arguments),
        Task::Install(arguments) => install::run(&arguments),
        Task::Dist => dist::build().map(|program| println!("{}", program.display())),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
