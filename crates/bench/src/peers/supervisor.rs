//! supervisor: a daemon for programs that its configuration names.
//!
//! It runs only configured commands: starting one is a section in a file and `supervisorctl update`, and many
//! are one section with a number.

use std::fmt::Write;
use std::fs;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sexton_workspace::machine::first_line;
use sexton_workspace::target_dir;

use super::peer::{Known, Peer, RunningPeer, output_of_both, require_answer, succeeds_before, wait_until};
use super::processes::Process;
use super::sandbox::Sandbox;
use crate::Result;
use crate::measure::succeed;

/// An installed supervisor.
pub(super) struct Supervisor {
    bin: PathBuf,
    version: String,
}

impl Supervisor {
    /// Returns the one below the target directory, installed from PyPI if it is missing.
    pub(super) fn require() -> Result<Supervisor> {
        let environment = target_dir().join("peers/supervisor");
        let bin = environment.join("bin");
        if !bin.join("supervisord").exists() {
            succeed(Command::new("python3").args(["-m", "venv"]).arg(&environment))?;
            succeed(Command::new(bin.join("pip")).args(["install", "--quiet", "supervisor"]))?;
        }
        let version = format!("supervisor {}", first_line(bin.join("supervisord"), &["--version"])?);
        Ok(Supervisor { bin, version })
    }
}

impl Peer for Supervisor {
    fn name(&self) -> &'static str {
        "supervisor"
    }

    fn version(&self) -> &str {
        &self.version
    }

    fn open(&self, sandbox: Sandbox) -> Result<Box<dyn RunningPeer>> {
        let (files, socket) = (sandbox.path().display(), sandbox.sockets().join("socket"));
        let socket = socket.display();
        // Enough descriptors for five hundred programs; the rest is as in the first example of its
        // documentation.
        let settings = format!(
            "[unix_http_server]\nfile={socket}\n\
             [supervisord]\nlogfile={files}/supervisord.log\npidfile={files}/supervisord.pid\n\
             childlogdir={files}\nminfds=20000\n\
             [rpcinterface:supervisor]\n\
             supervisor.rpcinterface_factory=supervisor.rpcinterface:make_main_rpcinterface\n\
             [supervisorctl]\nserverurl=unix://{socket}\n[include]\nfiles={files}/*.ini\n"
        );
        let config = sandbox.write("supervisord.conf", &settings)?;
        let mut group = Group { sandbox, bin: self.bin.clone(), config, count: 0, daemon: Vec::new() };
        group.open()?;
        Ok(Box::new(group))
    }
}

struct Group {
    sandbox: Sandbox,
    bin: PathBuf,
    config: PathBuf,
    count: usize,
    daemon: Vec<Process>,
}

impl Group {
    fn call(&self, program: &str, words: &[&str]) -> Command {
        let mut command = self.sandbox.command(self.bin.join(program));
        command.arg("-c").arg(&self.config).args(words);
        command
    }

    fn open(&mut self) -> Result<String> {
        let log = self.sandbox.path().join("output");
        let file = fs::File::create(&log)?;
        succeed(self.call("supervisord", &[]).stdout(file.try_clone()?).stderr(file))?;
        require_answer("supervisord", || Ok(self.call("supervisorctl", &["pid"]).status()?.success()))?;
        self.daemon =
            self.sandbox.processes()?.into_iter().filter(|process| process.name == "supervisord").collect();
        Ok(fs::read_to_string(log)?)
    }

    /// Configures `count` programs of the next name.
    fn configure(&mut self, words: &[&str], count: Option<usize>, autostart: bool) -> Result<String> {
        self.count += 1;
        let name = format!("command{}", self.count);
        let mut section = format!(
            "[program:{name}]\ncommand={}\nstartsecs=0\nautorestart=false\nautostart={autostart}\nstopwaitsecs=1\n",
            words.join(" ")
        );
        if let Some(count) = count {
            let _ = writeln!(section, "numprocs={count}\nprocess_name=%(process_num)05d");
        }
        self.sandbox.write(&format!("{name}.ini"), &section)?;
        Ok(name)
    }

    fn status(&self) -> Result<String> {
        // Its exit code shows whether all programs run, not whether it could list them.
        output_of_both(&mut self.call("supervisorctl", &["status"]))
    }
}

/// Parses `status`: a name, a state, and more. A program that was never started has not ended.
fn parse_listing(text: &str) -> Known {
    let lines = text.lines().filter(|line| !line.contains("Not started"));
    let states = lines.filter_map(|line| line.split_whitespace().nth(1));
    Known::count(states, |state| matches!(state, "EXITED" | "STOPPED" | "FATAL" | "BACKOFF"))
}

impl RunningPeer for Group {
    fn sandbox(&self) -> &Sandbox {
        &self.sandbox
    }

    fn starter(&mut self, words: &[&str]) -> Result<Command> {
        self.configure(words, None, true)?;
        Ok(self.call("supervisorctl", &["update"]))
    }

    fn name_of(&self, _: &str) -> String {
        format!("command{}", self.count)
    }

    fn start_many(&mut self, words: &[&str], count: usize, deadline: Instant) -> Result<Vec<String>> {
        let known = self.known()?;
        let group = self.configure(words, Some(count), true)?;
        succeed(&mut self.call("supervisorctl", &["update"]))?;
        let all = known.running + known.ended + count;
        wait_until(deadline, || Ok(self.known().map(|known| known.running + known.ended)? == all))?;
        Ok((0..count).map(|number| format!("{group}:{number:05}")).collect())
    }

    fn listing(&self) -> Command {
        self.call("supervisorctl", &["status"])
    }

    fn known(&self) -> Result<Known> {
        Ok(parse_listing(&self.status()?))
    }

    /// Configures programs and does not start them: it lists what it may start, not what has ended.
    fn fill(&mut self, total: usize, deadline: Instant) -> Result<usize> {
        self.configure(&["true"], Some(total), false)?;
        let updated = succeeds_before(deadline, &mut self.call("supervisorctl", &["update"]))?;
        // Listing them all is what is timed, and may take longer than the limit.
        Ok(if updated { total } else { 0 })
    }

    fn stop(&self, name: &str) -> Command {
        self.call("supervisorctl", &["stop", name])
    }

    fn stop_all(&self) -> Vec<Command> {
        vec![self.call("supervisorctl", &["stop", "all"])]
    }

    fn guardians(&self) -> Result<Vec<Process>> {
        Ok(self.daemon.clone())
    }

    fn return_words(&self) -> &'static str {
        "`supervisord`"
    }

    fn come_back(&mut self) -> Result<String> {
        let output = self.open()?;
        // It starts what it is configured to start within a second.
        std::thread::sleep(Duration::from_secs(2));
        Ok(output)
    }

    /// It reports that a program has exited; the exit code is only in its log.
    fn exit_code(&self, _: &str) -> Result<Option<i64>> {
        Ok(None)
    }

    fn close(&mut self) -> Result<Vec<PathBuf>> {
        output_of_both(self.call("supervisorctl", &["shutdown"]).stdout(Stdio::null()))?;
        Ok(Vec::new())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_program_that_was_never_started_is_not_counted() {
        let text = "a                                EXITED    Nov 16 02:50 PM\n\
                    b:b_000                          RUNNING   pid 19067, uptime 0:00:01\n\
                    b:b_001                          STOPPED   Nov 16 02:50 PM\n\
                    c                                STARTING  \n\
                    d:00999                          STOPPED   Not started\n";
        assert_eq!(parse_listing(text), Known { running: 2, ended: 2 });
        assert_eq!(parse_listing(""), Known::default());
    }
}
