//! `cargo xtask bench resume`: the cost of a hook for its agent, at every turn.

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;
use std::process::{Command, Stdio};

use sexton_workspace::machine::{describe, first_line};
use sexton_workspace::{dist, target_dir};
use tempfile::TempDir;

use super::measure::{Contender, in_turns, output_of, succeed};
use super::report;
use super::run::bench_env::BenchEnv;
use super::table::{Figure, Goal, Row, render};
use super::worker::Worker;
use crate::Result;

const TURNS: usize = 300;

/// As many finished records as are kept by default.
const RECORDS: usize = 1_000;

/// About as long as a record.
const RECORD: [u8; 1_500] = [b'x'; 1_500];

/// The payload that Codex adds to its `notify` command.
const TURN: &str = r#"{"type":"agent-turn-complete","session_id":"conversation-1","thread-id":"thread-1","turn-id":"7","cwd":"/"}"#;

/// Measures, prints, and writes docs/benchmarks.md.
pub(super) fn run() -> Result {
    let (sexton, worker) = (dist::build()?, Worker::build()?);
    fs::create_dir_all(target_dir())?;
    // On the disk of the target directory: a commit on tmpfs would cost nothing.
    let directory = TempDir::with_prefix_in("bench-", target_dir())?;
    let machine = describe(directory.path())?;
    let rows = measure(&sexton, &worker, directory.path())?;
    let version = first_line(&sexton, &["--version"])?;
    report::publish("resume", &section(&machine, &version, &rows))
}

fn section(machine: &str, version: &str, rows: &[Row]) -> String {
    format!(
        "\
## Hooks

`cargo xtask bench resume` on {machine} {version}.

Medians of runs in turns, with the quarters between which the middle half lies; the program is the one of
`cargo xtask dist`, timed from before it is started until it is reaped. A turn of an active loop is
`sexton resume --hook codex` in the session that drives it: one commit, durable against a power cut. The sync
follows a write of 1,500 bytes, about a record, to a file in the same directory. There are {RECORDS} finished
records, as many as are kept by default.

{}",
        render(rows)
    )
}

/// A session on one store, and the hook that runs in it.
struct Place {
    bench_env: BenchEnv,
    url: String,
    /// The session that drives a loop.
    driver: String,
    /// A session without a loop.
    idle: String,
}

impl Place {
    fn make(sexton: &Path, worker: &Worker, home: &Path, scheme: &str) -> Result<Place> {
        let bench_env = BenchEnv::make(sexton, home.to_owned(), "")?;
        let url = format!("{scheme}:{}", home.join("state/hooked").display());
        let start = |command: &mut Command| -> Result<String> {
            Ok(output_of(command.env("SEXTON_STORE", &url))?.trim().to_owned())
        };
        let words = ["run", "-d", "--agent-session", "conversation-1", "--", "sleep", "3600"];
        let driver = start(&mut bench_env.sexton(&words))?;
        let idle = start(&mut bench_env.sexton(&["run", "-d", "--", "sleep", "3600"]))?;
        worker.populate(&url, RECORDS)?;
        let set = ["loop", "set", &driver, "active=true", "phase=executing"];
        succeed(bench_env.sexton(&set).env("SEXTON_STORE", &url))?;
        Ok(Place { bench_env, url, driver, idle })
    }

    fn hook(&self, session: Option<&str>) -> Command {
        let mut command = self.bench_env.sexton(&["resume", "--hook", "codex", TURN]);
        command.env("SEXTON_STORE", &self.url).envs(session.map(|id| ("SEXTON_SESSION_ID", id)));
        command
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut command = self.bench_env.sexton(&["stop", "--all", "--force"]);
        let _ = output_of(command.env("SEXTON_STORE", &self.url));
    }
}

fn measure(sexton: &Path, worker: &Worker, directory: &Path) -> Result<Vec<Row>> {
    let sqlite = Place::make(sexton, worker, &directory.join("sqlite"), "sqlite")?;
    let json = Place::make(sexton, worker, &directory.join("json"), "json")?;
    let version = || {
        let mut command = Command::new(sexton);
        command.env_clear().arg("--version");
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    };
    let mut bare = File::create(directory.join("bare"))?;
    let contenders = [
        Contender::new(|| {
            for _ in 0..3 {
                succeed(&mut version())?;
            }
            bare.write_all(&RECORD)?;
            Ok(bare.sync_data()?)
        }),
        Contender::new(|| (0..3).try_for_each(|_| succeed(&mut version()))),
        Contender::program(sqlite.hook(Some(&sqlite.driver))),
        Contender::program(json.hook(Some(&json.driver))),
        Contender::program(sqlite.hook(Some(&sqlite.idle))),
        Contender::program(json.hook(Some(&json.idle))),
        Contender::program(sqlite.hook(None)),
    ];
    let [synced, thrice, turn, json_turn, idle, json_idle, outside] =
        in_turns(TURNS, contenders)?.map(Figure::Time);
    let against = "against three times `sexton --version`";
    let row = |what: String, ours, theirs, goal| Row { what, ours, theirs, goal };
    Ok(vec![
        row(
            format!("a turn of an active loop, SQLite, {against} and one fdatasync"),
            turn,
            synced,
            Goal::AtMost(1.0),
        ),
        row(
            format!("a turn of an active loop, JSON, {against} and one fdatasync"),
            json_turn,
            synced,
            Goal::None,
        ),
        row(format!("a turn in a session without a loop, SQLite, {against}"), idle, thrice, Goal::None),
        row(format!("a turn in a session without a loop, JSON, {against}"), json_idle, thrice, Goal::None),
        row(format!("a turn outside of any session {against}"), outside, thrice, Goal::AtMost(1.0)),
    ])
}
