//! Records of dead processes, and none at all.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::{Bench, row};
use crate::Result;
use crate::measure::{Timing, medians, output_of, succeed};
use crate::run::bench_env::BenchEnv;
use crate::table::{Figure, Goal, Row};

const FEW: usize = 1_000;
const MANY: usize = 10_000;
const TURNS: usize = 7;
const QUICK_TURNS: usize = 100;

/// Nothing is pruned: only recovery is measured.
const KEEP: &str = "retention.ttl = \"36500d\"\nretention.keep = 100000\n";

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    let few = Dead::prepare(bench, FEW)?;
    let many = Dead::prepare(bench, MANY)?;
    let (mut rewritten, mut recovered, mut recovered_many) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..TURNS {
        rewritten.push(few.rewrite(bench)?);
        recovered.push(few.recover(bench)?);
        recovered_many.push(many.recover(bench)?);
    }
    let [rewritten, few, many] =
        [rewritten, recovered, recovered_many].map(|times| Figure::Time(Timing::of(times)));
    let mut rows = vec![
        row(
            format!(
                "recovery of {FEW} records of dead processes against a backup and one commit of them all"
            ),
            few,
            rewritten,
            Goal::AtMost(3.0),
        ),
        row(format!("{MANY} against {FEW}"), many, few, Goal::AtMost(12.0)),
    ];
    rows.push(idle(bench)?);
    Ok(rows)
}

/// Measures a recovery that finds nothing to do.
fn idle(bench: &Bench) -> Result<Row> {
    let home = bench.disk.path().join("idle");
    let bench_env = BenchEnv::make(&bench.sexton, home.clone(), KEEP)?;
    succeed(bench_env.sexton(&["recover"]).stderr(Stdio::null()))?;
    bench.worker.populate(&format!("sqlite:{}", home.join("state/sessions.db").display()), MANY)?;
    let commands = [bench_env.sexton(&["recover"]), bench_env.sexton(&["ps"])];
    let [recover, ps] = medians(QUICK_TURNS, commands)?.map(Figure::Time);
    let what = format!("recovery with nothing to do and {MANY} finished records against `sexton ps`");
    Ok(row(what, recover, ps, Goal::AtMost(2.0)))
}

/// A state directory with records of processes that are gone.
struct Dead {
    home: PathBuf,
}

impl Dead {
    fn prepare(bench: &Bench, count: usize) -> Result<Dead> {
        let home = bench.disk.path().join(format!("dead-{count}"));
        let bench_env = BenchEnv::make(&bench.sexton, home.clone(), KEEP)?;
        let mut process = Command::new("sleep").arg("600").spawn()?;
        let id = output_of(&mut bench_env.sexton(&["register", "--pid", &process.id().to_string()]));
        let record = id.and_then(|id| output_of(&mut bench_env.sexton(&["show", id.trim(), "--json"])));
        process.kill()?;
        process.wait()?;
        let template = home.join("template.json");
        std::fs::write(&template, record?)?;
        let url = format!("sqlite:{}", home.join("state/sessions.db").display());
        bench.worker.multiply(&url, &template, count - 1)?;
        Ok(Dead { home })
    }

    /// Returns a copy, so that each turn starts from the same state.
    fn copy(&self, bench: &Bench) -> Result<PathBuf> {
        let copy = bench.disk.path().join("copy");
        if copy.exists() {
            std::fs::remove_dir_all(&copy)?;
        }
        succeed(Command::new("cp").arg("-a").arg(&self.home).arg(&copy))?;
        rustix::fs::sync();
        Ok(copy)
    }

    fn recover(&self, bench: &Bench) -> Result<Duration> {
        let home = self.copy(bench)?;
        let mut command = Command::new(&bench.sexton);
        command.env_clear().env("HOME", &home).env("SEXTON_STATE_DIR", home.join("state")).arg("recover");
        command.current_dir(&home).stdout(Stdio::null()).stderr(Stdio::null());
        let began = Instant::now();
        succeed(&mut command)?;
        Ok(began.elapsed())
    }

    fn rewrite(&self, bench: &Bench) -> Result<Duration> {
        let home = self.copy(bench)?;
        let url = format!("sqlite:{}", home.join("state/sessions.db").display());
        bench.worker.rewrite(&url, &home.join("backups"))
    }
}
