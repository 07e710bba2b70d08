//! `cargo xtask bench`: the figures of docs/benchmarks.md, each a ratio measured within one run.
//!
//! A ratio holds on another machine, a time does not. What is compared runs in turns (A, B, A, B …), so
//! that a slow minute of the machine falls on both. Nothing here decides whether a change is good: a
//! goal that was missed is printed as missed, and the task still succeeds.

pub(crate) mod machine;
mod measure;
mod peers;
pub(crate) mod processes;
mod pueue;
mod recover;
pub(crate) mod report;
mod resume;
mod run;
mod store;
mod table;
mod worker;

use clap::{Args, Subcommand};

use crate::Result;

/// The options of `bench`.
#[derive(Args)]
pub(crate) struct BenchArguments {
    /// Only these figures; all of them without a name
    #[command(subcommand)]
    only: Option<Bench>,
}

/// Which figures.
#[derive(Clone, Subcommand)]
enum Bench {
    /// Sexton against what people use today
    Peers {
        /// Only these questions, printed and not written
        questions: Vec<String>,
    },
    /// What records cost: commits, listings, many writers
    Store,
    /// What sessions cost: starting, output, idle supervisors, stopping
    Run,
    /// What recovery costs: dead records, live orphans, worktrees
    Recover,
    /// What a hook costs its agent at every turn
    Resume,
}

/// Everything, in the order of the page.
const ALL: [Bench; 5] =
    [Bench::Peers { questions: Vec::new() }, Bench::Store, Bench::Run, Bench::Recover, Bench::Resume];

/// Measures, prints the tables, and writes each into its section of docs/benchmarks.md.
pub(crate) fn run(arguments: &BenchArguments) -> Result {
    let Some(bench) = &arguments.only else {
        // What was measured is written before the next begins; one that fails does not hide the others.
        let failed: Vec<String> =
            ALL.iter().filter_map(|bench| run_one(bench).err()).map(|error| error.to_string()).collect();
        return if failed.is_empty() { Ok(()) } else { Err(failed.join("\n").into()) };
    };
    run_one(bench)
}

fn run_one(bench: &Bench) -> Result {
    match bench {
        Bench::Peers { questions } => peers::run(questions),
        Bench::Store => store::run(),
        Bench::Run => run::run(),
        Bench::Recover => recover::run(),
        Bench::Resume => resume::run(),
    }
}
