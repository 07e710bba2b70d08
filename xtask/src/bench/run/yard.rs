//! A state directory of its own, with sessions in it that end with it.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Result;
use crate::bench::measure::{output_of, succeed};

/// What both sides find programs with.
pub(in crate::bench) const PATH: &str = "/usr/bin:/bin";

/// A place for sessions.
pub(in crate::bench) struct Yard {
    sexton: PathBuf,
    home: PathBuf,
}

impl Yard {
    /// Makes `home`, with `settings` as its configuration.
    pub(in crate::bench) fn make(sexton: &Path, home: PathBuf, settings: &str) -> Result<Yard> {
        DirBuilder::new().mode(0o700).create(&home)?;
        fs::create_dir_all(home.join(".config/sexton"))?;
        fs::write(home.join(".config/sexton/config.toml"), settings)?;
        Ok(Yard { sexton: sexton.to_owned(), home })
    }

    /// The program, called here.
    pub(in crate::bench) fn sexton(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.sexton);
        command.env_clear().env("PATH", PATH).env("HOME", &self.home).current_dir(&self.home);
        command.env("SEXTON_STATE_DIR", self.home.join("state")).args(arguments);
        command
    }

    /// Starts a session and gives its id.
    pub(in crate::bench) fn start(&self, command: &[&str]) -> Result<String> {
        let words = [&["run", "-d", "--"], command].concat();
        Ok(output_of(&mut self.sexton(&words))?.trim().to_owned())
    }

    /// Waits until `sessions` have ended.
    pub(in crate::bench) fn wait_for(&self, sessions: &[String]) -> Result {
        succeed(self.sexton(&["wait"]).args(sessions))
    }

    /// The records of the sessions that run.
    pub(in crate::bench) fn running(&self) -> Result<Vec<Value>> {
        Ok(serde_json::from_str(&output_of(&mut self.sexton(&["ps", "--json"]))?)?)
    }
}

impl Drop for Yard {
    fn drop(&mut self) {
        // Where a measurement failed, its sessions still run; where none does, this does nothing.
        let _ = output_of(&mut self.sexton(&["stop", "--all", "--force"]));
    }
}

/// The number of a process in a record: `process`, or `supervisor`.
pub(in crate::bench) fn pid_of(record: &Value, who: &str) -> Result<u64> {
    Ok(record[who]["pid"].as_u64().ok_or_else(|| format!("a record has no {who}: {record}"))?)
}

/// How long a process has to become stubborn.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a shell that ignores signals has executed `sleep`, which goes on ignoring them.
pub(in crate::bench) fn wait_until_stubborn(pid: u64) -> Result {
    let began = Instant::now();
    while fs::read_to_string(format!("/proc/{pid}/comm"))?.trim() != "sleep" {
        if began.elapsed() > PATIENCE {
            return Err(format!("process {pid} does not sleep").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
