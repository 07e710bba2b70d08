//! Going on with what an earlier session began: its branch, or its rescue.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;

use sexton_core::WorktreeError;
use sexton_core::worktree::{Begun, CreatedWorktree, Plot, StartPoint};
use support::{Ground, cleaner, now, picture, require_same, rescue, sweep, try_remove, write};

const BRANCH: &str = "ralph/T-1";

fn try_create(plot: &Plot, begun: Begun) -> Result<CreatedWorktree, WorktreeError> {
    let from = StartPoint { branch: BRANCH.to_owned(), base: None, begun };
    pollster::block_on(cleaner().create(plot, &from, now()))
}

/// A session that committed something, changed more, and lost its worktree.
fn cut_off(ground: &Ground) -> Plot {
    let plot = ground.plot("s1");
    try_create(&plot, Begun::Nothing).unwrap();
    write(&plot.path.join("committed"), "done\n");
    ground.git_in(&plot.path, ["add", "committed"]);
    ground.git_in(&plot.path, ["commit", "--quiet", "--message", "half of it"]);
    write(&plot.path.join("staged"), "nearly\n");
    ground.git_in(&plot.path, ["add", "staged"]);
    write(&plot.path.join("staged"), "nearly there\n");
    write(&plot.path.join("untracked"), "a note\n");
    fs::remove_file(plot.path.join("README.md")).unwrap();
    rescue(&plot);
    plot
}

#[test]
fn a_new_worktree_goes_on_with_a_rescue_staged_and_unstaged_as_it_was() {
    let ground = Ground::new();
    let first = cut_off(&ground);
    let before = ground.git_in(&first.path, ["status", "--porcelain"]);
    let head = ground.git_in(&first.path, ["rev-parse", "HEAD"]);
    try_remove(&first).unwrap();
    sweep(&ground.root);
    let second = ground.plot("s2");
    let created = try_create(&second, Begun::Rescue(first.session.clone())).unwrap();
    assert_eq!(created.base, head);
    assert_eq!(ground.git_in(&second.path, ["status", "--porcelain"]), before);
    assert_eq!(ground.git_in(&second.path, ["symbolic-ref", "HEAD"]), format!("refs/heads/{BRANCH}"));
    assert_eq!(fs::read_to_string(second.path.join("staged")).unwrap(), "nearly there\n");
    assert_eq!(ground.git_in(&second.path, ["show", ":staged"]), "nearly");
    // It is the second session's worktree, with everything that follows from that.
    assert!(rescue(&second).saved.is_some());
    try_remove(&second).unwrap();
    assert!(!second.path.exists());
}

#[test]
fn a_rescue_whose_branch_moved_on_or_is_in_use_is_refused_and_changes_nothing() {
    let ground = Ground::new();
    let first = cut_off(&ground);
    let second = ground.plot("s2");
    let refusal = |why: &str| {
        let before = picture(ground.top());
        let error = try_create(&second, Begun::Rescue(first.session.clone())).unwrap_err().to_string();
        assert!(error.contains(why), "{error}");
        require_same(&picture(ground.top()), &before);
    };
    refusal("is checked out in another worktree");
    try_remove(&first).unwrap();
    sweep(&ground.root);
    ground.git(["branch", "--force", BRANCH, "HEAD"]);
    refusal("has moved on since");
    ground.git(["branch", "--delete", "--force", BRANCH]);
    try_create(&second, Begun::Rescue(first.session.clone())).unwrap();
}

#[test]
fn a_new_worktree_begins_at_the_tip_of_a_branch_that_was_begun() {
    let ground = Ground::new();
    let first = cut_off(&ground);
    let tip = ground.git(["rev-parse", BRANCH]);
    try_remove(&first).unwrap();
    let second = ground.plot("s2");
    assert_eq!(try_create(&second, Begun::Branch).unwrap().base, tip);
    assert_eq!(fs::read_to_string(second.path.join("committed")).unwrap(), "done\n");
    assert_eq!(ground.git_in(&second.path, ["status", "--porcelain"]), "");
    let third = ground.plot("s3");
    assert!(try_create(&third, Begun::Branch).is_err(), "two worktrees of one branch");
}

#[test]
fn where_nothing_was_begun_the_branch_is_made() {
    let ground = Ground::new();
    let plot = ground.plot("s1");
    try_create(&plot, Begun::Branch).unwrap();
    assert_eq!(ground.git(["rev-parse", BRANCH]), ground.git(["rev-parse", "HEAD"]));
}
