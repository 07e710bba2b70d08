//! Running a helper under strace, which must be installed: seeing a process from outside, and making its
//! system calls fail, cannot be done from within.

use std::ffi::OsStr;
use std::process::Command;

/// The strace command that runs `plain`, with `expressions` for its `-e`. It is quick where one of them says which
/// calls are traced, as the kernel lets all others pass; but strace delivers no signal then.
pub(crate) fn traced(plain: &Command, output: impl AsRef<OsStr>, expressions: &[&str]) -> Command {
    let mut command = Command::new("strace");
    command.args(["-f", "-qq", "-y", "-s", "1000000", "-o"]).arg(output);
    if !expressions.iter().any(|expression| expression.contains(":signal=")) {
        command.arg("--seccomp-bpf");
    }
    for expression in expressions {
        command.args(["-e", expression]);
    }
    command.arg("--").arg(plain.get_program()).args(plain.get_args());
    for (name, value) in plain.get_envs() {
        match value {
            Some(value) => command.env(name, value),
            None => command.env_remove(name),
        };
    }
    command
}
