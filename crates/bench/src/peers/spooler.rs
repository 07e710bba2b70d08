//! task-spooler: a queue of commands with a small server, and one waiting client per command.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use sexton_workspace::machine::first_line;

use super::peer::{Known, Peer, RunningPeer, output_of_both};
use super::processes::Process;
use super::sandbox::Sandbox;
use crate::Result;
use crate::measure::{output_of, succeed};

/// More than any question runs at once.
const SLOTS: &str = "1000";

/// An installed task-spooler.
pub(super) struct Spooler {
    version: String,
}

impl Spooler {
    /// Returns the one of the system.
    pub(super) fn require() -> Result<Spooler> {
        let line = first_line("tsp", &["-V"])?;
        let version = line.split(" - ").next().unwrap_or(&line).replace("Task Spooler v", "task-spooler ");
        Ok(Spooler { version })
    }
}

impl Peer for Spooler {
    fn name(&self) -> &'static str {
        "task-spooler"
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn open(&self, sandbox: Sandbox) -> Result<Box<dyn RunningPeer>> {
        let mut spool = Spool { sandbox, server: Vec::new() };
        spool.open()?;
        Ok(Box::new(spool))
    }
}

struct Spool {
    sandbox: Sandbox,
    server: Vec<Process>,
}

impl Spool {
    fn tsp(&self, words: &[&str]) -> Command {
        let mut command = self.sandbox.command("tsp");
        command.env("TS_SOCKET", self.sandbox.sockets().join("socket")).env("TMPDIR", self.sandbox.path());
        // By default it runs one at a time, and keeps only the last thousand.
        command.env("TS_SLOTS", SLOTS).env("TS_MAXFINISHED", "100000").args(words);
        command
    }

    fn open(&mut self) -> Result {
        succeed(&mut self.tsp(&["-S", SLOTS]))?;
        self.server = self.sandbox.processes()?;
        Ok(())
    }

    fn list(&self) -> Result<String> {
        output_of(self.tsp(&[]).stdout(Stdio::piped()).stderr(Stdio::piped()))
    }
}

/// Returns the lines of a listing after its header, as words: number, state, file, and the exit code of an
/// ended one.
fn rows(text: &str) -> impl Iterator<Item = Vec<&str>> {
    text.lines().skip(1).map(|line| line.split_whitespace().collect())
}

fn parse_listing(text: &str) -> Known {
    Known::count(rows(text).filter_map(|row| row.get(1).copied()), |state| state == "finished")
}

fn parse_exit_code(text: &str, name: &str) -> Option<i64> {
    let mut found = rows(text).filter(|row| row.first() == Some(&name) && row.get(1) == Some(&"finished"));
    found.next()?.get(3)?.parse().ok()
}

impl RunningPeer for Spool {
    fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    fn starter(&mut self, words: &[&str]) -> Result<Command> {
        Ok(self.tsp(words))
    }

    fn name_of(&self, output: &str) -> String {
        output.trim().to_owned()
    }

    fn listing(&self) -> Command {
        self.tsp(&[])
    }

    fn known(&self) -> Result<Known> {
        Ok(parse_listing(&self.list()?))
    }

    fn stop(&self, name: &str) -> Command {
        self.tsp(&["-k", name])
    }

    fn stop_all(&self) -> Vec<Command> {
        let list = self.list().unwrap_or_default();
        let running = rows(&list).filter(|row| row.get(1) == Some(&"running"));
        running.map(|row| self.stop(row[0])).collect()
    }

    fn guardians(&self) -> Result<Vec<Process>> {
        Ok(self.server.clone())
    }

    fn return_words(&self) -> &'static str {
        "`tsp`, which starts a new server"
    }

    fn come_back(&mut self) -> Result<String> {
        output_of_both(&mut self.tsp(&[]))
    }

    fn exit_code(&self, name: &str) -> Result<Option<i64>> {
        Ok(parse_exit_code(&self.list()?, name))
    }

    fn close(&mut self) -> Result<Vec<PathBuf>> {
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LISTING: &str = "\
ID   State      Output               E-Level  Times(r/u/s)   Command [run=1/50]
2    running    /tmp/ts-out.UqBpsy                         sleep 600
3    queued     (file)                                     sleep 600
0    finished   /tmp/ts-out.LTil3u 0        0.00/0.00/0.00 true
1    finished   /tmp/ts-out.KEAKuM 7        0.00/0.00/0.00 sh -c exit 7
";

    #[test]
    fn states_and_codes_are_read_from_their_columns() {
        assert_eq!(parse_listing(LISTING), Known { running: 2, ended: 2 });
        assert_eq!(parse_exit_code(LISTING, "1"), Some(7));
        assert_eq!(parse_exit_code(LISTING, "2"), None);
        assert_eq!(parse_exit_code(LISTING, "9"), None);
    }
}
