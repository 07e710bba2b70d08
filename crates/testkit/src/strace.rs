//! Runs a helper under strace, which must be installed, to observe its system calls and to make them fail.

use std::ffi::OsStr;
use std::process::Command;

/// Returns the strace command that runs `plain`, with `expressions` for `-e`. It uses `--seccomp-bpf`, which makes
/// untraced calls fast, unless an expression injects a signal, which strace does not deliver in that mode.
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
