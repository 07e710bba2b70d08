//! Starting and ending the processes of a case.

use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use pollster::block_on;
use sexton_core::probe::{COOKIE, EndPolicy, Ended, Group, Members};
use sexton_core::{ProcessIdentity, ProcessProbe, SessionId};

/// A case: the sentence it proves, and the proof.
pub type Case = (&'static str, fn());

/// Longer than anything takes that works.
pub const PATIENCE: Duration = Duration::from_secs(60);

pub fn probe() -> Box<dyn ProcessProbe> {
    sexton_proc_linux::open().expect("the probe works here")
}

/// This program, in a role.
pub fn role(name: &str) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.env(super::roles::VARIABLE, name).env_remove(COOKIE);
    command
}

/// A program that ignores everything but SIGKILL, and says when it has begun to.
pub fn stubborn() -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "trap '' INT TERM HUP; echo ready; exec sleep 600"]).env_remove(COOKIE);
    command
}

/// A program that does nothing for a while, and says so.
pub fn idle() -> Command {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "echo ready; exec sleep 600"]).env_remove(COOKIE);
    command
}

/// A process that ends with its case, whatever becomes of that.
pub struct Actor(pub Child);

impl Actor {
    /// Starts a program and waits until it says that it is ready.
    pub fn start(command: &mut Command) -> Actor {
        let mut actor = Actor(command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap());
        assert_eq!(actor.read_line(), "ready");
        actor
    }

    pub fn read_line(&mut self) -> String {
        let mut line = String::new();
        let stdout = self.0.stdout.as_mut().expect("its output is a pipe");
        // One line at a time is all that an actor ever says before it is asked again.
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

impl Drop for Actor {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A group that nothing is known of but its cookie.
pub fn group(session: &SessionId) -> Group {
    Group { session: session.clone(), process: None, supervisor: None, cgroup: None }
}

pub fn policy(grace: Duration) -> EndPolicy {
    EndPolicy { grace, first_signal: libc::SIGINT, kill_wait: PATIENCE, spare: Vec::new() }
}

pub fn members(group: &Group) -> Members {
    block_on(probe().members(group)).unwrap()
}

pub fn end(groups: &[Group], policy: &EndPolicy) -> Vec<Ended> {
    block_on(probe().terminate(groups, policy)).unwrap()
}

pub fn pids(processes: &[ProcessIdentity]) -> Vec<u32> {
    processes.iter().map(|process| process.pid).collect()
}
