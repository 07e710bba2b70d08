//! pm2: a daemon that keeps programs running, on Node.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Instant;

use serde_json::{Value, json};
use sexton_workspace::target_dir;

use super::peer::{Known, Peer, RunningPeer, output_of_both, require_answer};
use super::processes::Process;
use super::sandbox::Sandbox;
use crate::Result;
use crate::measure::{output_of, succeed};
use crate::run::bench_env::PATH;

/// How many commands one client is given, so that a deadline is noticed.
const CHUNK: usize = 250;

/// An installed pm2.
pub(super) struct Pm2 {
    program: PathBuf,
    node: PathBuf,
    version: String,
}

impl Pm2 {
    /// Returns the one below the target directory, installed from npm if it is missing.
    pub(super) fn require() -> Result<Pm2> {
        let prefix = target_dir().join("peers/pm2");
        let package = prefix.join("node_modules/pm2");
        if !package.join("bin/pm2").exists() {
            fs::create_dir_all(&prefix)?;
            let mut install = Command::new("npm");
            install.args(["install", "--no-audit", "--no-fund", "--loglevel=error", "pm2", "--prefix"]);
            succeed(install.arg(&prefix))?;
        }
        let manifest: Value = serde_json::from_str(&fs::read_to_string(package.join("package.json"))?)?;
        let version = format!("pm2 {}", manifest["version"].as_str().ok_or("pm2 has no version")?);
        Ok(Pm2 { program: package.join("bin/pm2"), node: find_node()?, version })
    }
}

fn find_node() -> Result<PathBuf> {
    let directories = std::env::var_os("PATH").unwrap_or_default();
    let mut programs = std::env::split_paths(&directories).map(|directory| directory.join("node"));
    Ok(programs.find(|program| program.is_file()).ok_or("node is missing")?)
}

impl Peer for Pm2 {
    fn name(&self) -> &'static str {
        "pm2"
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn open(&self, sandbox: Sandbox) -> Result<Box<dyn RunningPeer>> {
        let (program, node) = (self.program.clone(), self.node.clone());
        let mut daemon = Pm2Daemon { sandbox, program, node, count: 0, daemon: Vec::new() };
        daemon.open()?;
        Ok(Box::new(daemon))
    }
}

struct Pm2Daemon {
    sandbox: Sandbox,
    program: PathBuf,
    node: PathBuf,
    count: usize,
    daemon: Vec<Process>,
}

impl Pm2Daemon {
    /// Returns where it keeps everything, including its sockets, so the path must be short.
    fn home(&self) -> &Path {
        self.sandbox.sockets()
    }

    fn pm2(&self, words: &[&str]) -> Command {
        let mut command = self.sandbox.command(&self.node);
        let path = format!("{}:{PATH}", self.node.parent().unwrap_or(Path::new("/")).display());
        command.env("PATH", path).env("PM2_HOME", self.home()).arg(&self.program).args(words);
        command
    }

    fn open(&mut self) -> Result {
        require_answer("pm2", || Ok(self.pm2(&["ping"]).status()?.success()))?;
        self.daemon = self.sandbox.processes()?;
        Ok(())
    }

    fn processes(&self) -> Result<Vec<Value>> {
        let mut list = self.pm2(&["jlist"]);
        let output = output_of(list.stdout(Stdio::piped()).stderr(Stdio::piped()))?;
        parse_processes(&output)
    }

    fn next_name(&mut self) -> String {
        self.count += 1;
        format!("command{}", self.count)
    }
}

/// Parses what `jlist` prints; if it had to start its daemon first, it prints that before.
fn parse_processes(text: &str) -> Result<Vec<Value>> {
    let line = text.lines().rev().find(|line| line.starts_with('[') && !line.starts_with("[PM2]"));
    Ok(serde_json::from_str(line.ok_or_else(|| format!("pm2 lists nothing: {text}"))?)?)
}

fn parse_listing(processes: &[Value]) -> Known {
    let states = processes.iter().map(|process| process["pm2_env"]["status"].as_str().unwrap_or_default());
    Known::count(states, |state| matches!(state, "stopped" | "errored"))
}

impl RunningPeer for Pm2Daemon {
    fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    fn starter(&mut self, words: &[&str]) -> Result<Command> {
        let name = self.next_name();
        let options =
            ["--name", &name, "--interpreter", "none", "--no-autorestart", "--kill-timeout", "1000"];
        let mut command = self.pm2(&["start", words[0]]);
        command.args(options).arg("--").args(&words[1..]);
        Ok(command)
    }

    fn name_of(&self, _: &str) -> String {
        format!("command{}", self.count)
    }

    fn start_many(&mut self, words: &[&str], count: usize, deadline: Instant) -> Result<Vec<String>> {
        let names: Vec<String> = (0..count).map(|_| self.next_name()).collect();
        let mut started = Vec::new();
        for chunk in names.chunks(CHUNK) {
            if Instant::now() > deadline {
                break;
            }
            let app = |name: &String| {
                json!({"name": name, "script": words[0], "args": &words[1..], "interpreter": "none",
                       "autorestart": false, "kill_timeout": 1000})
            };
            let apps: Vec<Value> = chunk.iter().map(app).collect();
            let file = self.sandbox.write("ecosystem.json", &json!({"apps": apps}).to_string())?;
            succeed(self.pm2(&["start"]).arg(file))?;
            started.extend_from_slice(chunk);
        }
        Ok(started)
    }

    fn listing(&self) -> Command {
        self.pm2(&["list"])
    }

    fn known(&self) -> Result<Known> {
        Ok(parse_listing(&self.processes()?))
    }

    fn stop(&self, name: &str) -> Command {
        self.pm2(&["stop", name])
    }

    fn stop_all(&self) -> Vec<Command> {
        vec![self.pm2(&["stop", "all"])]
    }

    fn guardians(&self) -> Result<Vec<Process>> {
        Ok(self.daemon.clone())
    }

    fn prepare_return(&mut self) -> Result {
        succeed(&mut self.pm2(&["save"]))
    }

    fn return_words(&self) -> &'static str {
        "`pm2 resurrect`, after `pm2 save`"
    }

    fn come_back(&mut self) -> Result<String> {
        output_of_both(&mut self.pm2(&["resurrect"]))
    }

    fn exit_code(&self, name: &str) -> Result<Option<i64>> {
        let processes = self.processes()?;
        let process = processes.iter().find(|process| process["name"] == name);
        let ended = process.filter(|process| process["pm2_env"]["status"] == "stopped");
        Ok(ended.and_then(|process| process["pm2_env"]["exit_code"].as_i64()))
    }

    fn close(&mut self) -> Result<Vec<PathBuf>> {
        // With a save after each change, the previous save is kept as a copy beside the file.
        self.prepare_return()?;
        self.prepare_return()?;
        output_of_both(&mut self.pm2(&["kill"]))?;
        Ok(vec![self.home().join("dump.pm2")])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_is_found_after_other_output() {
        let text = "[PM2] Spawning PM2 daemon\n[PM2] PM2 Successfully daemonized\n\
            [{\"name\":\"a\",\"pm2_env\":{\"status\":\"online\"}},{\"name\":\"b\",\"pm2_env\":{\"status\":\"stopped\"}},\
            {\"name\":\"c\",\"pm2_env\":{\"status\":\"errored\"}},{\"name\":\"d\",\"pm2_env\":{\"status\":\"launching\"}}]\n";
        let processes = parse_processes(text).unwrap();
        assert_eq!(parse_listing(&processes), Known { running: 2, ended: 2 });
        assert_eq!(parse_listing(&parse_processes("[]").unwrap()), Known::default());
        assert!(parse_processes("[PM2] nothing").is_err());
    }
}
