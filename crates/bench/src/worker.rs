//! The client of `store-worker`: what has to be measured inside a process with an open store.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

use sexton_workspace::build;
use sexton_workspace::command::shown;

use super::measure::Timing;
use crate::Result;

/// The program, built like the product.
pub(super) struct Worker {
    program: PathBuf,
}

/// The time of one commit, and of what it is compared with.
pub(super) struct CommitTimes {
    /// Bare write and fdatasync of the same bytes.
    pub(super) bare: Timing,
    /// A commit to the small store.
    pub(super) small: Timing,
    /// A commit to the large store.
    pub(super) large: Timing,
}

impl Worker {
    /// Builds it.
    pub(super) fn build() -> Result<Worker> {
        let arguments = ["build", "--release", "--package", "sexton-bench", "--bin", "store-worker"];
        let built = build(&arguments)?;
        let program = built.into_iter().find(|program| program.name == "store-worker");
        Ok(Worker { program: program.ok_or("cargo built no store-worker")?.path })
    }

    fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.program);
        command.args(arguments);
        command
    }

    fn output(&self, arguments: &[&str]) -> Result<String> {
        let mut command = self.command(arguments);
        let output = command.stderr(Stdio::inherit()).output()?;
        if !output.status.success() {
            return Err(format!("`{}`: {}", shown(&command), output.status).into());
        }
        Ok(String::from_utf8(output.stdout)?)
    }

    /// Creates the store at `url`, with `count` finished records.
    pub(super) fn populate(&self, url: &str, count: usize) -> Result {
        self.output(&["populate", url, &count.to_string()])?;
        Ok(())
    }

    /// Adds `count` sessions to the store at `url` that are like the one in the file `template`.
    pub(super) fn multiply(&self, url: &str, template: &Path, count: usize) -> Result {
        self.output(&["multiply", url, &template.to_string_lossy(), &count.to_string()])?;
        Ok(())
    }

    /// Returns how long a backup of the store at `url` into `directory` and one commit that changes every
    /// record take.
    pub(super) fn rewrite(&self, url: &str, directory: &Path) -> Result<Duration> {
        let output = self.output(&["rewrite", url, &directory.to_string_lossy()])?;
        Ok(Duration::from_nanos(output.trim().parse()?))
    }

    /// Commits to both stores in turns, with bare writes to a file in `directory` between them.
    pub(super) fn commits(
        &self,
        small: &str,
        large: &str,
        directory: &Path,
        turns: usize,
    ) -> Result<CommitTimes> {
        let bare = directory.join("bare");
        let turns = turns.to_string();
        let output = self.output(&["commits", small, large, &bare.to_string_lossy(), &turns])?;
        let samples: Vec<[u64; 3]> = serde_json::from_str(&output)?;
        let nanos = |column: usize| samples.iter().map(move |s| Duration::from_nanos(s[column]));
        let times = |column: usize| Timing::of(nanos(column).collect());
        Ok(CommitTimes { bare: times(0), small: times(1), large: times(2) })
    }

    /// Returns the commits per second of `processes` that each insert `each` records at once into the store
    /// at `url`.
    pub(super) fn throughput(&self, url: &str, processes: usize, each: usize) -> Result<f64> {
        let mut writers = (0..processes)
            .map(|_| Writer::start(self.command(&["contend", url, &each.to_string()])))
            .collect::<Result<Vec<Writer>>>()?;
        // Starting programs is not measured: all are ready before the first one begins.
        writers.iter_mut().try_for_each(|writer| writer.expect("ready"))?;
        let began = Instant::now();
        writers.iter_mut().try_for_each(Writer::go)?;
        writers.iter_mut().try_for_each(|writer| writer.expect("done"))?;
        let took = began.elapsed();
        #[allow(clippy::cast_precision_loss, reason = "a few thousand")]
        Ok((processes * each) as f64 / took.as_secs_f64())
    }
}

/// One writing process.
struct Writer {
    process: Child,
    output: BufReader<ChildStdout>,
}

impl Writer {
    fn start(mut command: Command) -> Result<Writer> {
        let mut process = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
        let stdout = process.stdout.take().ok_or("the writer has no output")?;
        Ok(Writer { process, output: BufReader::new(stdout) })
    }

    fn expect(&mut self, word: &str) -> Result {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        if line.trim() == word {
            Ok(())
        } else {
            Err(format!("a writer printed {line:?}, not {word:?}").into())
        }
    }

    fn go(&mut self) -> Result {
        let mut stdin = self.process.stdin.take().ok_or("the writer was already started")?;
        Ok(stdin.write_all(b"go\n")?)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // If another writer failed, this one may still wait for its start.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}
