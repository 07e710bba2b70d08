//! Worktrees: created, rescued and removed, compared with git.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::repository::Repository;
use super::{Bench, row};
use crate::Result;
use crate::measure::{Timing, output_of, succeed};
use crate::run::bench_env::{BenchEnv, pid_of};
use crate::table::{Figure, Goal, Row};

const LARGE: usize = 20_000;
const CHANGED: usize = 200;
const SMALL: usize = 5_000;
const WORKTREES: usize = 20;
const TURNS: usize = 7;
const SLOW_TURNS: usize = 3;
/// Longer than any removal takes.
const PATIENCE: Duration = Duration::from_secs(60);

/// The strictest settings with which git makes loose objects survive a power cut.
const DURABLE: [&str; 4] = ["-c", "core.fsync=loose-object", "-c", "core.fsyncMethod=batch"];

pub(super) fn measure(bench: &Bench) -> Result<Vec<Row>> {
    Ok(vec![creation(bench)?, rescue(bench)?, removal(bench)?])
}

fn creation(bench: &Bench) -> Result<Row> {
    let repository_env = RepositoryEnv::make(bench, bench.memory.path().join("create"), LARGE)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for turn in 0..=TURNS {
        let began = Instant::now();
        let id = repository_env.start(&["true"])?;
        let made = began.elapsed();
        repository_env.bench_env.wait_for(std::slice::from_ref(&id))?;
        // Its supervisor removes the worktree again, and would compete with git for a processor.
        repository_env.wait_until_empty()?;
        let place = repository_env.home.join("theirs");
        let began = Instant::now();
        succeed(
            &mut repository_env
                .repo
                .git(&repository_env.repo.path, &["worktree", "add", "--quiet", "--detach", text(&place)]),
        )?;
        let added = began.elapsed();
        succeed(
            &mut repository_env
                .repo
                .git(&repository_env.repo.path, &["worktree", "remove", "--force", text(&place)]),
        )?;
        // The first turn is not timed, so that no figure includes a cold cache.
        if turn > 0 {
            ours.push(made);
            theirs.push(added);
        }
    }
    let what =
        format!("`run -d --worktree -- true` in a repository of {LARGE} files against `git worktree add`");
    Ok(row(what, time(ours), time(theirs), Goal::AtMost(1.0)))
}

fn rescue(bench: &Bench) -> Result<Row> {
    let repository_env = RepositoryEnv::make(bench, bench.disk.path().join("rescue"), LARGE)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for turn in 0..=TURNS {
        let orphan = repository_env.orphan()?;
        repository_env.repo.change(&orphan.worktree, CHANGED, turn * 2)?;
        let index = repository_env.copy_index(&orphan)?;
        let began = Instant::now();
        for arguments in [&["add", "--all"][..], &["write-tree"]] {
            let mut command = repository_env.repo.git(&orphan.worktree, &[&DURABLE, arguments].concat());
            succeed(command.env("GIT_INDEX_FILE", &index).stdout(Stdio::null()))?;
        }
        let added = began.elapsed();
        // The content must differ from what git has just written, or there would be nothing left to save.
        repository_env.repo.change(&orphan.worktree, CHANGED, turn * 2 + 1)?;
        rustix::fs::sync();
        let report = repository_env.recover()?;
        if turn > 0 {
            ours.push(Duration::from_secs_f64(report["seconds"]["rescue"].as_f64().ok_or("no seconds")?));
            theirs.push(added);
        }
    }
    let what = format!(
        "rescue of {CHANGED} changed files among {LARGE} against `git add -A` and `write-tree`, durable"
    );
    Ok(row(what, time(ours), time(theirs), Goal::AtMost(1.0)))
}

fn removal(bench: &Bench) -> Result<Row> {
    let repository_env = RepositoryEnv::make(bench, bench.memory.path().join("remove"), SMALL)?;
    let (mut ours, mut theirs) = (Vec::new(), Vec::new());
    for turn in 0..SLOW_TURNS {
        let places: Vec<_> =
            (0..WORKTREES).map(|number| repository_env.home.join(format!("theirs{number}"))).collect();
        for place in &places {
            let arguments = ["worktree", "add", "--quiet", "--detach", text(place)];
            succeed(&mut repository_env.repo.git(&repository_env.repo.path, &arguments))?;
            repository_env.repo.change(place, 1, turn)?;
        }
        let orphans = (0..WORKTREES).map(|_| repository_env.orphan()).collect::<Result<Vec<_>>>()?;
        for orphan in &orphans {
            repository_env.repo.change(&orphan.worktree, 1, turn)?;
        }
        let began = Instant::now();
        for place in &places {
            succeed(
                &mut repository_env
                    .repo
                    .git(&repository_env.repo.path, &["worktree", "remove", "--force", text(place)]),
            )?;
        }
        theirs.push(began.elapsed());
        let began = Instant::now();
        let report = repository_env.recover()?;
        ours.push(began.elapsed());
        if report["worktrees"]["removed"].as_u64() != Some(WORKTREES as u64) {
            return Err(format!("not every worktree was removed: {report}").into());
        }
    }
    let what = format!(
        "recovery of {WORKTREES} worktrees of {SMALL} files, rescued and removed, against `git worktree remove --force`"
    );
    Ok(row(what, time(ours), time(theirs), Goal::AtMost(0.6)))
}

fn time(times: Vec<Duration>) -> Figure {
    Figure::Time(Timing::of(times))
}

fn text(path: &Path) -> &str {
    path.to_str().expect("a temporary directory has a plain name")
}

/// A repository and a state directory beside it.
struct RepositoryEnv {
    home: PathBuf,
    repo: Repository,
    bench_env: BenchEnv,
}

/// A dead session with a worktree.
struct Orphan {
    worktree: PathBuf,
}

impl RepositoryEnv {
    fn make(bench: &Bench, home: PathBuf, files: usize) -> Result<RepositoryEnv> {
        let bench_env = BenchEnv::make(&bench.sexton, home.clone(), "")?;
        let repo = Repository::make(&home, files)?;
        Ok(RepositoryEnv { home, repo, bench_env })
    }

    fn start(&self, command: &[&str]) -> Result<String> {
        let words = [&["run", "-d", "--worktree", "--"], command].concat();
        let mut start = self.bench_env.sexton(&words);
        start.env("PATH", std::env::var_os("PATH").unwrap_or_default()).current_dir(&self.repo.path);
        Ok(output_of(&mut start)?.trim().to_owned())
    }

    /// Waits until no worktree is left, not even in the trash.
    fn wait_until_empty(&self) -> Result {
        let began = Instant::now();
        while !is_empty(&self.home.join("state/worktrees"))? {
            if began.elapsed() > PATIENCE {
                return Err("a worktree of a session that has ended is still there".into());
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }

    /// Starts a session and kills its supervisor and its command.
    fn orphan(&self) -> Result<Orphan> {
        let id = self.start(&["sleep", "600"])?;
        let record: Value =
            serde_json::from_str(&output_of(&mut self.bench_env.sexton(&["show", &id, "--json"]))?)?;
        for role in ["supervisor", "process"] {
            kill(pid_of(&record, role)?)?;
        }
        let worktree = record["worktree"]["path"].as_str().ok_or("the record has no worktree")?;
        Ok(Orphan { worktree: worktree.into() })
    }

    /// Returns a copy of the worktree's index, outside of it.
    fn copy_index(&self, orphan: &Orphan) -> Result<PathBuf> {
        let named = output_of(&mut self.repo.git(&orphan.worktree, &["rev-parse", "--git-path", "index"]))?;
        let copy = self.home.join("index");
        fs::copy(orphan.worktree.join(named.trim()), &copy)?;
        Ok(copy)
    }

    fn recover(&self) -> Result<Value> {
        Ok(serde_json::from_str(&output_of(&mut self.bench_env.sexton(&["recover", "--json"]))?)?)
    }
}

/// Returns whether the worktree roots in `directory` hold only their own, empty, trash and locks.
fn is_empty(directory: &Path) -> Result<bool> {
    for root in fs::read_dir(directory)? {
        let root = root?.path();
        let in_trash = fs::read_dir(root.join(".trash"))?.count();
        let worktrees = fs::read_dir(&root)?.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
        if in_trash + worktrees.filter(|name| !name.starts_with('.')).count() > 0 {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Kills one process of this benchmark, and waits until it is gone.
fn kill(pid: u64) -> Result {
    succeed(Command::new("kill").args(["-9", &pid.to_string()]))?;
    let gone = || {
        let stat = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        stat.rsplit(") ").next().is_none_or(|rest| rest.is_empty() || rest.starts_with('Z'))
    };
    while !gone() {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}
