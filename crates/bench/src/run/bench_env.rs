//! A separate state directory, whose sessions are stopped with it.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use serde_json::Value;

use crate::Result;
use crate::measure::{output_of, succeed};

/// The `PATH` of Sexton and of the tools it is compared with.
pub(crate) const PATH: &str = "/usr/bin:/bin";

/// An environment for sessions.
pub(crate) struct BenchEnv {
    sexton: PathBuf,
    home: PathBuf,
}

impl BenchEnv {
    /// Creates `home`, with `settings` as its configuration.
    pub(crate) fn make(sexton: &Path, home: PathBuf, settings: &str) -> Result<BenchEnv> {
        DirBuilder::new().mode(0o700).create(&home)?;
        fs::create_dir_all(home.join(".config/sexton"))?;
        fs::write(home.join(".config/sexton/config.toml"), settings)?;
        Ok(BenchEnv { sexton: sexton.to_owned(), home })
    }

    /// Returns the program, run in this environment.
    pub(crate) fn sexton(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.sexton);
        command.env_clear().env("PATH", PATH).env("HOME", &self.home).current_dir(&self.home);
        command.env("SEXTON_STATE_DIR", self.home.join("state")).args(arguments);
        command
    }

    /// Starts a session and returns its id.
    pub(crate) fn start(&self, command: &[&str]) -> Result<String> {
        let words = [&["run", "-d", "--"], command].concat();
        Ok(output_of(&mut self.sexton(&words))?.trim().to_owned())
    }

    /// Waits until `sessions` have ended.
    pub(crate) fn wait_for(&self, sessions: &[String]) -> Result {
        succeed(self.sexton(&["wait"]).args(sessions))
    }

    /// Returns the records of running sessions.
    pub(crate) fn running(&self) -> Result<Vec<Value>> {
        Ok(serde_json::from_str(&output_of(&mut self.sexton(&["ps", "--json"]))?)?)
    }
}

impl Drop for BenchEnv {
    fn drop(&mut self) {
        // If a measurement failed, its sessions still run; otherwise this does nothing.
        let _ = output_of(&mut self.sexton(&["stop", "--all", "--force"]));
    }
}

/// Returns the pid of a process in a record: `process`, or `supervisor`.
pub(crate) fn pid_of(record: &Value, role: &str) -> Result<u64> {
    Ok(record[role]["pid"].as_u64().ok_or_else(|| format!("a record has no {role}: {record}"))?)
}

/// How long a process may take until it ignores signals.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a shell that ignores signals has executed `sleep`, which still ignores them.
pub(crate) fn wait_until_stubborn(pid: u64) -> Result {
    let began = Instant::now();
    while fs::read_to_string(format!("/proc/{pid}/comm"))?.trim() != "sleep" {
        if began.elapsed() > PATIENCE {
            return Err(format!("process {pid} does not sleep").into());
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    Ok(())
}
