//! Removing worktrees: rescued first, never under a living process, never outside the yard, and with the one
//! admin entry and the branch that were made for it.

// A case that cannot go on panics, in its helpers too.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::os::unix::fs::symlink;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use sexton_core::probe::Occupants;
use sexton_core::worktree::{Inspection, Plot, Removal, Rescued};
use support::{
    Ground, Stub, cleaner, inspect, names, now, picture, refusal, remove_with, require_same, rescue,
    somebody, sweep, try_create, try_remove, try_rescue, write,
};

/// The content of a file in a session's rescue.
fn rescued_file(ground: &Ground, session: &str, file: &str) -> String {
    ground.git(["show", &format!("refs/sexton/rescue/{session}:{file}")])
}

/// A process whose working directory is inside, until it is dropped.
struct Occupant(Child);

impl Occupant {
    fn enter(directory: &Path) -> Occupant {
        // It ends with its standard input, and so with this test.
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
fn a_clean_worktree_leaves_nothing_but_its_trash_and_then_nothing() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    assert_eq!(rescue(&plot), Rescued { saved: None });
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
    assert!(!plot.path.exists());
    assert_eq!(ground.trash().len(), 1);
    ground.require_clean(&[]);
    assert_eq!(ground.git(["branch", "--list", "sexton/*"]), "");
    assert_eq!(inspect(&plot), Inspection::Absent);
    assert_eq!(sweep(&ground.root), 1);
    assert_eq!(ground.trash(), [""; 0]);
    assert_eq!(sweep(&ground.root), 0);
    assert!(!ground.repo.join(".git/worktrees").exists());
}

#[test]
fn i4_what_was_in_it_is_in_its_rescue() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    write(&plot.path.join("README.md"), "changed\n");
    write(&plot.path.join("new/untracked.txt"), "untracked\n");
    assert_eq!(inspect(&plot), Inspection::Present { dirty: true, own_commits: 0 });
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
    assert_eq!(rescued_file(&ground, "s1", "README.md"), "changed");
    assert_eq!(rescued_file(&ground, "s1", "new/untracked.txt"), "untracked");
    ground.require_clean(&[]);
}

#[test]
fn its_name_is_free_at_once() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    write(&plot.path.join("old.txt"), "old\n");
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
    try_create(&plot).unwrap();
    assert!(!plot.path.join("old.txt").exists());
    assert_eq!(inspect(&plot), Inspection::Present { dirty: false, own_commits: 0 });
    assert_eq!(sweep(&ground.root), 1);
    assert_eq!(inspect(&plot), Inspection::Present { dirty: false, own_commits: 0 });
    ground.require_clean(&[&plot.path]);
}

#[test]
fn again_it_is_gone_already() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    assert_eq!(try_remove(&ground.plot("never")).unwrap(), Removal::AlreadyGone);
    write(&plot.path.join("README.md"), "changed\n");
    let first = rescue(&plot);
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
    assert_eq!(sweep(&ground.root), 1);
    let before = picture(ground.top());
    assert_eq!(rescue(&plot), first, "what was saved is still the answer");
    assert_eq!(try_remove(&plot).unwrap(), Removal::AlreadyGone);
    assert_eq!(sweep(&ground.root), 0);
    require_same(&picture(ground.top()), &before);
}

#[test]
fn a_branch_goes_only_where_its_commits_are_elsewhere_too() {
    let ground = Ground::new();
    for (session, elsewhere) in [
        ("own", ""),
        ("branch", "refs/heads/kept"),
        ("tag", "refs/tags/kept"),
        ("remote", "refs/remotes/o/kept"),
    ] {
        let plot = ground.create(session);
        write(&plot.path.join("mine.txt"), session);
        ground.git_in(&plot.path, ["add", "--all"]);
        ground.git_in(&plot.path, ["commit", "--quiet", "--message", session]);
        if !elsewhere.is_empty() {
            ground.git_in(&plot.path, ["update-ref", elsewhere, "HEAD"]);
        }
        assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
        let left = ground.git(["branch", "--list", &format!("sexton/{session}")]);
        assert_eq!(left.is_empty(), !elsewhere.is_empty(), "{session}: {left}");
    }
    assert_eq!(ground.git(["show", "sexton/own:mine.txt"]), "own");
    ground.require_clean(&[]);
}

#[test]
fn i4_two_branches_at_one_commit_are_no_reason_for_each_other_to_go() {
    let ground = Ground::new();
    for round in 0..20 {
        let plots = [ground.create(&format!("a{round}")), ground.create(&format!("b{round}"))];
        write(&plots[0].path.join("mine.txt"), format!("{round}"));
        ground.git_in(&plots[0].path, ["add", "--all"]);
        ground.git_in(&plots[0].path, ["commit", "--quiet", "--message", "mine"]);
        let commit = ground.git_in(&plots[0].path, ["rev-parse", "HEAD"]);
        ground.git_in(&plots[1].path, ["reset", "--quiet", "--hard", &commit]);
        let both = std::sync::Barrier::new(2);
        std::thread::scope(|scope| {
            for plot in &plots {
                let both = &both;
                scope.spawn(move || {
                    let cleaner = cleaner();
                    both.wait();
                    let cleared = pollster::block_on(cleaner.clear(plot, &Stub::nobody(), now())).unwrap();
                    assert_eq!(cleared.removal.unwrap(), Removal::Removed);
                });
            }
        });
        let left = ground.git(["branch", "--contains", &commit]);
        assert!(!left.is_empty(), "round {round}: no branch has the commit any more");
    }
}

#[test]
fn i4_another_name_of_a_branch_is_not_another_branch() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    ground.git_in(&plot.path, ["commit", "--quiet", "--allow-empty", "--message", "mine"]);
    ground.git_in(&plot.path, ["symbolic-ref", "refs/heads/alias", "refs/heads/sexton/s1"]);
    let commit = ground.git_in(&plot.path, ["rev-parse", "HEAD"]);
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
    assert_eq!(ground.git(["rev-parse", "alias"]), commit);
}

#[test]
fn a_branch_that_another_worktree_has_checked_out_stays() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    ground.git_in(&plot.path, ["switch", "--quiet", "--detach"]);
    ground.git(["switch", "--quiet", "sexton/s1"]);
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
    assert_eq!(ground.git(["rev-parse", "HEAD"]), ground.git(["rev-parse", "main"]));
    ground.require_clean(&[]);
}

#[test]
fn bystanders_stay_registered_even_where_their_directory_is_gone() {
    let ground = Ground::new();
    let away = ground.top().join("away");
    ground.git(["worktree", "add", "--quiet", "--detach", away.to_str().unwrap()]);
    fs::rename(&away, ground.top().join("unplugged")).unwrap();
    let plot = ground.create("s1");
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
    fs::rename(ground.top().join("unplugged"), &away).unwrap();
    ground.require_clean(&[&away]);
    assert_eq!(ground.git_in(&away, ["status", "--porcelain"]), "");
}

#[test]
fn a_locked_worktree_is_kept_with_its_reason() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    ground.git(["worktree", "lock", "--reason", "on a stick", plot.path.to_str().unwrap()]);
    assert_eq!(try_remove(&plot).unwrap(), Removal::Kept("it is locked: on a stick".to_owned()));
    assert!(plot.path.join("README.md").exists());
    ground.git(["worktree", "unlock", plot.path.to_str().unwrap()]);
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
}

#[test]
fn i3_a_worktree_with_a_live_process_inside_is_kept() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    let probe = sexton_proc_linux::open().unwrap();
    let occupant = Occupant::enter(&plot.path.join("src"));
    let why = refusal(remove_with(&plot, &*probe));
    assert!(why.contains(&format!("process {}", occupant.0.id())), "{why}");
    assert!(plot.path.join("README.md").exists());
    ground.require_clean(&[&plot.path]);
    drop(occupant);
    assert_eq!(remove_with(&plot, &*probe).unwrap(), Removal::Removed);
}

#[test]
fn i4_what_is_written_while_a_worktree_goes_is_in_its_rescue() {
    for look in 1..=2 {
        let ground = Ground::new();
        let plot = ground.create("s1");
        write(&plot.path.join("README.md"), "first\n");
        rescue(&plot);
        // Somebody saves a file from elsewhere, just before the move or just after it.
        let mut looks = 0;
        let probe = Stub::watching(move |directory| {
            looks += 1;
            if looks == look {
                fs::write(directory.join("README.md"), "second\n").unwrap();
            }
            Occupants::default()
        });
        assert_eq!(remove_with(&plot, &probe).unwrap(), Removal::Removed, "look {look}");
        assert_eq!(rescued_file(&ground, "s1", "README.md"), "second");
        ground.require_clean(&[]);
    }
}

#[test]
fn i4_a_worktree_that_is_kept_is_rescued_all_the_same() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    write(&plot.path.join("README.md"), "changed\n");
    refusal(remove_with(&plot, &Stub::watching(|_| somebody())));
    assert_eq!(rescued_file(&ground, "s1", "README.md"), "changed");
    assert!(plot.path.join("README.md").exists());
}

#[test]
fn i4_a_worktree_that_cannot_be_rescued_is_back_in_its_place() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    write(&plot.path.join("README.md"), "changed\n");
    // A repository of its own, with a commit that nobody else has.
    let nested = plot.path.join("nested");
    ground.git(["init", "--quiet", nested.to_str().unwrap()]);
    ground.git_in(&nested, ["commit", "--quiet", "--allow-empty", "--message", "mine"]);
    let before = picture(&plot.path);
    assert!(try_remove(&plot).is_err());
    require_same(&picture(&plot.path), &before);
    assert_eq!(ground.trash(), [""; 0]);
    ground.require_clean(&[&plot.path]);
}

/// A worktree whose removal was cut off when it was out of reach and not saved.
fn cut_off(ground: &Ground) -> Plot {
    let plot = ground.create("s1");
    write(&plot.path.join("README.md"), "changed\n");
    fs::rename(&plot.path, ground.root.join(".trash/s1.abc.unsaved")).unwrap();
    plot
}

#[test]
fn i4_what_is_out_of_reach_and_not_saved_is_never_swept() {
    let ground = Ground::new();
    let plot = cut_off(&ground);
    assert_eq!(sweep(&ground.root), 0);
    assert_eq!(inspect(&plot), Inspection::Present { dirty: true, own_commits: 0 });
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
    assert_eq!(rescued_file(&ground, "s1", "README.md"), "changed");
    assert_eq!(sweep(&ground.root), 1);
    ground.require_clean(&[]);
}

#[test]
fn i4_what_is_not_saved_and_was_pruned_by_git_is_put_back_for_its_user() {
    let ground = Ground::new();
    let plot = cut_off(&ground);
    ground.git(["worktree", "prune"]);
    assert_eq!(sweep(&ground.root), 0);
    assert!(try_create(&plot).unwrap_err().to_string().contains("what an earlier one held is still at"));
    let why = refusal(try_remove(&plot));
    assert!(why.contains("its admin entry is gone"), "{why}");
    assert_eq!(fs::read_to_string(plot.path.join("README.md")).unwrap(), "changed\n");
    assert_eq!(ground.trash(), [""; 0]);
}

#[test]
fn i3_somebody_who_came_in_just_before_the_move_gets_the_worktree_back() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    write(&plot.path.join("README.md"), "changed\n");
    let before = picture(&plot.path);
    let looks = std::sync::Arc::new(AtomicUsize::new(0));
    let (counted, inside) = (looks.clone(), plot.path.clone());
    let occupant = std::sync::Arc::new(std::sync::Mutex::new(None));
    let entered = occupant.clone();
    let real = sexton_proc_linux::open().unwrap();
    let probe = Stub::watching(move |directory| {
        if counted.fetch_add(1, Ordering::Relaxed) == 0 {
            // Between this look and the move.
            *entered.lock().unwrap() = Some(Occupant::enter(&inside.join("src")));
            return Occupants::default();
        }
        pollster::block_on(real.occupants(directory)).unwrap()
    });
    let why = refusal(remove_with(&plot, &probe));
    assert!(why.contains("is inside"), "{why}");
    assert_eq!(looks.load(Ordering::Relaxed), 2);
    require_same(&picture(&plot.path), &before);
    assert_eq!(ground.trash(), [""; 0]);
    ground.require_clean(&[&plot.path]);
    drop(occupant.lock().unwrap().take());
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
}

#[test]
fn i3_a_worktree_that_cannot_go_back_to_its_name_is_kept_where_it_is_and_never_swept() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    write(&plot.path.join("README.md"), "changed\n");
    let place = plot.path.clone();
    let probe = Stub::watching(move |directory| {
        if directory == place {
            return Occupants::default();
        }
        fs::create_dir(&place).unwrap();
        somebody()
    });
    let why = refusal(remove_with(&plot, &probe));
    assert!(why.contains("its place is taken, so it is at"), "{why}");
    assert_eq!(sweep(&ground.root), 0);
    fs::remove_dir(&plot.path).unwrap();
    let still = ground.root.join(".trash").join(&ground.trash()[0]);
    assert_eq!(fs::read_to_string(still.join("README.md")).unwrap(), "changed\n");
    assert_eq!(inspect(&plot), Inspection::Present { dirty: true, own_commits: 0 });
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
    assert_eq!(sweep(&ground.root), 1);
}

#[test]
fn i3_a_probe_that_cannot_look_removes_and_sweeps_nothing() {
    let ground = Ground::new();
    let (plot, other) = (ground.create("s1"), ground.create("s2"));
    let why = refusal(remove_with(&plot, &Stub::blind()));
    assert!(why.contains("it is blind"), "{why}");
    assert!(plot.path.join("README.md").exists());
    assert_eq!(try_remove(&other).unwrap(), Removal::Removed);
    assert_eq!(pollster::block_on(cleaner().sweep(&ground.root, &Stub::blind())).unwrap(), 0);
    assert_eq!(ground.trash().len(), 1);
}

#[test]
fn i3_the_trash_that_somebody_is_in_waits() {
    let ground = Ground::new();
    let (one, other) = (ground.create("one"), ground.create("other"));
    let (inside, probe) = (Occupant::enter(&one.path), sexton_proc_linux::open().unwrap());
    // The stub does not see him: he is found by the sweep alone.
    assert_eq!(try_remove(&one).unwrap(), Removal::Removed);
    assert_eq!(try_remove(&other).unwrap(), Removal::Removed);
    assert_eq!(pollster::block_on(cleaner().sweep(&ground.root, &*probe)).unwrap(), 1);
    assert!(ground.trash()[0].starts_with("one."), "{:?}", ground.trash());
    drop(inside);
    assert_eq!(pollster::block_on(cleaner().sweep(&ground.root, &*probe)).unwrap(), 1);
}

#[test]
fn a_worktree_whose_directory_is_gone_loses_its_entry_and_its_rescue_stays() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    write(&plot.path.join("README.md"), "changed\n");
    let first = rescue(&plot);
    fs::remove_dir_all(&plot.path).unwrap();
    assert_eq!(rescue(&plot), first, "a directory that is gone is not work");
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
    assert_eq!(rescued_file(&ground, "s1", "README.md"), "changed");
    ground.require_clean(&[]);
}

#[test]
fn i4_commits_of_a_detached_head_outlive_a_directory_that_is_gone() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    ground.git_in(&plot.path, ["switch", "--quiet", "--detach"]);
    write(&plot.path.join("mine.txt"), "mine\n");
    ground.git_in(&plot.path, ["add", "--all"]);
    ground.git_in(&plot.path, ["commit", "--quiet", "--message", "mine"]);
    let commit = ground.git_in(&plot.path, ["rev-parse", "HEAD"]);
    fs::remove_dir_all(&plot.path).unwrap();
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
    ground.git(["gc", "--quiet", "--prune=now"]);
    ground.git(["merge-base", "--is-ancestor", &commit, "refs/sexton/rescue/s1"]);
}

#[test]
fn a_worktree_without_its_admin_entry_is_refused() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    fs::remove_dir_all(ground.repo.join(".git/worktrees/s1-0b5cbe2a")).unwrap();
    let before = picture(&plot.path);
    let why = refusal(try_remove(&plot));
    assert!(why.contains("its admin entry is gone, and the mark with it"), "{why}");
    assert!(matches!(inspect(&plot), Inspection::Foreign(_)));
    require_same(&picture(&plot.path), &before);
}

#[test]
fn a_moved_repository_is_found_through_the_record_and_else_refused() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    write(&plot.path.join("README.md"), "changed\n");
    let moved = ground.top().join("moved");
    fs::rename(&ground.repo, &moved).unwrap();
    let why = refusal(try_remove(&plot));
    assert!(why.contains("is gone, or was moved"), "{why}");
    assert!(plot.path.join("README.md").exists());

    let plot = Plot { repo: moved.clone(), ..plot };
    assert_eq!(inspect(&plot), Inspection::Present { dirty: true, own_commits: 0 });
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
    assert_eq!(ground.git_in(&moved, ["show", "refs/sexton/rescue/s1:README.md"]), "changed");
    assert_eq!(sweep(&ground.root), 1);
}

#[test]
fn a_worktree_that_was_moved_by_its_user_is_left_alone() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    let taken = ground.top().join("taken");
    ground.git(["worktree", "move", plot.path.to_str().unwrap(), taken.to_str().unwrap()]);
    let why = refusal(try_remove(&plot));
    assert!(why.contains("it was moved to"), "{why}");
    ground.require_clean(&[&taken]);
}

#[test]
fn where_repository_and_directory_are_gone_there_is_nothing() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    fs::remove_dir_all(&ground.repo).unwrap();
    fs::remove_dir_all(&plot.path).unwrap();
    assert_eq!(inspect(&plot), Inspection::Absent);
    assert_eq!(try_remove(&plot).unwrap(), Removal::AlreadyGone);
    fs::remove_dir_all(&ground.root).unwrap();
    assert_eq!(try_remove(&plot).unwrap(), Removal::AlreadyGone);
    assert_eq!(sweep(&ground.root), 0);
    assert!(!ground.root.exists(), "a yard that does not exist is not made");
}

#[test]
fn i5_a_symlink_in_the_place_of_a_worktree_is_refused() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    let bystander = ground.top().join("bystander");
    // The very worktree, elsewhere: even its `.git` file and its mark are right.
    fs::rename(&plot.path, &bystander).unwrap();
    symlink(&bystander, &plot.path).unwrap();
    let before = picture(&bystander);
    let why = refusal(try_remove(&plot));
    assert!(why.contains("it is a symlink"), "{why}");
    require_same(&picture(&bystander), &before);
}

#[test]
fn i5_a_symlink_in_the_place_of_the_yard_is_refused() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    let elsewhere = ground.top().join("elsewhere");
    fs::rename(&ground.root, &elsewhere).unwrap();
    symlink(&elsewhere, &ground.root).unwrap();
    let before = picture(&elsewhere);
    assert!(try_rescue(&plot).is_err());
    assert!(refusal(try_remove(&plot)).contains("opening the yard"));
    assert!(pollster::block_on(cleaner().sweep(&ground.root, &Stub::nobody())).is_err());
    require_same(&picture(&elsewhere), &before);
}

#[test]
fn i5_a_symlink_that_is_swapped_in_during_a_removal_is_put_back_and_not_followed() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    let bystander = ground.top().join("bystander");
    write(&bystander.join("precious"), "precious\n");
    let (place, hidden, target) = (plot.path.clone(), ground.top().join("hidden"), bystander.clone());
    let probe = Stub::watching(move |directory| {
        if directory == place {
            fs::rename(&place, &hidden).unwrap();
            symlink(&target, &place).unwrap();
        }
        Occupants::default()
    });
    let why = refusal(remove_with(&plot, &probe));
    assert!(why.contains("something else was put in its place"), "{why}");
    assert_eq!(fs::read_link(&plot.path).unwrap(), bystander);
    assert_eq!(names(&bystander), ["precious"]);
    assert_eq!(sweep(&ground.root), 0);
    assert!(ground.top().join("hidden/README.md").exists());
}

#[test]
fn i4_a_directory_that_is_swapped_in_during_a_removal_is_put_back() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    let (place, hidden) = (plot.path.clone(), ground.top().join("hidden"));
    let probe = Stub::watching(move |directory| {
        if directory == place {
            fs::rename(&place, &hidden).unwrap();
            // Nobody rescued this one, and nothing about it but its name is the worktree's.
            write(&place.join("precious"), "precious\n");
        }
        Occupants::default()
    });
    let why = refusal(remove_with(&plot, &probe));
    assert!(why.contains("something else was put in its place"), "{why}");
    assert_eq!(names(&plot.path), ["precious"]);
    assert_eq!(sweep(&ground.root), 0);
}

#[test]
fn i5_a_yard_that_is_swapped_during_a_removal_does_not_lead_outside() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    // A yard of somebody else, with a worktree of the same name.
    let bystander = ground.top().join("bystander");
    write(&bystander.join("s1/precious"), "precious\n");
    let before = picture(&bystander);
    let (root, away, target) = (ground.root.clone(), ground.top().join("away"), bystander.clone());
    let looks = AtomicUsize::new(0);
    let probe = Stub::watching(move |_| {
        if looks.fetch_add(1, Ordering::Relaxed) == 0 {
            fs::rename(&root, &away).unwrap();
            symlink(&target, &root).unwrap();
        }
        Occupants::default()
    });
    // Whether it is removed in the yard that was meant, or kept: nothing happens in the other.
    remove_with(&plot, &probe).unwrap();
    require_same(&picture(&bystander), &before);
}

#[test]
fn i5_a_sweep_follows_no_symlink() {
    let ground = Ground::new();
    let bystander = ground.top().join("bystander");
    write(&bystander.join("precious"), "precious\n");
    let plot = ground.create("s1");
    symlink(&bystander, plot.path.join("src/out")).unwrap();
    symlink("../../../bystander", plot.path.join("up")).unwrap();
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
    symlink(&bystander, ground.root.join(".trash/.planted")).unwrap();
    symlink(&bystander, ground.root.join(".trash/s1.planted")).unwrap();
    sweep(&ground.root);
    assert_eq!(ground.trash(), [""; 0]);
    assert_eq!(names(&bystander), ["precious"]);
}

#[test]
fn i5_a_trash_that_is_a_symlink_is_refused() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    let bystander = ground.top().join("bystander");
    write(&bystander.join(".old/precious"), "precious\n");
    fs::remove_dir(ground.root.join(".trash")).unwrap();
    symlink(&bystander, ground.root.join(".trash")).unwrap();
    assert!(pollster::block_on(cleaner().sweep(&ground.root, &Stub::nobody())).is_err());
    assert!(try_remove(&plot).is_err());
    assert_eq!(names(&bystander.join(".old")), ["precious"]);
    assert!(plot.path.join("README.md").exists());
}

#[test]
fn a_sweep_deletes_what_is_deep_wide_or_closed() {
    use std::os::unix::fs::PermissionsExt;
    let ground = Ground::new();
    let plot = ground.create("s1");
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
    let trash = ground.root.join(".trash").join(&ground.trash()[0]);
    let deep: std::path::PathBuf = std::iter::repeat_n("d", 700).collect();
    write(&trash.join("deep").join(&deep).join("file"), "deep\n");
    for n in 0..500 {
        write(&trash.join(format!("wide/{}/{n}", n % 97)), "wide\n");
    }
    write(&trash.join("closed/a/b/file"), "closed\n");
    for closed in ["closed/a/b", "closed/a", "closed"] {
        fs::set_permissions(trash.join(closed), fs::Permissions::from_mode(0o000)).unwrap();
    }
    assert_eq!(sweep(&ground.root), 1);
    assert_eq!(ground.trash(), [""; 0]);
}
