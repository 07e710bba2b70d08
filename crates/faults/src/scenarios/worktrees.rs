//! Worktrees that must not be removed, or not in the usual way: with a mount or a process inside, or replaced
//! by symbolic links while a recovery runs.

use std::os::unix::fs::symlink;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};

use sexton_test_harness::crashed_env::kill_supervisor_and_command;
use sexton_test_harness::repository::{Repository, files_under};
use sexton_test_harness::{Bystander, TestEnv, eventually};

use crate::bystanders::Bystanders;
use crate::campaign::{Scenario, Trials};
use crate::mounts::{must, require_root, unmount_below};

pub(crate) const SCENARIO: Scenario = Scenario {
    name: "worktrees",
    promises: "I3 I4 I5",
    what: "mounts and processes inside worktrees, symbolic links in their place, swapped during removal",
    mutants: &["no_occupants_check", "no_mount_check", "follow_links"],
    tools: &[("mount", "mount"), ("git", "git")],
    minutes: 1,
    runs_alone: false,
    run,
};

fn run(trials: &mut Trials) {
    require_root();
    for round in 0..trials.either(2, 20) {
        if trials.has_enough_violations() {
            return;
        }
        trials.trial(&format!("a mount inside, round {round}"), keep_mounted);
        trials.trial(&format!("a process inside, round {round}"), keep_occupied);
        trials.trial(&format!("a link in its place, round {round}"), || refuse_link(false));
        trials.trial(&format!("a link in its parent's place, round {round}"), || refuse_link(true));
        let swaps = 20 + trials.random(200);
        trials.trial(&format!("links swapped in meanwhile, round {round}"), || survive_swaps(swaps));
    }
}

/// A dead session with work in its worktree.
struct Orphan {
    test_env: TestEnv,
    repository: Repository,
    bystanders: Bystanders,
    id: String,
    tree: PathBuf,
    work: Vec<u8>,
    victim: PathBuf,
}

impl Orphan {
    fn leave() -> Orphan {
        let test_env = TestEnv::new()
            .with_settings("contain = \"tree\"\nowner.grace = \"10m\"\nstop.grace = \"200ms\"\n");
        let repository = Repository::in_work_dir(&test_env);
        let bystanders = Bystanders::plant(&test_env);
        let ready = test_env.path().join("ready");
        let script = format!("echo precious > new; touch {}; exec sleep 600", ready.display());
        let id = test_env.ok(&["run", "-d", "-w", "--", "sh", "-c", &script]);
        eventually("the work is done", || ready.exists());
        kill_supervisor_and_command(&test_env, &id);
        let tree = PathBuf::from(test_env.record(&id)["worktree"]["path"].as_str().unwrap());
        let victim = test_env.path().join("victim");
        std::fs::create_dir(&victim).unwrap();
        std::fs::write(victim.join("new"), "of another program\n").unwrap();
        std::fs::write(victim.join("other"), "of another program too\n").unwrap();
        Orphan { test_env, repository, bystanders, id, tree, work: b"precious\n".to_vec(), victim }
    }

    fn require_victim_whole(&self) {
        assert_eq!(files_under(&self.victim).len(), 2, "files outside the worktree were removed");
        self.bystanders.require_untouched(&self.test_env);
    }

    /// Requires that the work is in one of these places, or in the rescue.
    fn require_work(&self, places: &[&Path]) {
        let there =
            places.iter().any(|place| std::fs::read(place.join("new")).is_ok_and(|found| found == self.work));
        let name = format!("refs/sexton/rescue/{}:new", self.id);
        let saved = self.repository.command(&["cat-file", "blob", &name]).output().unwrap();
        assert!(there || saved.stdout == self.work, "the work is nowhere");
    }

    fn recover(&self) -> i32 {
        self.test_env.sexton(&["recover"]).code
    }
}

fn keep_mounted() -> u64 {
    let orphan = Orphan::leave();
    let inside = orphan.tree.join("mounted");
    std::fs::create_dir(&inside).unwrap();
    must("mount", &["--bind", orphan.victim.to_str().unwrap(), inside.to_str().unwrap()]);
    let code = orphan.recover();
    // The worktree may have been moved meanwhile.
    unmount_below(orphan.test_env.path());
    orphan.require_victim_whole();
    assert_eq!(code, 3, "a worktree with a mount inside is kept and reported");
    orphan.require_work(&[&orphan.tree]);
    assert!(orphan.tree.join("tracked").exists(), "it was not kept");
    assert_eq!(orphan.recover(), 0, "without the mount it is removed");
    orphan.require_victim_whole();
    orphan.require_work(&[]);
    1
}

fn keep_occupied() -> u64 {
    let orphan = Orphan::leave();
    let mut inside = Command::new("sleep");
    inside.arg("600").current_dir(&orphan.tree).stdin(Stdio::null()).stdout(Stdio::null());
    let mut inside = Bystander(inside.spawn().unwrap());
    assert_eq!(orphan.recover(), 3, "a worktree in use is kept and reported");
    assert!(orphan.tree.join("tracked").exists(), "it was removed under a process");
    inside.end();
    assert_eq!(orphan.recover(), 0);
    assert!(!orphan.tree.exists());
    orphan.require_victim_whole();
    orphan.require_work(&[]);
    1
}

fn refuse_link(parent: bool) -> u64 {
    let orphan = Orphan::leave();
    let place = if parent { orphan.tree.parent().unwrap().to_owned() } else { orphan.tree.clone() };
    let aside = orphan.test_env.path().join("aside");
    std::fs::rename(&place, &aside).unwrap();
    let target = if parent {
        // An unrelated folder that contains a directory with the worktree's name.
        let other = orphan.test_env.path().join("other");
        std::fs::create_dir(&other).unwrap();
        std::fs::rename(&orphan.victim, other.join(orphan.tree.file_name().unwrap())).unwrap();
        symlink(other.join(orphan.tree.file_name().unwrap()), &orphan.victim).unwrap();
        other
    } else {
        orphan.victim.clone()
    };
    symlink(&target, &place).unwrap();
    orphan.recover();
    orphan.require_victim_whole();
    let tree = if parent { aside.join(orphan.tree.file_name().unwrap()) } else { aside };
    orphan.require_work(&[&tree]);
    1
}

/// Swaps the worktree for a link to something else, and back, while recoveries run.
fn survive_swaps(swaps: u64) -> u64 {
    let orphan = Orphan::leave();
    let aside = orphan.test_env.path().join("aside");
    let done = AtomicBool::new(false);
    let swapped = std::thread::scope(|scope| {
        let swapper = scope.spawn(|| {
            let mut swapped = 0;
            while !done.load(Ordering::Relaxed) && swapped < swaps {
                if std::fs::rename(&orphan.tree, &aside).is_ok() {
                    let _ = symlink(&orphan.victim, &orphan.tree);
                    std::thread::yield_now();
                    let _ = std::fs::remove_file(&orphan.tree);
                    let _ = std::fs::rename(&aside, &orphan.tree);
                    swapped += 1;
                }
                std::thread::yield_now();
            }
            swapped
        });
        orphan.recover();
        orphan.recover();
        done.store(true, Ordering::Relaxed);
        swapper.join().unwrap()
    });
    orphan.require_victim_whole();
    orphan.require_work(&[&orphan.tree, &aside]);
    swapped.max(1)
}
