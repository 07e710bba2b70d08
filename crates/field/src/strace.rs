//! The program seen from outside: which of its system calls change something, and dying or dawdling at any
//! one of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::thread::CpuSet;

use crate::{Ran, Yard};

/// The system calls that change something that outlives the process.
pub const MUTATING: &[&str] = &[
    "write",
    "pwrite64",
    "writev",
    "pwritev",
    "sendfile",
    "copy_file_range",
    "fallocate",
    "ftruncate",
    "truncate",
    "fsync",
    "fdatasync",
    "rename",
    "renameat",
    "renameat2",
    "link",
    "linkat",
    "symlink",
    "symlinkat",
    "unlink",
    "unlinkat",
    "rmdir",
    "mkdir",
    "mkdirat",
    "mknodat",
    "chmod",
    "fchmod",
    "fchmodat",
    "fchown",
    "fchownat",
    "utimensat",
    "setxattr",
    "kill",
    "tgkill",
    "pidfd_send_signal",
];

/// One call of one thread: the `nth` of its name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// Its name.
    pub name: String,
    /// Which of that name it is, from 1 on.
    pub nth: usize,
}

/// Whose calls are counted and disturbed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Those of every thread and of every process that the binary starts.
    All,
    /// Those of every thread of the binary, and of none of the programs that it executes.
    Threads,
    /// Those of its first thread.
    FirstThread,
}

/// What became of a run in which a call was to be disturbed.
pub struct Disturbed {
    /// What the binary did.
    pub ran: Ran,
    /// The calls that were really disturbed, as strace shows them; none where the binary never came so far.
    pub struck: Vec<String>,
    /// Those calls among all of their name, and among what was written, in their order.
    pub trace: Vec<String>,
}

/// The binary under strace with these `-e` expressions, writing what it sees to `output`. Held to one
/// processor it does its work in one order.
fn traced(yard: &Yard, options: &[&str], output: &Path, expressions: &[&str], arguments: &[&str]) -> Command {
    let mut command = Command::new("taskset");
    yard.enclose(&mut command);
    // Of what strace says besides, only who was killed is of interest.
    command.args(["--cpu-list", &one_processor(), "strace", "--quiet=attach,personality,thread-execve"]);
    command.args(["-y", "-s", "64", "-o"]);
    command.arg(output).args(options);
    for expression in expressions {
        command.args(["-e", expression]);
    }
    command.arg(crate::program()).args(arguments);
    command
}

impl Family {
    fn options(self) -> &'static [&'static str] {
        match self {
            Family::All => &["-f"],
            // What executes another program is let go.
            Family::Threads => &["-f", "-b", "execve"],
            Family::FirstThread => &[],
        }
    }

    /// The same where nobody is to be sent a signal. The kernel then stops them at what is traced and lets all else
    /// pass, which is ten times as quick; strace delivers no signal at such a stop, and lets nobody go.
    fn quick_options(self) -> &'static [&'static str] {
        match self {
            Family::All => &["-f", "--seccomp-bpf"],
            Family::Threads | Family::FirstThread => self.options(),
        }
    }
}

/// A processor that this test may use: always the same for one thread, and another for the next, so that tests that
/// run at once do not all wait for one.
fn one_processor() -> String {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static THREAD: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number)).collect();
    // Where each test is a process of its own, their numbers tell them apart.
    let number = THREAD.with(|thread| thread + std::process::id() as usize);
    allowed[number % allowed.len()].to_string()
}

/// Runs the binary and gives back the lines of the trace: all mutating calls, and every `openat`.
pub fn trace(yard: &Yard, arguments: &[&str]) -> Vec<String> {
    trace_family(yard, Family::All, arguments)
}

/// The same of the binary's first thread alone, and of none of its children.
pub fn trace_alone(yard: &Yard, arguments: &[&str]) -> Vec<String> {
    trace_family(yard, Family::FirstThread, arguments)
}

/// Every system call of the binary's first thread, in their order.
pub fn every_call_alone(yard: &Yard, arguments: &[&str]) -> Vec<Call> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let names = every_line(yard, Family::FirstThread, arguments);
    let names = names.iter().filter_map(|line| called(line));
    names
        .map(|name| {
            let nth = counts.entry(name.to_owned()).or_default();
            *nth += 1;
            Call { name: name.to_owned(), nth: *nth }
        })
        .collect()
}

/// Every line of a trace of all that the binary's family does, in their order.
pub fn every_line(yard: &Yard, family: Family, arguments: &[&str]) -> Vec<String> {
    let output = yard.path().join("trace");
    let mut command = traced(yard, family.options(), &output, &["trace=all", "signal=none"], arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().expect("strace and taskset are installed").success());
    load_lines(&output)
}

/// The name of the call that a line of a trace begins with.
fn called(line: &str) -> Option<&str> {
    let name = split_line(line).1.split_once('(')?.0;
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (plain && !name.is_empty()).then_some(name)
}

/// Every call of a trace with the line that shows it, each once however many threads made it.
pub fn calls_in(trace: &[String]) -> Vec<(Call, String)> {
    let mut counts: BTreeMap<(&str, &str), usize> = BTreeMap::new();
    let mut seen = std::collections::BTreeSet::new();
    let mut calls = Vec::new();
    for line in trace {
        let Some(name) = called(line) else { continue };
        let nth = counts.entry((split_line(line).0, name)).or_default();
        *nth += 1;
        let call = Call { name: name.to_owned(), nth: *nth };
        if seen.insert(call.clone()) {
            calls.push((call, line.clone()));
        }
    }
    calls
}

/// Reads what strace wrote, and takes it away.
pub fn load_lines(output: &Path) -> Vec<String> {
    let text = String::from_utf8_lossy(&std::fs::read(output).unwrap_or_default()).into_owned();
    let _ = std::fs::remove_file(output);
    text.lines().map(str::to_owned).collect()
}

/// The mutating calls of a family, and every `openat`.
pub fn trace_family(yard: &Yard, family: Family, arguments: &[&str]) -> Vec<String> {
    let output = yard.path().join("trace");
    let calls = format!("trace=openat,{}", MUTATING.join(","));
    let mut command = traced(yard, family.quick_options(), &output, &[&calls, "signal=none"], arguments);
    let ran = command.output().expect("strace and taskset are installed");
    assert!(ran.status.success(), "sexton {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    load_lines(&output)
}

/// A line of a trace, as the thread and its call. Without children strace names no thread.
fn split_line(line: &str) -> (&str, &str) {
    match line.split_once(' ') {
        Some((thread, call)) if thread.bytes().all(|byte| byte.is_ascii_digit()) => {
            (thread, call.trim_start())
        }
        _ => ("", line),
    }
}

/// Every call in the trace that changes something. `openat` counts where it may create a file.
pub fn mutating_calls(trace: &[String]) -> Vec<Call> {
    let mut counts: BTreeMap<(String, String), usize> = BTreeMap::new();
    let mut calls = Vec::new();
    for line in trace {
        let (thread, rest) = split_line(line);
        let Some(name) = called(line) else { continue };
        let count = counts.entry((thread.to_owned(), name.to_owned())).or_default();
        *count += 1;
        let call = Call { name: name.to_owned(), nth: *count };
        let mutates = MUTATING.contains(&name) || (name == "openat" && rest.contains("O_CREAT"));
        if mutates && !calls.contains(&call) {
            calls.push(call);
        }
    }
    calls
}

/// Runs the binary and kills it before `call` takes effect. Says whether it got that far.
pub fn kill_at(yard: &Yard, call: &Call, arguments: &[&str]) -> bool {
    kill_family_at(yard, Family::All, call, arguments, "")
}

/// The same where only the binary's first thread is counted, and only it is killed. Its children have `trial`
/// in their environment, as SEXTON_TEST_TRIAL.
pub fn kill_alone_at(yard: &Yard, call: &Call, arguments: &[&str], trial: &str) -> bool {
    kill_family_at(yard, Family::FirstThread, call, arguments, trial)
}

/// The same of any family.
pub fn kill_family_at(yard: &Yard, family: Family, call: &Call, arguments: &[&str], trial: &str) -> bool {
    let Call { name, nth } = call;
    let output = yard.path().join("trace-of-a-kill");
    let (only, kill) = (format!("trace={name}"), format!("inject={name}:signal=SIGKILL:when={nth}"));
    let mut command = traced(yard, family.options(), &output, &[&only, &kill], arguments);
    // What it starts lives on: nobody waits for what that prints.
    command.env("SEXTON_TEST_TRIAL", trial).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().expect("strace and taskset are installed");
    !killed_in(&load_lines(&output), name).is_empty()
}

/// The calls of this name in which a thread was killed: strace never saw them return.
pub fn killed_in(trace: &[String], name: &str) -> Vec<String> {
    let mut last: BTreeMap<&str, &str> = BTreeMap::new();
    let mut killed = Vec::new();
    for line in trace {
        let (thread, rest) = split_line(line);
        let was = last.insert(thread, rest).unwrap_or_default();
        let in_call = called(was) == Some(name) && (was.ends_with("= ?") || was.contains("<unfinished"));
        if rest.starts_with("+++ killed by SIGKILL") && in_call {
            killed.push(was.to_owned());
        }
    }
    killed
}

/// Runs the binary with `call` failing with `error`, in every thread of the family that comes so far. What it
/// starts has `trial` in its environment, as SEXTON_TEST_TRIAL.
pub fn fail_at(
    yard: &Yard,
    family: Family,
    call: &Call,
    error: &str,
    arguments: &[&str],
    trial: &str,
) -> Disturbed {
    let Call { name, nth } = call;
    let output = yard.path().join("trace-of-a-failure");
    let only = format!("trace={name},write,pwrite64");
    let fail = format!("inject={name}:error={error}:when={nth}");
    let mut command =
        traced(yard, family.quick_options(), &output, &[&only, &fail, "signal=none"], arguments);
    command.env("SEXTON_TEST_TRIAL", trial);
    let ran = Ran::of(&command.output().expect("strace and taskset are installed"));
    let trace = load_lines(&output);
    let struck = trace.iter().filter(|line| line.contains("(INJECTED)")).cloned().collect();
    Disturbed { ran, struck, trace }
}

/// The calls in the trace that changed something under `directory`. Opening a file that is there already
/// with `O_CREAT`, as one does with a lock, changes nothing; nor does SQLite's shared memory, which every
/// reader sets up anew, or root giving SQLite's files the owner that they have.
pub fn changes_under<'a>(trace: &'a [String], directory: &Path) -> Vec<&'a str> {
    let directory = directory.display().to_string();
    let inside = trace.iter().map(String::as_str).filter(|line| line.contains(&directory));
    inside
        .filter(|line| {
            let (_, rest) = split_line(line);
            let failed = rest.contains(") = -1 ");
            let opens = rest.starts_with("openat(");
            let shared = rest.contains(".db-shm>") || rest.starts_with("fchown(");
            !failed && !shared && (!opens || rest.contains("O_TRUNC") || rest.contains("O_CREAT|O_EXCL"))
        })
        .collect()
}

/// The signals that were sent in the trace. Signal 0 only asks.
pub fn signals_in(trace: &[String]) -> Vec<&str> {
    let sends = ["pidfd_send_signal(", "kill(", "tgkill("];
    let lines = trace.iter().map(String::as_str);
    lines
        .filter(|line| {
            let (_, call) = split_line(line);
            sends.iter().any(|send| call.starts_with(send)) && call.contains("SIG")
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_keeps_its_processor_which_is_one_that_it_may_use() {
        let mine = one_processor();
        assert_eq!(one_processor(), mine);
        let held = Command::new("taskset").args(["--cpu-list", &mine, "true"]).status().unwrap();
        assert!(held.success());
    }
}
