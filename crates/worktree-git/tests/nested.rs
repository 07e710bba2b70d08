//! Repositories inside a worktree: one with anything of its own keeps the worktree.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::path::PathBuf;

use sexton_core::WorktreeError;
use sexton_core::worktree::{Plot, Rescue};
use support::{Ground, cleaner, rescue, try_rescue, write};

/// The rescue of a worktree that has something to save.
#[track_caller]
fn saved(plot: &Plot) -> Rescue {
    rescue(plot).saved.expect("there was something to save")
}

/// Why a rescue was refused.
#[track_caller]
fn refusal(plot: &Plot) -> String {
    match try_rescue(plot) {
        Err(WorktreeError::CannotRescue { why, .. }) => why,
        other => panic!("it was not refused: {other:?}"),
    }
}

/// What was left out of a session's rescue.
fn left_out(ground: &Ground, plot: &Plot) -> Vec<(String, String)> {
    let details = pollster::block_on(cleaner().describe_rescue(&ground.repo, &plot.session)).unwrap();
    details.left_out.into_iter().map(|left| (left.path.display().to_string(), left.why)).collect()
}

/// The paths of a rescue's tree.
fn paths(ground: &Ground, rescue: &Rescue) -> Vec<String> {
    let list = ground.git(["ls-tree", "-r", "--name-only", &rescue.commit]);
    list.lines().map(str::to_owned).collect()
}

/// A repository that others can be cloned from.
fn upstream(ground: &Ground) -> PathBuf {
    let upstream = ground.top().join("upstream");
    fs::create_dir(&upstream).unwrap();
    ground.git_in(&upstream, ["init", "--quiet", "--initial-branch=main"]);
    write(&upstream.join("file"), "upstream\n");
    ground.git_in(&upstream, ["add", "--all"]);
    ground.git_in(&upstream, ["commit", "--quiet", "--message", "upstream"]);
    upstream
}

#[test]
fn i4_a_nested_repository_with_work_of_its_own_keeps_the_worktree() {
    let ground = Ground::new();
    let upstream = upstream(&ground);
    let plot = ground.create("s1");
    let nested = plot.path.join("tools/nested");
    ground.git_in(&plot.path, ["clone", "--quiet", upstream.to_str().unwrap(), nested.to_str().unwrap()]);
    write(&plot.path.join("README.md"), "changed\n");
    let rescue = saved(&plot);
    assert_eq!(paths(&ground, &rescue).iter().filter(|path| path.starts_with("tools")).count(), 0);
    let (path, why) = &left_out(&ground, &plot)[0];
    assert_eq!((path.as_str(), why.contains("repository of its own")), ("tools/nested", true));

    write(&nested.join("file"), "changed\n");
    assert_eq!(refusal(&plot), "the repository tools/nested inside it has changes that are not committed");
    ground.git_in(&nested, ["commit", "--quiet", "--all", "--message", "mine"]);
    assert_eq!(
        refusal(&plot),
        "the repository tools/nested inside it has commits that none of its remotes has"
    );
    ground.git_in(&nested, ["checkout", "--quiet", "--detach", "origin/main"]);
    assert_eq!(
        refusal(&plot),
        "the repository tools/nested inside it has commits that none of its remotes has"
    );
    ground.git_in(&nested, ["branch", "--quiet", "-D", "main"]);
    saved(&plot);
    write(&nested.join("file"), "stashed\n");
    ground.git_in(&nested, ["stash", "--quiet"]);
    assert_eq!(
        refusal(&plot),
        "the repository tools/nested inside it has commits that none of its remotes has"
    );
}

#[test]
fn i4_a_repository_that_was_begun_inside_keeps_the_worktree() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    let nested = plot.path.join("nested");
    fs::create_dir(&nested).unwrap();
    ground.git_in(&nested, ["init", "--quiet"]);
    write(&nested.join("file"), "mine\n");
    assert_eq!(refusal(&plot), "the repository nested inside it has changes that are not committed");
    fs::remove_dir_all(nested.join(".git")).unwrap();
    fs::write(nested.join(".git"), "not a repository").unwrap();
    assert!(refusal(&plot).starts_with("nested is a repository that cannot be opened"), "{}", refusal(&plot));
}

#[test]
fn i4_an_ignored_repository_is_no_reason_to_lose_it() {
    let ground = Ground::new();
    ground.write(".gitignore", "vendor/\n");
    ground.commit("ignore");
    let plot = ground.create("s1");
    let nested = plot.path.join("vendor");
    fs::create_dir(&nested).unwrap();
    ground.git_in(&nested, ["init", "--quiet"]);
    write(&nested.join("file"), "mine\n");
    assert_eq!(refusal(&plot), "the repository vendor inside it has changes that are not committed");
}

/// A repository with a submodule, and a worktree in which it is checked out.
fn with_submodule() -> (Ground, Plot) {
    let ground = Ground::new();
    let upstream = upstream(&ground);
    let allow = "protocol.file.allow=always";
    ground.git(["-c", allow, "submodule", "--quiet", "add", upstream.to_str().unwrap(), "sub"]);
    ground.commit("submodule");
    let plot = ground.create("s1");
    ground.git_in(&plot.path, ["-c", allow, "submodule", "--quiet", "update", "--init"]);
    (ground, plot)
}

#[test]
fn i4_a_submodule_is_clean_or_keeps_the_worktree() {
    let (ground, plot) = with_submodule();
    let sub = plot.path.join("sub");
    assert_eq!(rescue(&plot).saved, None, "a submodule as it was checked out is nothing to save");
    write(&sub.join("file"), "changed\n");
    assert_eq!(refusal(&plot), "the repository sub inside it has changes that are not committed");
    ground.git_in(&sub, ["commit", "--quiet", "--all", "--message", "mine"]);
    let commits = "the submodule sub has commits that none of its remotes has";
    assert_eq!(refusal(&plot), commits);
    // Also where only its repository in the admin directory still has them.
    ground.git_in(&plot.path, ["submodule", "--quiet", "deinit", "--force", "sub"]);
    assert_eq!(refusal(&plot), commits);
}

#[test]
fn i4_a_submodule_at_another_commit_of_its_remote_is_saved_as_that() {
    let (ground, plot) = with_submodule();
    let (sub, upstream) = (plot.path.join("sub"), ground.top().join("upstream"));
    write(&upstream.join("file"), "newer\n");
    ground.git_in(&upstream, ["commit", "--quiet", "--all", "--message", "newer"]);
    ground.git_in(&sub, ["-c", "protocol.file.allow=always", "fetch", "--quiet"]);
    ground.git_in(&sub, ["checkout", "--quiet", "--detach", "origin/main"]);
    ground.git_in(&sub, ["branch", "--quiet", "-D", "main"]);
    let rescue = saved(&plot);
    let newer = ground.git_in(&upstream, ["rev-parse", "HEAD"]);
    assert_eq!(ground.git(["rev-parse", &format!("{}:sub", rescue.commit)]), newer);
}

#[test]
fn files_where_a_submodule_belongs_keep_the_worktree() {
    let (ground, plot) = with_submodule();
    ground.git_in(&plot.path, ["submodule", "--quiet", "deinit", "--force", "sub"]);
    write(&plot.path.join("sub/mine"), "mine\n");
    assert_eq!(refusal(&plot), "sub has files where a submodule belongs");
}
