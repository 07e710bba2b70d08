//! tmux: terminals that outlive their window, which many users run agents in.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use sexton_workspace::machine::first_line;

use super::peer::{Known, Peer, RunningPeer, output_of_both};
use super::processes::Process;
use super::sandbox::Sandbox;
use crate::Result;
use crate::measure::{output_of, succeed};

/// Ended commands stay listed, as with the other tools.
const SETTINGS: &str = "set -g remain-on-exit on\nset -g exit-empty off\n";

/// An installed tmux.
pub(super) struct Tmux {
    version: String,
}

impl Tmux {
    /// Returns the one of the system.
    pub(super) fn require() -> Result<Tmux> {
        Ok(Tmux { version: first_line("tmux", &["-V"])? })
    }
}

impl Peer for Tmux {
    fn name(&self) -> &'static str {
        "tmux"
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn open(&self, sandbox: Sandbox) -> Result<Box<dyn RunningPeer>> {
        let settings = sandbox.write("tmux.conf", SETTINGS)?;
        let mut server = Server { sandbox, settings, count: 0, process: Vec::new() };
        server.open()?;
        Ok(Box::new(server))
    }
}

struct Server {
    sandbox: Sandbox,
    settings: PathBuf,
    count: usize,
    process: Vec<Process>,
}

impl Server {
    fn tmux(&self, words: &[&str]) -> Command {
        let mut command = self.sandbox.command("tmux");
        command.env("TERM", "xterm").arg("-S").arg(self.sandbox.sockets().join("socket"));
        command.arg("-f").arg(&self.settings).args(words);
        command
    }

    fn open(&mut self) -> Result {
        succeed(&mut self.tmux(&["start-server"]))?;
        self.process = self.sandbox.processes()?;
        Ok(())
    }

    fn panes(&self, format: &str) -> Result<String> {
        output_of_both(&mut self.tmux(&["list-panes", "-a", "-F", format]))
    }
}

/// Parses `list-panes`: whether each pane is dead.
fn parse_listing(text: &str) -> Known {
    let states = text.lines().filter(|line| matches!(*line, "0" | "1"));
    Known::count(states, |state| state == "1")
}

impl RunningPeer for Server {
    fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    fn starter(&mut self, words: &[&str]) -> Result<Command> {
        self.count += 1;
        let name = format!("command{}", self.count);
        let mut command = self.tmux(&["new-session", "-d", "-s", &name]);
        command.args(words);
        Ok(command)
    }

    fn name_of(&self, _: &str) -> String {
        format!("command{}", self.count)
    }

    fn listing(&self) -> Command {
        let format = "#{session_name} #{pane_pid} #{pane_dead} #{pane_dead_status} #{pane_start_command}";
        self.tmux(&["list-panes", "-a", "-F", format])
    }

    fn known(&self) -> Result<Known> {
        Ok(parse_listing(&self.panes("#{pane_dead}")?))
    }

    fn stop(&self, name: &str) -> Command {
        self.tmux(&["kill-session", "-t", &format!("={name}")])
    }

    fn stop_all(&self) -> Vec<Command> {
        vec![self.tmux(&["kill-server"])]
    }

    fn guardians(&self) -> Result<Vec<Process>> {
        Ok(self.process.clone())
    }

    fn return_words(&self) -> &'static str {
        "`tmux`, which starts a new server"
    }

    fn come_back(&mut self) -> Result<String> {
        self.open()?;
        output_of_both(&mut self.listing())
    }

    fn exit_code(&self, name: &str) -> Result<Option<i64>> {
        let mut list = self.tmux(&["list-panes", "-t", &format!("={name}"), "-F", "#{pane_dead_status}"]);
        let output = output_of(list.stdout(Stdio::piped()).stderr(Stdio::piped())).unwrap_or_default();
        Ok(output.trim().parse().ok())
    }

    fn close(&mut self) -> Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_panes_count_as_ended_and_messages_are_ignored() {
        assert_eq!(parse_listing("1\n0\n1\n"), Known { running: 1, ended: 2 });
        assert_eq!(parse_listing("no server running on /tmp/socket\n"), Known::default());
    }
}
