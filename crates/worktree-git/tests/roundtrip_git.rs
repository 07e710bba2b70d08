//! Rescue, removal and restore in any state of git: own commits, an unfinished merge or rebase, every kind of
//! index.

#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

mod support;
mod trial;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use sexton_core::worktree::Inspection;
use support::{TestEnv, inspect, names};
use trial::{Trial, WorktreeState};

#[test]
fn i4_detached_head_with_own_commits_round_trips() {
    let trial = Trial::new();
    trial.git(&["checkout", "--quiet", "--detach"]);
    trial.write("README.md", "committed\n");
    trial.git(&["commit", "--quiet", "--all", "--message", "mine"]);
    let commit = trial.git(&["rev-parse", "HEAD"]);
    let restored = trial.round_trip();
    assert_eq!(restored.branch, None);
    assert_eq!(trial.env.git_in(&restored.path, ["rev-parse", "HEAD"]), commit);
}

#[test]
fn i4_branch_with_own_commits_round_trips() {
    let trial = Trial::new();
    trial.write("README.md", "committed\n");
    trial.git(&["commit", "--quiet", "--all", "--message", "mine"]);
    trial.write("README.md", "and changed\n");
    let restored = trial.round_trip();
    assert_eq!(restored.branch.as_deref(), Some("sexton/s1"));
}

#[test]
fn i4_commits_in_the_reflog_round_trip() {
    let trial = Trial::new();
    trial.write("README.md", "committed\n");
    trial.git(&["commit", "--quiet", "--all", "--message", "mine"]);
    let commit = trial.git(&["rev-parse", "HEAD"]);
    trial.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let restored = trial.round_trip();
    assert_eq!(trial.env.git_in(&restored.path, ["rev-parse", "HEAD@{1}"]), commit);
    assert_eq!(trial.env.git_in(&restored.path, ["show", "HEAD@{1}:README.md"]), "committed");
}

/// Creates a branch `other` that conflicts with what the session commits.
fn conflicting(trial: &Trial) {
    trial.env.git(["checkout", "--quiet", "-b", "other"]);
    trial.env.write("README.md", "theirs\n");
    trial.env.commit("theirs");
    trial.env.git(["checkout", "--quiet", "main"]);
    for message in ["ours", "ours again"] {
        trial.write("README.md", format!("{message}\n"));
        trial.git(&["commit", "--quiet", "--all", "--message", message]);
    }
}

#[test]
fn i4_unfinished_merge_with_conflicts_round_trips() {
    let trial = Trial::new();
    conflicting(&trial);
    trial.git_stops(&["merge", "other"]);
    trial.write("README.md", "half resolved\n");
    let restored = trial.round_trip();
    trial.env.git_in(&restored.path, ["checkout", "--conflict=merge", "README.md"]);
    assert!(fs::read_to_string(restored.path.join("README.md")).unwrap().contains("<<<<<<<"));
    trial.env.git_in(&restored.path, ["add", "README.md"]);
    trial.env.git_in(&restored.path, ["commit", "--quiet", "--message", "merged"]);
    let parents = trial.env.git_in(&restored.path, ["rev-list", "--parents", "--max-count=1", "HEAD"]);
    assert_eq!(parents.split(' ').count(), 3, "it was committed as a merge: {parents}");
}

#[test]
fn i4_unfinished_rebase_round_trips() {
    let trial = Trial::new();
    conflicting(&trial);
    trial.git_stops(&["rebase", "other"]);
    let restored = trial.round_trip();
    let git = |arguments: &[&str]| trial.env.git_in(&restored.path, arguments);
    git(&["rebase", "--abort"]);
    assert_eq!(git(&["show", "HEAD:README.md"]), "ours again");
    assert_eq!(git(&["branch", "--show-current"]), "sexton/s1");
}

#[test]
fn i4_worktree_with_a_left_over_index_lock_round_trips() {
    let trial = Trial::new();
    trial.write("README.md", "staged\n");
    trial.git(&["add", "--all"]);
    trial.write("README.md", "changed\n");
    let lock = trial.admin().join("index.lock");
    fs::write(&lock, "half an index").unwrap();
    let before = WorktreeState::of(&trial.env, &trial.location.path);
    let restored = trial.remove_and_restore();
    WorktreeState::of(&trial.env, &restored.path).require_same(&before);
    trial.env.git_in(&restored.path, ["add", "--all"]);
}

#[test]
fn i4_rescue_runs_no_filter() {
    let env = TestEnv::new();
    let witness = env.top().join("witness");
    env.write(".gitattributes", "*.secret filter=crypt\n");
    env.git(["config", "filter.crypt.smudge", "tr a-z b-za"]);
    env.git(["config", "filter.crypt.clean", "tr b-za a-z"]);
    env.write("a.secret", "abc\n");
    env.commit("encrypted");
    let trial = Trial::on(env);
    trial.write("a.secret", "changed\n");
    trial.write("b.secret", "new\n");
    let before = WorktreeState::of(&trial.env, &trial.location.path);
    let spy = format!("touch {}; tr b-za a-z", witness.display());
    trial.env.git(["config", "filter.crypt.clean", &spy]);
    support::rescue(&trial.location);
    assert!(!witness.exists(), "the clean filter ran");
    trial.env.git(["config", "filter.crypt.clean", "tr b-za a-z"]);
    let restored = trial.remove_and_restore();
    WorktreeState::of(&trial.env, &restored.path).require_same(&before);
}

#[test]
fn i4_sparse_checkout_round_trips_without_deletions() {
    let env = TestEnv::new();
    env.write("big/one", "1\n");
    env.write("big/two", "2\n");
    env.commit("big");
    let trial = Trial::on(env);
    trial.git(&["sparse-checkout", "set", "--no-sparse-index", "src"]);
    assert!(!trial.path("big").exists());
    trial.write("src/main.rs", "changed\n");
    trial.write("src/new", "new\n");
    let restored = trial.round_trip();
    assert_eq!(restored.files, 2);
    trial.env.git_in(&restored.path, ["sparse-checkout", "disable"]);
    assert!(restored.path.join("big/one").exists());
}

#[test]
fn i4_sparse_index_round_trips() {
    let env = TestEnv::new();
    env.write("big/one", "1\n");
    env.write("big/sub/two", "2\n");
    env.commit("big");
    let trial = Trial::on(env);
    trial.git(&["sparse-checkout", "set", "--cone", "--sparse-index", "src"]);
    trial.write("src/main.rs", "changed\n");
    trial.git(&["add", "src/main.rs"]);
    let restored = trial.round_trip();
    assert_eq!(restored.files, 1);
}

#[test]
fn i4_file_outside_of_the_sparse_checkout_round_trips() {
    let env = TestEnv::new();
    env.write("big/one", "1\n");
    env.commit("big");
    let trial = Trial::on(env);
    trial.git(&["sparse-checkout", "set", "--no-sparse-index", "src"]);
    trial.write("big/one", "written all the same\n");
    trial.write("big/new", "new\n");
    trial.round_trip();
}

#[test]
fn i4_split_index_round_trips() {
    let trial = Trial::new();
    trial.git(&["update-index", "--split-index"]);
    trial.git(&["rm", "--quiet", "--cached", "run.sh"]);
    trial.write("README.md", "staged\n");
    trial.write("new", "staged\n");
    trial.git(&["add", "README.md", "new"]);
    assert!(names(&trial.admin()).iter().any(|name| name.starts_with("sharedindex.")));
    trial.write("new", "modified again\n");
    trial.round_trip();
}

#[test]
fn i4_version_4_index_round_trips() {
    let trial = Trial::new();
    trial.git(&["update-index", "--index-version", "4"]);
    trial.write("src/main.rs", "staged\n");
    trial.write("src/new", "staged\n");
    trial.git(&["add", "--all"]);
    trial.write("src/deep/er/file.txt", "changed\n");
    trial.round_trip();
}

#[test]
fn i4_version_4_split_index_with_extensions_round_trips() {
    let env = TestEnv::new();
    for number in 0..40 {
        env.write(&format!("src/many/{number}.txt"), format!("{number}\n"));
    }
    env.commit("many");
    let trial = Trial::on(env);
    trial.git(&["update-index", "--index-version", "4"]);
    trial.git(&["update-index", "--split-index"]);
    trial.git(&["update-index", "--force-untracked-cache"]);
    trial.write("src/many/7.txt", "staged\n");
    trial.write("src/many/new", "new\n");
    trial.git(&["add", "src/many/7.txt", "src/many/new"]);
    trial.git(&["rm", "--quiet", "src/many/9.txt"]);
    trial.write("src/many/11.txt", "unstaged\n");
    trial.write("untracked", "untracked\n");
    trial.git(&["status", "--porcelain"]);
    trial.round_trip();
}

#[test]
fn i4_fetched_annotated_tags_round_trip() {
    let trial = Trial::new();
    let upstream = trial.env.top().join("upstream");
    trial.env.git(["clone", "--quiet", "--bare", ".", upstream.to_str().unwrap()]);
    for (tag, object) in [("v1", "HEAD"), ("tree", "HEAD^{tree}"), ("file", "HEAD:README.md")] {
        trial.env.git_in(&upstream, ["tag", "--annotate", "--message", tag, tag, object]);
    }
    trial.env.git_in(&upstream, ["tag", "--annotate", "--message", "nested", "nested", "v1"]);
    // Only into FETCH_HEAD.
    trial.git(&["fetch", "--quiet", "--no-tags", upstream.to_str().unwrap(), "v1", "tree", "file", "nested"]);
    // And one that only this worktree references.
    let own = trial.git(&["rev-parse", "FETCH_HEAD"]);
    trial.git(&["update-ref", "refs/worktree/mine", &own]);
    trial.write("README.md", "changed\n");
    let restored = trial.round_trip();
    assert_eq!(trial.env.git_in(&restored.path, ["rev-parse", "refs/worktree/mine"]), own);
    assert_eq!(trial.env.git_in(&restored.path, ["cat-file", "-t", &own]), "tag");
}

#[test]
fn i4_intent_to_add_round_trips() {
    let trial = Trial::new();
    trial.write("announced", "content\n");
    trial.git(&["add", "--intent-to-add", "announced"]);
    trial.round_trip();
}

#[test]
fn i4_change_of_an_assume_unchanged_file_round_trips() {
    let trial = Trial::new();
    trial.git(&["update-index", "--assume-unchanged", "README.md"]);
    trial.git(&["update-index", "--skip-worktree", "src/main.rs"]);
    trial.write("README.md", "changed in secret\n");
    trial.write("src/main.rs", "this too\n");
    let restored = trial.round_trip();
    assert_eq!(restored.files, 2);
}

/// Returns the bytes of an index with `old` replaced by `new` and without a checksum.
fn with_object(index: &[u8], old: &str, new: &str) -> Vec<u8> {
    let bytes = |hex: &str| git2::Oid::from_str(hex).unwrap().as_bytes().to_vec();
    let at = index.windows(20).position(|window| window == bytes(old)).unwrap();
    let body = &index[..index.len() - 20];
    [&body[..at], &bytes(new), &body[at + 20..], &[0; 20]].concat()
}

fn set_time(path: &Path, time: SystemTime) {
    fs::File::options().write(true).open(path).unwrap().set_modified(time).unwrap();
}

#[test]
fn i4_edit_at_the_time_of_the_index_with_reset_mtime_is_detected() {
    let trial = Trial::new();
    let file = trial.path("README.md");
    trial.write("README.md", "hxllo\n");
    set_time(&file, SystemTime::UNIX_EPOCH);
    // The index records that this file matches HEAD: it did when it was added at the same time.
    let (mine, head) =
        (trial.git(&["hash-object", "README.md"]), trial.git(&["rev-parse", "HEAD:README.md"]));
    trial.git(&["add", "README.md"]);
    let index = trial.admin().join("index");
    fs::write(&index, with_object(&fs::read(&index).unwrap(), &mine, &head)).unwrap();
    let changed = file.metadata().unwrap();
    let seconds = Duration::from_secs(changed.ctime().try_into().unwrap());
    let changed = seconds + Duration::from_nanos(changed.ctime_nsec().try_into().unwrap());
    set_time(&index, SystemTime::UNIX_EPOCH + changed);
    assert!(matches!(inspect(&trial.location), Inspection::Present { dirty: true, .. }));
}

#[test]
fn i4_branch_without_a_commit_round_trips() {
    let trial = Trial::new();
    trial.git(&["checkout", "--quiet", "--orphan", "fresh"]);
    trial.git(&["rm", "--quiet", "-r", "--cached", "src"]);
    trial.write("README.md", "changed\n");
    trial.write("new", "new\n");
    let restored = trial.round_trip();
    assert_eq!(restored.branch.as_deref(), Some("fresh"));
}

#[test]
fn i4_worktree_without_an_index_round_trips() {
    let trial = Trial::new();
    trial.write("README.md", "changed\n");
    fs::remove_file(trial.admin().join("index")).unwrap();
    trial.round_trip();
}

#[test]
fn i4_worktree_of_a_bare_repository_round_trips() {
    let mut env = TestEnv::new();
    let bare = env.top().join("bare.git");
    env.git(["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    env.repo = bare;
    let trial = Trial::on(env);
    trial.write(".gitignore", "*.o\n");
    trial.write("README.md", "changed\n");
    trial.write("a.o", "ignored\n");
    trial.git(&["add", ".gitignore"]);
    let restored = trial.round_trip();
    assert_eq!(restored.files, 3);
}

#[test]
fn i4_worktree_with_relative_links_round_trips() {
    let env = TestEnv::new();
    env.git(["config", "core.repositoryFormatVersion", "1"]);
    env.git(["config", "extensions.relativeWorktrees", "true"]);
    let trial = Trial::on(env);
    trial.write("README.md", "changed\n");
    trial.write("new", "new\n");
    // The installed git may be too old to open such a repository, so only the files are compared.
    let mut before = support::snapshot(&trial.location.path);
    trial.remove();
    let mut after = support::snapshot(&trial.restore().path);
    for files in [&mut before, &mut after] {
        files.retain(|(path, _)| path.as_os_str() != ".git");
    }
    support::require_same(&after, &before);
}
