//! Continuing the work of an earlier session: from its branch or its rescue.

#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

mod support;

use std::fs;

use sexton_core::WorktreeError;
use sexton_core::worktree::{Begun, CreatedWorktree, StartPoint, WorktreeLocation};
use support::{TestEnv, cleaner, now, require_same, rescue, snapshot, sweep, try_remove, write};

const BRANCH: &str = "ralph/T-1";

fn try_create(location: &WorktreeLocation, begun: Begun) -> Result<CreatedWorktree, WorktreeError> {
    let from = StartPoint { branch: BRANCH.to_owned(), base: None, begun };
    pollster::block_on(cleaner().create(location, &from, now()))
}

/// Returns a session that committed something, changed more, and was rescued.
fn interrupted(env: &TestEnv) -> WorktreeLocation {
    let location = env.location("s1");
    try_create(&location, Begun::Nothing).unwrap();
    write(&location.path.join("committed"), "done\n");
    env.git_in(&location.path, ["add", "committed"]);
    env.git_in(&location.path, ["commit", "--quiet", "--message", "half of it"]);
    write(&location.path.join("staged"), "nearly\n");
    env.git_in(&location.path, ["add", "staged"]);
    write(&location.path.join("staged"), "nearly there\n");
    write(&location.path.join("untracked"), "a note\n");
    fs::remove_file(location.path.join("README.md")).unwrap();
    rescue(&location);
    location
}

#[test]
fn new_worktree_continues_a_rescue_with_the_same_staged_and_unstaged_changes() {
    let env = TestEnv::new();
    let first = interrupted(&env);
    let before = env.git_in(&first.path, ["status", "--porcelain"]);
    let head = env.git_in(&first.path, ["rev-parse", "HEAD"]);
    try_remove(&first).unwrap();
    sweep(&env.root);
    let second = env.location("s2");
    let created = try_create(&second, Begun::Rescue(first.session.clone())).unwrap();
    assert_eq!(created.base, head);
    assert_eq!(env.git_in(&second.path, ["status", "--porcelain"]), before);
    assert_eq!(env.git_in(&second.path, ["symbolic-ref", "HEAD"]), format!("refs/heads/{BRANCH}"));
    assert_eq!(fs::read_to_string(second.path.join("staged")).unwrap(), "nearly there\n");
    assert_eq!(env.git_in(&second.path, ["show", ":staged"]), "nearly");
    // The worktree belongs to the second session in every respect.
    assert!(rescue(&second).saved.is_some());
    try_remove(&second).unwrap();
    assert!(!second.path.exists());
}

#[test]
fn rescue_whose_branch_moved_or_is_in_use_is_rejected_and_changes_nothing() {
    let env = TestEnv::new();
    let first = interrupted(&env);
    let second = env.location("s2");
    let refusal = |why: &str| {
        let before = snapshot(env.top());
        let error = try_create(&second, Begun::Rescue(first.session.clone())).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        require_same(&snapshot(env.top()), &before);
    };
    refusal("is checked out in another worktree");
    try_remove(&first).unwrap();
    sweep(&env.root);
    env.git(["branch", "--force", BRANCH, "HEAD"]);
    refusal("has moved since");
    env.git(["branch", "--delete", "--force", BRANCH]);
    try_create(&second, Begun::Rescue(first.session.clone())).unwrap();
}

#[test]
fn new_worktree_starts_at_the_tip_of_an_existing_branch() {
    let env = TestEnv::new();
    let first = interrupted(&env);
    let tip = env.git(["rev-parse", BRANCH]);
    try_remove(&first).unwrap();
    let second = env.location("s2");
    assert_eq!(try_create(&second, Begun::Branch).unwrap().base, tip);
    assert_eq!(fs::read_to_string(second.path.join("committed")).unwrap(), "done\n");
    assert_eq!(env.git_in(&second.path, ["status", "--porcelain"]), "");
    let third = env.location("s3");
    assert!(try_create(&third, Begun::Branch).is_err(), "two worktrees of one branch");
}

#[test]
fn missing_branch_is_created() {
    let env = TestEnv::new();
    let location = env.location("s1");
    try_create(&location, Begun::Branch).unwrap();
    assert_eq!(env.git(["rev-parse", BRANCH]), env.git(["rev-parse", "HEAD"]));
}
