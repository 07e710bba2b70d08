//! System calls that fail: a disk that cannot be read or is full, too many open files, no memory.

use std::collections::{BTreeMap, BTreeSet};

use sexton_field::strace::{Call, Disturbed, calls_in, every_line, fail_at};

use super::deeds::{DEEDS, Deed, Stage};
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "errors",
    promises: "I4 I6 I8",
    what: "EIO, ENOSPC, EMFILE and ENOMEM from every system call of every deed",
    mutants: &["ignore_sync_errors", "ignore_write_errors"],
    tools: &[("strace", "strace"), ("taskset", "util-linux"), ("git", "git")],
    minutes: 20,
    run,
};

/// The errors that a call can have. The kernel would never give others, and a program may trust it in that.
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
    /// Whether it writes or syncs a file of a store: there an error that is overlooked is a record that is
    /// lost. Those are tried even in a quick campaign.
    is_vital: bool,
    /// Whether it looks at processes, of which there are now more and now fewer.
    looks_at_processes: bool,
}

/// How often a fault is tried that struck a look at a process where it was meant for something else, or the other way
/// round. Calls are counted, and how many there are depends on what else the machine does.
const AIMS: usize = 3;

/// Every way in which the calls of this trace can fail, the vital ones first. Of calls that differ only in
/// numbers, such as the looks at a thousand processes one after another, a few stand for all.
pub(crate) fn faults_in(trace: &[String]) -> Vec<Fault> {
    let mut alike: BTreeMap<String, usize> = BTreeMap::new();
    let calls = calls_in(trace).into_iter().filter(|(call, line)| {
        let seen = alike.entry(without_numbers(line)).or_default();
        *seen += 1;
        // What is loaded before the program begins is not its business.
        let is_library =
            ["\"/lib/", "\"/usr/lib/", "/ld.so.", "</usr/lib/"].iter().any(|part| line.contains(part));
        // Only a duplicate needs a number; no lock is refused because too many files are open.
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
            // Vital calls fail in every way; others in one, and their neighbours in the next.
            let ways = if is_vital { errors.len() } else { errors.len().min(1) };
            let errors = errors.iter().cycle().skip(number % errors.len().max(1)).take(ways);
            let looks_at_processes = looks_at_processes(line);
            errors.map(move |error| Fault { call: call.clone(), error, is_vital, looks_at_processes })
        })
        .collect();
    faults.sort_by_key(|fault| !fault.is_vital);
    faults
}

/// Some of these faults; the vital ones are always among them, up to a number.
pub(crate) fn choose(trials: &Trials, faults: &[Fault], vital: usize, others: usize) -> Vec<Fault> {
    let (first, rest): (Vec<Fault>, Vec<Fault>) = faults.iter().cloned().partition(|fault| fault.is_vital);
    [trials.some_of(&first, vital), trials.some_of(&rest, others)].concat()
}

/// A call without what differs from one to the next: numbers, names of objects, what is read and written, and
/// what came of it.
fn without_numbers(line: &str) -> String {
    let call = line.split_once(' ').map_or(line, |(_, call)| call).trim_start();
    let call = call.split(") = ").next().unwrap_or_default().trim_end_matches(" <unfinished ...>");
    let is_transfer = ["read(", "pread64(", "write(", "pwrite64("].iter().any(|name| call.starts_with(name));
    let call = if is_transfer { call.split('"').next().unwrap_or_default() } else { call };
    let words = call.split_inclusive(|c: char| !c.is_ascii_alphanumeric());
    words.filter(|word| !word.starts_with(|c: char| c.is_ascii_digit()) && word.len() < 16).collect()
}

const VITAL: [&str; 5] = ["write", "pwrite64", "writev", "fsync", "fdatasync"];

/// Whether a line of a trace shows a call on a store's own file, or on one that is to become it. Its mark is
/// a further witness, of which nothing depends on its being there.
fn is_of_a_store(line: &str) -> bool {
    (line.contains("/sessions.") || line.contains("/destination.")) && !line.contains(".mark>")
}

/// Whether a line of a trace shows a look at `/proc`.
fn looks_at_processes(line: &str) -> bool {
    ["\"/proc", "</proc", "pidfd_open("].iter().any(|part| line.contains(part))
}

/// A sync that failed means that nobody knows what the disk has. Whoever wrote something before it, and says
/// after it that all is well, has not looked.
fn require_no_deaf_ear(disturbed: &Disturbed) {
    let is_sync = |line: &str| line.contains("fsync(") || line.contains("fdatasync(");
    // What is in the write-ahead log already is safe; copying it into the database can wait.
    let matters = |line: &str| is_of_a_store(line) && !line.contains(".db>");
    let file_of = |line: &str| Some(line.split_once('<')?.1.split_once('>')?.0.to_owned());
    let mut written = BTreeSet::new();
    for line in &disturbed.trace {
        let Some(file) = file_of(line) else { continue };
        let (sync, failed) = (is_sync(line), line.contains("(INJECTED)"));
        if sync && failed && matters(line) && written.contains(&file) {
            assert!(disturbed.ran.code != 0, "a sync failed, and all is said to be well: {line}");
        }
        match sync {
            true => _ = written.remove(&file),
            false => _ = written.insert(file),
        }
    }
}

/// What holds of every run in which a call failed.
pub(crate) fn require_orderly(fault: &Fault, disturbed: &Disturbed) {
    let ran = &disturbed.ran;
    let said = format!("{}{}", ran.stdout, ran.stderr);
    // Without memory the runtime may be unable to begin, and ends as it likes.
    if fault.call.name != "mmap" {
        assert!(!said.contains("panicked"), "it panicked: {said}");
        assert!(ran.code >= 0, "it was ended by a signal: {said}");
        assert!(ran.code == 0 || !said.trim().is_empty(), "it failed, and said nothing");
    }
    require_no_deaf_ear(disturbed);
}

fn run(trials: &mut Trials) {
    for deed in DEEDS {
        for store in deed.stores {
            if trials.is_hopeless() {
                return;
            }
            let stage = Stage::set(deed, store);
            let command = stage.command();
            let faults = faults_in(&every_line(&stage.yard, deed.family, &command));
            stage.require_done();
            trials.announce(&format!("{} on {store}", deed.name), faults.len());
            for fault in choose(trials, &faults, 6, 4) {
                let Fault { call, error, .. } = &fault;
                let name =
                    format!("{} on {store}, {error} from {} number {}", deed.name, call.name, call.nth);
                trials.trial(&name, || attack(&stage, deed, &fault));
            }
        }
    }
}

/// Lets the deed meet the fault, and gives back how often it did.
fn attack(stage: &Stage, deed: &Deed, fault: &Fault) -> u64 {
    let mut faults = 0;
    for _ in 0..AIMS {
        stage.reset();
        let disturbed = fail_at(&stage.yard, deed.family, &fault.call, fault.error, &stage.command(), "");
        require_orderly(fault, &disturbed);
        stage.require_readable();
        if disturbed.ran.code == 0 {
            // What it acknowledged is done.
            stage.require_done();
        }
        stage.do_again();
        stage.require_done();
        faults += u64::from(!disturbed.struck.is_empty());
        if disturbed.struck.iter().any(|line| looks_at_processes(line) == fault.looks_at_processes) {
            break;
        }
    }
    faults
}
