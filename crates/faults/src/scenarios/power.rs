//! Power cuts: in a stream of commits, and in the middle of a recovery. Whatever was acknowledged is there
//! when the power is back, and no worktree is gone whose work is not.

use std::process::Stdio;
use std::time::Duration;

use rustix::process::Signal;
use sexton_field::Yard;
use sexton_field::repository::Repository;
use sexton_field::scene::Scene;

use super::ledger::{Ledger, prepare, url_in};
use crate::campaign::{Scenario, Trials};
use crate::mounts::{Mounted, require_root};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "power",
    promises: "I4 I6",
    what: "power cuts on ext4, during commits and during recovery",
    mutant: "no_sync",
    tools: &[("mkfs.ext4", "e2fsprogs"), ("mount", "mount"), ("perl", "perl-base"), ("git", "git")],
    run,
};

const IMAGE_BYTES: u64 = 64 << 20;

fn run(trials: &mut Trials) {
    require_root();
    for store in ["sqlite", "json"] {
        for round in 0..trials.either(3, 30) {
            if trials.is_hopeless() {
                return;
            }
            let commits = 5 + usize::try_from(trials.random(60)).unwrap();
            trials.trial(&format!("{store}, commits, round {round}"), || cut_commits(store, commits));
        }
        for round in 0..trials.either(2, 15) {
            if trials.is_hopeless() {
                return;
            }
            let delay = Duration::from_millis(trials.random(300));
            trials.trial(&format!("{store}, recovery, round {round}"), || cut_recovery(store, delay));
        }
    }
}

fn cut_commits(store: &str, commits: usize) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let disk = Mounted::ext4(&directory.path().join("disk"), &directory.path().join("image"), IMAGE_BYTES);
    let url = url_in(disk.path(), store);
    prepare(&url);
    let mut ledger = Ledger::start(&url, true);
    ledger.listen_until(commits);
    ledger.signal(Signal::STOP);
    disk.cut_power();
    ledger.kill();
    disk.unmount();
    disk.again();
    Ledger::require_kept(&[ledger], &url);
    1
}

fn cut_recovery(store: &'static str, delay: Duration) -> u64 {
    let directory = tempfile::tempdir().unwrap();
    let disk = Mounted::ext4(&directory.path().join("disk"), &directory.path().join("image"), IMAGE_BYTES);
    let scene = Scene::inside(disk.path(), store, 3);
    sync_all(&disk);
    let mut recovery =
        scene.yard.command(&["recover"]).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let moment = std::sync::mpsc::channel::<()>();
    let _ = moment.1.recv_timeout(delay);
    let pid = rustix::process::Pid::from_child(&recovery);
    let _ = rustix::process::kill_process(pid, Signal::STOP);
    disk.cut_power();
    let _ = recovery.kill();
    recovery.wait().unwrap();
    disk.unmount();
    disk.again();
    require_saved_or_there(&scene.yard, &scene.repository, &scene.orphans);
    scene.yard.ok(&["recover"]);
    scene.require_settled();
    scene.require_nothing_lost();
    1
}

fn sync_all(disk: &Mounted) {
    crate::mounts::must("sync", &["-f", disk.path().to_str().unwrap()]);
}

/// A worktree that is gone has a rescue, and every object of the rescue can be read.
fn require_saved_or_there(yard: &Yard, repository: &Repository, orphans: &[String]) {
    let rescued = repository.rescues();
    for id in orphans {
        let tree = yard.record(id)["worktree"]["path"].as_str().unwrap().to_owned();
        let there = std::path::Path::new(&tree).join("tracked").exists();
        assert!(there || rescued.contains(id), "the worktree of {id} is gone, and so is its work");
    }
    repository.git(&["fsck", "--no-dangling", "--no-progress"]);
}
