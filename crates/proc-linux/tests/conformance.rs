//! Runs the probe suite on the Linux probe.

#[cfg(target_os = "linux")]
fn main() -> std::process::ExitCode {
    use sexton_testkit::probe_suite::{ProbeSubject, run};
    run(&ProbeSubject { name: "linux", open: sexton_proc_linux::open })
}

#[cfg(not(target_os = "linux"))]
fn main() {}
