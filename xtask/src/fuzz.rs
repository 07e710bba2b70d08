//! The fuzzers of the fault campaign: the targets in fuzz/ are built with libFuzzer's instrumentation and run
//! in parallel.
//!
//! `cargo fuzz` can run the targets as well. It is not needed here: a stable compiler supports the flags, and
//! that saves one build.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;
use std::time::Instant;

use sexton_workspace::{root, target_dir};

use crate::Result;

/// Enables everything that guides libFuzzer: which edges were taken, and which values were compared.
const INSTRUMENTATION: &str = "--cfg fuzzing -Cpasses=sancov-module \
    -Cllvm-args=-sanitizer-coverage-level=4 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters \
    -Cllvm-args=-sanitizer-coverage-pc-table -Cllvm-args=-sanitizer-coverage-trace-compares";

/// The limits of one input: the largest allocation, the total memory, and the time in seconds.
const LIMITS: [&str; 3] = ["-malloc_limit_mb=256", "-rss_limit_mb=2048", "-timeout=10"];

/// How long a mutant may stay undetected.
const MUTANT_SECONDS: u64 = 60;

/// The word that selects every target.
const ALL: &str = "fuzz";

/// A fuzz target.
pub(crate) struct Target {
    /// Its name, here and in fuzz/targets.
    pub(crate) name: &'static str,
    /// What it reads.
    pub(crate) what: &'static str,
    /// The deliberate defect that it must detect.
    pub(crate) mutant: &'static str,
}

/// Every target. Related formats share one, so that each runs for a minute in a quick campaign.
const TARGETS: [Target; 4] = [
    Target {
        name: "stores",
        what: "lines of a journal, whole journals, pages and logs of SQLite; both as files, and repaired",
        mutant: "believe_lines",
    },
    Target {
        name: "records",
        what: "records, exit files, payloads of hooks, dispatch-sessions.json, ralph-state.json, intents",
        mutant: "forget_unknown",
    },
    Target {
        name: "words",
        what: "/proc, environments, configuration, ids, tickets, durations, sizes, times, store URLs",
        mutant: "any_cookie",
    },
    Target {
        name: "git",
        what: "packs, their indexes and deltas; indexes of worktrees, patterns, manifests of rescues",
        mutant: "believe_deltas",
    },
];

/// The result of one target.
pub(crate) struct Outcome {
    target: &'static Target,
    inputs: u64,
    crash: Option<String>,
    seconds: f64,
}

/// Splits the requested names into targets and scenarios; all targets if there are no names.
pub(crate) fn choose(wanted: &[String]) -> (Vec<&'static Target>, Vec<String>) {
    let is_target = |word: &String| word == ALL || TARGETS.iter().any(|target| target.name == word);
    let (words, others): (Vec<String>, Vec<String>) = wanted.iter().cloned().partition(is_target);
    let is_chosen =
        |target: &&Target| wanted.is_empty() || words.iter().any(|word| word == ALL || word == target.name);
    (TARGETS.iter().filter(is_chosen).collect(), others)
}

/// A running build.
pub(crate) struct Build {
    compiler: Child,
    programs: PathBuf,
}

impl Build {
    /// Starts to build the targets, at a low priority.
    pub(crate) fn begin() -> Result<Build> {
        let host = find_host()?;
        let directory = target_dir().join("fuzz");
        let mut command = Command::new("nice");
        command.args(["-n", "19", env!("CARGO"), "build", "--quiet", "--release", "--manifest-path"]);
        command.arg(root().join("fuzz/Cargo.toml")).args(["--target", &host, "--target-dir"]).arg(&directory);
        command.current_dir(root()).env("RUSTFLAGS", INSTRUMENTATION).stdin(Stdio::null());
        let compiler = command.spawn().map_err(|error| format!("nice: {error}"))?;
        Ok(Build { compiler, programs: directory.join(host).join("release") })
    }

    /// Waits until it is complete.
    pub(crate) fn finish(mut self) -> Result<Fuzzers> {
        if !self.compiler.wait()?.success() {
            return Err("the fuzz targets cannot be built".into());
        }
        Ok(Fuzzers { programs: self.programs, scratch: target_dir().join("fuzz") })
    }
}

/// The targets must be built for a named platform, or build scripts would be instrumented too.
fn find_host() -> Result<String> {
    let output = Command::new("rustc").arg("-vV").output()?;
    let text = String::from_utf8(output.stdout)?;
    let host = text.lines().find_map(|line| line.strip_prefix("host: "));
    Ok(host.ok_or("rustc does not print its host")?.to_owned())
}

/// The built targets.
pub(crate) struct Fuzzers {
    programs: PathBuf,
    scratch: PathBuf,
}

impl Fuzzers {
    /// Runs each target for this many seconds; as many at a time as there are processors.
    pub(crate) fn run(&self, targets: &[&'static Target], seconds: u64, seed: u64) -> Result<Vec<Outcome>> {
        let waiting = Mutex::new(targets.iter().copied());
        let memory = memory_dir()?;
        let work = || -> std::result::Result<Vec<Outcome>, String> {
            let mut outcomes = Vec::new();
            loop {
                let next = waiting.lock().map_err(|_| "another fuzzer failed")?.next();
                let Some(target) = next else { return Ok(outcomes) };
                eprintln!("== {}: {}", target.name, target.what);
                let outcome = self.fuzz(target, seconds, seed, memory.path());
                outcomes.push(outcome.map_err(|error| format!("{}: {error}", target.name))?);
            }
        };
        let threads = std::thread::available_parallelism()?.get().min(targets.len());
        let done: Vec<_> = std::thread::scope(|scope| {
            let workers: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
            workers.into_iter().map(std::thread::ScopedJoinHandle::join).collect()
        });
        let mut outcomes = Vec::new();
        for worker in done {
            outcomes.extend(worker.map_err(|_| "the thread of a fuzzer panicked")??);
        }
        outcomes.sort_by_key(|one| TARGETS.iter().position(|target| target.name == one.target.name));
        Ok(outcomes)
    }

    fn fuzz(&self, target: &'static Target, seconds: u64, seed: u64, memory: &Path) -> Result<Outcome> {
        let found = self.make("corpus", target)?;
        let begun = Instant::now();
        let mut command = self.command(target, seconds, memory)?;
        command.arg(format!("-seed={}", seed.max(1))).arg(found).arg(corpus(target));
        let output = command.output()?;
        let log = String::from_utf8_lossy(&output.stderr);
        let inputs = find_number(&log, "stat::number_of_executed_units:").unwrap_or(0);
        let crash = (!output.status.success()).then(|| self.describe_crash(target, &log));
        if let Some(crash) = &crash {
            eprintln!("   violation: {}: {crash}", target.name);
        }
        Ok(Outcome { target, inputs, crash, seconds: begun.elapsed().as_secs_f64() })
    }

    /// Returns whether the target detects its mutant.
    pub(crate) fn notices_mutant(&self, target: &'static Target) -> Result<bool> {
        let memory = memory_dir()?;
        let mut command = self.command(target, MUTANT_SECONDS, memory.path())?;
        // Its findings are not added to a corpus, and are deleted with the directory.
        let found = memory.path().join("found");
        fs::create_dir(&found)?;
        command.arg(format!("-artifact_prefix={}/", memory.path().display())).arg(found);
        let output = command.arg(corpus(target)).env("SEXTON_MUTANT", target.mutant).output()?;
        Ok(!output.status.success() && String::from_utf8_lossy(&output.stderr).contains("panicked at"))
    }

    fn command(&self, target: &Target, seconds: u64, memory: &Path) -> Result<Command> {
        let mut command = Command::new(self.programs.join(target.name));
        for (name, _) in std::env::vars_os() {
            if name.to_string_lossy().starts_with("SEXTON_") {
                command.env_remove(name);
            }
        }
        let artifacts = self.make("artifacts", target)?;
        command.args(LIMITS).arg(format!("-max_total_time={seconds}")).arg("-print_final_stats=1");
        command.arg(format!("-artifact_prefix={}/", artifacts.display()));
        command.env("TMPDIR", memory).stdin(Stdio::null()).stdout(Stdio::null());
        Ok(command)
    }

    fn make(&self, kind: &str, target: &Target) -> Result<PathBuf> {
        let directory = self.scratch.join(kind).join(target.name);
        fs::create_dir_all(&directory)?;
        Ok(directory)
    }

    /// Describes a crash, and how to reproduce it.
    fn describe_crash(&self, target: &Target, log: &str) -> String {
        let lines: Vec<&str> = log.lines().collect();
        let panic = lines.iter().position(|line| line.contains("panicked at"));
        let what = match panic {
            Some(at) => lines[at..].iter().take(2).copied().collect::<Vec<_>>().join(" "),
            None => lines
                .iter()
                .rev()
                .find(|line| line.contains("ERROR"))
                .map_or("it exited", |line| line)
                .to_owned(),
        };
        let artifact = log.split("Test unit written to ").nth(1).and_then(|rest| rest.lines().next());
        let again = artifact
            .map(|file| format!("; reproduce with {} {file}", self.programs.join(target.name).display()));
        format!("{what}{}", again.unwrap_or_default())
    }
}

fn corpus(target: &Target) -> PathBuf {
    root().join("fuzz/corpus").join(target.name)
}

/// Creates a directory for the stores that are opened, in memory if possible; it is deleted when it is
/// dropped.
fn memory_dir() -> Result<tempfile::TempDir> {
    let memory = Path::new("/dev/shm");
    let place = if memory.is_dir() { memory.to_owned() } else { std::env::temp_dir() };
    Ok(tempfile::Builder::new().prefix("sexton-fuzz-").tempdir_in(place)?)
}

fn find_number(log: &str, key: &str) -> Option<u64> {
    log.lines().find_map(|line| line.strip_prefix(key))?.trim().parse().ok()
}

/// Returns whether nothing was found, and every target ran at least one input.
pub(crate) fn is_clean(outcomes: &[Outcome]) -> bool {
    outcomes.iter().all(|one| one.crash.is_none() && one.inputs > 0)
}

/// Returns the results as a table for the terminal.
pub(crate) fn table(outcomes: &[Outcome]) -> String {
    let mut text = format!("\n{:<12} {:>12} {:>10} {:>9}  reads\n", "target", "inputs", "crashes", "seconds");
    for Outcome { target, inputs, crash, seconds } in outcomes {
        let crashes = u8::from(crash.is_some());
        text.push_str(&format!(
            "{:<12} {inputs:>12} {crashes:>10} {seconds:>9.1}  {}\n",
            target.name, target.what
        ));
    }
    let crashes =
        outcomes.iter().filter_map(|one| Some(format!("{}: {}\n", one.target.name, one.crash.as_ref()?)));
    text.extend(crashes);
    text
}

/// Returns the results as a table for docs/faults.md.
pub(crate) fn page(outcomes: &[Outcome]) -> String {
    let mut table = String::from(
        "| target | reads | inputs | crashes | seconds | its mutant |\n|---|---|---:|---:|---:|---|\n",
    );
    for Outcome { target, inputs, crash, seconds } in outcomes {
        let Target { name, what, mutant } = target;
        let crashes = u8::from(crash.is_some());
        table
            .push_str(&format!("| `{name}` | {what} | {inputs} | {crashes} | {seconds:.0} | `{mutant}` |\n"));
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn targets_and_scenarios_are_distinguished() {
        let choose = |words: &[&str]| {
            let (targets, others) = choose(&words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>());
            (targets.iter().map(|target| target.name).collect::<Vec<_>>(), others)
        };
        assert_eq!(choose(&[]), (vec!["stores", "records", "words", "git"], vec![]));
        assert_eq!(choose(&["power"]), (vec![], vec!["power".to_owned()]));
        assert_eq!(choose(&["fuzz"]).0.len(), 4);
        assert_eq!(choose(&["git", "power"]), (vec!["git"], vec!["power".to_owned()]));
    }

    #[test]
    fn every_target_has_its_program_and_its_corpus() {
        for target in &TARGETS {
            assert!(root().join("fuzz/targets").join(format!("{}.rs", target.name)).is_file());
            assert!(fs::read_dir(corpus(target)).unwrap().count() > 10, "{}", target.name);
        }
    }

    #[test]
    fn a_crash_report_has_a_cause_and_a_command() {
        let fuzzers = Fuzzers { programs: "/p".into(), scratch: "/s".into() };
        let log = "#12 NEW\nthread 'x' panicked at a.rs:1:2:\nit broke\nTest unit written to /a/crash-1\nstat::number_of_executed_units: 12\n";
        let crash = fuzzers.describe_crash(&TARGETS[0], log);
        assert_eq!(crash, "thread 'x' panicked at a.rs:1:2: it broke; reproduce with /p/stores /a/crash-1");
        assert_eq!(find_number(log, "stat::number_of_executed_units:"), Some(12));
        let crash = fuzzers.describe_crash(&TARGETS[3], "==1== ERROR: libFuzzer: timeout after 10 seconds\n");
        assert!(crash.contains("timeout"), "{crash}");
    }
}
