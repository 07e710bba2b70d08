//! `sexton demo`: the whole story on a throw-away state directory, in seconds.
//!
//! Everything in it is real: real processes, real records, a real flipped byte. It runs this very
//! program, shows what is typed and what comes back, and leaves nothing behind.

use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use clap::Args;
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
    stage.say("Three agents run in the background. Sexton is told which processes they are.")?;
    for (name, ticket) in [("parser", "T-101"), ("docs", "T-102"), ("bench", "T-103")] {
        let pid = stage.start_agent()?;
        stage.type_quietly(&["register", "--pid", &pid.to_string(), "--name", name, "--ticket", ticket])?;
    }
    stage.type_and_show(&["ps"])?;
    stage.say("One is killed, with nobody there to see it. Its pid proves nothing; its identity does.")?;
    stage.kill_first_agent()?;
    stage.type_and_show(&["ps"])?;
    stage.type_and_show(&["finish", "parser", "--signal", "KILL"])?;
    stage.type_and_show(&["backup"])?;
    stage.say("Now a byte of the journal goes bad. No record is reset, and the rest can still be read.")?;
    stage.flip_a_byte()?;
    stage.type_and_show(&["ps", "-a"])?;
    stage.type_and_show(&["doctor", "--repair"])?;
    stage.type_and_show(&["ps", "-a"])?;
    stage.say("Nothing of this is left behind.")?;
    Ok(Exit::DONE)
}

/// Where the story is told: a state directory and processes that vanish with it.
struct Stage<'a> {
    screen: &'a Screen,
    program: PathBuf,
    directory: TempDir,
    agents: Vec<Child>,
}

impl Drop for Stage<'_> {
    fn drop(&mut self) {
        for agent in &mut self.agents {
            // Already gone where the story killed it.
            let _ = agent.kill();
            let _ = agent.wait();
        }
    }
}

impl<'a> Stage<'a> {
    fn build(screen: &'a Screen) -> Result<Stage<'a>, Failure> {
        let program = std::env::current_exe().map_err(|error| trouble("find this program", &error))?;
        let directory = tempfile::Builder::new()
            .prefix("sexton-demo-")
            .tempdir()
            .map_err(|error| trouble("make a temporary directory", &error))?;
        Ok(Stage { screen, program, directory, agents: Vec::new() })
    }

    fn say(&self, text: &str) -> Result<(), Failure> {
        self.screen.line(&format!("\n{}", self.screen.style().paint(Tone::Heading, text)))
    }

    /// A stand-in for an agent: it waits, as agents mostly do.
    fn start_agent(&mut self) -> Result<u32, Failure> {
        let agent = Command::new("sleep")
            .arg("600")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()
            .map_err(|error| trouble("start `sleep`", &error))?;
        let pid = agent.id();
        self.agents.push(agent);
        Ok(pid)
    }

    fn kill_first_agent(&mut self) -> Result<(), Failure> {
        let Some(agent) = self.agents.first_mut() else {
            return Ok(());
        };
        agent.kill().and_then(|()| agent.wait()).map_err(|error| trouble("end an agent", &error))?;
        Ok(())
    }

    fn journal(&self) -> PathBuf {
        self.directory.path().join("sessions.jsonl")
    }

    /// Damages the first record after the header, as a bad sector or a careless editor would.
    fn flip_a_byte(&self) -> Result<(), Failure> {
        let journal = self.journal();
        let text = std::fs::read(&journal).map_err(|error| trouble("read the journal", &error))?;
        let second_line = text.iter().position(|byte| *byte == b'\n').unwrap_or(0) + 1;
        let at = (second_line + FLIPPED_COLUMN).min(text.len().saturating_sub(2));
        let file = OpenOptions::new()
            .write(true)
            .open(&journal)
            .map_err(|error| trouble("open the journal", &error))?;
        file.write_all_at(&[text[at] ^ 1], at as u64)
            .map_err(|error| trouble("damage the journal", &error))?;
        let journal = journal.file_name().unwrap_or_default().display();
        self.screen
            .line(&format!("{} {journal}, byte {at}", self.screen.style().paint(Tone::Faint, "(flipped)")))
    }

    fn type_quietly(&self, arguments: &[&str]) -> Result<(), Failure> {
        self.show_typed(arguments)?;
        self.sexton(arguments)
            .stdout(Stdio::null())
            .status()
            .map_err(|error| trouble("run sexton", &error))?;
        Ok(())
    }

    fn type_and_show(&self, arguments: &[&str]) -> Result<(), Failure> {
        self.show_typed(arguments)?;
        self.sexton(arguments).status().map_err(|error| trouble("run sexton", &error))?;
        Ok(())
    }

    fn show_typed(&self, arguments: &[&str]) -> Result<(), Failure> {
        let prompt = self.screen.style().paint(Tone::Faint, "$");
        self.screen.line(&format!("{prompt} sexton {}", arguments.join(" ")))
    }

    fn sexton(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments).current_dir(self.directory.path());
        command.env("SEXTON_STATE_DIR", self.directory.path());
        command.env("SEXTON_STORE", store_url(&self.journal()));
        command
    }
}

/// Inside the first record, well past its checksum.
const FLIPPED_COLUMN: usize = 100;

fn store_url(journal: &Path) -> String {
    format!("json:{}", journal.display())
}

fn trouble(what: &str, error: &std::io::Error) -> Failure {
    Failure::new(format!("the demo cannot {what}: {error}"))
}
