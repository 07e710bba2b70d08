//! Power cuts: in a stream of commits, before every change that a deed makes, and right after it said that it
//! is done. Whatever was acknowledged is there when the power is back, no worktree is gone whose work is not,
//! and what was cut off can be done again.

use rustix::process::Signal;
use sexton_field::repository::Repository;
use sexton_field::strace::{Call, Family, kill_family_at, mutating_calls, trace_family};

use super::deeds::{DEEDS, Deed, RECOVER, Stage, require_merged, require_saved_or_there};
use super::ledger::{Ledger, prepare, url_in};
use crate::campaign::{Scenario, Trials};
use crate::mounts::{Mounted, must, require_root};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "power",
    promises: "I4 I6 I7",
    what: "power cuts on ext4: during commits, before every change of a recovery, after every deed",
    mutants: &["no_sync", "no_directory_sync", "no_rescue_sync", "no_merge_sync"],
    tools: &[
        ("mkfs.ext4", "e2fsprogs"),
        ("mount", "mount"),
        ("perl", "perl-base"),
        ("git", "git"),
        ("strace", "strace"),
    ],
    minutes: 2,
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
        for deed in DEEDS.iter().filter(|deed| deed.stores.contains(&store)) {
            trials.trial(&format!("{store}, after {}", deed.name), || cut_after(deed, store));
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

    /// What the beginning of a trial is, the disk has.
    fn sync(&self) {
        must("sync", &["-f", self.mounted.path().to_str().unwrap()]);
    }

    /// Without power, and with it again.
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
    ledger.listen_until(commits);
    ledger.signal(Signal::STOP);
    disk.mounted.cut_power();
    ledger.kill();
    disk.mounted.unmount();
    disk.mounted.again();
    assert!(ledger.committed() >= commits, "it ended by itself: {:?}", ledger.failure);
    Ledger::require_kept(&[ledger], &neighbours, &url);
    1
}

/// The power goes when a recovery is about to make a change: what it changed before may be on the disk or
/// not, and all of it in any order.
fn attack_recovery(trials: &mut Trials, store: &'static str) {
    if trials.is_hopeless() {
        return;
    }
    let disk = Disk::make();
    let stage = Stage::set_inside(disk.mounted.path(), &RECOVER, store);
    let command = stage.command();
    let calls = mutating_calls(&trace_family(&stage.yard, RECOVER.family, &command));
    stage.require_done();
    // The end of a recovery, where worktrees go, matters most.
    let late = calls[calls.len() * 2 / 3..].to_vec();
    // What a store does about power was seen in its commits; what git does is the same on both.
    let full: Vec<Call> = calls.into_iter().step_by(if store == "sqlite" { 1 } else { 3 }).collect();
    let chosen = trials.either(trials.some_of(&late, 8), full);
    trials.announce(&format!("recover on {store}"), chosen.len());
    for call in chosen {
        let Call { name, nth } = &call;
        trials.trial(&format!("{store}, recovery, before {name} number {nth}"), || {
            stage.reset();
            disk.sync();
            let struck = kill_family_at(&stage.yard, RECOVER.family, &call, &command, "");
            disk.cut();
            require_saved_or_there(&stage.yard);
            Repository::of_work_dir(&stage.yard).git(&["fsck", "--no-dangling", "--no-progress"]);
            stage.require_readable();
            stage.do_again();
            stage.require_done();
            u64::from(struck)
        });
    }
}

/// The power goes the moment after a deed was said to be done.
fn cut_after(deed: &Deed, store: &'static str) -> u64 {
    let disk = Disk::make();
    let stage = Stage::set_inside(disk.mounted.path(), deed, store);
    disk.sync();
    stage.do_again();
    disk.cut();
    if deed.family == Family::Threads {
        // The user's own worktree is git's to write, and git's not to sync; what is merged is in the branch.
        require_merged(&stage.yard);
        stage.bystanders.require_untouched(&stage.yard);
    } else {
        stage.require_done();
    }
    1
}
