//! Repositories inside a worktree: one with anything of its own keeps the worktree.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::path::PathBuf;

use sexton_core::WorktreeError;
use sexton_core::worktree::{Inspection, Plot, Removal, Rescue};
use support::{Ground, cleaner, inspect, rescue, sweep, try_remove, try_rescue, write};

/// The rescue of a worktree that has something to save.
#[track_caller]
fn saved(plot: &Plot) -> Rescue {
    rescue(plot).saved.expect("there was something to save")
}

/// Why a rescue was refused, where the worktree stands and where nobody can reach it.
#[track_caller]
fn refusal(plot: &Plot) -> String {
    let why = |outcome: Result<(), WorktreeError>| match outcome {
        Err(WorktreeError::CannotRescue { why, .. }) => why,
        other => panic!("it was not refused: {other:?}"),
    };
    let in_its_place = why(try_rescue(plot).map(drop));
    assert_eq!(why(try_remove(plot).map(drop)), in_its_place);
    assert!(plot.path.exists());
    in_its_place
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

#[test]
fn i4_a_repository_deep_inside_an_ignored_folder_is_found() {
    let ground = Ground::new();
    ground.write(".gitignore", ".worktrees/\nbuild/\n");
    ground.commit("ignore");
    let upstream = upstream(&ground);
    let plot = ground.create("s1");
    write(&plot.path.join("build/objects/a.o"), "made");
    let fetched = plot.path.join("build/deps/fetched");
    ground.git_in(&plot.path, ["clone", "--quiet", upstream.to_str().unwrap(), fetched.to_str().unwrap()]);
    assert_eq!(rescue(&plot).saved, None, "a clone in a build folder can be made again");

    let inner = plot.path.join(".worktrees/feature");
    ground.git_in(&plot.path, ["worktree", "add", "--quiet", "--detach", inner.to_str().unwrap()]);
    assert_eq!(rescue(&plot).saved, None);
    write(&inner.join("README.md"), "half an hour of work\n");
    let why = "the repository .worktrees/feature inside it has changes that are not committed";
    assert_eq!(refusal(&plot), why);
    ground.git_in(&inner, ["commit", "--quiet", "--all", "--message", "mine"]);
    assert!(refusal(&plot).ends_with("has commits that none of its remotes has"), "{}", refusal(&plot));
    ground.git_in(&inner, ["branch", "feature"]);
    assert_eq!(rescue(&plot).saved, None, "a branch of the repository itself holds them now");
}

#[test]
fn i4_what_git_was_told_to_overlook_in_a_nested_repository_keeps_the_worktree() {
    let ground = Ground::new();
    let upstream = upstream(&ground);
    write(&upstream.join(".gitignore"), ".env\n");
    ground.git_in(&upstream, ["add", "--all"]);
    ground.git_in(&upstream, ["commit", "--quiet", "--message", "ignore"]);
    let plot = ground.create("s1");
    let nested = plot.path.join("nested");
    ground.git_in(&plot.path, ["clone", "--quiet", upstream.to_str().unwrap(), nested.to_str().unwrap()]);
    let changed = "the repository nested inside it has changes that are not committed";
    for (overlook, look) in
        [("--assume-unchanged", "--no-assume-unchanged"), ("--skip-worktree", "--no-skip-worktree")]
    {
        assert_eq!(rescue(&plot).saved, None);
        ground.git_in(&nested, ["update-index", overlook, "file"]);
        write(&nested.join("file"), overlook);
        assert_eq!(ground.git_in(&nested, ["status", "--porcelain"]), "");
        assert_eq!(refusal(&plot), changed, "{overlook}");
        ground.git_in(&nested, ["update-index", look, "file"]);
        ground.git_in(&nested, ["checkout", "--quiet", "file"]);
    }
    write(&nested.join(".env"), "KEY=1\n");
    assert_eq!(refusal(&plot), changed, "an ignored file beside tracked ones is work, here as elsewhere");
}

#[test]
fn a_clone_of_one_tag_alone_has_nothing_that_its_remote_has_not() {
    let ground = Ground::new();
    let upstream = upstream(&ground);
    ground.git_in(&upstream, ["tag", "v1"]);
    let plot = ground.create("s1");
    let nested = plot.path.join("nested");
    let url = format!("file://{}", upstream.display());
    ground.git_in(
        &plot.path,
        ["clone", "--quiet", "--depth=1", "--branch=v1", "--single-branch", &url, nested.to_str().unwrap()],
    );
    assert_eq!(rescue(&plot).saved, None);
    ground.git_in(&nested, ["commit", "--quiet", "--allow-empty", "--message", "mine"]);
    assert!(refusal(&plot).ends_with("has commits that none of its remotes has"), "{}", refusal(&plot));
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

#[test]
fn i4_a_file_or_a_symlink_in_the_place_of_a_submodule_is_saved() {
    let (ground, plot) = with_submodule();
    ground.git_in(&plot.path, ["submodule", "--quiet", "deinit", "--force", "sub"]);
    let sub = plot.path.join("sub");
    fs::remove_dir(&sub).unwrap();
    write(&sub, "a file by now\n");
    assert!(matches!(inspect(&plot), Inspection::Present { dirty: true, .. }));
    let rescue = saved(&plot);
    assert_eq!(ground.git(["show", &format!("{}:sub", rescue.commit)]), "a file by now");
    fs::remove_file(&sub).unwrap();
    std::os::unix::fs::symlink("../elsewhere", &sub).unwrap();
    let rescue = saved(&plot);
    assert_eq!(ground.git(["show", &format!("{}:sub", rescue.commit)]), "../elsewhere");
}

#[test]
fn i7_a_removal_that_was_cut_off_in_the_trash_is_finished_also_with_a_submodule() {
    let (ground, plot) = with_submodule();
    let trash = ground.root.join(".trash");
    fs::create_dir_all(&trash).unwrap();
    fs::rename(&plot.path, trash.join("s1.0123456789abcdef")).unwrap();
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
    assert_eq!(sweep(&ground.root), 1);
    ground.require_clean(&[]);
}
