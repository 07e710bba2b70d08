//! `cargo xtask bench`: the figures of docs/benchmarks.md, each a ratio measured within one run.
//!
//! A ratio holds on another machine, a time does not. What is compared runs in turns (A, B, A, B …), so
//! that a slow minute of the machine falls on both. Nothing here decides whether a change is good: a
//! goal that was missed is printed as missed, and the task still succeeds.

pub(crate) mod machine;
mod measure;
mod pueue;
mod recover;
mod report;
mod resume;
mod run;
mod store;
mod table;
mod worker;

use clap::Subcommand;

use crate::Result;

/// Which figures.
#[derive(Subcommand)]
pub(crate) enum Bench {
    /// What records cost: commits, listings, many writers
    Store,
    /// What recovery costs: dead records, live orphans, worktrees
    Recover,
    /// What a hook costs its agent at every turn
    Resume,
    /// What sessions cost: starting, output, idle supervisors, stopping
    Run,
}

/// Measures, prints the table, and writes it into docs/benchmarks.md.
pub(crate) fn run(bench: &Bench) -> Result {
    match bench {
        Bench::Store => store::run(),
        Bench::Recover => recover::run(),
        Bench::Resume => resume::run(),
        Bench::Run => run::run(),
    }
}
