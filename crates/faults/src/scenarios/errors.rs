//! System calls that fail: a disk that cannot be read or is full, too many open files, no memory.

use sexton_field::strace::{Call, Disturbed, Family, calls_in, every_line, fail_at};

use super::deeds::{DEEDS, Stage};
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "errors",
    promises: "I4 I6 I8",
    what: "EIO, ENOSPC, EMFILE and ENOMEM from every system call of every deed",
    mutants: &["ignore_sync_errors", "ignore_write_errors"],
    tools: &[("strace", "strace"), ("taskset", "util-linux"), ("git", "git")],
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
}

/// Every way in which the calls of this trace can fail, the vital ones first.
pub(crate) fn faults_in(trace: &[String]) -> Vec<Fault> {
    let calls = calls_in(trace);
    let mut faults: Vec<Fault> = calls
        .iter()
        .flat_map(|(call, line)| {
            let is_vital = VITAL.contains(&&*call.name) && is_of_a_store(line);
            let errors = errors_of(&call.name).iter();
            errors.map(move |error| Fault { call: call.clone(), error, is_vital })
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

const VITAL: [&str; 5] = ["write", "pwrite64", "writev", "fsync", "fdatasync"];

/// Whether a line of a trace shows a call on a store's own file, or on one that is to become it. Its mark is
/// a further witness, of which nothing depends on its being there.
fn is_of_a_store(line: &str) -> bool {
    (line.contains("/sessions.") || line.contains("/destination.")) && !line.contains(".mark>")
}

/// A sync that failed means that nobody knows what the disk has. Whoever says after it that all is well has
/// not looked.
fn require_no_deaf_ear(disturbed: &Disturbed) {
    let Disturbed { ran, struck } = disturbed;
    let syncs = |line: &&String| line.contains("sync(") || line.contains("fdatasync(");
    let failed = struck.iter().filter(syncs).find(|line| is_of_a_store(line));
    // What is in the write-ahead log already is safe; copying it into the database can wait.
    let failed = failed.filter(|line| !line.contains("sessions.db>") && !line.contains("destination.db>"));
    assert!(ran.code != 0 || failed.is_none(), "a sync failed, and all is said to be well: {failed:?}");
}

/// What holds of every run in which a call failed.
pub(crate) fn require_orderly(fault: &Fault, disturbed: &Disturbed) {
    let ran = &disturbed.ran;
    let said = format!("{}{}", ran.stdout, ran.stderr);
    assert!(!said.contains("panicked"), "it panicked: {said}");
    // Without memory a program may be unable to begin.
    assert!(ran.code >= 0 || fault.call.name == "mmap", "it was ended by a signal: {said}");
    assert!(
        ran.code == 0 || !said.trim().is_empty() || fault.call.name == "mmap",
        "it failed, and said nothing"
    );
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
            let faults = faults_in(&every_line(&stage.yard, Family::Threads, &command));
            stage.require_done();
            for fault in choose(trials, &faults, 6, 5) {
                let Fault { call, error, .. } = &fault;
                let name =
                    format!("{} on {store}, {error} from {} number {}", deed.name, call.name, call.nth);
                trials.trial(&name, || {
                    stage.reset();
                    let disturbed = fail_at(&stage.yard, Family::Threads, call, error, &command, "");
                    require_orderly(&fault, &disturbed);
                    stage.require_readable();
                    if disturbed.ran.code == 0 {
                        // What it acknowledged is done.
                        stage.require_done();
                    }
                    stage.do_again();
                    stage.require_done();
                    u64::from(!disturbed.struck.is_empty())
                });
            }
        }
    }
}
