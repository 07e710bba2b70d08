//! `cargo xtask bench store`: the cost of records.

use std::fs::{self, DirBuilder};
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;
use sexton_workspace::machine::{describe, first_line};
use sexton_workspace::{dist, target_dir};
use tempfile::TempDir;

use super::measure::medians;
use super::pueue::Pueue;
use super::report;
use super::table::{Figure, Goal, Row, render};
use super::worker::Worker;
use crate::Result;

const SMALL: usize = 100;
const LARGE: usize = 10_000;
const PEER_TASKS: usize = 5_000;

/// Turns of the commit figures; each is two measured commits per store.
const COMMIT_TURNS: usize = 1_000;
/// Turns of the programs that take milliseconds, and of those that take hundreds.
const QUICK_TURNS: usize = 300;
const SLOW_TURNS: usize = 11;

const WRITERS: usize = 16;
const COMMITS_PER_WRITER: usize = 50;
const THROUGHPUT_ROUNDS: usize = 5;

/// The stores: the scheme of their URL, and their name in the table.
const STORES: [(&str, &str); 2] = [("sqlite", "SQLite"), ("json", "JSON")];

/// What everything is measured with.
struct Bench {
    sexton: PathBuf,
    worker: Worker,
    pueue: Pueue,
    // On the disk of the target directory: a commit on tmpfs would cost nothing.
    directory: TempDir,
}

/// Measures, prints, and writes docs/benchmarks.md.
pub(super) fn run() -> Result {
    let sexton = dist::build()?;
    let (worker, pueue) = (Worker::build()?, Pueue::require()?);
    fs::create_dir_all(target_dir())?;
    let directory = TempDir::with_prefix_in("bench-", target_dir())?;
    let machine = describe(directory.path())?;
    let bench = Bench { sexton, worker, pueue, directory };
    bench.populate()?;
    let rows = [bench.commits()?, bench.listings()?, bench.throughput()?].concat();
    let versions = format!("{}, {}", first_line(&bench.sexton, &["--version"])?, bench.pueue.version()?);
    report::publish("store", &section(&machine, &versions, &rows))
}

fn section(machine: &str, versions: &str, rows: &[Row]) -> String {
    format!(
        "\
## Records

`cargo xtask bench store` on {machine} {versions}.

Medians of runs in turns, with the quarters between which the middle half lies; the program is the one of
`cargo xtask dist`. A commit is the mean of one insertion and one replacement of a record as `run`
writes it, durable against a power cut; the bare write appends the same bytes to a file in the same directory.
Programs are timed from before they are started until they are reaped, their output going nowhere. A task of
pueue carries the environment it was added with; here that is two variables, so a real listing of it is slower.

{}",
        render(rows)
    )
}

impl Bench {
    fn state_dir(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn url(&self, scheme: &str, count: usize) -> String {
        format!("{scheme}:{}", self.state_dir(&format!("{scheme}-{count}/sessions")).display())
    }

    fn populate(&self) -> Result {
        for (scheme, _) in STORES {
            for count in [0, SMALL, LARGE] {
                make_private(&self.state_dir(&format!("{scheme}-{count}")))?;
                self.worker.populate(&self.url(scheme, count), count)?;
            }
        }
        self.require_listed("sqlite")?;
        self.require_listed("json")
    }

    /// Fails if a listing does not contain the records that it is timed with.
    fn require_listed(&self, scheme: &str) -> Result {
        let output = self.ps(scheme, LARGE, &["--all", "--json"]).output()?;
        let listed: Vec<Value> = serde_json::from_slice(&output.stdout)?;
        if listed.len() == LARGE {
            Ok(())
        } else {
            Err(format!("ps lists {} of {LARGE}", listed.len()).into())
        }
    }

    fn sexton(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(&self.sexton);
        command.env_clear().env("HOME", self.directory.path()).args(arguments);
        command
    }

    /// Returns `sexton ps` on the store of `scheme` with `count` finished records.
    fn ps(&self, scheme: &str, count: usize, arguments: &[&str]) -> Command {
        let mut command = self.sexton(&["ps"]);
        command.env("SEXTON_STATE_DIR", self.state_dir(&format!("{scheme}-{count}")));
        command.env("SEXTON_STORE", self.url(scheme, count)).args(arguments);
        command
    }

    fn commits(&self) -> Result<Vec<Row>> {
        let mut rows = Vec::new();
        for (scheme, name) in STORES {
            let (small, large) = (self.url(scheme, SMALL), self.url(scheme, LARGE));
            let times = self.worker.commits(&small, &large, self.directory.path(), COMMIT_TURNS)?;
            rows.push(row(
                format!("one durable commit, {name}, against bare write + fdatasync"),
                Figure::Time(times.small),
                Figure::Time(times.bare),
                Goal::AtMost(2.0),
            ));
            rows.push(row(
                format!("one commit at {LARGE} records, {name}, against at {SMALL}"),
                Figure::Time(times.large),
                Figure::Time(times.small),
                Goal::AtMost(1.3),
            ));
        }
        Ok(rows)
    }

    fn listings(&self) -> Result<Vec<Row>> {
        let idle = self.pueue.start(&self.state_dir("pueue-idle"))?;
        let busy = self.pueue.start_with_finished(&self.state_dir("pueue-busy"), PEER_TASKS)?;
        let status = ["status", "--json"];
        let quick = [
            Command::new("/bin/true"),
            self.sexton(&["--version"]),
            self.ps("sqlite", 0, &[]),
            self.ps("sqlite", LARGE, &[]),
            idle.client(&status),
        ];
        let [nothing, version, none, many, peer_none] = medians(QUICK_TURNS, quick)?.map(Figure::Time);
        let slow = [
            self.ps("json", 0, &[]),
            self.ps("json", LARGE, &[]),
            self.ps("sqlite", LARGE, &["--all", "--json"]),
            busy.client(&status),
        ];
        let [json_none, json_many, all, peer_many] = medians(SLOW_TURNS, slow)?.map(Figure::Time);
        let ps = format!("`sexton ps` with {LARGE} finished records");
        let peer = format!("`pueue status --json` with {PEER_TASKS} finished tasks");
        Ok(vec![
            row(format!("{ps}, SQLite, against with none"), many, none, Goal::AtMost(1.5)),
            row(format!("{ps}, JSON, against with none"), json_many, json_none, Goal::None),
            row(format!("{ps}, SQLite, against {peer}"), many, peer_many, Goal::AtMost(0.1)),
            row(
                format!("`sexton ps --all --json` of {LARGE}, SQLite, against {peer}"),
                all,
                peer_many,
                Goal::None,
            ),
            row("`sexton --version` against `/bin/true`".into(), version, nothing, Goal::AtMost(1.6)),
            row(
                "`sexton ps` with no records against `pueue status --json` with none".into(),
                none,
                peer_none,
                Goal::AtMost(1.0),
            ),
        ])
    }

    fn throughput(&self) -> Result<Vec<Row>> {
        STORES.iter().map(|(scheme, name)| self.throughput_of(scheme, name)).collect()
    }

    fn throughput_of(&self, scheme: &str, name: &str) -> Result<Row> {
        let (mut alone, mut together) = (Vec::new(), Vec::new());
        for round in 0..THROUGHPUT_ROUNDS {
            alone.push(self.one_throughput(&format!("{scheme}-alone-{round}"), scheme, 1)?);
            together.push(self.one_throughput(&format!("{scheme}-together-{round}"), scheme, WRITERS)?);
        }
        let middle = |mut rates: Vec<f64>| {
            rates.sort_by(f64::total_cmp);
            Figure::PerSecond(rates[rates.len() / 2])
        };
        Ok(row(
            format!("{WRITERS} processes committing at once, {name}, against one: commits"),
            middle(together),
            middle(alone),
            Goal::AtLeast(0.8),
        ))
    }

    /// Returns the rate of as many commits as the full number of writers makes, into a new store.
    fn one_throughput(&self, name: &str, scheme: &str, writers: usize) -> Result<f64> {
        let directory = self.state_dir(name);
        make_private(&directory)?;
        let url = format!("{scheme}:{}", directory.join("sessions").display());
        self.worker.populate(&url, 0)?;
        self.worker.throughput(&url, writers, WRITERS * COMMITS_PER_WRITER / writers)
    }
}

fn row(what: String, ours: Figure, theirs: Figure, goal: Goal) -> Row {
    Row { what, ours, theirs, goal }
}

/// Creates a state directory with the mode that the program requires: no access for other users.
fn make_private(directory: &Path) -> Result {
    Ok(DirBuilder::new().mode(0o700).create(directory)?)
}
