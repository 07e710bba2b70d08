//! Stopping many that do not want to.

use std::process::Stdio;
use std::time::{Duration, Instant};

use super::yard::{Yard, pid_of, wait_until_stubborn};
use super::{Bench, row};
use crate::Result;
use crate::bench::measure::succeed;
use crate::bench::table::{Figure, Goal, Row};

const SESSIONS: usize = 200;

/// The grace that they have, and a second.
const LIMIT: Duration = Duration::from_secs(2);

/// What is ignored stays ignored in what is executed.
const STUBBORN: [&str; 3] = ["sh", "-c", "trap '' INT TERM; exec sleep 600"];

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let yard = Yard::make(&bench.sexton, bench.directory.path().join("stubborn"), "")?;
    for _ in 0..SESSIONS {
        yard.start(&STUBBORN)?;
    }
    let records = yard.running()?;
    for record in &records {
        wait_until_stubborn(pid_of(record, "process")?)?;
    }
    if records.len() != SESSIONS {
        return Err(format!("{} of {SESSIONS} sessions run", records.len()).into());
    }
    let mut stop = yard.sexton(&["stop", "--all", "--grace", "1s"]);
    stop.stdout(Stdio::null()).stderr(Stdio::null());
    let began = Instant::now();
    succeed(&mut stop)?;
    let took = Figure::Once(began.elapsed());
    let what = format!("`sexton stop` of {SESSIONS} sessions that ignore SIGINT and SIGTERM, grace 1 s");
    Ok(vec![row(what, took, Figure::Once(LIMIT), Goal::Within)])
}
