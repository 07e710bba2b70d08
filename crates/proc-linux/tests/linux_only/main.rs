//! Tests of guarantees that only Linux gives: reused pids, namespaces, control groups, threads without their
//! leader, many processes.
//!
//! Every case runs as root and as an ordinary user. The processes that a case needs are this same program in
//! another [role](roles).

// A case that cannot continue panics, and measurements go to standard error.
#![allow(clippy::unwrap_used, clippy::print_stderr)]

#[cfg(target_os = "linux")]
mod cgroups;
#[cfg(target_os = "linux")]
mod crowds;
#[cfg(target_os = "linux")]
mod mounts;
#[cfg(target_os = "linux")]
mod namespaces;
#[cfg(target_os = "linux")]
mod play;
#[cfg(target_os = "linux")]
mod privacy;
#[cfg(target_os = "linux")]
mod reuse;
#[cfg(target_os = "linux")]
mod roles;
#[cfg(target_os = "linux")]
mod threads;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use libtest_mimic::{Arguments, Trial};

    if let Some(code) = roles::run_assigned() {
        return code;
    }
    let cases = [
        cgroups::CASES,
        crowds::CASES,
        mounts::CASES,
        namespaces::CASES,
        privacy::CASES,
        reuse::CASES,
        threads::CASES,
    ];
    let trials = cases.concat().into_iter().map(|(name, case)| {
        Trial::test(name, move || {
            case();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
