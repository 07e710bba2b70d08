//! Sexton itself, measured like the others.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Instant;

use serde_json::Value;
use sexton_workspace::machine::first_line;

use super::peer::{Known, Peer, RunningPeer, output_of_both};
use super::processes::Process;
use super::sandbox::Sandbox;
use crate::Result;
use crate::measure::{output_of, succeed};
use crate::run::bench_env::BenchEnv;
use crate::worker::Worker;

/// Everything is kept, so that a listing contains as much as was inserted; an owner's death is noticed as
/// quickly as the other tools are checked for it.
const SETTINGS: &str = "retention.ttl = \"36500d\"\nretention.keep = 100000\nowner.grace = \"1s\"\n";

/// The name of a supervisor in the kernel.
const SHIM: &str = "sexton-shim";

/// The program as it is distributed.
#[derive(Clone)]
pub(super) struct Sexton {
    program: PathBuf,
    worker: Rc<Worker>,
    version: String,
    name: &'static str,
    /// The scheme of the store, and the name of its file.
    store: (&'static str, &'static str),
}

impl Sexton {
    /// Returns the one at `program`, with its default store.
    pub(super) fn new(program: &Path, worker: Worker) -> Result<Sexton> {
        let version = first_line(program, &["--version"])?;
        let (program, worker) = (program.to_owned(), Rc::new(worker));
        Ok(Sexton { program, worker, version, name: "sexton", store: ("sqlite", "sessions.db") })
    }

    /// Returns the same with its records in a journal.
    pub(super) fn with_journal(&self) -> Sexton {
        Sexton { name: "sexton, JSON", store: ("json", "sessions.jsonl"), ..self.clone() }
    }

    /// Like `open`, with the methods that only this tool has.
    pub(super) fn open_sexton(&self, sandbox: Sandbox) -> Result<RunningSexton> {
        let home = sandbox.path().join("home");
        let file = home.join("state").join(self.store.1);
        let url = format!("{}:{}", self.store.0, file.display());
        let bench_env = BenchEnv::make(&self.program, home, SETTINGS)?;
        let running_sexton =
            RunningSexton { bench_env, sandbox, url, file, owner: None, worker: self.worker.clone() };
        succeed(&mut running_sexton.sexton(&["recover"]))?;
        Ok(running_sexton)
    }
}

impl Peer for Sexton {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn open(&self, sandbox: Sandbox) -> Result<Box<dyn RunningPeer>> {
        Ok(Box::new(self.open_sexton(sandbox)?))
    }
}

/// A state directory with sessions in it.
pub(super) struct RunningSexton {
    // Dropped first: it stops its sessions in its own way.
    bench_env: BenchEnv,
    sandbox: Sandbox,
    url: String,
    file: PathBuf,
    owner: Option<u32>,
    worker: Rc<Worker>,
}

impl RunningSexton {
    fn sexton(&self, words: &[&str]) -> Command {
        let mut command = self.bench_env.sexton(words);
        command.env("SEXTON_STORE", &self.url);
        self.sandbox.adopt(&mut command);
        command
    }

    /// Makes the process `pid` the owner of every session from now on.
    pub(super) fn own_by(&mut self, pid: u32) {
        self.owner = Some(pid);
    }
}

/// Parses `ps --all --json`.
fn parse_listing(text: &str) -> Result<Known> {
    let records: Vec<Value> = serde_json::from_str(text)?;
    let states = records.iter().map(|record| record["status"].as_str().unwrap_or_default());
    Ok(Known::count(states, |state| !matches!(state, "starting" | "running")))
}

impl RunningPeer for RunningSexton {
    fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    fn starter(&mut self, words: &[&str]) -> Result<Command> {
        let mut command = self.sexton(&["run", "-d"]);
        if let Some(owner) = self.owner {
            command.args(["--owner-pid", &owner.to_string()]);
        }
        command.arg("--").args(words);
        Ok(command)
    }

    fn name_of(&self, output: &str) -> String {
        output.trim().to_owned()
    }

    fn listing(&self) -> Command {
        self.sexton(&["ps", "--all"])
    }

    fn known(&self) -> Result<Known> {
        // A damaged store has its own exit code, and is listed anyway.
        let output = self.sexton(&["ps", "--all", "--json"]).stdout(Stdio::piped()).output()?;
        parse_listing(&String::from_utf8(output.stdout)?)
    }

    fn fill(&mut self, total: usize, _: Instant) -> Result<usize> {
        self.worker.populate(&self.url, total)?;
        Ok(self.known()?.ended)
    }

    fn stop(&self, name: &str) -> Command {
        self.sexton(&["stop", "--grace", "1s", name])
    }

    fn stop_all(&self) -> Vec<Command> {
        vec![self.sexton(&["stop", "--grace", "1s", "--all"])]
    }

    fn guardians(&self) -> Result<Vec<Process>> {
        Ok(self.sandbox.processes()?.into_iter().filter(|process| process.name == SHIM).collect())
    }

    fn return_words(&self) -> &'static str {
        "`sexton recover --adopt`"
    }

    fn come_back(&mut self) -> Result<String> {
        output_of_both(&mut self.sexton(&["recover", "--adopt"]))
    }

    fn repair(&mut self) -> Result<Option<&'static str>> {
        output_of_both(&mut self.sexton(&["doctor", "--repair"]))?;
        Ok(Some("`sexton doctor --repair`"))
    }

    fn exit_code(&self, name: &str) -> Result<Option<i64>> {
        let mut show = self.sexton(&["show", name, "--json"]);
        let record: Value = serde_json::from_str(&output_of(show.stdout(Stdio::piped()))?)?;
        Ok(record["exit"]["code"].as_i64())
    }

    fn close(&mut self) -> Result<Vec<PathBuf>> {
        // The newest records of a database may be only in its log.
        let log = self.file.with_extension("db-wal");
        Ok([self.file.clone(), log].into_iter().filter(|file| file.exists()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_starting_and_running_sessions_have_not_ended() {
        let listing = r#"[{"status":"running"},{"status":"starting"},{"status":"completed"},
            {"status":"orphaned"},{"status":"cleanup_failed"}]"#;
        assert_eq!(parse_listing(listing).unwrap(), Known { running: 2, ended: 3 });
        assert!(parse_listing("error: damaged").is_err());
    }
}
