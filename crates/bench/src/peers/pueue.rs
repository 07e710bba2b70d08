//! pueue: a queue of shell commands, with a daemon.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::Value;

use super::peer::{Known, Peer, RunningPeer, output_of_both, require_answer};
use super::processes::Process;
use super::sandbox::Sandbox;
use crate::Result;
use crate::measure::{output_of, succeed};
use crate::pueue::{Pueue, configure, multiply_task};

/// An installed pueue.
pub(super) struct PueuePeer {
    pueue: Pueue,
    version: String,
}

impl PueuePeer {
    /// Returns the one below the target directory.
    pub(super) fn require() -> Result<PueuePeer> {
        let pueue = Pueue::require()?;
        let version = pueue.version()?;
        Ok(PueuePeer { pueue, version })
    }
}

impl Peer for PueuePeer {
    fn name(&self) -> &'static str {
        "pueue"
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn open(&self, sandbox: Sandbox) -> Result<Box<dyn RunningPeer>> {
        let directory = sandbox.path().join("pueue");
        let config = configure(&directory, sandbox.sockets())?;
        let state = directory.join("state.json");
        let mut queue = Queue { sandbox, pueue: self.pueue.clone(), config, state, daemon: Vec::new() };
        queue.open()?;
        Ok(Box::new(queue))
    }
}

struct Queue {
    sandbox: Sandbox,
    pueue: Pueue,
    config: PathBuf,
    state: PathBuf,
    daemon: Vec<Process>,
}

impl Queue {
    fn client(&self, words: &[&str]) -> Command {
        let mut command = self.pueue.client(&self.config, words);
        self.sandbox.adopt(&mut command);
        command
    }

    fn open(&mut self) -> Result<String> {
        let mut daemon = self.pueue.daemon(&self.config);
        self.sandbox.adopt(&mut daemon);
        let log = self.sandbox.path().join("pueued.log");
        // The daemon would hold a pipe open for as long as it lives.
        let file = fs::File::create(&log)?;
        succeed(daemon.arg("--daemonize").stdout(file.try_clone()?).stderr(file))?;
        let answered = require_answer("pueued", || Ok(self.client(&["status"]).status()?.success()));
        let output = fs::read_to_string(log)?;
        answered.map_err(|error| format!("{error}: {output}"))?;
        self.daemon =
            self.sandbox.processes()?.into_iter().filter(|process| process.name == "pueued").collect();
        Ok(output)
    }

    fn tasks(&self) -> Result<Value> {
        let mut status = self.client(&["status", "--json"]);
        Ok(serde_json::from_str(&output_of(status.stdout(Stdio::piped()).stderr(Stdio::piped()))?)?)
    }
}

/// Parses `status --json`; a task's status is an object with the status as its key.
fn parse_listing(state: &Value) -> Known {
    let tasks = state["tasks"].as_object().into_iter().flat_map(|tasks| tasks.values());
    let states = tasks.map(|task| if task["status"].get("Done").is_some() { "Done" } else { "" });
    Known::count(states, |state| state == "Done")
}

fn parse_exit_code(task: &Value) -> Option<i64> {
    let result = &task["status"]["Done"]["result"];
    if result == "Success" { Some(0) } else { result["Failed"].as_i64() }
}

impl RunningPeer for Queue {
    fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    fn starter(&mut self, words: &[&str]) -> Result<Command> {
        let mut command = self.client(&["add", "--immediate", "--print-task-id", "--"]);
        command.args(words);
        Ok(command)
    }

    fn name_of(&self, output: &str) -> String {
        output.trim().to_owned()
    }

    fn listing(&self) -> Command {
        self.client(&["status"])
    }

    fn known(&self) -> Result<Known> {
        Ok(parse_listing(&self.tasks()?))
    }

    /// One task is really run; the others are copies of it in the state that the daemon reads when it starts,
    /// which is what it would have written itself.
    fn fill(&mut self, total: usize, deadline: Instant) -> Result<usize> {
        self.start(&["true"])?;
        self.settle(1, deadline)?;
        self.close()?;
        let mut state: Value = serde_json::from_str(&fs::read_to_string(&self.state)?)?;
        multiply_task(&mut state, total)?;
        fs::write(&self.state, state.to_string())?;
        self.open()?;
        Ok(self.known()?.ended)
    }

    fn stop(&self, name: &str) -> Command {
        self.client(&["kill", name])
    }

    fn stop_all(&self) -> Vec<Command> {
        vec![self.client(&["kill", "--all"])]
    }

    fn guardians(&self) -> Result<Vec<Process>> {
        Ok(self.daemon.clone())
    }

    fn return_words(&self) -> &'static str {
        "`pueued --daemonize`"
    }

    fn come_back(&mut self) -> Result<String> {
        self.open()
    }

    fn exit_code(&self, name: &str) -> Result<Option<i64>> {
        Ok(parse_exit_code(&self.tasks()?["tasks"][name]))
    }

    fn close(&mut self) -> Result<Vec<PathBuf>> {
        output_of_both(&mut self.client(&["shutdown"]))?;
        require_answer("the end of pueued", || Ok(self.sandbox.count("pueued")? == 0))?;
        Ok(vec![self.state.clone()])
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_a_task_that_is_done_has_ended() {
        let done = json!({"status": {"Done": {"result": {"Failed": 7}}}});
        let state =
            json!({"tasks": {"0": done, "1": {"status": {"Running": {}}}, "2": {"status": "Locked"}}});
        assert_eq!(parse_listing(&state), Known { running: 2, ended: 1 });
        assert_eq!(parse_exit_code(&state["tasks"]["0"]), Some(7));
        assert_eq!(parse_exit_code(&state["tasks"]["1"]), None);
        assert_eq!(parse_exit_code(&json!({"status": {"Done": {"result": "Killed"}}})), None);
        assert_eq!(parse_exit_code(&json!({"status": {"Done": {"result": "Success"}}})), Some(0));
    }
}
