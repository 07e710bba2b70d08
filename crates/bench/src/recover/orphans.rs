//! Live orphans that ignore signals.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Bench, row};
use crate::Result;
use crate::measure::{output_of, succeed};
use crate::run::bench_env::{BenchEnv, pid_of, wait_until_stubborn};
use crate::table::{Figure, Goal, Row};

const ORPHANS: usize = 500;

/// The grace that they have, and what else may take its time.
const LIMIT: Duration = Duration::from_secs(3);

/// Long enough for a recovery to find the orphans before their supervisors end them.
const SETTINGS: &str = "owner.grace = \"1h\"\n";

/// Ignored signals stay ignored after `exec`.
const STUBBORN: &str = "trap '' INT TERM; exec sleep 600";

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let bench_env = BenchEnv::make(&bench.sexton, bench.disk.path().join("orphans"), SETTINGS)?;
    let mut owner = Command::new("sleep").arg("600").spawn()?;
    let pid = owner.id().to_string();
    for _ in 0..ORPHANS {
        output_of(&mut bench_env.sexton(&["run", "-d", "--owner-pid", &pid, "--", "sh", "-c", STUBBORN]))?;
    }
    for record in bench_env.running()? {
        wait_until_stubborn(pid_of(&record, "process")?)?;
    }
    owner.kill()?;
    owner.wait()?;
    let began = Instant::now();
    let quiet = Stdio::null;
    succeed(bench_env.sexton(&["recover", "--stop-grace", "1s"]).stdout(quiet()).stderr(quiet()))?;
    let took = began.elapsed();
    let left = bench_env.running()?.len();
    if left > 0 {
        return Err(format!("{left} of {ORPHANS} orphans are still recorded as running").into());
    }
    let what =
        format!("recovery of {ORPHANS} living orphans that ignore SIGINT and SIGTERM, `--stop-grace 1s`");
    Ok(vec![row(what, Figure::Once(took), Figure::Once(LIMIT), Goal::Within)])
}
