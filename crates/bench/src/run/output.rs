//! A command that writes a lot: the cost of keeping its output.

use std::fs::{self, File};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{WaitOptions, getpid, set_child_subreaper, wait};
use sexton_workspace::processor_time::processor_time_of_children;
use tempfile::TempDir;

use super::bench_env::{BenchEnv, PATH};
use super::{Bench, row};
use crate::Result;
use crate::measure::{Timing, succeed};
use crate::table::{Figure, Goal, Row};

const ROUNDS: usize = 25;

/// Writes one GiB.
const WRITER: [&str; 5] = ["dd", "if=/dev/zero", "bs=64K", "count=16384", "status=none"];

/// A file system in memory.
const TMPFS: &str = "/dev/shm";

/// The setting, and its name in the table.
const BOUNDS: [(&str, &str); 2] = [("off", "log.max_bytes off"), ("64MiB", "log.max_bytes = 64MiB")];

/// The time of each round, and the processor time of all of them.
#[derive(Default)]
struct Cost {
    wall: Vec<Duration>,
    processor: Duration,
}

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    // Supervisors become children of this process when their starter has exited, so that it sees when they
    // exit and what they used.
    set_child_subreaper(Some(getpid()))?;
    let directory = TempDir::with_prefix_in("sexton-bench-", TMPFS)?;
    let mut bare = Cost::default();
    let mut kept = BOUNDS.map(|_| Cost::default());
    for round in 0..ROUNDS {
        let file = directory.path().join("bare");
        bare.add(|| write_bare(&file))?;
        fs::remove_file(file)?;
        for ((bound, _), cost) in BOUNDS.iter().zip(&mut kept) {
            let home = directory.path().join(format!("{bound}-{round}"));
            let bench_env =
                BenchEnv::make(&bench.sexton, home.clone(), &format!("log.max_bytes = \"{bound}\"\n"))?;
            cost.add(|| write_kept(&bench_env))?;
            drop(bench_env);
            fs::remove_dir_all(home)?;
        }
    }
    set_child_subreaper(None)?;
    let figure = |times: &[Duration]| Figure::Time(Timing::of(times.to_vec()));
    let rows = BOUNDS.iter().zip(&kept).flat_map(|((_, name), cost)| {
        let goal = Goal::AtMost(1.05);
        [
            row(
                format!("a command that writes 1 GiB, {name}, against `> file`"),
                figure(&cost.wall),
                figure(&bare.wall),
                goal,
            ),
            row(
                format!("the same, processor time of {ROUNDS} in all"),
                Figure::Once(cost.processor),
                Figure::Once(bare.processor),
                goal,
            ),
        ]
    });
    Ok(rows.collect())
}

impl Cost {
    fn add(&mut self, act: impl FnOnce() -> Result) -> Result {
        let (began, used) = (Instant::now(), processor_time_of_children()?);
        act()?;
        self.wall.push(began.elapsed());
        self.processor += processor_time_of_children()?.saturating_sub(used);
        Ok(())
    }
}

fn write_bare(path: &Path) -> Result {
    let mut command = Command::new(WRITER[0]);
    command.args(&WRITER[1..]).env_clear().env("PATH", PATH);
    succeed(command.stdin(Stdio::null()).stdout(File::create(path)?))
}

fn write_kept(bench_env: &BenchEnv) -> Result {
    bench_env.start(&WRITER)?;
    // Its supervisor exits when the end is recorded.
    loop {
        match wait(WaitOptions::empty()) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(Errno::CHILD) => return Ok(()),
            Err(error) => return Err(error.into()),
        }
    }
}
