//! Idle supervisors: their memory, and whether they sleep.

use std::time::Duration;

use super::bench_env::{BenchEnv, pid_of};
use super::{Bench, row};
use crate::Result;
use crate::processes::{SWITCHES, sum};
use crate::table::{Figure, Goal, Row};

const SESSIONS: u32 = 100;
const PAUSE: Duration = Duration::from_secs(10);

/// Half a mebibyte.
const MEMORY_GOAL: Figure = Figure::Kibibytes(512.0);

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let bench_env = BenchEnv::make(&bench.sexton, bench.directory.path().join("idle"), "")?;
    for _ in 0..SESSIONS {
        bench_env.start(&["sleep", "600"])?;
    }
    let records = bench_env.running()?;
    let shims = records
        .iter()
        .map(|record| Ok(i32::try_from(pid_of(record, "supervisor")?)?))
        .collect::<Result<Vec<_>>>()?;
    if shims.len() != SESSIONS as usize {
        return Err(format!("{} of {SESSIONS} sessions run", shims.len()).into());
    }
    let memory = sum(&shims, "smaps_rollup", &["Pss"])?;
    let before = sum(&shims, "status", &SWITCHES)?;
    std::thread::sleep(PAUSE);
    let switches = sum(&shims, "status", &SWITCHES)? - before;
    let (none, seconds) = (Figure::Count(0), PAUSE.as_secs());
    Ok(vec![
        row(
            format!("proportional memory of a supervisor, {SESSIONS} running"),
            Figure::Kibibytes(f64::from(memory) / f64::from(SESSIONS)),
            MEMORY_GOAL,
            Goal::Within,
        ),
        row(
            format!("context switches of {SESSIONS} idle supervisors in {seconds} s"),
            Figure::Count(switches),
            none,
            Goal::Within,
        ),
    ])
}
