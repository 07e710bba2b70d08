//! `cargo xtask bench`: the figures of docs/benchmarks.md, each a ratio measured within one run.
//!
//! A ratio holds on another machine, a time does not. What is compared runs in turns (A, B, A, B …), so that
//! a slow minute of the machine affects both. Nothing here decides whether a change is good: a missed goal is
//! printed as missed, and the task still succeeds.

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

use std::process::Command;

use clap::{Args, Subcommand};

use crate::Result;

/// The options of `bench`.
#[derive(Args)]
pub(crate) struct BenchArguments {
    /// Only these figures [default: all]
    #[command(subcommand)]
    only: Option<Bench>,
}

/// A part of the figures.
#[derive(Subcommand)]
enum Bench {
    /// Sexton against tools in use today
    Peers {
        /// Only these questions, printed and not written
        questions: Vec<String>,
    },
    /// The cost of records: commits, listings, many writers
    Store,
    /// The cost of sessions: starting, output, idle supervisors, stopping
    Run,
    /// The cost of recovery: dead records, live orphans, worktrees
    Recover,
    /// The cost of a hook for its agent at every turn
    Resume,
}

/// All parts, in the order of the page.
const ALL: [&str; 5] = ["peers", "store", "run", "recover", "resume"];

/// Measures one part in a separate process. One part leaves thousands of exited children to the process that
/// watches them, which would slow down every start of the next part.
fn run_separately(name: &str) -> Result {
    let status = Command::new(std::env::current_exe()?).args(["bench", name]).status()?;
    if status.success() { Ok(()) } else { Err(format!("bench {name}: {status}").into()) }
}

/// Measures, prints the tables, and writes each into its section of docs/benchmarks.md.
pub(crate) fn run(arguments: &BenchArguments) -> Result {
    let Some(bench) = &arguments.only else {
        // Each part is written before the next begins; one that fails does not hide the others.
        let failed: Vec<String> =
            ALL.iter().filter_map(|name| run_separately(name).err()).map(|error| error.to_string()).collect();
        return if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) };
    };
    match bench {
        Bench::Peers { questions } => peers::run(questions),
        Bench::Store => store::run(),
        Bench::Run => run::run(),
        Bench::Recover => recover::run(),
        Bench::Resume => resume::run(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_part_is_measured_by_default() {
        let command = Bench::augment_subcommands(clap::Command::new("bench"));
        let parts: Vec<&str> = command.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(parts, ALL);
    }
}
