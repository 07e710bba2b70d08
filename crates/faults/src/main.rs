//! The fault campaign: every promise attacked, again and again, and the damage counted.
//!
//! A scenario makes a yard with real sessions, real git and real stores, injects faults into the real
//! program, and afterwards looks at what is left with its own eyes. A trial that finds a promise broken is a
//! violation; the others go on. `cargo xtask faults` builds what is needed and calls this program; it can
//! also be called with one scenario's name.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "talking to its user is all it does")]
#![allow(clippy::unwrap_used, reason = "a trial that cannot go on is a violation")]

mod bystanders;
mod campaign;
mod mounts;
mod scenarios;
mod snapshot;

use std::process::ExitCode;

use clap::Parser;
// Scenarios write records as no command would, through the stores themselves.
use sexton_store_json as _;
use sexton_store_sqlite as _;

use campaign::{Campaign, Effort, Plan};

/// Attack every promise, and count the damage.
#[derive(Parser)]
#[command(name = "faults")]
struct Arguments {
    /// The scenarios to run; all without one
    scenarios: Vec<String>,
    /// A part of each scenario, enough to notice most defects
    #[arg(long)]
    quick: bool,
    /// Print the scenarios and their mutants, as JSON
    #[arg(long)]
    list: bool,
    /// Also write the results there, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<std::path::PathBuf>,
    /// Stop a scenario at its first violation, where all one asks is whether there is any
    #[arg(long)]
    until_violation: bool,
    /// What random choices begin with
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    // Scenarios call this program again for parts that must be processes of their own.
    if let Some(exit) = scenarios::play_role() {
        return exit;
    }
    let arguments = Arguments::parse();
    if arguments.list {
        println!("{}", scenarios::listing());
        return ExitCode::SUCCESS;
    }
    let chosen = match scenarios::choose(&arguments.scenarios) {
        Ok(chosen) => chosen,
        Err(unknown) => {
            eprintln!("error: {unknown}");
            return ExitCode::from(2);
        }
    };
    let effort = if arguments.quick { Effort::Quick } else { Effort::Full };
    let enough = if arguments.until_violation { 1 } else { campaign::ENOUGH };
    let campaign = Campaign::run(&chosen, Plan { effort, seed: arguments.seed, enough });
    print!("{}", campaign.table());
    if let Some(path) = arguments.report {
        std::fs::write(path, campaign.json().to_string()).unwrap();
    }
    if campaign.is_clean() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
