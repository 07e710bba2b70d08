//! Many sessions, until the last one is recorded as finished.

use std::time::{Duration, Instant};

use super::bench_env::BenchEnv;
use super::{Bench, row};
use crate::Result;
use crate::measure::{Timing, output_of};
use crate::table::{Figure, Goal, Row};

const SESSIONS: usize = 500;
const ROUNDS: usize = 5;

/// The setting, and its name in the table.
const DURABILITIES: [(&str, &str); 2] =
    [("power", "durable against a power cut"), ("process", "not durable")];

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let mut ours = DURABILITIES.map(|_| Vec::new());
    let mut theirs = Vec::new();
    for round in 0..ROUNDS {
        for ((durability, _), times) in DURABILITIES.iter().zip(&mut ours) {
            times.push(time_sessions(bench, durability, round)?);
        }
        theirs.push(time_tasks(bench, round)?);
    }
    let theirs = Figure::Time(Timing::of(theirs));
    let rows = DURABILITIES.iter().zip(ours).map(|((_, name), ours)| {
        let what = format!(
            "{SESSIONS} sessions of `true` until all are recorded, {name}, against pueue (never durable)"
        );
        row(what, Figure::Time(Timing::of(ours)), theirs, Goal::AtMost(0.5))
    });
    Ok(rows.collect())
}

fn time_sessions(bench: &Bench, durability: &str, round: usize) -> Result<Duration> {
    let home = bench.directory.path().join(format!("many-{durability}-{round}"));
    let bench_env = BenchEnv::make(&bench.sexton, home, &format!("store.durability = \"{durability}\"\n"))?;
    let began = Instant::now();
    let sessions = (0..SESSIONS).map(|_| bench_env.start(&["true"])).collect::<Result<Vec<_>>>()?;
    bench_env.wait_for(&sessions)?;
    Ok(began.elapsed())
}

fn time_tasks(bench: &Bench, round: usize) -> Result<Duration> {
    let daemon = bench.pueue.start(&bench.directory.path().join(format!("many-pueue-{round}")))?;
    let began = Instant::now();
    for _ in 0..SESSIONS {
        output_of(&mut daemon.client(&["add", "--immediate", "--", "true"]))?;
    }
    daemon.settle()?;
    Ok(began.elapsed())
}
