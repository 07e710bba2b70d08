//! `sexton demo`: a crash and its recovery in a temporary repository.
//!
//! The demonstration uses real processes, real worktrees and a real `kill -9`. It runs this program, prints each
//! command and its output, and removes everything at the end.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use clap::Args;
use sexton_core::probe::COOKIE;
use tempfile::TempDir;

use crate::args::GlobalArgs;
use crate::failure::{Exit, Failure};
use crate::screen::{Screen, Tone};

/// Run a demonstration in a temporary directory.
#[derive(Args)]
#[command(after_help = "\
Example:
  sexton demo                      takes a few seconds and changes none of your files")]
pub struct DemoArgs {}

/// Runs the demonstration.
pub async fn run(_: &GlobalArgs, screen: &mut Screen) -> Result<Exit, Failure> {
    let mut demo = Demo::build(screen)?;
    demo.say("An orchestrator runs three agents, each in its own git worktree.")?;
    let owner = demo.start_orchestrator()?.to_string();
    for agent in &AGENTS {
        demo.start(agent, &owner)?;
    }
    demo.wait_for_work()?;
    demo.say("The orchestrator is killed with SIGKILL. Its agents are now orphans with uncommitted work.")?;
    demo.kill_orchestrator()?;
    demo.sexton(&["ps"])?;
    demo.say("Recover: stop the orphans, save their work, remove their worktrees.")?;
    demo.sexton(&["recover"])?;
    demo.sexton(&["ps"])?;
    demo.say("No work was lost. Restore the parser's work, with its staged and unstaged changes.")?;
    let restored = demo.path().join("parser-again").display().to_string();
    demo.sexton(&["rescue", "restore", "parser", "--into", &restored])?;
    demo.git_shown(Path::new(&restored), &["status", "--short"])?;
    demo.git_shown(Path::new(&restored), &["--no-pager", "diff", "HEAD"])?;
    demo.say("A second recovery changes nothing.")?;
    demo.sexton(&["recover"])?;
    demo.say("The demonstration is complete. Its processes and files are removed.")?;
    Ok(Exit::DONE)
}

/// A simulated agent: it writes some files and then waits.
struct Agent {
    name: &'static str,
    ticket: &'static str,
    script: &'static str,
    /// The file that it changes, and a text that the file contains afterwards.
    file: &'static str,
    expected: &'static str,
}

const AGENTS: [Agent; 3] = [
    Agent {
        name: "parser",
        ticket: "T-101",
        script: "echo 'fn parse() {}' > parser.rs; git add parser.rs; echo '// faster' >> parser.rs; sleep 600",
        file: "parser.rs",
        expected: "faster",
    },
    Agent {
        name: "docs",
        ticket: "T-102",
        script: "echo '# Usage' > USAGE.md; (setsid sleep 600 &); sleep 600",
        file: "USAGE.md",
        expected: "Usage",
    },
    Agent {
        name: "bench",
        ticket: "T-103",
        script: "echo 'fn main() {}' > main.rs; sleep 600",
        file: "main.rs",
        expected: "{}",
    },
];

/// A short grace period keeps the demonstration short.
const SETTINGS: &str = "[stop]\ngrace = \"1s\"\n";

/// Longer than an agent needs to write its files.
const WORK_TIMEOUT: Duration = Duration::from_secs(30);

/// The environment of the demonstration: a repository, a state directory and processes, all removed on drop.
struct Demo<'a> {
    screen: &'a Screen,
    program: PathBuf,
    directory: TempDir,
    orchestrator: Option<Child>,
}

impl Drop for Demo<'_> {
    fn drop(&mut self) {
        // Sessions are still running only if the demonstration failed.
        let _ =
            self.command(&["stop", "--all", "--force"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        let _ = self.kill_orchestrator();
    }
}

impl<'a> Demo<'a> {
    fn build(screen: &'a Screen) -> Result<Demo<'a>, Failure> {
        let program = std::env::current_exe().map_err(|error| demo_failure("find this program", &error))?;
        let directory = tempfile::Builder::new()
            .prefix("sexton-demo-")
            .tempdir()
            .map_err(|error| demo_failure("create a temporary directory", &error))?;
        let demo = Demo { screen, program, directory, orchestrator: None };
        let config = demo.path().join("config/sexton");
        fs::create_dir_all(&config)
            .and_then(|()| fs::write(config.join("config.toml"), SETTINGS))
            .and_then(|()| fs::create_dir(demo.repo()))
            .and_then(|()| fs::write(demo.repo().join("main.rs"), "fn main() {\n    todo!()\n}\n"))
            .map_err(|error| demo_failure("write its files", &error))?;
        for arguments in [
            &["init", "--quiet", "--initial-branch=main"][..],
            &["add", "--all"],
            &["commit", "--quiet", "--message", "begin"],
        ] {
            let done = demo.git(&demo.repo(), arguments).status();
            if !done.map_err(|error| demo_failure("run `git`", &error))?.success() {
                return Err(Failure::new(format!(
                    "the demo cannot create a repository: git {arguments:?} failed"
                )));
            }
        }
        Ok(demo)
    }

    fn path(&self) -> &Path {
        self.directory.path()
    }

    fn repo(&self) -> PathBuf {
        self.path().join("app")
    }

    fn say(&self, text: &str) -> Result<(), Failure> {
        self.screen.line(&format!("\n{}", self.screen.style().paint(Tone::Heading, text)))
    }

    fn start_orchestrator(&mut self) -> Result<u32, Failure> {
        let orchestrator = Command::new("sleep")
            .arg("600")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| demo_failure("start `sleep`", &error))?;
        let pid = orchestrator.id();
        self.orchestrator = Some(orchestrator);
        Ok(pid)
    }

    fn kill_orchestrator(&mut self) -> Result<(), Failure> {
        let Some(mut orchestrator) = self.orchestrator.take() else { return Ok(()) };
        let killed = orchestrator.kill().and_then(|()| orchestrator.wait());
        killed.map(drop).map_err(|error| demo_failure("kill the orchestrator", &error))
    }

    fn start(&self, agent: &Agent, owner: &str) -> Result<(), Failure> {
        let Agent { name, ticket, script, .. } = agent;
        let options = ["run", "-d", "--worktree", "--owner-pid", owner, "--name", name, "--ticket", ticket];
        let typed = format!("{} -- sh -c \"{script}\"", options.join(" "));
        self.sexton_shown(&[&options[..], &["--", "sh", "-c", script]].concat(), &typed)
    }

    /// Waits until every agent has uncommitted work.
    fn wait_for_work(&self) -> Result<(), Failure> {
        let begun = Instant::now();
        let worktree_roots = self.path().join("state/worktrees");
        let written = |agent: &Agent| {
            let worktrees = subdirectories(&worktree_roots)
                .flat_map(|worktree_root| subdirectories(&worktree_root).collect::<Vec<_>>());
            let mut changed = worktrees.filter(|worktree| {
                fs::read_to_string(worktree.join(agent.file)).is_ok_and(|text| text.contains(agent.expected))
            });
            changed.next().is_some()
        };
        while !AGENTS.iter().all(written) {
            if begun.elapsed() > WORK_TIMEOUT {
                return Err(Failure::new("the demo's agents did not write their files in time"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Runs a command, and prints it and its output.
    fn sexton(&self, arguments: &[&str]) -> Result<(), Failure> {
        self.sexton_shown(arguments, &arguments.join(" "))
    }

    fn sexton_shown(&self, arguments: &[&str], typed: &str) -> Result<(), Failure> {
        self.prompt(&format!("sexton {typed}"))?;
        self.command(arguments).status().map_err(|error| demo_failure("run sexton", &error))?;
        Ok(())
    }

    fn git_shown(&self, directory: &Path, arguments: &[&str]) -> Result<(), Failure> {
        let shown: Vec<_> = arguments.iter().filter(|argument| **argument != "--no-pager").copied().collect();
        self.prompt(&format!("git {}", shown.join(" ")))?;
        self.git(directory, arguments).status().map_err(|error| demo_failure("run `git`", &error))?;
        Ok(())
    }

    fn prompt(&self, typed: &str) -> Result<(), Failure> {
        let prompt = self.screen.style().paint(Tone::Faint, "$");
        self.screen.line(&format!("{prompt} {typed}"))
    }

    /// Returns a git command that ignores the user's git configuration.
    fn git(&self, directory: &Path, arguments: &[&str]) -> Command {
        let mut command = Command::new("git");
        command.args(arguments).current_dir(directory);
        for variable in ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"] {
            command.env_remove(variable);
        }
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        for role in ["AUTHOR", "COMMITTER"] {
            command
                .env(format!("GIT_{role}_NAME"), "Demo")
                .env(format!("GIT_{role}_EMAIL"), "demo@localhost");
        }
        command
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(self.repo()).env_remove(COOKIE);
        for variable in ["SEXTON_STORE", "SEXTON_PROBE"] {
            command.env_remove(variable);
        }
        command.env("XDG_CONFIG_HOME", self.path().join("config"));
        command.env("SEXTON_STATE_DIR", self.path().join("state"));
        command
    }
}

fn subdirectories(directory: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    fs::read_dir(directory).into_iter().flatten().flatten().map(|entry| entry.path())
}

fn demo_failure(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(format!("the demo cannot {what}: {error}"))
}
