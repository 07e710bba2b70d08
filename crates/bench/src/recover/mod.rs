//! `cargo xtask bench recover`: the cost of a recovery.

mod orphans;
mod records;
mod repository;
mod worktrees;

use std::fs;
use std::path::{Path, PathBuf};

use sexton_workspace::machine::{describe, first_line};
use sexton_workspace::{dist, target_dir};
use tempfile::TempDir;

use super::report;
use super::table::{Figure, Goal, Row, render};
use super::worker::Worker;
use crate::Result;

/// A file system without a disk: disks are throttled in bursts, which thousands of files make visible.
const MEMORY: &str = "/dev/shm";

/// What everything is measured with.
struct Bench {
    sexton: PathBuf,
    worker: Worker,
    /// On the disk of the target directory.
    disk: TempDir,
    /// In memory.
    memory: TempDir,
}

/// Measures, prints, and writes docs/benchmarks.md.
pub(super) fn run() -> Result {
    let (sexton, worker) = (dist::build()?, Worker::build()?);
    fs::create_dir_all(target_dir())?;
    let disk = TempDir::with_prefix_in("bench-", target_dir())?;
    let memory = TempDir::with_prefix_in("bench-", Path::new(MEMORY))?;
    let machine = describe(disk.path())?;
    let bench = Bench { sexton, worker, disk, memory };
    let rows = [records::measure(&bench)?, orphans::measure(&bench)?, worktrees::measure(&bench)?].concat();
    let versions = format!(
        "{}, {}",
        first_line(&bench.sexton, &["--version"])?,
        first_line(Path::new("git"), &["--version"])?
    );
    report::publish("recover", &section(&machine, &versions, &rows))
}

fn section(machine: &str, versions: &str, rows: &[Row]) -> String {
    format!(
        "\
## Recovery

`cargo xtask bench recover` on {machine} {versions}.

Medians of runs in turns, each on its own copy of the same store or its own worktrees. Everything about records and
the rescue is on the disk of the target directory; creating and removing thousands of files is measured in
memory. A recovery is the whole program, from before it is started until it is reaped; the rescue is what
`recover --json` says of that phase, looking for occupants and moving into the trash included.

{}",
        render(rows)
    )
}

fn row(what: impl Into<String>, ours: Figure, theirs: Figure, goal: Goal) -> Row {
    Row { what: what.into(), ours, theirs, goal }
}
