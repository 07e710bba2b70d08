//! What the checks inherit from the process that starts them, made the same everywhere.
//!
//! A script that runs the checks in the background leaves SIGINT ignored, `nohup` leaves SIGHUP ignored, and
//! an ignored signal stays ignored in every descendant. A strict umask and variables such as GIT_DIR reach
//! every test in the same way. A test that expects SIGINT to end a `sleep` would then fail because of how it
//! was started. So a task that runs tests executes itself again without these if it inherited any.

use std::ffi::{OsStr, OsString};
use std::fs;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Command, ExitCode, ExitStatus};
use std::sync::Arc;

use rustix::fs::Mode;
use rustix::process::{Pid, Signal, kill_process_group, umask};
use signal_hook::consts::{FORBIDDEN, SIGHUP, SIGINT, SIGPIPE, SIGTERM};

use crate::Result;

/// Set in the process with the clean environment, so that it never starts another one.
const MARK: &str = "XTASK_PLAIN_SURROUNDINGS";

/// Variables that change what git, the program or its tests do. SEXTON_ is removed where cargo is run,
/// because some of those variables select how much is tested.
const PREFIXES: [&str; 4] = ["GIT_", "XDG_", "RALPH_", "OMX_"];

/// The umask of most machines. Tests compare modes of files that git created.
const PLAIN_UMASK: u32 = 0o022;

/// Runs this program again with a clean environment and returns its exit code; `None` if this process has
/// one.
pub(crate) fn run_with_plain_surroundings() -> Result<Option<ExitCode>> {
    if std::env::var_os(MARK).is_some() {
        return Ok(None);
    }
    let found = Surroundings::load()?;
    if found.are_plain() {
        return Ok(None);
    }
    let mut command = Command::new(std::env::current_exe()?);
    command.args(std::env::args_os().skip(1));
    found.start(command).map(|status| Some(exit_code(status)))
}

/// What this process inherited that the checks should not see.
#[derive(Debug, PartialEq, Eq)]
struct Surroundings {
    ignored: Vec<i32>,
    umask: u32,
    variables: Vec<OsString>,
}

impl Surroundings {
    fn load() -> Result<Surroundings> {
        let names = std::env::vars_os().map(|(name, _)| name);
        // The umask can otherwise be read only by setting it.
        let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
        Ok(Surroundings {
            ignored: find_ignored(&status)?,
            umask: find_umask(&status)?,
            variables: names.filter(|name| is_foreign(name)).collect(),
        })
    }

    fn are_plain(&self) -> bool {
        self.ignored.is_empty() && self.umask == PLAIN_UMASK && self.variables.is_empty()
    }

    /// Runs `command` without what was found, and forwards the signals that end this process.
    fn start(&self, mut command: Command) -> Result<ExitStatus> {
        for name in &self.variables {
            command.env_remove(name);
        }
        umask(Mode::from_raw_mode(PLAIN_UMASK));
        // A signal with a handler has its default action again after exec. In this process it still has no
        // effect.
        for signal in &self.ignored {
            signal_hook::flag::register(*signal, Arc::default())?;
        }
        // A separate process group: a hangup of the terminal must not reach it if this process ignores
        // SIGHUP.
        let mut child = command.env(MARK, "1").process_group(0).spawn()?;
        let group = Pid::from_child(&child);
        for (number, signal) in [(SIGINT, Signal::INT), (SIGTERM, Signal::TERM), (SIGHUP, Signal::HUP)] {
            if !self.ignored.contains(&number) {
                forward(number, signal, group)?;
            }
        }
        Ok(child.wait()?)
    }
}

/// Sends `signal` to the process group whenever this process receives it.
fn forward(number: i32, signal: Signal, group: Pid) -> Result {
    let (mut received, sender) = UnixStream::pair()?;
    signal_hook::low_level::pipe::register(number, sender)?;
    std::thread::spawn(move || {
        let mut byte = [0];
        while received.read_exact(&mut byte).is_ok() {
            // A group that is gone needs no signal; its status is being collected.
            let _ = kill_process_group(group, signal);
        }
    });
    Ok(())
}

/// Returns the signals that this process ignores. Rust ignores SIGPIPE in every program and restores it in
/// children.
fn find_ignored(status: &str) -> Result<Vec<i32>> {
    let Some(mask) = find_field(status, "SigIgn:") else { return Ok(Vec::new()) };
    let mask = u64::from_str_radix(mask, 16)?;
    let is_ignored = |signal: &i32| mask & (1 << (signal - 1)) != 0;
    // The real-time signals do not affect the checks.
    Ok((1..32)
        .filter(is_ignored)
        .filter(|signal| *signal != SIGPIPE && !FORBIDDEN.contains(signal))
        .collect())
}

fn find_umask(status: &str) -> Result<u32> {
    let Some(mask) = find_field(status, "Umask:") else { return Ok(PLAIN_UMASK) };
    Ok(u32::from_str_radix(mask, 8)?)
}

fn find_field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    status.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

fn is_foreign(name: &OsStr) -> bool {
    PREFIXES.iter().any(|prefix| name.as_encoded_bytes().starts_with(prefix.as_bytes()))
}

/// Returns the exit code that a shell would return.
fn exit_code(status: ExitStatus) -> ExitCode {
    let code = status.code().or_else(|| Some(128 + status.signal()?)).unwrap_or(1);
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Makes a test program start a shell as `cargo xtask test` would, and print what the shell inherited.
    const ROLE: &str = "XTASK_TEST_ROLE";

    #[test]
    fn inherited_state_is_found() {
        let status = "Umask:\t0077\nSigIgn:\t0000000000001003\nSigCgt:\t0000000000000000\n";
        assert_eq!(find_ignored(status).unwrap(), [1, 2]);
        assert_eq!(find_umask(status).unwrap(), 0o077);
        assert_eq!(find_ignored("").unwrap(), [0; 0]);
        assert!(is_foreign(OsStr::new("GIT_DIR")) && !is_foreign(OsStr::new("PATH")));
    }

    #[test]
    fn inherited_signals_umask_and_variables_are_reset() {
        if std::env::var_os(ROLE).is_some() {
            let mut shell = Command::new("sh");
            shell.args(["-c", r#"grep SigIgn /proc/self/status; umask; echo "[$GIT_DIR$XDG_STATE_HOME]""#]);
            let found = Surroundings::load().unwrap();
            assert!(!found.are_plain());
            assert!(found.start(shell).unwrap().success());
            return;
        }
        let test = "surroundings::tests::inherited_signals_umask_and_variables_are_reset";
        let mut starter = Command::new("sh");
        starter.args(["-c", r#"trap '' HUP INT QUIT; umask 077; exec "$0" --exact "$1" --nocapture"#]);
        starter.arg(std::env::current_exe().unwrap()).arg(test);
        starter.env(ROLE, "1").env("GIT_DIR", "/nonsense").env("XDG_STATE_HOME", "nonsense");
        let output = starter.output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        let ignored = stdout.lines().find_map(|line| line.strip_prefix("SigIgn:")).expect(&stdout);
        assert_eq!(u64::from_str_radix(ignored.trim(), 16).unwrap() & 0b111, 0, "{stdout}");
        assert!(stdout.contains("0022\n[]"), "{stdout}");
    }

    #[test]
    fn a_child_killed_by_a_signal_has_the_exit_code_of_a_shell() {
        let status = |script: &str| Command::new("sh").args(["-c", script]).status().unwrap();
        assert_eq!(exit_code(status("exit 7")), ExitCode::from(7));
        assert_eq!(exit_code(status("kill -9 $$")), ExitCode::from(137));
    }
}
