//! Ownership of worktrees: marks, claims, and two stores with one worktree root.

// A failed precondition panics, in helpers too.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;

use sexton_core::WorktreeError;
use sexton_core::worktree::{Begun, Inspection, Marked, Removal, WorktreeLocation};
use support::{
    STORE, TestEnv, cleaner, inspect, now, refusal, require_same, rescue, snapshot, sweep, try_create,
    try_remove, try_rescue, write,
};

const OTHER_STORE: &str = "ffffffff-9999-4222-8333-444455556666";

/// Creates a worktree in the worktree root with git.
fn foreign(env: &TestEnv, session: &str) -> WorktreeLocation {
    let location = env.location(session);
    env.git(["worktree", "add", "--quiet", "-b", session, location.path.to_str().unwrap()]);
    location
}

fn marked(env: &TestEnv, store: &str) -> Vec<Marked> {
    pollster::block_on(cleaner().marked(&env.root, store)).unwrap()
}

fn claim(location: &WorktreeLocation) -> Result<(), WorktreeError> {
    pollster::block_on(cleaner().claim(location, now()))
}

#[test]
fn worktree_without_a_mark_is_never_touched() {
    let env = TestEnv::new();
    let location = foreign(&env, "s1");
    let before = snapshot(env.top());
    assert_eq!(inspect(&location), Inspection::Foreign("it has no mark".to_owned()));
    assert!(refusal(try_remove(&location)).contains("it has no mark"));
    assert!(matches!(try_create(&location), Err(WorktreeError::CannotCreate { .. })));
    assert_eq!(sweep(&env.root), 0);
    require_same(&snapshot(env.top()), &before);
}

#[test]
fn damaged_and_newer_marks_are_rejected() {
    let env = TestEnv::new();
    let location = env.create("s1");
    let mark = env.repo.join(".git/worktrees/s1-0b5cbe2a/sexton.json");
    for (text, why) in [("{\"form", "damaged"), ("{\"format\": 99}", "of a newer version")] {
        fs::write(&mark, text).unwrap();
        let message = refusal(try_remove(&location));
        assert!(message.contains(why), "{message}");
        assert_eq!(marked(&env, STORE), []);
    }
    assert!(location.path.join("README.md").exists());
}

#[test]
fn two_stores_with_one_worktree_root_never_touch_each_others_worktrees() {
    let env = TestEnv::new();
    let ours = env.create("s1");
    let theirs = WorktreeLocation { store: OTHER_STORE.to_owned(), ..env.location("s2") };
    try_create(&theirs).unwrap();
    write(&theirs.path.join("README.md"), "theirs\n");
    let before = snapshot(&env.root);
    for location in [
        WorktreeLocation { store: OTHER_STORE.to_owned(), ..ours.clone() },
        WorktreeLocation { store: STORE.to_owned(), ..theirs.clone() },
    ] {
        assert!(matches!(inspect(&location), Inspection::Foreign(why) if why.contains("another store")));
        assert!(refusal(try_remove(&location)).contains("another store"));
        assert!(claim(&location).unwrap_err().to_string().contains("another store"));
        assert!(try_create(&location).unwrap_err().to_string().contains("another store"));
    }
    require_same(&snapshot(&env.root), &before);
    let paths = |store| marked(&env, store).into_iter().map(|marked| marked.location).collect::<Vec<_>>();
    assert_eq!(paths(STORE), std::slice::from_ref(&ours));
    assert_eq!(paths(OTHER_STORE), std::slice::from_ref(&theirs));
    assert_eq!(try_remove(&ours).unwrap(), Removal::Removed);
    assert_eq!(inspect(&theirs), Inspection::Present { dirty: true, own_commits: 0 });
    env.require_clean(&[&theirs.path]);
}

#[test]
fn two_stores_can_use_the_same_session_name_in_separate_worktree_roots() {
    let env = TestEnv::new();
    let ours = env.create("s1");
    let root = env.top().join("other-worktrees");
    let theirs = WorktreeLocation {
        store: OTHER_STORE.to_owned(),
        path: root.join("s1"),
        root: root.clone(),
        ..env.location("s1")
    };
    let from = sexton_core::worktree::StartPoint {
        branch: "other/s1".to_owned(),
        base: None,
        begun: Begun::Nothing,
    };
    pollster::block_on(cleaner().create(&theirs, &from, now())).unwrap();
    env.require_clean(&[&ours.path, &theirs.path]);
    assert_eq!(try_remove(&ours).unwrap(), Removal::Removed);
    env.require_clean(&[&theirs.path]);
}

#[test]
fn marked_worktrees_are_listed_with_location_and_age() {
    let env = TestEnv::new();
    assert_eq!(marked(&env, STORE), []);
    let (one, gone) = (env.create("one"), env.create("gone"));
    foreign(&env, "unmarked");
    fs::create_dir(env.root.join("plain")).unwrap();
    fs::write(env.root.join("file"), "").unwrap();
    fs::remove_dir_all(&gone.path).unwrap();
    let expected = [gone, one].map(|location| Marked { location, made_at: now(), host: None });
    assert_eq!(marked(&env, STORE), expected, "including one whose directory is missing");
    assert_eq!(marked(&env, "unknown"), []);
}

#[test]
fn claimed_worktree_is_rescued_and_removed_and_its_branch_stays() {
    let env = TestEnv::new();
    let location = foreign(&env, "s1");
    write(&location.path.join("README.md"), "changed\n");
    claim(&location).unwrap();
    claim(&location).unwrap();
    assert_eq!(marked(&env, STORE), [Marked { location: location.clone(), made_at: now(), host: None }]);
    assert_eq!(inspect(&location), Inspection::Present { dirty: true, own_commits: 0 });
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
    assert_eq!(env.git(["show", "refs/sexton/rescue/s1:README.md"]), "changed");
    assert_eq!(env.git(["branch", "--list", "s1"]).trim(), "s1");
    env.require_clean(&[]);
}

#[test]
fn claimed_worktree_without_a_directory_is_found_by_its_mark() {
    let env = TestEnv::new();
    let location = foreign(&env, "s1");
    claim(&location).unwrap();
    fs::remove_dir_all(&location.path).unwrap();
    assert_eq!(inspect(&location), Inspection::Present { dirty: false, own_commits: 0 });
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
    env.require_clean(&[]);
}

#[test]
fn only_an_unclaimed_worktree_in_the_worktree_root_can_be_claimed() {
    let env = TestEnv::new();
    let ours = env.create("ours");
    fs::create_dir(env.root.join("plain")).unwrap();
    std::os::unix::fs::symlink(&ours.path, env.root.join("symlink")).unwrap();
    let outside = WorktreeLocation { path: env.top().join("outside"), ..env.location("outside") };
    env.git(["worktree", "add", "--quiet", "--detach", outside.path.to_str().unwrap()]);
    fs::rename(&outside.path, env.root.join("moved")).unwrap();
    for (location, why) in [
        (env.location("nothing"), "there is no worktree"),
        (env.location("plain"), "it has no .git file"),
        (env.location("symlink"), "it is a symlink"),
        (env.location("moved"), "for a worktree at another path"),
        (outside, "is not directly inside"),
        (
            WorktreeLocation { path: ours.path.clone(), ..env.location("other") },
            "it has the mark of session ours",
        ),
    ] {
        let message = claim(&location).unwrap_err().to_string();
        assert!(message.contains(why), "{message}");
    }
}

#[test]
fn worktree_of_another_repository_is_rejected() {
    let (env, other) = (TestEnv::new(), TestEnv::new());
    let location = env.create("s1");
    let mistaken = WorktreeLocation { repo: other.repo.clone(), ..location.clone() };
    assert!(refusal(try_remove(&mistaken)).contains("a worktree of another repository"));
    assert!(try_rescue(&mistaken).is_err());
    assert!(location.path.join("README.md").exists());
}

#[test]
fn repository_in_place_of_a_worktree_is_rejected() {
    let env = TestEnv::new();
    let location = env.location("s1");
    env.git(["clone", "--quiet", ".", location.path.to_str().unwrap()]);
    assert_eq!(inspect(&location), Inspection::Foreign("it is a repository of its own".to_owned()));
    assert!(refusal(try_remove(&location)).contains("it is a repository of its own"));
}

#[test]
fn worktree_without_its_git_file_keeps_its_files() {
    let env = TestEnv::new();
    let location = env.create("s1");
    rescue(&location);
    fs::remove_file(location.path.join(".git")).unwrap();
    assert!(refusal(try_remove(&location)).contains("it has no .git file"));
    assert!(location.path.join("README.md").exists());
}
