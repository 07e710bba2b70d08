//! Repositories inside a worktree: one with work of its own keeps the worktree.

#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

mod support;

use std::fs;
use std::path::PathBuf;

use sexton_core::WorktreeError;
use sexton_core::worktree::{Inspection, Removal, Rescue, WorktreeLocation};
use support::{TestEnv, cleaner, inspect, rescue, sweep, try_remove, try_rescue, write};

/// Returns the rescue of a worktree that has something to save.
#[track_caller]
fn saved(location: &WorktreeLocation) -> Rescue {
    rescue(location).saved.expect("there was something to save")
}

/// Returns why a rescue was rejected, both in place and in the trash.
#[track_caller]
fn refusal(location: &WorktreeLocation) -> String {
    let why = |outcome: Result<(), WorktreeError>| match outcome {
        Err(WorktreeError::CannotRescue { why, .. }) => why,
        other => panic!("it was not rejected: {other:?}"),
    };
    let in_its_place = why(try_rescue(location).map(drop));
    assert_eq!(why(try_remove(location).map(drop)), in_its_place);
    assert!(location.path.exists());
    in_its_place
}

/// Returns what was left out of a session's rescue.
fn left_out(env: &TestEnv, location: &WorktreeLocation) -> Vec<(String, String)> {
    let details = pollster::block_on(cleaner().describe_rescue(&env.repo, &location.session)).unwrap();
    details.left_out.into_iter().map(|left| (left.path.display().to_string(), left.why)).collect()
}

/// Returns the paths of a rescue's tree.
fn paths(env: &TestEnv, rescue: &Rescue) -> Vec<String> {
    let list = env.git(["ls-tree", "-r", "--name-only", &rescue.commit]);
    list.lines().map(str::to_owned).collect()
}

/// Creates a repository that others can be cloned from.
fn upstream(env: &TestEnv) -> PathBuf {
    let upstream = env.top().join("upstream");
    fs::create_dir(&upstream).unwrap();
    env.git_in(&upstream, ["init", "--quiet", "--initial-branch=main"]);
    write(&upstream.join("file"), "upstream\n");
    env.git_in(&upstream, ["add", "--all"]);
    env.git_in(&upstream, ["commit", "--quiet", "--message", "upstream"]);
    upstream
}

#[test]
fn i4_nested_repository_with_own_work_keeps_the_worktree() {
    let env = TestEnv::new();
    let upstream = upstream(&env);
    let location = env.create("s1");
    let nested = location.path.join("tools/nested");
    env.git_in(&location.path, ["clone", "--quiet", upstream.to_str().unwrap(), nested.to_str().unwrap()]);
    write(&location.path.join("README.md"), "changed\n");
    let rescue = saved(&location);
    assert_eq!(paths(&env, &rescue).iter().filter(|path| path.starts_with("tools")).count(), 0);
    let (path, why) = &left_out(&env, &location)[0];
    assert_eq!((path.as_str(), why.contains("repository of its own")), ("tools/nested", true));

    write(&nested.join("file"), "changed\n");
    assert_eq!(
        refusal(&location),
        "the repository tools/nested inside it has changes that are not committed"
    );
    env.git_in(&nested, ["commit", "--quiet", "--all", "--message", "mine"]);
    assert_eq!(
        refusal(&location),
        "the repository tools/nested inside it has commits that none of its remotes has"
    );
    env.git_in(&nested, ["checkout", "--quiet", "--detach", "origin/main"]);
    assert_eq!(
        refusal(&location),
        "the repository tools/nested inside it has commits that none of its remotes has"
    );
    env.git_in(&nested, ["branch", "--quiet", "-D", "main"]);
    saved(&location);
    write(&nested.join("file"), "stashed\n");
    env.git_in(&nested, ["stash", "--quiet"]);
    assert_eq!(
        refusal(&location),
        "the repository tools/nested inside it has commits that none of its remotes has"
    );
}

#[test]
fn i4_repository_created_inside_keeps_the_worktree() {
    let env = TestEnv::new();
    let location = env.create("s1");
    let nested = location.path.join("nested");
    fs::create_dir(&nested).unwrap();
    env.git_in(&nested, ["init", "--quiet"]);
    write(&nested.join("file"), "mine\n");
    assert_eq!(refusal(&location), "the repository nested inside it has changes that are not committed");
    fs::remove_dir_all(nested.join(".git")).unwrap();
    fs::write(nested.join(".git"), "not a repository").unwrap();
    assert!(
        refusal(&location).starts_with("nested is a repository that cannot be opened"),
        "{}",
        refusal(&location)
    );
}

#[test]
fn i4_ignored_repository_with_own_work_keeps_the_worktree() {
    let env = TestEnv::new();
    env.write(".gitignore", "vendor/\n");
    env.commit("ignore");
    let location = env.create("s1");
    let nested = location.path.join("vendor");
    fs::create_dir(&nested).unwrap();
    env.git_in(&nested, ["init", "--quiet"]);
    write(&nested.join("file"), "mine\n");
    assert_eq!(refusal(&location), "the repository vendor inside it has changes that are not committed");
}

#[test]
fn i4_repository_deep_inside_an_ignored_directory_is_found() {
    let env = TestEnv::new();
    env.write(".gitignore", ".worktrees/\nbuild/\n");
    env.commit("ignore");
    let upstream = upstream(&env);
    let location = env.create("s1");
    write(&location.path.join("build/objects/a.o"), "made");
    let fetched = location.path.join("build/deps/fetched");
    env.git_in(&location.path, ["clone", "--quiet", upstream.to_str().unwrap(), fetched.to_str().unwrap()]);
    assert_eq!(rescue(&location).saved, None, "a clone in a build directory can be recreated");

    let inner = location.path.join(".worktrees/feature");
    env.git_in(&location.path, ["worktree", "add", "--quiet", "--detach", inner.to_str().unwrap()]);
    assert_eq!(rescue(&location).saved, None);
    write(&inner.join("README.md"), "half an hour of work\n");
    let why = "the repository .worktrees/feature inside it has changes that are not committed";
    assert_eq!(refusal(&location), why);
    env.git_in(&inner, ["commit", "--quiet", "--all", "--message", "mine"]);
    assert!(
        refusal(&location).ends_with("has commits that none of its remotes has"),
        "{}",
        refusal(&location)
    );
    env.git_in(&inner, ["branch", "feature"]);
    assert_eq!(rescue(&location).saved, None, "a branch of the repository itself contains them now");
}

#[test]
fn i4_hidden_changes_in_a_nested_repository_keep_the_worktree() {
    let env = TestEnv::new();
    let upstream = upstream(&env);
    write(&upstream.join(".gitignore"), ".env\n");
    env.git_in(&upstream, ["add", "--all"]);
    env.git_in(&upstream, ["commit", "--quiet", "--message", "ignore"]);
    let location = env.create("s1");
    let nested = location.path.join("nested");
    env.git_in(&location.path, ["clone", "--quiet", upstream.to_str().unwrap(), nested.to_str().unwrap()]);
    let changed = "the repository nested inside it has changes that are not committed";
    for (hide, show) in
        [("--assume-unchanged", "--no-assume-unchanged"), ("--skip-worktree", "--no-skip-worktree")]
    {
        assert_eq!(rescue(&location).saved, None);
        env.git_in(&nested, ["update-index", hide, "file"]);
        write(&nested.join("file"), hide);
        assert_eq!(env.git_in(&nested, ["status", "--porcelain"]), "");
        assert_eq!(refusal(&location), changed, "{hide}");
        env.git_in(&nested, ["update-index", show, "file"]);
        env.git_in(&nested, ["checkout", "--quiet", "file"]);
    }
    write(&nested.join(".env"), "KEY=1\n");
    assert_eq!(refusal(&location), changed, "an ignored file beside tracked ones counts as work");
}

#[test]
fn clone_of_a_single_tag_has_no_own_commits() {
    let env = TestEnv::new();
    let upstream = upstream(&env);
    env.git_in(&upstream, ["tag", "v1"]);
    let location = env.create("s1");
    let nested = location.path.join("nested");
    let url = format!("file://{}", upstream.display());
    env.git_in(
        &location.path,
        ["clone", "--quiet", "--depth=1", "--branch=v1", "--single-branch", &url, nested.to_str().unwrap()],
    );
    assert_eq!(rescue(&location).saved, None);
    env.git_in(&nested, ["commit", "--quiet", "--allow-empty", "--message", "mine"]);
    assert!(
        refusal(&location).ends_with("has commits that none of its remotes has"),
        "{}",
        refusal(&location)
    );
}

/// Returns a repository with a submodule, and a worktree in which it is checked out.
fn with_submodule() -> (TestEnv, WorktreeLocation) {
    let env = TestEnv::new();
    let upstream = upstream(&env);
    let allow = "protocol.file.allow=always";
    env.git(["-c", allow, "submodule", "--quiet", "add", upstream.to_str().unwrap(), "sub"]);
    env.commit("submodule");
    let location = env.create("s1");
    env.git_in(&location.path, ["-c", allow, "submodule", "--quiet", "update", "--init"]);
    (env, location)
}

#[test]
fn i4_submodule_with_own_work_keeps_the_worktree() {
    let (env, location) = with_submodule();
    let sub = location.path.join("sub");
    assert_eq!(rescue(&location).saved, None, "an unchanged submodule is nothing to save");
    write(&sub.join("file"), "changed\n");
    assert_eq!(refusal(&location), "the repository sub inside it has changes that are not committed");
    env.git_in(&sub, ["commit", "--quiet", "--all", "--message", "mine"]);
    let commits = "the submodule sub has commits that none of its remotes has";
    assert_eq!(refusal(&location), commits);
    // Also if only its repository in the admin directory still has them.
    env.git_in(&location.path, ["submodule", "--quiet", "deinit", "--force", "sub"]);
    assert_eq!(refusal(&location), commits);
}

#[test]
fn i4_submodule_at_another_commit_of_its_remote_is_saved() {
    let (env, location) = with_submodule();
    let (sub, upstream) = (location.path.join("sub"), env.top().join("upstream"));
    write(&upstream.join("file"), "newer\n");
    env.git_in(&upstream, ["commit", "--quiet", "--all", "--message", "newer"]);
    env.git_in(&sub, ["-c", "protocol.file.allow=always", "fetch", "--quiet"]);
    env.git_in(&sub, ["checkout", "--quiet", "--detach", "origin/main"]);
    env.git_in(&sub, ["branch", "--quiet", "-D", "main"]);
    let rescue = saved(&location);
    let newer = env.git_in(&upstream, ["rev-parse", "HEAD"]);
    assert_eq!(env.git(["rev-parse", &format!("{}:sub", rescue.commit)]), newer);
}

#[test]
fn files_in_place_of_a_submodule_keep_the_worktree() {
    let (env, location) = with_submodule();
    env.git_in(&location.path, ["submodule", "--quiet", "deinit", "--force", "sub"]);
    write(&location.path.join("sub/mine"), "mine\n");
    assert_eq!(refusal(&location), "sub has files where a submodule belongs");
}

#[test]
fn i4_file_or_symlink_in_place_of_a_submodule_is_saved() {
    let (env, location) = with_submodule();
    env.git_in(&location.path, ["submodule", "--quiet", "deinit", "--force", "sub"]);
    let sub = location.path.join("sub");
    fs::remove_dir(&sub).unwrap();
    write(&sub, "a file by now\n");
    assert!(matches!(inspect(&location), Inspection::Present { dirty: true, .. }));
    let rescue = saved(&location);
    assert_eq!(env.git(["show", &format!("{}:sub", rescue.commit)]), "a file by now");
    fs::remove_file(&sub).unwrap();
    std::os::unix::fs::symlink("../elsewhere", &sub).unwrap();
    let rescue = saved(&location);
    assert_eq!(env.git(["show", &format!("{}:sub", rescue.commit)]), "../elsewhere");
}

#[test]
fn i7_interrupted_removal_with_a_submodule_is_finished() {
    let (env, location) = with_submodule();
    let trash = env.root.join(".trash");
    fs::create_dir_all(&trash).unwrap();
    fs::rename(&location.path, trash.join("s1.0123456789abcdef")).unwrap();
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
    assert_eq!(sweep(&env.root), 1);
    env.require_clean(&[]);
}
