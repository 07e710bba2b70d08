//! What a shim does when those whom it is to end do not end, or nobody can look at them.
//!
//! The shim is this very program, with a [probe](scripted) that does what a test wants. Elsewhere than on Linux
//! there is no such probe to build on, and nothing here.

// A case that cannot go on panics.
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
