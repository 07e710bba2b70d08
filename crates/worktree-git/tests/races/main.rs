//! Concurrency and interruption: processes killed at any system call, many at once, and unexpected mounts.
//!
//! Other processes are this same program in another [role](roles). strace must be installed.

// A failed precondition panics, and a role prints its result for the process that started it.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod crowds;
mod kills;
mod mounts;
mod roles;
#[path = "../support/mod.rs"]
mod support;

use libtest_mimic::{Arguments, Trial};

/// A case: its name and its function.
type Case = (&'static str, fn());

fn main() -> std::process::ExitCode {
    if roles::run_assigned() {
        return std::process::ExitCode::SUCCESS;
    }
    let cases: Vec<Case> = [crowds::CASES, kills::CASES, mounts::CASES].concat();
    let trials = cases.into_iter().map(|(name, case)| {
        Trial::test(name, move || {
            case();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}
