//! `cargo xtask bench run`: the cost of sessions, from their start to their end.

pub(super) mod bench_env;
mod idle;
mod many;
mod output;
mod starts;
mod stopping;

use std::fs;
use std::path::PathBuf;

use sexton_workspace::machine::{describe, first_line};
use sexton_workspace::{dist, target_dir};
use tempfile::TempDir;

use super::pueue::Pueue;
use super::report;
use super::table::{Figure, Goal, Row, render};
use crate::Result;

/// What everything is measured with.
struct Bench {
    /// The program as it is distributed.
    sexton: PathBuf,
    /// The same as `cargo build --release` builds it.
    plain: PathBuf,
    pueue: Pueue,
    // On the disk of the target directory: a commit on tmpfs would cost nothing.
    directory: TempDir,
}

/// Measures, prints, and writes docs/benchmarks.md.
pub(super) fn run() -> Result {
    let (plain, sexton, pueue) = (dist::build_plain()?, dist::build()?, Pueue::require()?);
    fs::create_dir_all(target_dir())?;
    let directory = TempDir::with_prefix_in("bench-", target_dir())?;
    let machine = describe(directory.path())?;
    let bench = Bench { sexton, plain, pueue, directory };
    let rows = [
        starts::measure(&bench)?,
        many::measure(&bench)?,
        output::measure(&bench)?,
        idle::measure(&bench)?,
        stopping::measure(&bench)?,
    ]
    .concat();
    let versions = format!("{}, {}", first_line(&bench.sexton, &["--version"])?, bench.pueue.version()?);
    report::publish("run", &section(&machine, &versions, &rows))
}

fn section(machine: &str, versions: &str, rows: &[Row]) -> String {
    format!(
        "\
## Sessions

`cargo xtask bench run` on {machine} {versions}.

Medians of runs in turns, with the quarters between which the middle half lies; the program is the one of
`cargo xtask dist`. Programs are timed from before they are started until they are reaped. Before the next one's turn
the session, or task, has ended and is recorded: what one leaves for later does not weigh on another. The sync
follows a write of 1,500 bytes, about a record, to a file in the same directory. Processor time counts everything
that was started: the program, its supervisor, the command.

{}",
        render(rows)
    )
}

fn row(what: impl Into<String>, ours: Figure, theirs: Figure, goal: Goal) -> Row {
    Row { what: what.into(), ours, theirs, goal }
}
