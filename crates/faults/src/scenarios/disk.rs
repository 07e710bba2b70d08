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
    run,
};

fn run(trials: &mut Trials) {
    require_root();
    for store in ["sqlite", "json"] {
        for round in 0..trials.either(2, 10) {
            if trials.is_hopeless() {
                return;
            }
            let kilobytes = 400 + 40 * trials.random(10);
            trials.trial(&format!("{store}, {kilobytes} kB, round {round}"), || fill(store, kilobytes));
            let files = 6 + trials.random(6);
            trials
                .trial(&format!("{store}, {files} files, round {round}"), || run_out_of_files(store, files));
            // Which commit it strikes, and whether it is one of ours that hears of it first, is chance.
            for _ in 0..2 {
                let megabytes = 6 + trials.random(4);
                let name = format!("{store}, failing sync, round {round}");
                trials.trial(&name, || fail_sync(store, megabytes));
            }
        }
    }
}

/// Commits until nothing goes any more; what was acknowledged is there, and with more room it goes on.
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
    next.listen_until(20);
    assert_eq!(next.failure, None, "with room again it should go on");
    next.kill();
    let [full] = full;
    Ledger::require_kept(&[full, next], &neighbours, &url);
    1
}

/// A store that cannot make its files says so, and one that is there already stays readable.
fn run_out_of_files(store: &str, files: u64) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let disk = Mounted::tmpfs(&directory.path().join("disk"), "8m", &files.to_string());
    let url = url_in(disk.path(), store);
    for number in 0.. {
        if std::fs::write(disk.path().join(format!("filler-{number}")), "").is_err() {
            break;
        }
    }
    // Room for `number` files again, one more at a time, until the store works.
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
    ledger.listen_until(5);
    ledger.kill();
    Ledger::require_kept(&[ledger], &neighbours, &url);
    1
}

/// A file system larger than what it lies on: writing works, and one day a sync fails. What was acknowledged
/// before is there when the disk is looked at afresh.
fn fail_sync(store: &str, megabytes: u64) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let below = Mounted::tmpfs(&directory.path().join("below"), &format!("{megabytes}m"), "100");
    let disk = Mounted::ext4(&directory.path().join("disk"), &below.path().join("image"), 64 << 20);
    let url = url_in(disk.path(), store);
    let neighbours = prepare(&url);
    let mut ledger = Ledger::start(&url, true);
    ledger.listen_until(3);
    // Something else fills what is below.
    let filler = std::fs::File::create(below.path().join("filler")).unwrap();
    let fill = std::io::copy(&mut std::io::repeat(0), &mut &filler);
    assert!(fill.is_err(), "what is below was never full");
    ledger.end();
    assert!(ledger.failure.is_some(), "no sync ever failed");
    disk.unmount();
    drop(filler);
    std::fs::remove_file(below.path().join("filler")).unwrap();
    disk.again();
    Ledger::require_kept(&[ledger], &neighbours, &url);
    1
}
