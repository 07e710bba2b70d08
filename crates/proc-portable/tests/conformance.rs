//! Runs the probe suite on the portable probe.

use sexton_testkit::probe_suite::{ProbeSubject, run};

fn main() -> std::process::ExitCode {
    run(&ProbeSubject { name: "portable", open: sexton_proc_portable::open })
}
