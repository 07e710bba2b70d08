//! How a shim handles processes that it cannot stop or inspect.
//!
//! The shim is this same program, with a [probe](scripted) that follows a script. Platforms other than Linux
//! have no probe to build on, so there are no cases.

// A case that cannot continue panics.
#![allow(clippy::unwrap_used)]

#[cfg(target_os = "linux")]
mod cases;
#[cfg(target_os = "linux")]
mod scripted;

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use libtest_mimic::{Arguments, Trial};

    if sexton_supervise::is_shim() {
        return sexton_supervise::shim_main();
    }
    let trials = cases::CASES.into_iter().map(|(name, case)| {
        Trial::test(name, move || {
            case();
            Ok(())
        })
    });
    libtest_mimic::run(&Arguments::from_args(), trials.collect()).exit_code()
}

#[cfg(not(target_os = "linux"))]
fn main() {}
