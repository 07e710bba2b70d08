//! The arguments of the benchmarks. `cargo xtask bench` checks them before it builds anything, and the benchmarks
//! follow them.

use clap::{Args, Subcommand};

/// The options of `bench`.
#[derive(Args)]
pub struct BenchArguments {
    /// Only these figures [default: all]
    #[command(subcommand)]
    pub only: Option<Part>,
}

/// A part of the figures.
#[derive(Subcommand)]
pub enum Part {
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
