//! What happens when others are at it too: programs killed at any system call, many at once, and mounts that
//! nobody expected.
//!
//! Other processes are this very program, in another [role](roles). strace must be installed.

// A case that cannot go on panics; and a role tells its outcome to whoever started it.
#![allow(clippy::unwrap_used, clippy::print_stdout)]

mod crowds;
mod kills;
mod mounts;
mod roles;
#[path = "../support/mod.rs"]
mod support;

use libtest_mimic::{Arguments, Trial};

/// A case: its name, and what it does.
type Case = (&'static str, fn());

fn main() -> std::process::ExitCode {
    if roles::play_assigned() {
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
