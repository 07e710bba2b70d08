//! Other processes for a case: the test binary executed again, in a role that an environment variable
//! names. No shell and no other program is needed, and the helper is as old as the code it helps to test.
//!
//! Nothing is left behind. A helper's standard input is its leash: it ends when that closes, so it ends
//! with the test process, however that dies. Besides, [`Helper`] kills and reaps it when it is dropped.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

use rustix::process::{Pid, Signal, WaitId, WaitIdOptions};
use sexton_core::probe::COOKIE;

/// The variable that names the role.
const ROLE: &str = "SEXTON_TESTKIT_ROLE";

/// How long anything is waited for. Only a failure waits that long, so it can be generous.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// The role this process was started for, with its arguments; `None` in the test process itself.
pub(crate) fn assigned() -> Option<(String, Vec<OsString>)> {
    let role = std::env::var(ROLE).ok()?;
    Some((role, std::env::args_os().skip(1).collect()))
}

/// The command that starts this very program in `role`, outside of any session it may itself run in.
pub(crate) fn command(role: &str) -> Command {
    let mut command = command_within_the_session(role);
    command.env_remove(COOKIE);
    command
}

/// The same, with the cookie that this process has.
pub(crate) fn command_within_the_session(role: &str) -> Command {
    let program = std::env::current_exe().expect("a program knows where it is");
    let mut command = Command::new(program);
    command.env(ROLE, role);
    command
}

/// Says one line to whoever started this process. Where nobody listens any more, this process is of no
/// use either and ends by the panic.
pub(crate) fn say(line: impl std::fmt::Display) {
    let mut out = io::stdout().lock();
    // One write per line: lines of several processes on one pipe stay whole.
    out.write_all(format!("{line}\n").as_bytes()).and_then(|()| out.flush()).expect("somebody listens");
}

/// Waits until the leash is let go.
pub(crate) fn wait_for_the_leash() {
    // An error is as good as an end: there is nobody left to wait for.
    let _ = io::stdin().lock().read_to_end(&mut Vec::new());
}

/// Waits for the next line from whoever started this process.
pub(crate) fn hear() -> String {
    let mut line = String::new();
    io::stdin().lock().read_line(&mut line).expect("somebody speaks");
    line.trim_end().to_owned()
}

/// A process in a role. Killed and reaped when it is dropped, also by a panic.
pub(crate) struct Helper {
    child: Child,
    leash: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Helper {
    /// Starts `command`, on a leash and with its output read line by line.
    pub(crate) fn spawn(command: &mut Command) -> Helper {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().expect("a helper process can be started");
        let leash = child.stdin.take();
        let lines = read_lines(child.stdout.take().expect("its output is piped"));
        Helper { child, leash, lines }
    }

    /// Its pid.
    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// The next line it says.
    pub(crate) fn line(&self) -> String {
        self.find_line().expect("the helper ended without a further line; its standard error says why")
    }

    /// The next line it says, or `None` where it, and everyone who shares its output, has ended.
    pub(crate) fn find_line(&self) -> Option<String> {
        match self.lines.recv_timeout(LIMIT) {
            Ok(line) => Some(line),
            Err(RecvTimeoutError::Disconnected) => None,
            Err(RecvTimeoutError::Timeout) => panic!("a helper said nothing for {LIMIT:?}"),
        }
    }

    /// Every line until it, and everyone who shares its output, has ended.
    pub(crate) fn remaining_lines(&self) -> Vec<String> {
        std::iter::from_fn(|| self.find_line()).collect()
    }

    /// Waits until it, and everyone who shares its output, has ended; says whether they did.
    pub(crate) fn has_fallen_silent(&self) -> bool {
        loop {
            match self.lines.recv_timeout(LIMIT) {
                Ok(_) => {}
                Err(RecvTimeoutError::Disconnected) => return true,
                Err(RecvTimeoutError::Timeout) => return false,
            }
        }
    }

    /// Sends it a signal. It is this process's own child and not reaped, so the pid is its own.
    pub(crate) fn signal(&self, signal: Signal) {
        let pid = Pid::from_child(&self.child);
        rustix::process::kill_process(pid, signal).expect("a child that is not reaped can be signalled");
    }

    /// Says a line to it.
    pub(crate) fn tell(&mut self, line: &str) {
        let leash = self.leash.as_mut().expect("it is still on its leash");
        leash.write_all(format!("{line}\n").as_bytes()).expect("the helper listens");
    }

    /// How it ended, or `None` while it runs.
    pub(crate) fn find_status(&mut self) -> Option<ExitStatus> {
        self.child.try_wait().expect("a child can be asked for its status")
    }

    /// Waits until it has ended, and leaves it unreaped: a zombie.
    pub(crate) fn wait_for_zombie(&self) {
        self.wait_for(WaitIdOptions::EXITED);
    }

    /// Waits until it has stopped.
    pub(crate) fn wait_until_stopped(&self) {
        self.wait_for(WaitIdOptions::STOPPED);
    }

    fn wait_for(&self, what: WaitIdOptions) {
        let child = WaitId::Pid(Pid::from_child(&self.child));
        rustix::process::waitid(child, what | WaitIdOptions::NOWAIT).expect("a child can be waited for");
    }

    /// Kills it with SIGKILL and reaps it.
    pub(crate) fn kill(&mut self) {
        self.child.kill().expect("a child that is not reaped can be signalled");
        self.child.wait().expect("a child can be reaped");
    }

    /// Lets the leash go and waits for its end, with the lines it still said.
    pub(crate) fn finish(mut self) -> (ExitStatus, Vec<String>) {
        self.leash = None;
        let lines = self.remaining_lines();
        (self.child.wait().expect("a child can be reaped"), lines)
    }
}

impl Drop for Helper {
    fn drop(&mut self) {
        self.leash = None;
        // It may have ended by itself; reaping it is what counts.
        let _ = self.child.kill();
        let _ = self.child.wait();
        // Whoever shares its output has noticed the leash, and is gone when that output ends.
        self.has_fallen_silent();
    }
}

/// Reads lines in a thread of its own, so that waiting for one can have a limit.
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
