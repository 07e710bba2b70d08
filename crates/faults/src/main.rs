//! The fault campaign: attacks every promise repeatedly, and counts violations.
//!
//! A scenario creates a test environment with real sessions, real git and real stores, injects faults into
//! the real program, and afterwards checks what is left without using that program's own judgement. A trial
//! that finds a broken promise is a violation; the other trials continue. `cargo xtask faults` builds what is
//! needed and runs this program; it can also be run with the name of one scenario.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a command-line program")]
#![allow(clippy::unwrap_used, reason = "a trial that cannot continue is a violation")]

mod bystanders;
mod campaign;
mod mounts;
mod scenarios;
mod snapshot;

use std::process::ExitCode;

use clap::Parser;
// Scenarios write records that no command would write, directly through the stores.
use sexton_store_json as _;
use sexton_store_sqlite as _;

use campaign::{Campaign, Effort, Plan};

/// Attack every promise and count violations.
#[derive(Parser)]
#[command(name = "faults")]
struct Arguments {
    /// The scenarios to run [default: all]
    scenarios: Vec<String>,
    /// Run a part of each scenario, enough to detect most defects
    #[arg(long)]
    quick: bool,
    /// Print the scenarios and their mutants as JSON
    #[arg(long)]
    list: bool,
    /// Also write the results to this file, as JSON
    #[arg(long, value_name = "FILE")]
    report: Option<std::path::PathBuf>,
    /// Stop a scenario at its first violation
    #[arg(long)]
    until_violation: bool,
    /// Seed of random choices
    #[arg(long, default_value_t = 1)]
    seed: u64,
}

fn main() -> ExitCode {
    // Scenarios start this program again for parts that must be separate processes.
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
