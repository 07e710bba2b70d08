//! System calls that fail: a disk that cannot be read or is full, too many open files, no memory.

use sexton_field::strace::{Call, every_call_alone, fail_at};

use super::deeds::{DEEDS, Stage};
use crate::campaign::{Scenario, Trials};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "errors",
    promises: "I4 I6 I8",
    what: "EIO, ENOSPC, EMFILE and ENOMEM from every system call",
    mutant: "ignore_sync_errors",
    tools: &[("strace", "strace"), ("taskset", "util-linux"), ("git", "git")],
    run,
};

/// The errors that a call can have. The kernel would never give others, and a program may trust it in that.
fn errors_of(call: &str) -> &'static [&'static str] {
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

fn run(trials: &mut Trials) {
    for deed in DEEDS {
        for store in deed.stores {
            let stage = Stage::set(deed, store);
            let command = stage.command();
            let calls = every_call_alone(&stage.yard, &command);
            let faults: Vec<(Call, &str)> = calls
                .iter()
                .flat_map(|call| errors_of(&call.name).iter().map(|error| (call.clone(), *error)))
                .collect();
            for (call, error) in trials.some_of(&faults, 10) {
                if trials.is_hopeless() {
                    return;
                }
                let name =
                    format!("{} on {store}, {error} from {} number {}", deed.name, call.name, call.nth);
                trials.trial(&name, || {
                    stage.reset();
                    let ran = fail_at(&stage.yard, &call, error, &command);
                    let said = format!("{}{}", ran.stdout, ran.stderr);
                    assert!(!said.contains("panicked"), "it panicked: {said}");
                    assert!(ran.code >= 0 || call.name == "mmap", "it was ended by a signal: {said}");
                    if ran.code == 0 {
                        // What it acknowledged is done.
                        stage.require_done();
                    }
                    stage.do_again();
                    stage.require_done();
                    1
                });
            }
        }
    }
}
