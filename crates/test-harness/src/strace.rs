//! Runs the program under strace: lists the system calls that change something, and kills, fails or delays the
//! program at any one of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::thread::CpuSet;

use crate::{Ran, TestEnv};

/// The system calls with an effect that outlives the process.
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

/// One call of one thread: the `nth` with this name.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Call {
    /// Name of the system call.
    pub name: String,
    /// Position among the calls with this name, from 1.
    pub nth: usize,
}

/// Which threads and processes are traced and injected with faults.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// All threads, and all processes that the binary starts.
    All,
    /// All threads of the binary, and none of the programs that it executes.
    Threads,
    /// The first thread only.
    FirstThread,
}

/// The result of a run with an injected fault.
pub struct Disturbed {
    /// The result of the binary.
    pub ran: Ran,
    /// The calls that did fail, as strace prints them; empty if the binary did not reach the call.
    pub struck: Vec<String>,
    /// All calls with that name and all writes, in order.
    pub trace: Vec<String>,
}

/// Returns a command that runs the binary under strace with these `-e` expressions and writes the trace to `output`.
/// The binary is pinned to one processor, so that the order of its calls is stable.
fn traced(
    test_env: &TestEnv,
    options: &[&str],
    output: &Path,
    expressions: &[&str],
    arguments: &[&str],
) -> Command {
    let mut command = Command::new("taskset");
    test_env.enclose(&mut command);
    // Of strace's own messages only the deaths by a signal are needed.
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
            // Detach from a process that executes another program.
            Family::Threads => &["-f", "-b", "execve"],
            Family::FirstThread => &[],
        }
    }

    /// Returns the options for a run without signal injection. With seccomp the kernel stops a process only at traced
    /// calls, which is ten times as fast; strace can neither inject a signal nor detach at such a stop.
    fn quick_options(self) -> &'static [&'static str] {
        match self {
            Family::All => &["-f", "--seccomp-bpf"],
            Family::Threads | Family::FirstThread => self.options(),
        }
    }
}

/// Returns a processor that this test may use: the same one for each call of a thread, and a different one for the
/// next thread, so that parallel tests do not share one processor.
fn one_processor() -> String {
    static THREADS: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static THREAD: usize = THREADS.fetch_add(1, Ordering::Relaxed);
    }
    let allowed = rustix::thread::sched_getaffinity(None).unwrap();
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|number| allowed.is_set(*number)).collect();
    // With one process per test, the pid makes the difference.
    let number = THREAD.with(|thread| thread + std::process::id() as usize);
    allowed[number % allowed.len()].to_string()
}

/// Runs the binary and returns the lines of the trace: all mutating calls, and every `openat`.
pub fn trace(test_env: &TestEnv, arguments: &[&str]) -> Vec<String> {
    trace_family(test_env, Family::All, arguments)
}

/// Does the same for the binary's first thread only, without its children.
pub fn trace_alone(test_env: &TestEnv, arguments: &[&str]) -> Vec<String> {
    trace_family(test_env, Family::FirstThread, arguments)
}

/// Returns every system call of the binary's first thread, in order.
pub fn every_call_alone(test_env: &TestEnv, arguments: &[&str]) -> Vec<Call> {
    let mut counts: BTreeMap<String, usize> = BTreeMap::new();
    let names = every_line(test_env, Family::FirstThread, arguments);
    let names = names.iter().filter_map(|line| called(line));
    names
        .map(|name| {
            let nth = counts.entry(name.to_owned()).or_default();
            *nth += 1;
            Call { name: name.to_owned(), nth: *nth }
        })
        .collect()
}

/// Runs the binary and returns every line of a trace of `family`, in order.
pub fn every_line(test_env: &TestEnv, family: Family, arguments: &[&str]) -> Vec<String> {
    let output = test_env.path().join("trace");
    let mut command = traced(test_env, family.options(), &output, &["trace=all", "signal=none"], arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().expect("strace and taskset are installed").success());
    load_lines(&output)
}

/// Returns the name of the call at the start of a trace line.
fn called(line: &str) -> Option<&str> {
    let name = split_line(line).1.split_once('(')?.0;
    let plain = name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    (plain && !name.is_empty()).then_some(name)
}

/// Returns every call of a trace with its line. A call that several threads made is listed once.
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

/// Returns the calls of one thread, starting at the first call that `is_first` accepts.
pub fn calls_from(trace: &[String], is_first: impl Fn(&str) -> bool) -> Vec<Call> {
    let Some(first) = trace.iter().position(|line| is_first(line)) else { return Vec::new() };
    let thread = split_line(&trace[first]).0;
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut calls = Vec::new();
    for (number, line) in trace.iter().enumerate().filter(|(_, line)| split_line(line).0 == thread) {
        let Some(name) = called(line) else { continue };
        let nth = counts.entry(name).or_default();
        *nth += 1;
        if number >= first {
            calls.push(Call { name: name.to_owned(), nth: *nth });
        }
    }
    calls
}

/// Reads and deletes strace's output file.
pub fn load_lines(output: &Path) -> Vec<String> {
    let text = String::from_utf8_lossy(&std::fs::read(output).unwrap_or_default()).into_owned();
    let _ = std::fs::remove_file(output);
    text.lines().map(str::to_owned).collect()
}

/// Runs the binary and returns the mutating calls of a family, and every `openat`.
pub fn trace_family(test_env: &TestEnv, family: Family, arguments: &[&str]) -> Vec<String> {
    let output = test_env.path().join("trace");
    let calls = format!("trace=openat,{}", MUTATING.join(","));
    let mut command = traced(test_env, family.quick_options(), &output, &[&calls, "signal=none"], arguments);
    let ran = command.output().expect("strace and taskset are installed");
    assert!(ran.status.success(), "sexton {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    load_lines(&output)
}

/// Splits a trace line into thread and call. Without `-f` strace prints no thread.
fn split_line(line: &str) -> (&str, &str) {
    match line.split_once(' ') {
        Some((thread, call)) if thread.bytes().all(|byte| byte.is_ascii_digit()) => {
            (thread, call.trim_start())
        }
        _ => ("", line),
    }
}

/// Returns every call in the trace that changes something. `openat` counts if it may create a file.
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

/// Runs the binary and kills it before `call` takes effect. Returns whether it reached the call.
pub fn kill_at(test_env: &TestEnv, call: &Call, arguments: &[&str]) -> bool {
    kill_family_at(test_env, Family::All, call, arguments, "")
}

/// Does the same for the binary's first thread only. Its children have `trial` in their environment, as
/// SEXTON_TEST_TRIAL.
pub fn kill_alone_at(test_env: &TestEnv, call: &Call, arguments: &[&str], trial: &str) -> bool {
    kill_family_at(test_env, Family::FirstThread, call, arguments, trial)
}

/// Does the same for any family.
pub fn kill_family_at(
    test_env: &TestEnv,
    family: Family,
    call: &Call,
    arguments: &[&str],
    trial: &str,
) -> bool {
    let Call { name, nth } = call;
    let output = test_env.path().join("trace-of-a-kill");
    let (only, kill) = (format!("trace={name}"), format!("inject={name}:signal=SIGKILL:when={nth}"));
    let mut command = traced(test_env, family.options(), &output, &[&only, &kill], arguments);
    // Children survive the kill; their output must not keep this call waiting.
    command.env("SEXTON_TEST_TRIAL", trial).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().expect("strace and taskset are installed");
    !killed_in(&load_lines(&output), name).is_empty()
}

/// Returns the calls with this name during which a thread was killed, that is, which did not return.
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

/// Runs the binary and makes `call` fail with `error` in every thread of the family that reaches it. Children have
/// `trial` in their environment, as SEXTON_TEST_TRIAL.
pub fn fail_at(
    test_env: &TestEnv,
    family: Family,
    call: &Call,
    error: &str,
    arguments: &[&str],
    trial: &str,
) -> Disturbed {
    let Call { name, nth } = call;
    let output = test_env.path().join("trace-of-a-failure");
    let only = format!("trace={name},write,pwrite64");
    let fail = format!("inject={name}:error={error}:when={nth}");
    let mut command =
        traced(test_env, family.quick_options(), &output, &[&only, &fail, "signal=none"], arguments);
    command.env("SEXTON_TEST_TRIAL", trial);
    let ran = Ran::of(&command.output().expect("strace and taskset are installed"));
    let trace = load_lines(&output);
    let struck = trace.iter().filter(|line| line.contains("(INJECTED)")).cloned().collect();
    Disturbed { ran, struck, trace }
}

/// Returns the calls in the trace that changed something under `directory`. Not counted: opening an existing file
/// with `O_CREAT`, as for a lock; SQLite's shared memory, which every reader initializes; and root's chown of SQLite's
/// files to the owner that they have.
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

/// Returns the calls in the trace that sent a signal. Signal 0 is a probe and does not count.
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
    fn a_thread_keeps_one_allowed_processor() {
        let mine = one_processor();
        assert_eq!(one_processor(), mine);
        let held = Command::new("taskset").args(["--cpu-list", &mine, "true"]).status().unwrap();
        assert!(held.success());
    }
}
