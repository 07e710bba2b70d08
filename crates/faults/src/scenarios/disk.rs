//! Disks that are full, by bytes and by files, and a disk whose sync really fails.

use sexton_core::store::Access;

use super::ledger::{Ledger, open, prepare, url_in};
use crate::campaign::{Scenario, Trials};
use crate::mounts::{Mounted, require_root};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "disk",
    promises: "I6",
    what: "full disks, by bytes and by files; a disk whose sync really fails",
    mutants: &["ignore_sync_errors"],
    tools: &[("mkfs.ext4", "e2fsprogs"), ("mount", "mount")],
    minutes: 1,
    runs_alone: false,
    run,
};

fn run(trials: &mut Trials) {
    require_root();
    for store in ["sqlite", "json"] {
        for round in 0..trials.either(2, 10) {
            if trials.has_enough_violations() {
                return;
            }
            let kilobytes = 400 + 40 * trials.random(10);
            trials.trial(&format!("{store}, {kilobytes} kB, round {round}"), || fill(store, kilobytes));
            let files = 6 + trials.random(6);
            trials
                .trial(&format!("{store}, {files} files, round {round}"), || run_out_of_files(store, files));
            // It is random which commit fails, and whether one of our syncs is the first to return the error.
            for _ in 0..2 {
                let megabytes = 6 + trials.random(4);
                let name = format!("{store}, failing sync, round {round}");
                trials.trial(&name, || fail_sync(store, megabytes));
            }
        }
    }
}

/// Commits until the disk is full. Acknowledged records must be there, and with more space the commits must
/// continue.
fn fill(store: &str, kilobytes: u64) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let disk = Mounted::tmpfs(&directory.path().join("disk"), &format!("{kilobytes}k"), "100");
    let url = url_in(disk.path(), store);
    let neighbours = prepare(&url);
    let mut ledger = Ledger::start(&url, true);
    ledger.end();
    assert!(ledger.failure.is_some() && ledger.committed() > 0, "the disk was never full");
    let full = [ledger];
    Ledger::require_kept(&full, &neighbours, &url);
    disk.remount("size=64m");
    let mut next = Ledger::start(&url, true);
    next.read_until(20);
    assert_eq!(next.failure, None, "it should continue when there is space again");
    next.kill();
    let [full] = full;
    Ledger::require_kept(&[full, next], &neighbours, &url);
    1
}

/// Requires that a store that cannot create its files says so, and that an existing one stays readable.
fn run_out_of_files(store: &str, files: u64) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let disk = Mounted::tmpfs(&directory.path().join("disk"), "8m", &files.to_string());
    let url = url_in(disk.path(), store);
    for number in 0.. {
        if std::fs::write(disk.path().join(format!("filler-{number}")), "").is_err() {
            break;
        }
    }
    // Deletes one file at a time until the store can be opened.
    for number in 0.. {
        match open(&url, Access::Write) {
            Ok(_) => break,
            Err(why) => assert!(why.contains("sessions."), "it does not say what failed: {why}"),
        }
        std::fs::remove_file(disk.path().join(format!("filler-{number}"))).unwrap();
    }
    disk.remount("nr_inodes=100");
    let neighbours = prepare(&url);
    let mut ledger = Ledger::start(&url, true);
    ledger.read_until(5);
    ledger.kill();
    Ledger::require_kept(&[ledger], &neighbours, &url);
    1
}

/// A file system larger than the one below it: writes succeed until a sync fails. Records that were
/// acknowledged before that must be there when the disk is mounted again.
fn fail_sync(store: &str, megabytes: u64) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let below = Mounted::tmpfs(&directory.path().join("below"), &format!("{megabytes}m"), "100");
    let disk = Mounted::ext4(&directory.path().join("disk"), &below.path().join("image"), 64 << 20);
    let url = url_in(disk.path(), store);
    let neighbours = prepare(&url);
    let mut ledger = Ledger::start(&url, true);
    ledger.read_until(3);
    // Another file fills the file system below.
    let filler = std::fs::File::create(below.path().join("filler")).unwrap();
    let fill = std::io::copy(&mut std::io::repeat(0), &mut &filler);
    assert!(fill.is_err(), "the file system below was never full");
    ledger.end();
    assert!(ledger.failure.is_some(), "no sync ever failed");
    disk.unmount();
    drop(filler);
    std::fs::remove_file(below.path().join("filler")).unwrap();
    disk.again();
    Ledger::require_kept(&[ledger], &neighbours, &url);
    1
}
