//! Starts and stops the processes of a case.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pollster::block_on;
use sexton_core::probe::{COOKIE, EndPolicy, Ended, Group, Members};
use sexton_core::{Others, ProcessIdentity, ProcessProbe, SessionId};

/// A case: its name and its function.
pub type Case = (&'static str, fn());

/// Longer than any step takes that succeeds.
pub const TIMEOUT: Duration = Duration::from_secs(60);

pub fn probe() -> Box<dyn ProcessProbe> {
    sexton_proc_linux::open().expect("the probe works here")
}

/// Returns this program in a role.
pub fn role(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(super::roles::VARIABLE, name).env_remove(COOKIE);
    command
}

/// Returns a program that ignores everything but SIGKILL, and prints when it does.
pub fn stubborn() -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "trap '' INT TERM HUP; echo ready; exec sleep 600"]).env_remove(COOKIE);
    command
}

/// Returns a program that prints that it is ready and then sleeps.
pub fn idle() -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo ready; exec sleep 600"]).env_remove(COOKIE);
    command
}

/// A process that is killed at the end of its case, passed or failed.
pub struct TestProcess(pub Child);

impl TestProcess {
    /// Starts a program and waits until it prints that it is ready.
    pub fn start(command: &mut Command) -> TestProcess {
        let mut process = TestProcess(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        assert_eq!(process.read_line(), "ready");
        process
    }

    pub fn read_line(&mut self) -> String {
        let mut line = String::new();
        let stdout = self.0.stdout.as_mut().expect("its output is a pipe");
        // Unbuffered: the next call must see the rest of the output.
        BufReader::with_capacity(1, stdout).read_line(&mut line).unwrap();
        line.trim().to_owned()
    }

    pub fn pid(&self) -> u32 {
        self.0.id()
    }

    pub fn is_alive(&mut self) -> bool {
        self.0.try_wait().unwrap().is_none()
    }

    pub fn identity(&self) -> ProcessIdentity {
        block_on(probe().identify(self.pid())).unwrap()
    }
}

impl Drop for TestProcess {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Returns a group that is known only by its cookie.
pub fn group(session: &SessionId) -> Group {
    Group::of_cookie(session)
}

pub fn policy(grace: Duration) -> EndPolicy {
    let (spare, others) = (Vec::new(), Others::none());
    EndPolicy { grace, first_signal: libc::SIGINT, kill_wait: TIMEOUT, spare, others }
}

pub fn members(group: &Group) -> Members {
    block_on(probe().members(group, &Others::none())).unwrap()
}

pub fn end(groups: &[Group], policy: &EndPolicy) -> Vec<Ended> {
    block_on(probe().terminate(groups, policy)).unwrap()
}

pub fn pids(processes: &[ProcessIdentity]) -> Vec<u32> {
    processes.iter().map(|process| process.pid).collect()
}
