//! `sexton demo`: the whole story on a throw-away state directory, in seconds.
//!
//! Everything in it is real: real processes, real records, a real flipped byte. It runs this very
//! program, shows what is typed and what comes back, and leaves nothing behind.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use clap::Args;
use sexton_core::probe::COOKIE;
use tempfile::TempDir;

use crate::args::GlobalArgs;
use crate::failure::{Exit, Failure};
use crate::screen::{Screen, Tone};

/// See the whole story on a throw-away state directory.
#[derive(Args)]
#[command(after_help = "\
Example:
  sexton demo                      takes seconds, touches nothing of yours")]
pub struct DemoArgs {}

/// Tells the story.
pub async fn run(_: &GlobalArgs, screen: &mut Screen) -> Result<Exit, Failure> {
    let mut stage = Stage::build(screen)?;
    stage.say("An orchestrator lets three agents work in the background. One of them detaches a helper.")?;
    let owner = stage.start_orchestrator()?.to_string();
    for (name, ticket, script) in AGENTS {
        stage.sexton_shown(
            &[
                "run",
                "-d",
                "--owner-pid",
                &owner,
                "--name",
                name,
                "--ticket",
                ticket,
                "--",
                "sh",
                "-c",
                script,
            ],
            &format!("run -d --owner-pid {owner} --name {name} --ticket {ticket} -- sh -c '{script}'"),
        )?;
    }
    stage.sexton(&["ps"])?;
    stage.sexton(&["logs", "parser"])?;
    stage.say(
        "kill -9 the orchestrator. Nobody runs anything; a second later its agents have ended, whole.",
    )?;
    stage.kill_orchestrator()?;
    stage.sexton(&["wait", "parser", "docs", "bench"])?;
    stage.sexton(&["ps", "-a"])?;
    stage.say(
        "Now a byte of the journal goes bad. Nothing is reset, and every other record is still there.",
    )?;
    stage.sexton(&["backup"])?;
    stage.flip_a_byte()?;
    stage.sexton(&["ps", "-a"])?;
    stage.sexton(&["doctor", "--repair"])?;
    stage.say("All of this was real, and nothing of it is left behind.")?;
    Ok(Exit::DONE)
}

/// Stand-ins for agents: they say something, and then wait, as agents mostly do.
const AGENTS: [(&str, &str, &str); 3] = [
    ("parser", "T-101", "echo reading src/parser.rs; sleep 600"),
    ("docs", "T-102", "setsid sleep 600 & echo writing docs; sleep 600"),
    ("bench", "T-103", "echo measuring; sleep 600"),
];

/// Short enough to watch.
const SETTINGS: &str = "[owner]\ngrace = \"300ms\"\n[stop]\ngrace = \"1s\"\n";

/// Where the story is told: a state directory and processes that vanish with it.
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
        let config = directory.path().join("config/sexton");
        std::fs::create_dir_all(&config)
            .and_then(|()| std::fs::write(config.join("config.toml"), SETTINGS))
            .map_err(|error| trouble("write its settings", &error))?;
        Ok(Stage { screen, program, directory, orchestrator: None })
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

    fn journal(&self) -> PathBuf {
        self.directory.path().join("state/sessions.jsonl")
    }

    /// Damages the journal's last line, as a bad sector or a careless editor would.
    fn flip_a_byte(&self) -> Result<(), Failure> {
        let journal = self.journal();
        let text = std::fs::read(&journal).map_err(|error| trouble("read the journal", &error))?;
        let at = text.len().saturating_sub(FLIPPED_FROM_END);
        let file = OpenOptions::new()
            .write(true)
            .open(&journal)
            .map_err(|error| trouble("open the journal", &error))?;
        file.write_all_at(&[text[at] ^ 1], at as u64)
            .map_err(|error| trouble("damage the journal", &error))?;
        let journal = journal.file_name().unwrap_or_default().display();
        self.screen
            .line(&self.screen.style().paint(Tone::Faint, &format!("(byte {at} of {journal} was flipped)")))
    }

    /// Types a command, and shows what comes back.
    fn sexton(&self, arguments: &[&str]) -> Result<(), Failure> {
        self.sexton_shown(arguments, &arguments.join(" "))
    }

    fn sexton_shown(&self, arguments: &[&str], typed: &str) -> Result<(), Failure> {
        let prompt = self.screen.style().paint(Tone::Faint, "$");
        self.screen.line(&format!("{prompt} sexton {typed}"))?;
        self.command(arguments).status().map_err(|error| trouble("run sexton", &error))?;
        Ok(())
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(self.directory.path()).env_remove(COOKIE);
        command.env("XDG_CONFIG_HOME", self.directory.path().join("config"));
        command.env("SEXTON_STATE_DIR", self.directory.path().join("state"));
        command.env("SEXTON_STORE", format!("json:{}", self.journal().display()));
        command
    }
}

/// Inside the last record, well before its end.
const FLIPPED_FROM_END: usize = 100;

fn trouble(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(format!("the demo cannot {what}: {error}"))
}
