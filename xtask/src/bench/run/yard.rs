//! A state directory of its own, with sessions in it that end with it.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

use crate::Result;
use crate::bench::measure::{output_of, succeed};

/// What both sides find programs with.
pub(super) const PATH: &str = "/usr/bin:/bin";

/// A place for sessions.
pub(super) struct Yard {
    sexton: PathBuf,
    home: PathBuf,
}

impl Yard {
    /// Makes `home`, with `settings` as its configuration.
    pub(super) fn make(sexton: &Path, home: PathBuf, settings: &str) -> Result<Yard> {
        DirBuilder::new().mode(0o700).create(&home)?;
        fs::create_dir_all(home.join(".config/sexton"))?;
        fs::write(home.join(".config/sexton/config.toml"), settings)?;
        Ok(Yard { sexton: sexton.to_owned(), home })
    }

    /// The program, called here.
    pub(super) fn sexton(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.sexton);
        command.env_clear().env("PATH", PATH).env("HOME", &self.home).current_dir(&self.home);
        command.env("SEXTON_STATE_DIR", self.home.join("state")).args(arguments);
        command
    }

    /// Starts a session and gives its id.
    pub(super) fn start(&self, command: &[&str]) -> Result<String> {
        let words = [&["run", "-d", "--"], command].concat();
        Ok(output_of(&mut self.sexton(&words))?.trim().to_owned())
    }

    /// Waits until `sessions` have ended.
    pub(super) fn wait_for(&self, sessions: &[String]) -> Result {
        succeed(self.sexton(&["wait"]).args(sessions))
    }

    /// The records of the sessions that run.
    pub(super) fn running(&self) -> Result<Vec<Value>> {
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
pub(super) fn pid_of(record: &Value, who: &str) -> Result<u64> {
    Ok(record[who]["pid"].as_u64().ok_or_else(|| format!("a record has no {who}: {record}"))?)
}
