//! `sexton demo`: the whole story on a throw-away repository, in seconds.
//!
//! Everything in it is real: real processes, real worktrees, a real kill -9. It runs this very program,
//! shows what is typed and what comes back, and leaves nothing behind.

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

/// See the whole story on a throw-away repository.
#[derive(Args)]
#[command(after_help = "\
Example:
  sexton demo                      takes seconds, touches nothing of yours")]
pub struct DemoArgs {}

/// Tells the story.
pub async fn run(_: &GlobalArgs, screen: &mut Screen) -> Result<Exit, Failure> {
    let mut stage = Stage::build(screen)?;
    stage.say("An orchestrator lets three agents work, each in a git worktree of its own.")?;
    let owner = stage.start_orchestrator()?.to_string();
    for agent in &AGENTS {
        stage.start(agent, &owner)?;
    }
    stage.wait_for_work()?;
    stage
        .say("kill -9 the orchestrator. Its agents are orphans now, with uncommitted work in their hands.")?;
    stage.kill_orchestrator()?;
    stage.sexton(&["ps"])?;
    stage.say("Put everything in order: end them whole, rescue the work, clean the yard.")?;
    stage.sexton(&["recover"])?;
    stage.sexton(&["ps"])?;
    stage.say("Nothing was lost. Here is the parser's work again, staged and unstaged as it was.")?;
    let restored = stage.path().join("parser-again").display().to_string();
    stage.sexton(&["rescue", "restore", "parser", "--into", &restored])?;
    stage.git_shown(Path::new(&restored), &["status", "--short"])?;
    stage.git_shown(Path::new(&restored), &["--no-pager", "diff", "HEAD"])?;
    stage.say("And a second recovery changes nothing.")?;
    stage.sexton(&["recover"])?;
    stage.say("All of this was real, and nothing of it is left behind.")?;
    Ok(Exit::DONE)
}

/// A stand-in for an agent: it works a little, and then waits, as agents mostly do.
struct Agent {
    name: &'static str,
    ticket: &'static str,
    script: &'static str,
    /// The file that it works on, and what that says when it is done with it.
    file: &'static str,
    says: &'static str,
}

const AGENTS: [Agent; 3] = [
    Agent {
        name: "parser",
        ticket: "T-101",
        script: "echo 'fn parse() {}' > parser.rs; git add parser.rs; echo '// faster' >> parser.rs; sleep 600",
        file: "parser.rs",
        says: "faster",
    },
    Agent {
        name: "docs",
        ticket: "T-102",
        script: "echo '# Usage' > USAGE.md; (setsid sleep 600 &); sleep 600",
        file: "USAGE.md",
        says: "Usage",
    },
    Agent {
        name: "bench",
        ticket: "T-103",
        script: "echo 'fn main() {}' > main.rs; sleep 600",
        file: "main.rs",
        says: "{}",
    },
];

/// Short enough to watch.
const SETTINGS: &str = "[stop]\ngrace = \"1s\"\n";

/// Longer than an agent needs for its first words.
const PATIENCE: Duration = Duration::from_secs(30);

/// Where the story is told: a repository, a state directory, and processes that vanish with them.
struct Stage<'a> {
    screen: &'a Screen,
    program: PathBuf,
    directory: TempDir,
    orchestrator: Option<Child>,
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        // Ended already, unless the story was cut short.
        let _ =
            self.command(&["stop", "--all", "--force"]).stdout(Stdio::null()).stderr(Stdio::null()).status();
        let _ = self.kill_orchestrator();
    }
}

impl<'a> Stage<'a> {
    fn build(screen: &'a Screen) -> Result<Stage<'a>, Failure> {
        let program = std::env::current_exe().map_err(|error| trouble("find this program", &error))?;
        let directory = tempfile::Builder::new()
            .prefix("sexton-demo-")
            .tempdir()
            .map_err(|error| trouble("make a temporary directory", &error))?;
        let stage = Stage { screen, program, directory, orchestrator: None };
        let config = stage.path().join("config/sexton");
        fs::create_dir_all(&config)
            .and_then(|()| fs::write(config.join("config.toml"), SETTINGS))
            .and_then(|()| fs::create_dir(stage.repo()))
            .and_then(|()| fs::write(stage.repo().join("main.rs"), "fn main() {\n    todo!()\n}\n"))
            .map_err(|error| trouble("set its stage", &error))?;
        for arguments in [
            &["init", "--quiet", "--initial-branch=main"][..],
            &["add", "--all"],
            &["commit", "--quiet", "--message", "begin"],
        ] {
            let done = stage.git(&stage.repo(), arguments).status();
            if !done.map_err(|error| trouble("run `git`", &error))?.success() {
                return Err(Failure::new(format!(
                    "the demo cannot make a repository: git {arguments:?} failed"
                )));
            }
        }
        Ok(stage)
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
            .map_err(|error| trouble("start `sleep`", &error))?;
        let pid = orchestrator.id();
        self.orchestrator = Some(orchestrator);
        Ok(pid)
    }

    fn kill_orchestrator(&mut self) -> Result<(), Failure> {
        let Some(mut orchestrator) = self.orchestrator.take() else { return Ok(()) };
        let killed = orchestrator.kill().and_then(|()| orchestrator.wait());
        killed.map(drop).map_err(|error| trouble("end the orchestrator", &error))
    }

    fn start(&self, agent: &Agent, owner: &str) -> Result<(), Failure> {
        let Agent { name, ticket, script, .. } = agent;
        let options = ["run", "-d", "--worktree", "--owner-pid", owner, "--name", name, "--ticket", ticket];
        let typed = format!("{} -- sh -c \"{script}\"", options.join(" "));
        self.sexton_shown(&[&options[..], &["--", "sh", "-c", script]].concat(), &typed)
    }

    /// Waits until every agent has something in its hands that would be lost.
    fn wait_for_work(&self) -> Result<(), Failure> {
        let begun = Instant::now();
        let yards = self.path().join("state/worktrees");
        let written = |agent: &Agent| {
            let worktrees = subdirectories(&yards).flat_map(|yard| subdirectories(&yard).collect::<Vec<_>>());
            let mut changed = worktrees.filter(|worktree| {
                fs::read_to_string(worktree.join(agent.file)).is_ok_and(|text| text.contains(agent.says))
            });
            changed.next().is_some()
        };
        while !AGENTS.iter().all(written) {
            if begun.elapsed() > PATIENCE {
                return Err(Failure::new("the demo's agents do not get to work"));
            }
            std::thread::sleep(Duration::from_millis(10));
        }
        Ok(())
    }

    /// Types a command, and shows what comes back.
    fn sexton(&self, arguments: &[&str]) -> Result<(), Failure> {
        self.sexton_shown(arguments, &arguments.join(" "))
    }

    fn sexton_shown(&self, arguments: &[&str], typed: &str) -> Result<(), Failure> {
        self.prompt(&format!("sexton {typed}"))?;
        self.command(arguments).status().map_err(|error| trouble("run sexton", &error))?;
        Ok(())
    }

    fn git_shown(&self, directory: &Path, arguments: &[&str]) -> Result<(), Failure> {
        let shown: Vec<_> = arguments.iter().filter(|argument| **argument != "--no-pager").copied().collect();
        self.prompt(&format!("git {}", shown.join(" ")))?;
        self.git(directory, arguments).status().map_err(|error| trouble("run `git`", &error))?;
        Ok(())
    }

    fn prompt(&self, typed: &str) -> Result<(), Failure> {
        let prompt = self.screen.style().paint(Tone::Faint, "$");
        self.screen.line(&format!("{prompt} {typed}"))
    }

    /// git in a repository of this stage, with nothing of its user's.
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

fn trouble(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(format!("the demo cannot {what}: {error}"))
}
