//! The program seen from outside: which of its system calls change something, and dying or dawdling at any
//! one of them.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

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

/// Whether threads and child processes are traced too.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Family {
    All,
    FirstThread,
}

/// The binary under strace with these `-e` expressions, writing what it sees to `output`. Held to one
/// processor it does its work in one order.
fn traced(yard: &Yard, family: Family, output: &Path, expressions: &[&str], arguments: &[&str]) -> Command {
    let mut command = Command::new("taskset");
    yard.enclose(&mut command);
    command.args(["--cpu-list", &first_processor(), "strace", "-qq", "-y", "-s", "64", "-o"]);
    command.arg(output);
    if family == Family::All {
        command.arg("-f");
    }
    for expression in expressions {
        command.args(["-e", expression]);
    }
    command.arg(crate::program()).args(arguments);
    command
}

/// A processor that this test may use.
fn first_processor() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let allowed = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:")).unwrap();
    allowed.trim().split(['-', ',']).next().unwrap().to_owned()
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
    let output = yard.path().join("trace");
    let mut command = traced(yard, Family::FirstThread, &output, &["trace=all", "signal=none"], arguments);
    command.stdout(Stdio::null()).stderr(Stdio::null());
    assert!(command.status().expect("strace and taskset are installed").success());
    let text = String::from_utf8_lossy(&std::fs::read(&output).unwrap()).into_owned();
    std::fs::remove_file(output).unwrap();
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let names = text.lines().filter_map(|line| Some(line.split_once('(')?.0));
    let plain = |name: &&str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    names
        .filter(plain)
        .map(|name| {
            let nth = counts.entry(name).or_default();
            *nth += 1;
            Call { name: name.to_owned(), nth: *nth }
        })
        .collect()
}

fn trace_family(yard: &Yard, family: Family, arguments: &[&str]) -> Vec<String> {
    let output = yard.path().join("trace");
    let calls = format!("trace=openat,{}", MUTATING.join(","));
    let mut command = traced(yard, family, &output, &[&calls, "signal=none"], arguments);
    let ran = command.output().expect("strace and taskset are installed");
    assert!(ran.status.success(), "sexton {arguments:?}: {}", String::from_utf8_lossy(&ran.stderr));
    let text = String::from_utf8_lossy(&std::fs::read(&output).unwrap()).into_owned();
    std::fs::remove_file(output).unwrap();
    text.lines().map(str::to_owned).collect()
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
        let (thread, call) = split_line(line);
        let Some((name, arguments)) = call.split_once('(') else { continue };
        let count = counts.entry((thread.to_owned(), name.to_owned())).or_default();
        *count += 1;
        let call = Call { name: name.to_owned(), nth: *count };
        let mutates = name != "openat" || arguments.contains("O_CREAT");
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

fn kill_family_at(yard: &Yard, family: Family, call: &Call, arguments: &[&str], trial: &str) -> bool {
    let Call { name, nth } = call;
    let (only, kill) = (format!("trace={name}"), format!("inject={name}:signal=SIGKILL:when={nth}"));
    let mut command = traced(yard, family, Path::new("/dev/null"), &[&only, &kill], arguments);
    // What it starts lives on: nobody waits for what that prints.
    command.env("SEXTON_TEST_TRIAL", trial).stdout(Stdio::null()).stderr(Stdio::null());
    !command.status().expect("strace and taskset are installed").success()
}

/// Runs the binary with `call` of its first thread failing with `error`, and gives back what it did.
pub fn fail_at(yard: &Yard, call: &Call, error: &str, arguments: &[&str]) -> Ran {
    let Call { name, nth } = call;
    let (only, fail) = (format!("trace={name}"), format!("inject={name}:error={error}:when={nth}"));
    let mut command = traced(yard, Family::FirstThread, Path::new("/dev/null"), &[&only, &fail], arguments);
    Ran::of(&command.output().expect("strace and taskset are installed"))
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
