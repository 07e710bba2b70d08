//! Sexton itself, asked what the others are asked.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::rc::Rc;
use std::time::Instant;

use serde_json::Value;

use super::ground::Ground;
use super::peer::{Keeper, Known, Peer, said_by};
use super::processes::Process;
use crate::Result;
use crate::bench::machine::first_line;
use crate::bench::measure::{output_of, succeed};
use crate::bench::run::yard::Yard;
use crate::bench::worker::Worker;

/// Everything is kept, so that a listing has as much to show as was put there; an owner's death is noticed
/// as soon as others are asked about it.
const SETTINGS: &str = "retention.ttl = \"36500d\"\nretention.keep = 100000\nowner.grace = \"1s\"\n";

/// What the kernel calls a supervisor.
const SHIM: &str = "sexton-shim";

/// The program as it is given to people.
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
    /// The one at `program`, with the store that it has by default.
    pub(super) fn new(program: &Path, worker: Worker) -> Result<Sexton> {
        let version = first_line(program, &["--version"])?;
        let (program, worker) = (program.to_owned(), Rc::new(worker));
        Ok(Sexton { program, worker, version, name: "sexton", store: ("sqlite", "sessions.db") })
    }

    /// The same with its records in a journal.
    pub(super) fn with_journal(&self) -> Sexton {
        Sexton { name: "sexton, JSON", store: ("json", "sessions.jsonl"), ..self.clone() }
    }

    /// What `open` gives, with what only this tool can.
    pub(super) fn open_house(&self, ground: Ground) -> Result<House> {
        let home = ground.path().join("home");
        let file = home.join("state").join(self.store.1);
        let url = format!("{}:{}", self.store.0, file.display());
        let yard = Yard::make(&self.program, home, SETTINGS)?;
        let house = House { yard, ground, url, file, owner: None, worker: self.worker.clone() };
        succeed(&mut house.sexton(&["recover"]))?;
        Ok(house)
    }
}

impl Peer for Sexton {
    fn name(&self) -> &'static str {
        self.name
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn open(&self, ground: Ground) -> Result<Box<dyn Keeper>> {
        Ok(Box::new(self.open_house(ground)?))
    }
}

/// A state directory with sessions in it.
pub(super) struct House {
    // Dropped first: it ends its sessions in its own way.
    yard: Yard,
    ground: Ground,
    url: String,
    file: PathBuf,
    owner: Option<u32>,
    worker: Rc<Worker>,
}

impl House {
    fn sexton(&self, words: &[&str]) -> Command {
        let mut command = self.yard.sexton(words);
        command.env("SEXTON_STORE", &self.url);
        self.ground.adopt(&mut command);
        command
    }

    /// Makes the process `pid` the owner of every session from now on.
    pub(super) fn own_by(&mut self, pid: u32) {
        self.owner = Some(pid);
    }
}

/// What `ps --all --json` says.
fn parse_listing(text: &str) -> Result<Known> {
    let records: Vec<Value> = serde_json::from_str(text)?;
    let states = records.iter().map(|record| record["status"].as_str().unwrap_or_default());
    Ok(Known::count(states, |state| !matches!(state, "starting" | "running")))
}

impl Keeper for House {
    fn ground(&self) -> &Ground {
        &self.ground
    }

    fn starter(&mut self, words: &[&str]) -> Result<Command> {
        let mut command = self.sexton(&["run", "-d"]);
        if let Some(owner) = self.owner {
            command.args(["--owner-pid", &owner.to_string()]);
        }
        command.arg("--").args(words);
        Ok(command)
    }

    fn name_of(&self, said: &str) -> String {
        said.trim().to_owned()
    }

    fn listing(&self) -> Command {
        self.sexton(&["ps", "--all"])
    }

    fn known(&self) -> Result<Known> {
        // A damaged store has an exit code of its own, and is listed all the same.
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
        Ok(self.ground.processes()?.into_iter().filter(|process| process.name == SHIM).collect())
    }

    fn return_words(&self) -> &'static str {
        "`sexton recover --adopt`"
    }

    fn come_back(&mut self) -> Result<String> {
        said_by(&mut self.sexton(&["recover", "--adopt"]))
    }

    fn repair(&mut self) -> Result<Option<&'static str>> {
        said_by(&mut self.sexton(&["doctor", "--repair"]))?;
        Ok(Some("`sexton doctor --repair`"))
    }

    fn exit_code(&self, name: &str) -> Result<Option<i64>> {
        let mut show = self.sexton(&["show", name, "--json"]);
        let record: Value = serde_json::from_str(&output_of(show.stdout(Stdio::piped()))?)?;
        Ok(record["exit"]["code"].as_i64())
    }

    fn close(&mut self) -> Result<Vec<PathBuf>> {
        // The newest records of a database are in its log, and may be there alone.
        let log = self.file.with_extension("db-wal");
        Ok([self.file.clone(), log].into_iter().filter(|file| file.exists()).collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_runs_or_is_about_to_has_not_ended() {
        let listing = r#"[{"status":"running"},{"status":"starting"},{"status":"completed"},
            {"status":"orphaned"},{"status":"cleanup_failed"}]"#;
        assert_eq!(parse_listing(listing).unwrap(), Known { running: 2, ended: 3 });
        assert!(parse_listing("error: damaged").is_err());
    }
}
