//! Power cuts: during commits, before every change that an operation makes, and right after it reported
//! success. Acknowledged records exist when the power is back, no worktree is removed whose work is not
//! saved, and an interrupted operation can be repeated.

use rustix::process::Signal;
use sexton_test_harness::repository::Repository;
use sexton_test_harness::strace::{Call, Family, kill_family_at, mutating_calls, trace_family};

use super::ledger::{Ledger, prepare, url_in};
use super::operations::{OPERATIONS, Operation, RECOVER, Stage, require_merged, require_saved_or_there};
use crate::campaign::{Scenario, Trials};
use crate::mounts::{Mounted, must, require_root};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "power",
    promises: "I4 I6 I7",
    what: "power cuts on ext4: during commits, before every change of a recovery, after every operation",
    mutants: &["no_sync", "no_directory_sync", "no_rescue_sync", "no_merge_sync"],
    tools: &[
        ("mkfs.ext4", "e2fsprogs"),
        ("mount", "mount"),
        ("perl", "perl-base"),
        ("git", "git"),
        ("strace", "strace"),
    ],
    minutes: 2,
    runs_alone: false,
    run,
};

const IMAGE_BYTES: u64 = 128 << 20;

fn run(trials: &mut Trials) {
    require_root();
    for store in ["sqlite", "json"] {
        for round in 0..trials.either(3, 30) {
            let commits = 5 + usize::try_from(trials.random(60)).unwrap();
            trials.trial(&format!("{store}, commits, round {round}"), || cut_commits(store, commits));
        }
        attack_recovery(trials, store);
        for operation in OPERATIONS.iter().filter(|operation| operation.stores.contains(&store)) {
            trials.trial(&format!("{store}, after {}", operation.name), || cut_after(operation, store));
        }
    }
}

/// A disk that can lose its power.
struct Disk {
    mounted: Mounted,
    _directory: tempfile::TempDir,
}

impl Disk {
    fn make() -> Disk {
        let directory = tempfile::tempdir().unwrap();
        let (place, image) = (directory.path().join("disk"), directory.path().join("image"));
        Disk { mounted: Mounted::ext4(&place, &image, IMAGE_BYTES), _directory: directory }
    }

    /// Syncs the initial state of a trial to the disk.
    fn sync(&self) {
        must("sync", &["-f", self.mounted.path().to_str().unwrap()]);
    }

    /// Cuts the power, and mounts the disk again.
    fn cut(&self) {
        self.mounted.cut_power();
        self.mounted.unmount();
        self.mounted.again();
    }
}

fn cut_commits(store: &str, commits: usize) -> u64 {
    let disk = Disk::make();
    let url = url_in(disk.mounted.path(), store);
    let neighbours = prepare(&url);
    disk.sync();
    let mut ledger = Ledger::start(&url, true);
    ledger.read_until(commits);
    ledger.signal(Signal::STOP);
    disk.mounted.cut_power();
    ledger.kill();
    disk.mounted.unmount();
    disk.mounted.again();
    assert!(ledger.committed() >= commits, "it ended by itself: {:?}", ledger.failure);
    Ledger::require_kept(&[ledger], &neighbours, &url);
    1
}

/// The power fails when a recovery is about to make a change: each of its earlier changes may be on the disk
/// or not, in any order.
fn attack_recovery(trials: &mut Trials, store: &'static str) {
    if trials.has_enough_violations() {
        return;
    }
    let disk = Disk::make();
    let stage = Stage::set_inside(disk.mounted.path(), &RECOVER, store);
    let command = stage.command();
    let calls = mutating_calls(&trace_family(&stage.test_env, RECOVER.family, &command));
    stage.require_done();
    // The end of a recovery, where worktrees are removed, matters most.
    let late = calls[calls.len() * 2 / 3..].to_vec();
    // The stores' own writes are tested with commits; git's are the same with both stores.
    let full: Vec<Call> = calls.into_iter().step_by(if store == "sqlite" { 1 } else { 3 }).collect();
    let chosen = trials.either(trials.some_of(&late, 8), full);
    trials.announce(&format!("recover on {store}"), chosen.len());
    for call in chosen {
        let Call { name, nth } = &call;
        trials.trial(&format!("{store}, recovery, before {name} number {nth}"), || {
            stage.reset();
            disk.sync();
            let struck = kill_family_at(&stage.test_env, RECOVER.family, &call, &command, "");
            disk.cut();
            require_saved_or_there(&stage.test_env);
            Repository::of_work_dir(&stage.test_env).git(&["fsck", "--no-dangling", "--no-progress"]);
            stage.require_readable();
            stage.do_again();
            stage.require_done();
            u64::from(struck)
        });
    }
}

/// The power fails right after an operation reported success.
fn cut_after(operation: &Operation, store: &'static str) -> u64 {
    let disk = Disk::make();
    let stage = Stage::set_inside(disk.mounted.path(), operation, store);
    disk.sync();
    stage.do_again();
    disk.cut();
    if operation.family == Family::Threads {
        // Git writes the user's own worktree, and does not sync it; merged work is in the branch.
        require_merged(&stage.test_env);
        stage.bystanders.require_untouched(&stage.test_env);
    } else {
        stage.require_done();
    }
    1
}
