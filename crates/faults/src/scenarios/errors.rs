//! System calls that fail: a disk that cannot be read or is full, too many open files, no memory.

use std::collections::{BTreeMap, BTreeSet};

use sexton_test_harness::strace::{Call, Disturbed, calls_in, every_line, fail_at};

use super::operations::{OPERATIONS, Operation, Stage};
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "errors",
    promises: "I4 I6 I8",
    what: "EIO, ENOSPC, EMFILE and ENOMEM from every system call of every operation",
    mutants: &["ignore_sync_errors", "ignore_write_errors"],
    tools: &[("strace", "strace"), ("taskset", "util-linux"), ("git", "git")],
    minutes: 20,
    runs_alone: false,
    run,
};

/// Returns the errors that a call can return. The kernel returns no others, and a program may rely on that.
pub(crate) fn errors_of(call: &str) -> &'static [&'static str] {
    match call {
        "openat" | "open" | "openat2" => &["EIO", "ENOSPC", "EMFILE", "ENOMEM"],
        "write" | "pwrite64" | "writev" | "fallocate" | "ftruncate" => &["EIO", "ENOSPC"],
        "fsync" | "fdatasync" | "rename" | "renameat" | "renameat2" | "linkat" | "link" | "mkdir"
        | "mkdirat" | "symlinkat" => &["EIO", "ENOSPC"],
        "read" | "pread64" | "unlink" | "unlinkat" | "getdents64" | "fstat" | "statx" | "newfstatat" => {
            &["EIO"]
        }
        "pipe2" | "dup" | "fcntl" | "pidfd_open" | "socketpair" | "inotify_init1" => &["EMFILE"],
        "mmap" | "clone" | "clone3" | "fork" | "vfork" => &["ENOMEM"],
        "flock" => &["EIO"],
        _ => &[],
    }
}

/// A call that is made to fail.
#[derive(Clone)]
pub(crate) struct Fault {
    pub(crate) call: Call,
    pub(crate) error: &'static str,
    /// Whether it writes or syncs a file of a store: there an ignored error loses a record. Those are tried
    /// even in a quick campaign.
    is_vital: bool,
    /// Whether it reads from `/proc`. The number of processes there changes.
    reads_processes: bool,
}

/// How often a fault is tried that hit a read of `/proc` although it was meant for another call, or the
/// reverse. Calls are counted, and their number depends on what else runs on the machine.
const AIMS: usize = 3;

/// Returns every way in which the calls of this trace can fail, the vital ones first. Of calls that differ
/// only in numbers, such as reads of a thousand processes one after another, a few represent all.
pub(crate) fn faults_in(trace: &[String]) -> Vec<Fault> {
    let mut alike: BTreeMap<String, usize> = BTreeMap::new();
    let calls = calls_in(trace).into_iter().filter(|(call, line)| {
        let seen = alike.entry(without_numbers(line)).or_default();
        *seen += 1;
        // What is loaded before the program begins is not part of the operation.
        let is_library =
            ["\"/lib/", "\"/usr/lib/", "/ld.so.", "</usr/lib/"].iter().any(|part| line.contains(part));
        // Only a duplicate needs a new descriptor; no lock fails because too many files are open.
        let needs_none = call.name == "fcntl" && !line.contains("F_DUPFD");
        !is_library && !needs_none && *seen <= if is_of_a_store(line) { 6 } else { 1 }
    });
    let calls: Vec<_> = calls.collect();
    let mut faults: Vec<Fault> = calls
        .iter()
        .enumerate()
        .flat_map(|(number, (call, line))| {
            let is_vital = VITAL.contains(&&*call.name) && is_of_a_store(line);
            let errors = errors_of(&call.name);
            // Vital calls fail in every way; other calls in one, and the next call in the next one.
            let ways = if is_vital { errors.len() } else { errors.len().min(1) };
            let errors = errors.iter().cycle().skip(number % errors.len().max(1)).take(ways);
            let reads_processes = reads_processes(line);
            errors.map(move |error| Fault { call: call.clone(), error, is_vital, reads_processes })
        })
        .collect();
    faults.sort_by_key(|fault| !fault.is_vital);
    faults
}

/// Returns some of these faults; the vital ones first, up to a number.
pub(crate) fn choose(trials: &Trials, faults: &[Fault], vital: usize, others: usize) -> Vec<Fault> {
    let (first, rest): (Vec<Fault>, Vec<Fault>) = faults.iter().cloned().partition(|fault| fault.is_vital);
    [trials.some_of(&first, vital), trials.some_of(&rest, others)].concat()
}

/// Returns a call without the parts that differ from one to the next: numbers, names of objects, the bytes
/// read or written, and the result.
fn without_numbers(line: &str) -> String {
    let call = line.split_once(' ').map_or(line, |(_, call)| call).trim_start();
    let call = call.split(") = ").next().unwrap_or_default().trim_end_matches(" <unfinished ...>");
    let is_transfer = ["read(", "pread64(", "write(", "pwrite64("].iter().any(|name| call.starts_with(name));
    let call = if is_transfer { call.split('"').next().unwrap_or_default() } else { call };
    let words = call.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| !word.starts_with(|c: char| c.is_ascii_digit()) && word.len() < 16).collect()
}

const VITAL: [&str; 5] = ["write", "pwrite64", "writev", "fsync", "fdatasync"];

/// Returns whether a line of a trace shows a call on a store's own file, or on one that will replace it. The
/// mark file does not count: it is additional evidence, and nothing depends on it.
fn is_of_a_store(line: &str) -> bool {
    (line.contains("/sessions.") || line.contains("/destination.")) && !line.contains(".mark>")
}

/// Returns whether a line of a trace shows a read of `/proc`.
fn reads_processes(line: &str) -> bool {
    ["\"/proc", "</proc", "pidfd_open("].iter().any(|part| line.contains(part))
}

/// Requires that the program fails if a sync failed after it had written to the file: after a failed sync it
/// is unknown what the disk has.
fn require_failed_syncs_reported(disturbed: &Disturbed) {
    let is_sync = |line: &str| line.contains("fsync(") || line.contains("fdatasync(");
    // Data in the write-ahead log is safe; copying it into the database can wait.
    let matters = |line: &str| is_of_a_store(line) && !line.contains(".db>");
    let file_of = |line: &str| Some(line.split_once('<')?.1.split_once('>')?.0.to_owned());
    let mut written = BTreeSet::new();
    for line in &disturbed.trace {
        let Some(file) = file_of(line) else { continue };
        let (sync, failed) = (is_sync(line), line.contains("(INJECTED)"));
        if sync && failed && matters(line) && written.contains(&file) {
            assert!(disturbed.ran.code != 0, "a sync failed, and the program reports success: {line}");
        }
        match sync {
            true => _ = written.remove(&file),
            false => _ = written.insert(file),
        }
    }
}

/// Checks what must hold for every run in which a call failed.
pub(crate) fn require_orderly(fault: &Fault, disturbed: &Disturbed) {
    let ran = &disturbed.ran;
    let output = format!("{}{}", ran.stdout, ran.stderr);
    // Without memory the runtime may be unable to start, and may exit in any way.
    if fault.call.name != "mmap" {
        assert!(!output.contains("panicked"), "it panicked: {output}");
        assert!(ran.code >= 0, "it was ended by a signal: {output}");
        assert!(ran.code == 0 || !output.trim().is_empty(), "it failed, and printed nothing");
    }
    require_failed_syncs_reported(disturbed);
}

fn run(trials: &mut Trials) {
    for operation in OPERATIONS {
        for store in operation.stores {
            if trials.has_enough_violations() {
                return;
            }
            let stage = Stage::set(operation, store);
            let command = stage.command();
            let faults = faults_in(&every_line(&stage.test_env, operation.family, &command));
            stage.require_done();
            trials.announce(&format!("{} on {store}", operation.name), faults.len());
            for fault in choose(trials, &faults, 6, 4) {
                let Fault { call, error, .. } = &fault;
                let name =
                    format!("{} on {store}, {error} from {} number {}", operation.name, call.name, call.nth);
                trials.trial(&name, || attack(&stage, operation, &fault));
            }
        }
    }
}

/// Runs the operation with the fault, and returns how often the fault was injected.
fn attack(stage: &Stage, operation: &Operation, fault: &Fault) -> u64 {
    let mut faults = 0;
    for _ in 0..AIMS {
        stage.reset();
        let disturbed =
            fail_at(&stage.test_env, operation.family, &fault.call, fault.error, &stage.command(), "");
        require_orderly(fault, &disturbed);
        stage.require_readable();
        if disturbed.ran.code == 0 {
            // An acknowledged operation is complete.
            stage.require_done();
        }
        stage.do_again();
        stage.require_done();
        faults += u64::from(!disturbed.struck.is_empty());
        if disturbed.struck.iter().any(|line| reads_processes(line) == fault.reads_processes) {
            break;
        }
    }
    faults
}
