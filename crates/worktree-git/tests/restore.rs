//! Restore: where it writes, what it rejects, and which branch it uses.

#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

mod support;

use std::fs;
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::{Path, PathBuf};

use sexton_core::WorktreeError;
use sexton_core::worktree::{Removal, RestoredWork, WorktreeLocation};
use support::{TestEnv, cleaner, names, require_same, rescue, snapshot, sweep, try_remove, write};

/// Returns a worktree with one change, rescued.
fn rescued(env: &TestEnv) -> WorktreeLocation {
    let location = env.create("s1");
    write(&location.path.join("README.md"), "changed\n");
    rescue(&location);
    location
}

fn try_restore(
    env: &TestEnv,
    location: &WorktreeLocation,
    into: &Path,
) -> Result<RestoredWork, WorktreeError> {
    pollster::block_on(cleaner().restore(&env.repo, &location.session, into))
}

#[test]
fn restored_worktree_has_no_mark_and_belongs_to_its_user() {
    let env = TestEnv::new();
    let location = rescued(&env);
    try_remove(&location).unwrap();
    sweep(&env.root);
    let into = env.top().join("somewhere/new");
    try_restore(&env, &location, &into).unwrap();
    let marked = pollster::block_on(cleaner().marked(into.parent().unwrap(), support::STORE)).unwrap();
    assert_eq!(marked, []);
    env.git_in(&into, ["commit", "--quiet", "--all", "--message", "goes on"]);
    assert_eq!(env.git(["show", "sexton/s1:README.md"]), "changed");
    env.git(["worktree", "remove", into.to_str().unwrap()]);
    assert!(try_restore(&env, &location, &into).is_ok(), "the rescue stays");
}

#[test]
fn non_empty_target_is_rejected_and_unchanged() {
    let env = TestEnv::new();
    let location = rescued(&env);
    let into = env.top().join("taken");
    write(&into.join("file"), "mine");
    let before = snapshot(env.top());
    let refused = try_restore(&env, &location, &into).unwrap_err();
    assert!(matches!(&refused, WorktreeError::CannotRestore { why, .. } if why == "it is not empty"));
    let refused = try_restore(&env, &location, &into.join("file")).unwrap_err();
    assert!(matches!(&refused, WorktreeError::CannotRestore { why, .. } if why == "it is not a directory"));
    require_same(&snapshot(env.top()), &before);
}

#[test]
fn empty_directory_is_used() {
    let env = TestEnv::new();
    let location = rescued(&env);
    let into = env.top().join("empty");
    fs::create_dir(&into).unwrap();
    try_restore(&env, &location, &into).unwrap();
    assert_eq!(fs::read(into.join("README.md")).unwrap(), b"changed\n");
}

#[test]
fn branch_checked_out_elsewhere_is_not_used() {
    let env = TestEnv::new();
    let location = rescued(&env);
    let into = env.top().join("restored");
    let restored = try_restore(&env, &location, &into).unwrap();
    assert_eq!(restored.branch, None);
    let head = env.git(["rev-parse", "main"]);
    assert_eq!(env.git_in(&into, ["rev-parse", "HEAD"]), head);
    assert_eq!(env.git_in(&location.path, ["branch", "--show-current"]), "sexton/s1");
}

#[test]
fn branch_that_has_moved_is_not_changed() {
    let env = TestEnv::new();
    let location = env.create("s1");
    write(&location.path.join("README.md"), "committed\n");
    env.git_in(&location.path, ["commit", "--quiet", "--all", "--message", "mine"]);
    write(&location.path.join("README.md"), "changed\n");
    try_remove(&location).unwrap();
    let mine = env.git(["rev-parse", "sexton/s1"]);
    env.git(["branch", "--force", "sexton/s1", "main"]);
    let into = env.top().join("restored");
    let restored = try_restore(&env, &location, &into).unwrap();
    assert_eq!(restored.branch, None);
    assert_eq!(env.git_in(&into, ["rev-parse", "HEAD"]), mine);
    assert_eq!(env.git(["rev-parse", "sexton/s1"]), env.git(["rev-parse", "main"]));
}

#[test]
fn two_restores_of_one_rescue_do_not_conflict() {
    let env = TestEnv::new();
    let location = rescued(&env);
    try_remove(&location).unwrap();
    sweep(&env.root);
    let places: Vec<PathBuf> = ["a/same", "b/same"].iter().map(|place| env.top().join(place)).collect();
    for place in &places {
        try_restore(&env, &location, place).unwrap();
    }
    env.require_clean(&[&places[0], &places[1]]);
}

#[test]
fn failed_restore_leaves_nothing() {
    let env = TestEnv::new();
    env.write(".gitattributes", "*.x filter=broken\n");
    env.write("a.x", "a\n");
    env.commit("filtered");
    let location = rescued(&env);
    env.git(["config", "filter.broken.smudge", "false"]);
    env.git(["config", "filter.broken.required", "true"]);
    let before = snapshot(env.top());
    let into = env.top().join("restored");
    try_restore(&env, &location, &into).unwrap_err();
    require_same(&snapshot(env.top()), &before);
}

#[test]
fn restored_worktree_uses_relative_links_if_configured() {
    let env = TestEnv::new();
    env.git(["config", "core.repositoryFormatVersion", "1"]);
    env.git(["config", "extensions.relativeWorktrees", "true"]);
    let location = rescued(&env);
    let into = env.top().join("restored");
    try_restore(&env, &location, &into).unwrap();
    let link = fs::read_to_string(into.join(".git")).unwrap();
    assert_eq!(link, "gitdir: ../repo/.git/worktrees/restored\n");
}

#[test]
fn newer_rescue_is_rejected_and_listed_and_hides_no_other() {
    let env = TestEnv::new();
    let location = rescued(&env);
    let other = env.create("other");
    write(&other.path.join("README.md"), "changed\n");
    support::rescue(&other);
    let commit = |tree: &str, parents: &[&str]| {
        let parents = parents.iter().flat_map(|parent| ["-p", parent]);
        env.git(["commit-tree", tree, "-m", "newer"].into_iter().chain(parents))
    };
    let reference = format!("refs/sexton/rescue/{}", location.session);
    write(&env.top().join("manifest"), "{\"format\": 2}");
    let blob = env.git(["hash-object", "-w", env.top().join("manifest").to_str().unwrap()]);
    let index = env.top().join("index");
    let plumb = |arguments: &[&str]| {
        let output = env.git_command(&env.repo, arguments).env("GIT_INDEX_FILE", &index).output().unwrap();
        assert!(output.status.success(), "{}", support::output_text(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    plumb(&["update-index", "--add", "--cacheinfo", &format!("100644,{blob},manifest.json")]);
    let state = commit(&plumb(&["write-tree"]), &[]);
    let newer = commit("main^{tree}", &["main", &state]);
    env.git(["update-ref", &reference, &newer]);
    let refused = try_restore(&env, &location, &env.top().join("restored")).unwrap_err();
    let source = std::error::Error::source(&refused).unwrap().to_string();
    assert!(source.contains("its format is 2, and this version reads 1"), "{source}");
    let list = pollster::block_on(cleaner().rescues(&env.repo)).unwrap();
    assert_eq!(list.entries.iter().map(|entry| &entry.session).collect::<Vec<_>>(), [&other.session]);
    assert_eq!(list.unreadable.iter().map(|one| &one.reference).collect::<Vec<_>>(), [&reference]);
    assert_eq!(names(&env.top().join("restored")), [""; 0]);
}

/// Returns the peak memory use of this process.
fn peak() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().strip_suffix(" kB").unwrap().trim().parse::<u64>().unwrap() << 10
}

#[test]
fn large_file_is_never_held_in_memory_completely() {
    const LARGE: u64 = 128 << 20;
    let env = TestEnv::new();
    let location = env.create("s1");
    let file = fs::File::create(location.path.join("large")).unwrap();
    file.set_len(LARGE).unwrap();
    file.write_all_at(b"the end", LARGE - 7).unwrap();
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
    sweep(&env.root);
    let into = env.top().join("restored");
    try_restore(&env, &location, &into).unwrap();
    let grown = peak();
    assert!(grown < LARGE / 2, "peak memory was {grown} bytes");
    let restored = fs::File::open(into.join("large")).unwrap();
    let mut end = [0; 8];
    restored.read_exact_at(&mut end, LARGE - 8).unwrap();
    assert_eq!((restored.metadata().unwrap().len(), &end), (LARGE, b"\0the end"));
}

#[test]
fn i5_crafted_rescue_changes_nothing_outside() {
    let env = TestEnv::new();
    let location = rescued(&env);
    let reference = format!("refs/sexton/rescue/{}", location.session);
    let victim = env.top().join("victim");
    write(&victim, "precious");
    fs::set_permissions(&victim, fs::Permissions::from_mode(0o600)).unwrap();
    let object = |content: &str, arguments: &[&str]| {
        write(&env.top().join("object"), content);
        let input = fs::File::open(env.top().join("object")).unwrap();
        let output = env.git_command(&env.repo, arguments).stdin(input).output().unwrap();
        assert!(output.status.success(), "{}", support::output_text(&output));
        String::from_utf8(output.stdout).unwrap().trim().to_owned()
    };
    let manifest = env.git(["show", &format!("{reference}^2:manifest.json")]);
    let planted =
        manifest.replace("\"modes\": []", "\"modes\": [{\"path\": \"../victim\", \"mode\": \"0777\"}]");
    assert_ne!(planted, manifest);
    let blob = object(&planted, &["hash-object", "-w", "--stdin"]);
    let old = env.git(["rev-parse", &format!("{reference}^2:manifest.json")]);
    let tree = env.git(["ls-tree", &format!("{reference}^2")]).replace(&old, &blob);
    let tree = object(&format!("{tree}\n"), &["mktree"]);
    let state = env.git(["commit-tree", &tree, "-m", "state", "-p", "main"]);
    let whole = format!("{reference}^{{tree}}");
    let hostile = env.git(["commit-tree", &whole, "-m", "hostile", "-p", "main", "-p", &state]);
    env.git(["update-ref", &reference, &hostile]);
    assert!(try_restore(&env, &location, &env.top().join("restored")).is_err());
    assert_eq!(victim.metadata().unwrap().permissions().mode() & 0o777, 0o600);
}
