//! Removal of worktrees: rescued first, never under a live process, never outside the worktree root, and
//! together with the admin entry and the branch that were made for it.

// A failed precondition panics, in helpers too.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use sexton_core::probe::Occupants;
use sexton_core::worktree::{Inspection, Removal, Rescued, WorktreeLocation};
use support::{
    Stub, TestEnv, an_occupant, cleaner, inspect, names, now, refusal, remove_with, require_same, rescue,
    snapshot, sweep, try_create, try_remove, try_rescue, write,
};

/// Returns the content of a file in a session's rescue.
fn rescued_file(env: &TestEnv, session: &str, file: &str) -> String {
    env.git(["show", &format!("refs/sexton/rescue/{session}:{file}")])
}

/// A process whose working directory is inside, until this value is dropped.
struct Occupant(Child);

impl Occupant {
    fn enter(directory: &Path) -> Occupant {
        // It exits when its standard input is closed, so it does not outlive this test.
        let child =
            Command::new("cat").current_dir(directory).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        Occupant(child.unwrap())
    }
}

impl Drop for Occupant {
    fn drop(&mut self) {
        drop(self.0.stdin.take());
        self.0.wait().unwrap();
    }
}

#[test]
fn removed_clean_worktree_leaves_only_trash_until_the_sweep() {
    let env = TestEnv::new();
    let location = env.create("s1");
    assert_eq!(rescue(&location), Rescued { saved: None });
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
    assert!(!location.path.exists());
    assert_eq!(env.trash().len(), 1);
    env.require_clean(&[]);
    assert_eq!(env.git(["branch", "--list", "sexton/*"]), "");
    assert_eq!(inspect(&location), Inspection::Absent);
    assert_eq!(sweep(&env.root), 1);
    assert_eq!(env.trash(), [""; 0]);
    assert_eq!(sweep(&env.root), 0);
    assert!(!env.repo.join(".git/worktrees").exists());
}

#[test]
fn i4_content_is_in_the_rescue_after_removal() {
    let env = TestEnv::new();
    let location = env.create("s1");
    write(&location.path.join("README.md"), "changed\n");
    write(&location.path.join("new/untracked.txt"), "untracked\n");
    assert_eq!(inspect(&location), Inspection::Present { dirty: true, own_commits: 0 });
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
    assert_eq!(rescued_file(&env, "s1", "README.md"), "changed");
    assert_eq!(rescued_file(&env, "s1", "new/untracked.txt"), "untracked");
    env.require_clean(&[]);
}

#[test]
fn name_is_free_after_removal() {
    let env = TestEnv::new();
    let location = env.create("s1");
    write(&location.path.join("old.txt"), "old\n");
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
    try_create(&location).unwrap();
    assert!(!location.path.join("old.txt").exists());
    assert_eq!(inspect(&location), Inspection::Present { dirty: false, own_commits: 0 });
    assert_eq!(sweep(&env.root), 1);
    assert_eq!(inspect(&location), Inspection::Present { dirty: false, own_commits: 0 });
    env.require_clean(&[&location.path]);
}

#[test]
fn repeated_removal_reports_already_gone() {
    let env = TestEnv::new();
    let location = env.create("s1");
    assert_eq!(try_remove(&env.location("never")).unwrap(), Removal::AlreadyGone);
    write(&location.path.join("README.md"), "changed\n");
    let first = rescue(&location);
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
    assert_eq!(sweep(&env.root), 1);
    let before = snapshot(env.top());
    assert_eq!(rescue(&location), first, "the earlier rescue is returned");
    assert_eq!(try_remove(&location).unwrap(), Removal::AlreadyGone);
    assert_eq!(sweep(&env.root), 0);
    require_same(&snapshot(env.top()), &before);
}

#[test]
fn branch_is_deleted_only_if_its_commits_are_on_another_ref() {
    let env = TestEnv::new();
    for (session, elsewhere) in [
        ("own", ""),
        ("branch", "refs/heads/kept"),
        ("tag", "refs/tags/kept"),
        ("remote", "refs/remotes/o/kept"),
    ] {
        let location = env.create(session);
        write(&location.path.join("mine.txt"), session);
        env.git_in(&location.path, ["add", "--all"]);
        env.git_in(&location.path, ["commit", "--quiet", "--message", session]);
        if !elsewhere.is_empty() {
            env.git_in(&location.path, ["update-ref", elsewhere, "HEAD"]);
        }
        assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
        let left = env.git(["branch", "--list", &format!("sexton/{session}")]);
        assert_eq!(left.is_empty(), !elsewhere.is_empty(), "{session}: {left}");
    }
    assert_eq!(env.git(["show", "sexton/own:mine.txt"]), "own");
    env.require_clean(&[]);
}

#[test]
fn i4_two_branches_at_one_commit_are_not_both_deleted() {
    let env = TestEnv::new();
    for round in 0..20 {
        let locations = [env.create(&format!("a{round}")), env.create(&format!("b{round}"))];
        write(&locations[0].path.join("mine.txt"), format!("{round}"));
        env.git_in(&locations[0].path, ["add", "--all"]);
        env.git_in(&locations[0].path, ["commit", "--quiet", "--message", "mine"]);
        let commit = env.git_in(&locations[0].path, ["rev-parse", "HEAD"]);
        env.git_in(&locations[1].path, ["reset", "--quiet", "--hard", &commit]);
        let both = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for location in &locations {
                let both = &both;
                scope.spawn(move || {
                    let cleaner = cleaner();
                    both.wait();
                    let done = pollster::block_on(cleaner.clear(location, &Stub::empty(), now())).unwrap();
                    assert_eq!(done.removal.unwrap(), Removal::Removed);
                });
            }
        });
        let left = env.git(["branch", "--contains", &commit]);
        assert!(!left.is_empty(), "round {round}: no branch contains the commit");
    }
}

#[test]
fn i4_symbolic_ref_to_a_branch_does_not_count_as_another_branch() {
    let env = TestEnv::new();
    let location = env.create("s1");
    env.git_in(&location.path, ["commit", "--quiet", "--allow-empty", "--message", "mine"]);
    env.git_in(&location.path, ["symbolic-ref", "refs/heads/alias", "refs/heads/sexton/s1"]);
    let commit = env.git_in(&location.path, ["rev-parse", "HEAD"]);
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
    assert_eq!(env.git(["rev-parse", "alias"]), commit);
}

#[test]
fn branch_checked_out_in_another_worktree_stays() {
    let env = TestEnv::new();
    let location = env.create("s1");
    env.git_in(&location.path, ["switch", "--quiet", "--detach"]);
    env.git(["switch", "--quiet", "sexton/s1"]);
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
    assert_eq!(env.git(["rev-parse", "HEAD"]), env.git(["rev-parse", "main"]));
    env.require_clean(&[]);
}

#[test]
fn unrelated_worktrees_stay_registered_even_without_a_directory() {
    let env = TestEnv::new();
    let away = env.top().join("away");
    env.git(["worktree", "add", "--quiet", "--detach", away.to_str().unwrap()]);
    fs::rename(&away, env.top().join("unplugged")).unwrap();
    let location = env.create("s1");
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
    fs::rename(env.top().join("unplugged"), &away).unwrap();
    env.require_clean(&[&away]);
    assert_eq!(env.git_in(&away, ["status", "--porcelain"]), "");
}

#[test]
fn locked_worktree_is_kept_with_its_lock_reason() {
    let env = TestEnv::new();
    let location = env.create("s1");
    env.git(["worktree", "lock", "--reason", "on a stick", location.path.to_str().unwrap()]);
    assert_eq!(try_remove(&location).unwrap(), Removal::Kept("it is locked: on a stick".to_owned()));
    assert!(location.path.join("README.md").exists());
    env.git(["worktree", "unlock", location.path.to_str().unwrap()]);
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
}

#[test]
fn i3_worktree_with_a_live_process_inside_is_kept() {
    let env = TestEnv::new();
    let location = env.create("s1");
    let probe = sexton_proc_linux::open().unwrap();
    let occupant = Occupant::enter(&location.path.join("src"));
    let why = refusal(remove_with(&location, &*probe));
    assert!(why.contains(&format!("process {}", occupant.0.id())), "{why}");
    assert!(location.path.join("README.md").exists());
    env.require_clean(&[&location.path]);
    drop(occupant);
    assert_eq!(remove_with(&location, &*probe).unwrap(), Removal::Removed);
}

#[test]
fn i4_changes_made_during_a_removal_are_in_the_rescue() {
    for check in 1..=2 {
        let env = TestEnv::new();
        let location = env.create("s1");
        write(&location.path.join("README.md"), "first\n");
        rescue(&location);
        // A process outside saves a file just before or just after the move.
        let mut checks = 0;
        let probe = Stub::watching(move |directory| {
            checks += 1;
            if checks == check {
                fs::write(directory.join("README.md"), "second\n").unwrap();
            }
            Occupants::default()
        });
        assert_eq!(remove_with(&location, &probe).unwrap(), Removal::Removed, "check {check}");
        assert_eq!(rescued_file(&env, "s1", "README.md"), "second");
        env.require_clean(&[]);
    }
}

#[test]
fn i4_kept_worktree_is_still_rescued() {
    let env = TestEnv::new();
    let location = env.create("s1");
    write(&location.path.join("README.md"), "changed\n");
    refusal(remove_with(&location, &Stub::watching(|_| an_occupant())));
    assert_eq!(rescued_file(&env, "s1", "README.md"), "changed");
    assert!(location.path.join("README.md").exists());
}

#[test]
fn i4_worktree_that_cannot_be_rescued_is_moved_back() {
    let env = TestEnv::new();
    let location = env.create("s1");
    write(&location.path.join("README.md"), "changed\n");
    // A nested repository with a commit that exists nowhere else.
    let nested = location.path.join("nested");
    env.git(["init", "--quiet", nested.to_str().unwrap()]);
    env.git_in(&nested, ["commit", "--quiet", "--allow-empty", "--message", "mine"]);
    let before = snapshot(&location.path);
    assert!(try_remove(&location).is_err());
    require_same(&snapshot(&location.path), &before);
    assert_eq!(env.trash(), [""; 0]);
    env.require_clean(&[&location.path]);
}

/// Returns a worktree whose removal was interrupted when it was in the trash and not saved.
fn interrupted(env: &TestEnv) -> WorktreeLocation {
    let location = env.create("s1");
    write(&location.path.join("README.md"), "changed\n");
    fs::rename(&location.path, env.root.join(".trash/s1.abc.unsaved")).unwrap();
    location
}

#[test]
fn i4_unsaved_worktree_in_the_trash_is_never_swept() {
    let env = TestEnv::new();
    let location = interrupted(&env);
    assert_eq!(sweep(&env.root), 0);
    assert_eq!(inspect(&location), Inspection::Present { dirty: true, own_commits: 0 });
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
    assert_eq!(rescued_file(&env, "s1", "README.md"), "changed");
    assert_eq!(sweep(&env.root), 1);
    env.require_clean(&[]);
}

#[test]
fn i4_unsaved_worktree_pruned_by_git_is_moved_back() {
    let env = TestEnv::new();
    let location = interrupted(&env);
    env.git(["worktree", "prune"]);
    assert_eq!(sweep(&env.root), 0);
    assert!(
        try_create(&location)
            .unwrap_err()
            .to_string()
            .contains("an earlier worktree of the session is still at")
    );
    let why = refusal(try_remove(&location));
    assert!(why.contains("its admin entry is gone"), "{why}");
    assert_eq!(fs::read_to_string(location.path.join("README.md")).unwrap(), "changed\n");
    assert_eq!(env.trash(), [""; 0]);
}

#[test]
fn i3_process_that_enters_just_before_the_move_keeps_the_worktree_in_place() {
    let env = TestEnv::new();
    let location = env.create("s1");
    write(&location.path.join("README.md"), "changed\n");
    let before = snapshot(&location.path);
    let checks = std::sync::Arc::new(AtomicUsize::new(0));
    let (counted, inside) = (checks.clone(), location.path.clone());
    let occupant = std::sync::Arc::new(std::sync::Mutex::new(None));
    let entered = occupant.clone();
    let real = sexton_proc_linux::open().unwrap();
    let probe = Stub::watching(move |directory| {
        if counted.fetch_add(1, Ordering::Relaxed) == 0 {
            // Between this check and the move.
            *entered.lock().unwrap() = Some(Occupant::enter(&inside.join("src")));
            return Occupants::default();
        }
        pollster::block_on(real.occupants(directory)).unwrap()
    });
    let why = refusal(remove_with(&location, &probe));
    assert!(why.contains("is inside"), "{why}");
    assert_eq!(checks.load(Ordering::Relaxed), 2);
    require_same(&snapshot(&location.path), &before);
    assert_eq!(env.trash(), [""; 0]);
    env.require_clean(&[&location.path]);
    drop(occupant.lock().unwrap().take());
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
}

#[test]
fn i3_worktree_that_cannot_be_moved_back_is_kept_in_the_trash_and_never_swept() {
    let env = TestEnv::new();
    let location = env.create("s1");
    write(&location.path.join("README.md"), "changed\n");
    let place = location.path.clone();
    let probe = Stub::watching(move |directory| {
        if directory == place {
            return Occupants::default();
        }
        fs::create_dir(&place).unwrap();
        an_occupant()
    });
    let why = refusal(remove_with(&location, &probe));
    assert!(why.contains("its path is taken, so it is at"), "{why}");
    assert_eq!(sweep(&env.root), 0);
    fs::remove_dir(&location.path).unwrap();
    let still = env.root.join(".trash").join(&env.trash()[0]);
    assert_eq!(fs::read_to_string(still.join("README.md")).unwrap(), "changed\n");
    assert_eq!(inspect(&location), Inspection::Present { dirty: true, own_commits: 0 });
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
    assert_eq!(sweep(&env.root), 1);
}

#[test]
fn i3_failing_probe_prevents_removal_and_sweep() {
    let env = TestEnv::new();
    let (location, other) = (env.create("s1"), env.create("s2"));
    let why = refusal(remove_with(&location, &Stub::failing()));
    assert!(why.contains("the stub fails"), "{why}");
    assert!(location.path.join("README.md").exists());
    assert_eq!(try_remove(&other).unwrap(), Removal::Removed);
    let swept = pollster::block_on(cleaner().sweep(&env.root, &Stub::failing(), &|_| false));
    assert_eq!(swept.unwrap().deleted, 0);
    assert_eq!(env.trash().len(), 1);
}

#[test]
fn i3_trash_with_a_process_inside_is_kept() {
    let env = TestEnv::new();
    let (one, other) = (env.create("one"), env.create("other"));
    let (inside, probe) = (Occupant::enter(&one.path), sexton_proc_linux::open().unwrap());
    // The stub does not report the process: only the sweep finds it.
    assert_eq!(try_remove(&one).unwrap(), Removal::Removed);
    assert_eq!(try_remove(&other).unwrap(), Removal::Removed);
    assert_eq!(pollster::block_on(cleaner().sweep(&env.root, &*probe, &|_| false)).unwrap().deleted, 1);
    assert!(env.trash()[0].starts_with("one."), "{:?}", env.trash());
    drop(inside);
    assert_eq!(pollster::block_on(cleaner().sweep(&env.root, &*probe, &|_| false)).unwrap().deleted, 1);
}

#[test]
fn worktree_without_a_directory_loses_its_entry_and_keeps_its_rescue() {
    let env = TestEnv::new();
    let location = env.create("s1");
    write(&location.path.join("README.md"), "changed\n");
    let first = rescue(&location);
    fs::remove_dir_all(&location.path).unwrap();
    assert_eq!(rescue(&location), first, "a missing directory is not a change");
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
    assert_eq!(rescued_file(&env, "s1", "README.md"), "changed");
    env.require_clean(&[]);
}

#[test]
fn i4_commits_of_a_detached_head_survive_a_missing_directory() {
    let env = TestEnv::new();
    let location = env.create("s1");
    env.git_in(&location.path, ["switch", "--quiet", "--detach"]);
    write(&location.path.join("mine.txt"), "mine\n");
    env.git_in(&location.path, ["add", "--all"]);
    env.git_in(&location.path, ["commit", "--quiet", "--message", "mine"]);
    let commit = env.git_in(&location.path, ["rev-parse", "HEAD"]);
    fs::remove_dir_all(&location.path).unwrap();
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
    env.git(["gc", "--quiet", "--prune=now"]);
    env.git(["merge-base", "--is-ancestor", &commit, "refs/sexton/rescue/s1"]);
}

#[test]
fn worktree_without_its_admin_entry_is_rejected() {
    let env = TestEnv::new();
    let location = env.create("s1");
    fs::remove_dir_all(env.repo.join(".git/worktrees/s1-0b5cbe2a")).unwrap();
    let before = snapshot(&location.path);
    let why = refusal(try_remove(&location));
    assert!(why.contains("its admin entry is gone, and the mark with it"), "{why}");
    assert!(matches!(inspect(&location), Inspection::Foreign(_)));
    require_same(&snapshot(&location.path), &before);
}

#[test]
fn moved_repository_is_found_through_the_record_only() {
    let env = TestEnv::new();
    let location = env.create("s1");
    write(&location.path.join("README.md"), "changed\n");
    let moved = env.top().join("moved");
    fs::rename(&env.repo, &moved).unwrap();
    let why = refusal(try_remove(&location));
    assert!(why.contains("is gone, or was moved"), "{why}");
    assert!(location.path.join("README.md").exists());

    let location = WorktreeLocation { repo: moved.clone(), ..location };
    assert_eq!(inspect(&location), Inspection::Present { dirty: true, own_commits: 0 });
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
    assert_eq!(env.git_in(&moved, ["show", "refs/sexton/rescue/s1:README.md"]), "changed");
    assert_eq!(sweep(&env.root), 1);
}

#[test]
fn worktree_moved_by_its_user_is_not_touched() {
    let env = TestEnv::new();
    let location = env.create("s1");
    let taken = env.top().join("taken");
    env.git(["worktree", "move", location.path.to_str().unwrap(), taken.to_str().unwrap()]);
    let why = refusal(try_remove(&location));
    assert!(why.contains("it was moved to"), "{why}");
    env.require_clean(&[&taken]);
}

#[test]
fn missing_repository_and_directory_are_reported_as_absent() {
    let env = TestEnv::new();
    let location = env.create("s1");
    fs::remove_dir_all(&env.repo).unwrap();
    fs::remove_dir_all(&location.path).unwrap();
    assert_eq!(inspect(&location), Inspection::Absent);
    assert_eq!(try_remove(&location).unwrap(), Removal::AlreadyGone);
    fs::remove_dir_all(&env.root).unwrap();
    assert_eq!(try_remove(&location).unwrap(), Removal::AlreadyGone);
    assert_eq!(sweep(&env.root), 0);
    assert!(!env.root.exists(), "a missing worktree root is not created");
}

#[test]
fn i5_symlink_in_place_of_a_worktree_is_rejected() {
    let env = TestEnv::new();
    let location = env.create("s1");
    let bystander = env.top().join("bystander");
    // The worktree itself, moved elsewhere: even its `.git` file and its mark are valid.
    fs::rename(&location.path, &bystander).unwrap();
    symlink(&bystander, &location.path).unwrap();
    let before = snapshot(&bystander);
    let why = refusal(try_remove(&location));
    assert!(why.contains("it is a symlink"), "{why}");
    require_same(&snapshot(&bystander), &before);
}

#[test]
fn i5_symlink_in_place_of_the_worktree_root_is_rejected() {
    let env = TestEnv::new();
    let location = env.create("s1");
    let elsewhere = env.top().join("elsewhere");
    fs::rename(&env.root, &elsewhere).unwrap();
    symlink(&elsewhere, &env.root).unwrap();
    let before = snapshot(&elsewhere);
    assert!(try_rescue(&location).is_err());
    assert!(refusal(try_remove(&location)).contains("opening the worktree root"));
    assert!(pollster::block_on(cleaner().sweep(&env.root, &Stub::empty(), &|_| false)).is_err());
    require_same(&snapshot(&elsewhere), &before);
}

#[test]
fn i5_symlink_swapped_in_during_a_removal_is_moved_back_and_not_followed() {
    let env = TestEnv::new();
    let location = env.create("s1");
    let bystander = env.top().join("bystander");
    write(&bystander.join("precious"), "precious\n");
    let (place, hidden, target) = (location.path.clone(), env.top().join("hidden"), bystander.clone());
    let probe = Stub::watching(move |directory| {
        if directory == place {
            fs::rename(&place, &hidden).unwrap();
            symlink(&target, &place).unwrap();
        }
        Occupants::default()
    });
    let why = refusal(remove_with(&location, &probe));
    assert!(why.contains("something else has just been put in its place"), "{why}");
    assert_eq!(fs::read_link(&location.path).unwrap(), bystander);
    assert_eq!(names(&bystander), ["precious"]);
    assert_eq!(sweep(&env.root), 0);
    assert!(env.top().join("hidden/README.md").exists());
}

#[test]
fn i4_directory_swapped_in_during_a_removal_is_moved_back() {
    let env = TestEnv::new();
    let location = env.create("s1");
    let (place, hidden) = (location.path.clone(), env.top().join("hidden"));
    let probe = Stub::watching(move |directory| {
        if directory == place {
            fs::rename(&place, &hidden).unwrap();
            // This directory was not rescued, and only its name is the worktree's.
            write(&place.join("precious"), "precious\n");
        }
        Occupants::default()
    });
    let why = refusal(remove_with(&location, &probe));
    assert!(why.contains("something else has just been put in its place"), "{why}");
    assert_eq!(names(&location.path), ["precious"]);
    assert_eq!(sweep(&env.root), 0);
}

#[test]
fn i5_worktree_root_swapped_during_a_removal_does_not_lead_outside() {
    let env = TestEnv::new();
    let location = env.create("s1");
    // An unrelated worktree root with a worktree of the same name.
    let bystander = env.top().join("bystander");
    write(&bystander.join("s1/precious"), "precious\n");
    let before = snapshot(&bystander);
    let (root, away, target) = (env.root.clone(), env.top().join("away"), bystander.clone());
    let checks = AtomicUsize::new(0);
    let probe = Stub::watching(move |_| {
        if checks.fetch_add(1, Ordering::Relaxed) == 0 {
            fs::rename(&root, &away).unwrap();
            symlink(&target, &root).unwrap();
        }
        Occupants::default()
    });
    // The removal may succeed in the original worktree root or not: nothing changes in the other one.
    remove_with(&location, &probe).unwrap();
    require_same(&snapshot(&bystander), &before);
}

#[test]
fn i5_sweep_follows_no_symlink() {
    let env = TestEnv::new();
    let bystander = env.top().join("bystander");
    write(&bystander.join("precious"), "precious\n");
    let location = env.create("s1");
    symlink(&bystander, location.path.join("src/out")).unwrap();
    symlink("../../../bystander", location.path.join("up")).unwrap();
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
    symlink(&bystander, env.root.join(".trash/.planted")).unwrap();
    symlink(&bystander, env.root.join(".trash/s1.planted")).unwrap();
    sweep(&env.root);
    assert_eq!(env.trash(), [""; 0]);
    assert_eq!(names(&bystander), ["precious"]);
}

#[test]
fn i5_trash_that_is_a_symlink_is_rejected() {
    let env = TestEnv::new();
    let location = env.create("s1");
    let bystander = env.top().join("bystander");
    write(&bystander.join(".old/precious"), "precious\n");
    fs::remove_dir(env.root.join(".trash")).unwrap();
    symlink(&bystander, env.root.join(".trash")).unwrap();
    assert!(pollster::block_on(cleaner().sweep(&env.root, &Stub::empty(), &|_| false)).is_err());
    assert!(try_remove(&location).is_err());
    assert_eq!(names(&bystander.join(".old")), ["precious"]);
    assert!(location.path.join("README.md").exists());
}

#[test]
fn sweep_deletes_deep_wide_and_unreadable_directories() {
    use std::os::unix::fs::PermissionsExt;
    let env = TestEnv::new();
    assert_eq!(try_remove(&env.create("s1")).unwrap(), Removal::Removed);
    let trash = env.root.join(".trash").join(&env.trash()[0]);
    write(&trash.join("deep").join(["d"; 700].join("/")).join("file"), "deep\n");
    (0..500).for_each(|n| write(&trash.join(format!("wide/{}/{n}", n % 97)), "wide\n"));
    write(&trash.join("closed/a/b/file"), "closed\n");
    let close = |path| fs::set_permissions(trash.join(path), fs::Permissions::from_mode(0o000)).unwrap();
    ["closed/a/b", "closed/a", "closed"].into_iter().for_each(close);
    assert_eq!(sweep(&env.root), 1);
    assert_eq!(env.trash(), [""; 0]);
}
