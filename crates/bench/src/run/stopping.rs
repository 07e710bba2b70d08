//! Stopping many sessions that ignore signals.

use std::process::Stdio;
use std::time::{Duration, Instant};

use super::bench_env::{BenchEnv, pid_of, wait_until_stubborn};
use super::{Bench, row};
use crate::Result;
use crate::measure::succeed;
use crate::table::{Figure, Goal, Row};

const SESSIONS: usize = 200;

/// The grace that they have, and a second.
const LIMIT: Duration = Duration::from_secs(2);

/// Ignored signals stay ignored after `exec`.
const STUBBORN: [&str; 3] = ["sh", "-c", "trap '' INT TERM; exec sleep 600"];

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let bench_env = BenchEnv::make(&bench.sexton, bench.directory.path().join("stubborn"), "")?;
    for _ in 0..SESSIONS {
        bench_env.start(&STUBBORN)?;
    }
    let records = bench_env.running()?;
    for record in &records {
        wait_until_stubborn(pid_of(record, "process")?)?;
    }
    if records.len() != SESSIONS {
        return Err(format!("{} of {SESSIONS} sessions run", records.len()).into());
    }
    let mut stop = bench_env.sexton(&["stop", "--all", "--grace", "1s"]);
    stop.stdout(Stdio::null()).stderr(Stdio::null());
    let began = Instant::now();
    succeed(&mut stop)?;
    let took = Figure::Once(began.elapsed());
    let what = format!("`sexton stop` of {SESSIONS} sessions that ignore SIGINT and SIGTERM, grace 1 s");
    Ok(vec![row(what, took, Figure::Once(LIMIT), Goal::Within)])
}
