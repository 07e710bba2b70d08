//! Creation of worktrees: the same result as git's, marked before the first file, and nothing left after a
//! failure.

// A failed precondition panics, in helpers too.
#![allow(clippy::unwrap_used)]

mod support;

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use sexton_core::WorktreeError;
use sexton_core::worktree::{Begun, Inspection, StartPoint, WorktreeLocation};
use support::{
    TestEnv, branch, cleaner, inspect, names, now, require_same, snapshot, start, try_create, try_remove,
};

/// Returns why a worktree could not be created.
#[track_caller]
fn cannot(location: &WorktreeLocation, from: &StartPoint) -> String {
    match pollster::block_on(cleaner().create(location, from, now())) {
        Err(error @ WorktreeError::CannotCreate { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

/// Returns the files of a worktree without its `.git` file.
fn files(path: &Path) -> Vec<(std::path::PathBuf, String)> {
    let mut files = snapshot(path);
    files.retain(|(path, _)| path != Path::new(".git"));
    files
}

/// Requires that the worktree is, file by file, what git itself would create, and that git reports it as
/// clean.
#[track_caller]
fn require_as_git_makes_it(env: &TestEnv, location: &WorktreeLocation) {
    let theirs = env.top().join("theirs");
    env.git(["worktree", "add", "--quiet", "--detach", theirs.to_str().unwrap()]);
    require_same(&files(&location.path), &files(&theirs));
    assert_eq!(env.git_in(&location.path, ["status", "--porcelain"]), "");
    let listed = |path: &Path| env.git_in(path, ["ls-files", "--stage", "-t"]);
    assert_eq!(listed(&location.path), listed(&theirs));
    env.git(["worktree", "remove", "--force", theirs.to_str().unwrap()]);
}

#[test]
fn worktree_is_the_same_as_created_by_git() {
    let env = TestEnv::new();
    let location = env.location("s1");
    let base = env.git(["rev-parse", "HEAD"]);
    assert_eq!(try_create(&location).unwrap().base, base);
    require_as_git_makes_it(&env, &location);
    env.require_clean(&[&location.path]);
    assert_eq!(env.git_in(&location.path, ["symbolic-ref", "HEAD"]), "refs/heads/sexton/s1");
    assert_eq!(inspect(&location), Inspection::Present { dirty: false, own_commits: 0 });
    assert_eq!(env.trash(), [""; 0]);
}

#[test]
fn git_works_in_a_new_worktree() {
    let env = TestEnv::new();
    let location = env.create("s1");
    support::write(&location.path.join("new.txt"), "new\n");
    env.git_in(&location.path, ["add", "new.txt"]);
    env.git_in(&location.path, ["commit", "--quiet", "--message", "mine"]);
    assert_eq!(env.git(["show", "sexton/s1:new.txt"]), "new");
    assert_eq!(env.git_in(&location.path, ["rev-parse", "HEAD@{1}"]), env.git(["rev-parse", "HEAD"]));
    assert_eq!(inspect(&location), Inspection::Present { dirty: false, own_commits: 1 });
    env.require_clean(&[&location.path]);
}

#[test]
fn index_of_a_new_worktree_has_every_stat_and_tree() {
    let env = TestEnv::new();
    let location = env.create("s1");
    // Plumbing that does not refresh: a file whose stat differs from the index would be listed.
    assert_eq!(env.git_in(&location.path, ["diff-files", "--name-only"]), "");
    let before = fs::read(env.repo.join(".git/worktrees/s1-0b5cbe2a/index")).unwrap();
    assert_eq!(
        env.git_in(&location.path, ["write-tree"]),
        env.git(["rev-parse", "HEAD^{tree}"]),
        "the cached trees are correct"
    );
    let after = fs::read(env.repo.join(".git/worktrees/s1-0b5cbe2a/index")).unwrap();
    assert!(before == after, "the tree extension was complete, so git had nothing to add");
}

#[test]
fn many_files_are_written_correctly_by_several_threads() {
    let env = TestEnv::new();
    for n in 0..1500 {
        env.write(&format!("many/{}/{n}", n % 37), format!("content {n}\n").repeat(n % 50));
    }
    env.commit("many");
    let location = env.create("s1");
    require_as_git_makes_it(&env, &location);
}

/// Writes similar files, which git packs as deltas, and one that is unlike any other.
fn write_versions(env: &TestEnv, round: usize) {
    for n in 0..300 {
        let line = |line| format!("line {line} of {}\n", if line == n { round } else { 0 });
        env.write(&format!("alike/{}/{n}", n % 7), (0..200).map(line).collect::<String>());
    }
    let noise: Vec<u8> = (0..700_000u32).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
    env.write("noise", &noise[..600_000 + round]);
}

#[test]
fn files_are_read_from_packs_of_any_kind_and_from_loose_objects() {
    let env = TestEnv::new();
    write_versions(&env, 1);
    env.commit("first");
    write_versions(&env, 2);
    env.commit("second");
    let create = |session: &str| {
        let location = env.create(session);
        require_as_git_makes_it(&env, &location);
    };
    create("loose");
    env.git(["repack", "-a", "-d", "-f", "--depth=50", "--window=50", "--quiet"]);
    create("chains");
    // Deltas that refer to their base by id instead of by distance.
    env.git(["-c", "repack.useDeltaBaseOffset=false", "repack", "-a", "-d", "-f", "--quiet"]);
    create("names");
    for n in 0..5 {
        env.write(&format!("alike/0/new{n}"), format!("{n}\n"));
        env.commit("more");
        env.git(["repack", "-d", "--quiet"]);
    }
    env.write("last", "in no pack\n");
    env.commit("last");
    create("several");
    env.git(["multi-pack-index", "write"]);
    create("multi");
    env.git(["-c", "pack.indexVersion=1", "repack", "-a", "-d", "-f", "--quiet"]);
    create("version1");
}

#[test]
fn files_are_read_from_an_alternate_object_store() {
    let env = TestEnv::new();
    write_versions(&env, 1);
    env.commit("many");
    env.git(["repack", "-a", "-d", "--quiet"]);
    let borrower = env.top().join("borrower");
    env.git(["clone", "--quiet", "--shared", ".", borrower.to_str().unwrap()]);
    assert_eq!(names(&borrower.join(".git/objects/pack")), [""; 0]);
    let location = WorktreeLocation { repo: borrower.clone(), ..env.location("s1") };
    try_create(&location).unwrap();
    assert_eq!(env.git_in(&location.path, ["status", "--porcelain"]), "");
    assert_eq!(fs::read(location.path.join("noise")).unwrap(), fs::read(env.repo.join("noise")).unwrap());
}

#[test]
fn damaged_object_is_an_error_and_leaves_nothing() {
    let env = TestEnv::new();
    write_versions(&env, 1);
    env.commit("many");
    env.git(["repack", "-a", "-d", "--quiet"]);
    let packs = env.repo.join(".git/objects/pack");
    let pack = names(&packs).into_iter().find(|name| name.ends_with(".pack")).unwrap();
    let mut bytes = fs::read(packs.join(&pack)).unwrap();
    // Most of the pack is the noise.
    let middle = bytes.len() / 2;
    bytes[middle] ^= 0xff;
    fs::remove_file(packs.join(&pack)).unwrap();
    fs::write(packs.join(&pack), bytes).unwrap();
    let location = env.location("s1");
    let error = try_create(&location).unwrap_err();
    let source = std::error::Error::source(&error).map(ToString::to_string).unwrap_or_default();
    assert!(format!("{error}: {source}").contains("noise"), "{error}: {source}");
    assert!(!location.path.exists());
    assert_eq!(env.git(["worktree", "list"]).lines().count(), 1);
    assert_eq!(env.git(["branch", "--list", "sexton/*"]), "");
}

#[test]
fn non_utf8_names_and_empty_files_are_checked_out() {
    let env = TestEnv::new();
    use std::os::unix::ffi::OsStrExt;
    let odd = std::ffi::OsStr::from_bytes(b"n\xffn \n\t'\"");
    fs::create_dir(env.repo.join(odd)).unwrap();
    fs::write(env.repo.join(odd).join(odd), "").unwrap();
    env.commit("odd");
    let location = env.create("s1");
    require_as_git_makes_it(&env, &location);
}

#[test]
fn worktree_starts_at_the_requested_base() {
    let env = TestEnv::new();
    let first = env.git(["rev-parse", "HEAD"]);
    env.git(["tag", "--annotate", "v1", "--message", "v1"]);
    env.write("later.txt", "later\n");
    env.commit("second");
    let location = env.location("s1");
    let from = StartPoint { branch: branch(&location), base: Some("v1".to_owned()), begun: Begun::Nothing };
    assert_eq!(pollster::block_on(cleaner().create(&location, &from, now())).unwrap().base, first);
    assert!(!location.path.join("later.txt").exists());
}

#[test]
fn repeated_creation_changes_nothing() {
    let env = TestEnv::new();
    let location = env.create("s1");
    support::write(&location.path.join("README.md"), "work in progress\n");
    let before = snapshot(env.top());
    assert_eq!(try_create(&location).unwrap().base, env.git(["rev-parse", "HEAD"]));
    require_same(&snapshot(env.top()), &before);
}

#[test]
fn rejected_creation_reports_the_reason_and_changes_nothing() {
    let env = TestEnv::new();
    env.git(["branch", "taken"]);
    env.git(["branch", "folder/inside"]);
    fs::create_dir_all(env.root.join("occupied")).unwrap();
    let s1 = env.create("s1");
    let from = |branch: &str, base: Option<&str>| StartPoint {
        branch: branch.to_owned(),
        base: base.map(str::to_owned),
        begun: Begun::Nothing,
    };
    let location = env.location("new");
    let before = snapshot(env.top());
    for (location, from, why) in [
        (&location, from("taken", None), "a branch `taken` already exists"),
        (&location, from("bad..name", None), "is not a valid branch name"),
        (&location, from("-x", None), "is not a valid branch name"),
        (&location, from("new", Some("nowhere")), "`nowhere` is not a commit"),
        (&location, from("new", Some("HEAD^{tree}")), "is not a commit"),
        (&location, from("folder", None), "branches below `folder/` exist"),
        (&location, from("taken/below", None), "a branch `taken` exists"),
        (&env.location("occupied"), from("new", None), "it has no .git file"),
        (&s1, from("other", None), "the session already has one, on branch `sexton/s1`"),
    ] {
        let message = cannot(location, &from);
        assert!(message.contains(why), "{from:?}: {message}");
    }
    require_same(&snapshot(env.top()), &before);
    env.require_clean(&[&s1.path]);
}

#[test]
fn repository_without_a_commit_is_reported() {
    let env = TestEnv::empty();
    let location = env.location("s1");
    assert!(cannot(&location, &start(&location)).contains("no commit yet"));
    assert!(!env.repo.join(".git/worktrees").exists());
}

#[test]
fn i5_worktree_must_be_directly_inside_its_worktree_root() {
    let env = TestEnv::new();
    for path in ["../outside", "a/b", ".hidden", ".."] {
        let location = WorktreeLocation { path: env.root.join(path), ..env.location("s1") };
        let refused = try_create(&location);
        assert!(matches!(refused, Err(WorktreeError::NotOurs { .. })), "{path}: {refused:?}");
    }
    assert_eq!(names(env.top()), ["home", "repo"]);
}

#[test]
fn i5_worktree_root_behind_a_symlink_is_rejected() {
    let env = TestEnv::new();
    fs::create_dir(env.top().join("elsewhere")).unwrap();
    std::os::unix::fs::symlink(env.top().join("elsewhere"), &env.root).unwrap();
    let error = try_create(&env.location("s1")).unwrap_err();
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("its path contains a symlink"), "{error}: {why}");
    assert_eq!(names(&env.top().join("elsewhere")), [""; 0]);
}

#[test]
fn bare_repository_supports_worktrees() {
    let env = TestEnv::new();
    let bare = env.top().join("bare.git");
    env.git(["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    let location = WorktreeLocation { repo: bare.clone(), ..env.location("s1") };
    try_create(&location).unwrap();
    require_as_git_makes_it(&env, &location);
    assert_eq!(pollster::block_on(cleaner().find_repository(&location.path.join("src"))).unwrap(), bare);
    assert_eq!(try_remove(&location).unwrap(), sexton_core::worktree::Removal::Removed);
    assert!(!bare.join("worktrees").exists());
    assert_eq!(env.git_in(&bare, ["branch", "--list", "sexton/*"]), "");
}

#[test]
fn every_worktree_of_a_repository_finds_the_same_repository() {
    let env = TestEnv::new();
    let location = env.create("s1");
    for place in [&env.repo, &env.repo.join("src/deep"), &location.path, &location.path.join("src")] {
        assert_eq!(pollster::block_on(cleaner().find_repository(place)).unwrap(), env.repo);
    }
    let nowhere = pollster::block_on(cleaner().find_repository(env.top())).unwrap_err();
    assert!(nowhere.to_string().ends_with("it is not in a git repository"), "{nowhere}");
}

#[test]
fn line_ends_and_filters_are_applied_as_by_git() {
    let env = TestEnv::new();
    env.write(".gitattributes", "*.crlf eol=crlf text\n*.up filter=up\n*.id ident\n");
    env.write("a.crlf", "one\ntwo\n");
    env.write("a.up", "shout\n");
    env.write("a.id", "$Id$\n");
    env.commit("attributes");
    env.git(["config", "filter.up.smudge", "tr a-z A-Z"]);
    env.git(["config", "filter.up.clean", "tr A-Z a-z"]);
    let location = env.create("s1");
    assert_eq!(fs::read(location.path.join("a.crlf")).unwrap(), b"one\r\ntwo\r\n");
    assert_eq!(fs::read(location.path.join("a.up")).unwrap(), b"SHOUT\n");
    require_as_git_makes_it(&env, &location);
    assert_eq!(inspect(&location), Inspection::Present { dirty: false, own_commits: 0 });
}

#[test]
fn failing_filter_is_an_error_and_leaves_nothing() {
    let env = TestEnv::new();
    env.write(".gitattributes", "*.up filter=up\n");
    env.write("a.up", "x\n");
    env.commit("attributes");
    env.git(["config", "filter.up.smudge", "echo the filter is broken >&2; false"]);
    env.git(["config", "filter.up.required", "true"]);
    let error = try_create(&env.location("s1")).unwrap_err();
    let why = std::error::Error::source(&error).unwrap().to_string();
    assert!(why.contains("the filter is broken"), "{why}");
    env.git(["config", "--unset", "filter.up.required"]);
    env.require_clean(&[]);
    assert_eq!(env.git(["branch", "--list", "sexton/*"]), "");
    assert_eq!(support::sweep(&env.root), 1);
}

#[test]
fn sparse_checkout_is_inherited() {
    let env = TestEnv::new();
    env.git(["sparse-checkout", "set", "src/deep"]);
    let location = env.create("s1");
    require_as_git_makes_it(&env, &location);
    assert!(location.path.join("src/deep/er/file.txt").exists());
    assert!(location.path.join("src/main.rs").exists(), "a cone includes the files beside its directories");
    assert!(env.git_in(&location.path, ["ls-files", "-t"]).contains("H src/deep/er/file.txt"));
    assert_eq!(inspect(&location), Inspection::Present { dirty: false, own_commits: 0 });
    assert_eq!(try_remove(&location).unwrap(), sexton_core::worktree::Removal::Removed);
    env.require_clean(&[]);
}

#[test]
fn submodule_is_an_empty_directory_as_in_git() {
    let env = TestEnv::new();
    let other = TestEnv::new();
    let url = other.repo.to_str().unwrap();
    env.git(["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", url, "sub"]);
    env.commit("submodule");
    let location = env.create("s1");
    assert_eq!(names(&location.path.join("sub")), [""; 0]);
    require_as_git_makes_it(&env, &location);
}

#[test]
fn relative_links_are_written_if_the_repository_uses_them() {
    let env = TestEnv::new();
    env.git(["config", "core.repositoryformatversion", "1"]);
    env.git(["config", "extensions.relativeWorktrees", "true"]);
    let location = env.create("s1");
    let link = fs::read_to_string(location.path.join(".git")).unwrap();
    assert_eq!(link, "gitdir: ../../repo/.git/worktrees/s1-0b5cbe2a\n");
    let back = fs::read_to_string(env.repo.join(".git/worktrees/s1-0b5cbe2a/gitdir")).unwrap();
    assert_eq!(back, "../../../../worktrees/s1/.git\n");
    // The installed git may be too old for the extension; the links must be correct anyway.
    assert_eq!(inspect(&location), Inspection::Present { dirty: false, own_commits: 0 });
    assert_eq!(try_remove(&location).unwrap(), sexton_core::worktree::Removal::Removed);
    assert_eq!(support::sweep(&env.root), 1);
    assert!(!env.repo.join(".git/worktrees").exists());
}

#[test]
fn relative_links_setting_enables_the_repository_extension_as_in_git() {
    let env = TestEnv::new();
    env.git(["config", "worktree.useRelativePaths", "true"]);
    let location = env.create("s1");
    assert!(fs::read_to_string(location.path.join(".git")).unwrap().starts_with("gitdir: ../../repo"));
    let config = fs::read_to_string(env.repo.join(".git/config")).unwrap();
    assert!(config.contains("relativeWorktrees = true") && config.contains("repositoryformatversion = 1"));
}

#[test]
fn modes_follow_the_umask_and_the_worktree_root_is_private() {
    let env = TestEnv::new();
    let location = env.create("s1");
    let mode = |path: &Path| fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&env.root), 0o700);
    assert_eq!(mode(&location.path), mode(&env.repo));
    assert_eq!(mode(&location.path.join("run.sh")), mode(&env.repo.join("run.sh")));
}
