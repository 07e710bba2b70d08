//! Helper processes for a case: the test binary executed again, in a role given by an environment variable. This needs
//! no shell and no other program, and the helper is always the same build as the test.
//!
//! No helper outlives the test process: it exits when its standard input closes, however the test process ends. In
//! addition, [`Helper`] kills and reaps it when it is dropped.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use sexton_core::probe::COOKIE;

/// Environment variable with the role.
const ROLE: &str = "SEXTON_TESTKIT_ROLE";

/// Time limit of every wait. Only a failing test waits that long.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// Returns the role of this process and its arguments, or `None` in the test process itself.
pub(crate) fn assigned() -> Option<(String, Vec<OsString>)> {
    let role = std::env::var(ROLE).ok()?;
    Some((role, std::env::args_os().skip(1).collect()))
}

/// Returns the command that starts this program in `role`, outside of any session that it may run in.
pub(crate) fn command(role: &str) -> Command {
    let mut command = command_in_session(role);
    command.env_remove(COOKIE);
    command
}

/// Returns the command that starts this program in `role` with the cookie of this process.
pub(crate) fn command_in_session(role: &str) -> Command {
    let program = std::env::current_exe().expect("the path of this program is known");
    let mut command = Command::new(program);
    command.env(ROLE, role);
    command
}

/// Prints a line for the parent. If the parent no longer reads, this process panics, because it is not needed.
pub(crate) fn print_line(line: impl std::fmt::Display) {
    let mut out = io::stdout().lock();
    // One write per line, so that lines of several processes on one pipe are not mixed.
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).expect("the parent reads");
}

/// Waits until standard input closes.
pub(crate) fn wait_for_stdin_close() {
    // An error also means that the parent is gone.
    let _ = io::stdin().lock().read_to_end(&mut Vec::new());
}

/// Reads a line from the parent.
pub(crate) fn read_line() -> String {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).expect("the parent writes");
    line.trim_end().to_owned()
}

/// A process in a role. Killed and reaped when it is dropped, also by a panic.
pub(crate) struct Helper {
    child: Child,
    stdin: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Helper {
    /// Starts `command` with its standard input held open and its output read line by line.
    pub(crate) fn spawn(command: &mut Command) -> Helper {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a helper process can be started");
        let stdin = child.stdin.take();
        let lines = read_lines(child.stdout.take().expect("its output is piped"));
        Helper { child, stdin, lines }
    }

    /// Returns the pid.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Returns the next line of output.
    pub(crate) fn line(&self) -> String {
        self.find_line().expect("the helper exited without another line; see its standard error")
    }

    /// Returns the next line of output, or `None` when all processes that share the output have exited.
    pub(crate) fn find_line(&self) -> Option<String> {
        match self.lines.recv_timeout(LIMIT) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("a helper printed nothing for {LIMIT:?}"),
        }
    }

    /// Returns all lines until every process that shares the output has exited.
    pub(crate) fn remaining_lines(&self) -> Vec<String> {
        std::iter::from_fn(|| self.find_line()).collect()
    }

    /// Waits until every process that shares the output has exited. Returns whether they did in time.
    pub(crate) fn wait_for_output_end(&self) -> bool {
        loop {
            match self.lines.recv_timeout(LIMIT) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }

    /// Sends a signal. The helper is an unreaped child, so its pid cannot be reused.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("a child that is not reaped can be signalled");
    }

    /// Sends a line to the helper.
    pub(crate) fn send_line(&mut self, line: &str) {
        let stdin = self.stdin.as_mut().expect("its standard input is open");
        stdin.write_all(format!("{line}\n").as_bytes()).expect("the helper reads");
    }

    /// Returns the exit status, or `None` while the helper runs.
    pub(crate) fn find_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("the status of a child can be read")
    }

    /// Waits until the helper has exited, without reaping it, so that it is a zombie.
    pub(crate) fn wait_for_zombie(&self) {
        self.wait_for(WaitIdOptions::EXITED);
    }

    /// Waits until the helper is stopped.
    pub(crate) fn wait_until_stopped(&self) {
        self.wait_for(WaitIdOptions::STOPPED);
    }

    fn wait_for(&self, what: WaitIdOptions) {
        let child = WaitId::Pid(Pid::from_child(&self.child));
        rustix::process::waitid(child, what | WaitIdOptions::NOWAIT).expect("a child can be waited for");
    }

    /// Kills the helper with SIGKILL and reaps it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a child that is not reaped can be signalled");
        self.child.wait().expect("a child can be reaped");
    }

    /// Closes its standard input and waits for its exit. Returns the status and the remaining lines.
    pub(crate) fn finish(mut self) -> (ExitStatus, Vec<String>) {
        self.stdin = None;
        let lines = self.remaining_lines();
        (self.child.wait().expect("a child can be reaped"), lines)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.stdin = None;
        // It may have exited already. It must be reaped.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Its descendants also exit when standard input closes; wait for them.
        self.wait_for_output_end();
    }
}

/// Reads lines in a separate thread, so that waiting for one can time out.
fn read_lines(output: ChildStdout) -> Receiver<String> {
    let (sender, lines) = channel();
    thread::spawn(move || {
        for line in BufReader::new(output).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    lines
}
