//! pueue, a task manager with a daemon, as the program to compare with.
//!
//! It is installed below the target directory and runs with its own directories: a pueue that the user has is
//! not used or changed.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use sexton_workspace::machine::first_line;
use sexton_workspace::{cargo, target_dir};
use tempfile::TempDir;

use super::run::bench_env::PATH;
use crate::Result;

/// How long the daemon may take to answer, or to exit.
const PATIENCE: Duration = Duration::from_secs(30);

/// An installed pueue.
#[derive(Clone)]
pub(super) struct Pueue {
    bin: PathBuf,
}

/// A daemon of the benchmark; it is killed when this is dropped.
pub(super) struct Daemon<'a> {
    pueue: &'a Pueue,
    process: Child,
    config: PathBuf,
    state: PathBuf,
    // A socket's path must be short, so it cannot be in a deep target directory.
    _runtime: TempDir,
}

impl Pueue {
    /// Returns the one below the target directory, installed from crates.io if it is missing.
    pub(super) fn require() -> Result<Pueue> {
        let peers = target_dir().join("peers");
        let bin = peers.join("bin");
        if !bin.join("pueued").exists() {
            let status = cargo(["install", "--locked", "pueue", "--root"]).arg(&peers).status()?;
            if !status.success() {
                return Err(format!("pueue could not be installed ({status})").into());
            }
        }
        Ok(Pueue { bin })
    }

    /// Returns its version, as it prints it.
    pub(super) fn version(&self) -> Result<String> {
        first_line(self.bin.join("pueue"), &["--version"])
    }

    /// Returns its daemon, configured by `config`.
    pub(super) fn daemon(&self, config: &Path) -> Command {
        self.call("pueued", config)
    }

    /// Returns a client of that daemon.
    pub(super) fn client(&self, config: &Path, arguments: &[&str]) -> Command {
        let mut command = self.call("pueue", config);
        command.args(arguments);
        command
    }

    /// With a small environment, because pueue stores it with each task.
    fn call(&self, program: &str, config: &Path) -> Command {
        let mut command = Command::new(self.bin.join(program));
        command.env_clear().env("PATH", PATH).arg("--config").arg(config);
        command
    }

    /// Starts a daemon that keeps its state in `directory`, and waits until it answers.
    pub(super) fn start(&self, directory: &Path) -> Result<Daemon<'_>> {
        let runtime = tempfile::tempdir()?;
        let config = configure(directory, runtime.path())?;
        let quiet = Stdio::null;
        let process = self.daemon(&config).stdin(quiet()).stdout(quiet()).stderr(quiet()).spawn()?;
        let state = directory.join("state.json");
        let daemon = Daemon { pueue: self, process, config, state, _runtime: runtime };
        wait_until("pueued does not answer", || {
            Ok(daemon.client(&["status", "--json"]).output()?.status.success())
        })?;
        Ok(daemon)
    }

    /// Starts a daemon with `count` finished tasks. One is really run; the others are copies of it in the
    /// state that the daemon reads when it starts, which is what it would have written itself.
    pub(super) fn start_with_finished(&self, directory: &Path, count: usize) -> Result<Daemon<'_>> {
        let daemon = self.start(directory)?;
        daemon.call(&["add", "--", "true"])?;
        daemon.call(&["wait", "--quiet"])?;
        let state = daemon.state.clone();
        daemon.shut_down()?;
        let mut document: Value = serde_json::from_str(&fs::read_to_string(&state)?)?;
        multiply_task(&mut document, count)?;
        fs::write(&state, document.to_string())?;
        let daemon = self.start(directory)?;
        let found = daemon.count_tasks()?;
        if found == count { Ok(daemon) } else { Err(format!("pueue has {found} tasks, not {count}").into()) }
    }
}

/// Writes settings that keep everything in `directory`, and sockets in `sockets`; returns their file.
pub(super) fn configure(directory: &Path, sockets: &Path) -> Result<PathBuf> {
    fs::create_dir_all(directory)?;
    let config = directory.join("pueue.yml");
    let (state, sockets) = (directory.display(), sockets.display());
    let settings = format!(
        "shared:\n  pueue_directory: {state}\n  runtime_directory: {sockets}\n  alias_file: {state}/aliases.yml\n"
    );
    fs::write(&config, settings)?;
    Ok(config)
}

/// Replaces the only task of a state by `count` copies of it.
pub(super) fn multiply_task(state: &mut Value, count: usize) -> Result {
    let tasks = state["tasks"].as_object_mut().ok_or("pueue's state has no tasks")?;
    let task = tasks.values().next().ok_or("pueue's state has no task")?.clone();
    for id in 0..count {
        let mut copy = task.clone();
        copy["id"] = id.into();
        tasks.insert(id.to_string(), copy);
    }
    Ok(())
}

/// Returns how many tasks of a state have not ended; a task's status is an object with the status as its key.
fn count_unfinished(state: &Value) -> usize {
    let tasks = state["tasks"].as_object().into_iter().flat_map(|tasks| tasks.values());
    tasks.filter(|task| task["status"].get("Done").is_none()).count()
}

impl Daemon<'_> {
    /// Returns a client of this daemon.
    pub(super) fn client(&self, arguments: &[&str]) -> Command {
        self.pueue.client(&self.config, arguments)
    }

    fn call(&self, arguments: &[&str]) -> Result {
        let output = self.client(arguments).output()?;
        let stderr = String::from_utf8_lossy(&output.stderr);
        if output.status.success() { Ok(()) } else { Err(format!("pueue {arguments:?}: {stderr}").into()) }
    }

    fn count_tasks(&self) -> Result<usize> {
        let state = self.load_state()?;
        Ok(state["tasks"].as_object().map_or(0, serde_json::Map::len))
    }

    /// Waits until every task has ended. Its own `wait` polls only every two seconds.
    pub(super) fn settle(&self) -> Result {
        wait_until("a task of pueue does not end", || Ok(count_unfinished(&self.load_state()?) == 0))
    }

    fn load_state(&self) -> Result<Value> {
        let output = self.client(&["status", "--json"]).output()?;
        Ok(serde_json::from_slice(&output.stdout)?)
    }

    /// Stops the daemon in its usual way, so that its state is on disk.
    fn shut_down(mut self) -> Result {
        self.call(&["shutdown"])?;
        let process = &mut self.process;
        wait_until("pueued does not end", || Ok(process.try_wait()?.is_some()))
    }
}

impl Drop for Daemon<'_> {
    fn drop(&mut self) {
        // It is our child and not reaped before this, so its pid is not reused; killing an exited one fails
        // harmlessly.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn wait_until(otherwise: &str, mut ready: impl FnMut() -> Result<bool>) -> Result {
    let began = Instant::now();
    while !ready()? {
        if began.elapsed() > PATIENCE {
            return Err(otherwise.into());
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_task_is_multiplied() {
        let mut state = json!({"tasks": {"0": {"id": 0, "command": "true"}}, "groups": {}});
        multiply_task(&mut state, 3).unwrap();
        let command = "true";
        assert_eq!(
            state["tasks"],
            json!({"0": {"id": 0, "command": command}, "1": {"id": 1, "command": command}, "2": {"id": 2, "command": command}})
        );
        assert!(multiply_task(&mut json!({"tasks": {}}), 3).is_err());
    }

    #[test]
    fn only_a_task_that_is_done_has_ended() {
        let done = json!({"status": {"Done": {"result": "Success"}}});
        let state =
            json!({"tasks": {"0": done, "1": {"status": {"Running": {}}}, "2": {"status": "Locked"}}});
        assert_eq!(count_unfinished(&state), 2);
    }
}
