//! Rescued, removed, and restored, whatever git was doing in the worktree: commits of its own, a merge or a
//! rebase that is not finished, every kind of index.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;
mod trial;

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, SystemTime};

use sexton_core::worktree::Inspection;
use support::{Ground, inspect, names};
use trial::{Portrait, Trial};

#[test]
fn i4_a_detached_head_with_commits_of_its_own() {
    let trial = Trial::new();
    trial.git(&["checkout", "--quiet", "--detach"]);
    trial.write("README.md", "committed\n");
    trial.git(&["commit", "--quiet", "--all", "--message", "mine"]);
    let commit = trial.git(&["rev-parse", "HEAD"]);
    let restored = trial.round_trip();
    assert_eq!(restored.branch, None);
    assert_eq!(trial.ground.git_in(&restored.path, ["rev-parse", "HEAD"]), commit);
}

#[test]
fn i4_a_branch_with_commits_of_its_own() {
    let trial = Trial::new();
    trial.write("README.md", "committed\n");
    trial.git(&["commit", "--quiet", "--all", "--message", "mine"]);
    trial.write("README.md", "and changed\n");
    let restored = trial.round_trip();
    assert_eq!(restored.branch.as_deref(), Some("sexton/s1"));
}

#[test]
fn i4_commits_that_were_reset_away_are_still_in_the_reflog() {
    let trial = Trial::new();
    trial.write("README.md", "committed\n");
    trial.git(&["commit", "--quiet", "--all", "--message", "mine"]);
    let commit = trial.git(&["rev-parse", "HEAD"]);
    trial.git(&["reset", "--quiet", "--hard", "HEAD~1"]);
    let restored = trial.round_trip();
    assert_eq!(trial.ground.git_in(&restored.path, ["rev-parse", "HEAD@{1}"]), commit);
    assert_eq!(trial.ground.git_in(&restored.path, ["show", "HEAD@{1}:README.md"]), "committed");
}

/// A branch `other` that conflicts with what the session commits.
fn conflicting(trial: &Trial) {
    trial.ground.git(["checkout", "--quiet", "-b", "other"]);
    trial.ground.write("README.md", "theirs\n");
    trial.ground.commit("theirs");
    trial.ground.git(["checkout", "--quiet", "main"]);
    for message in ["ours", "ours again"] {
        trial.write("README.md", format!("{message}\n"));
        trial.git(&["commit", "--quiet", "--all", "--message", message]);
    }
}

#[test]
fn i4_in_the_middle_of_a_merge_with_conflicts() {
    let trial = Trial::new();
    conflicting(&trial);
    trial.git_stops(&["merge", "other"]);
    trial.write("README.md", "half resolved\n");
    let restored = trial.round_trip();
    trial.ground.git_in(&restored.path, ["checkout", "--conflict=merge", "README.md"]);
    assert!(fs::read_to_string(restored.path.join("README.md")).unwrap().contains("<<<<<<<"));
    trial.ground.git_in(&restored.path, ["add", "README.md"]);
    trial.ground.git_in(&restored.path, ["commit", "--quiet", "--message", "merged"]);
    let parents = trial.ground.git_in(&restored.path, ["rev-list", "--parents", "--max-count=1", "HEAD"]);
    assert_eq!(parents.split(' ').count(), 3, "the merge was finished as one: {parents}");
}

#[test]
fn i4_in_the_middle_of_a_rebase() {
    let trial = Trial::new();
    conflicting(&trial);
    trial.git_stops(&["rebase", "other"]);
    let restored = trial.round_trip();
    let git = |arguments: &[&str]| trial.ground.git_in(&restored.path, arguments);
    git(&["rebase", "--abort"]);
    assert_eq!(git(&["show", "HEAD:README.md"]), "ours again");
    assert_eq!(git(&["branch", "--show-current"]), "sexton/s1");
}

#[test]
fn i4_with_a_left_over_index_lock() {
    let trial = Trial::new();
    trial.write("README.md", "staged\n");
    trial.git(&["add", "--all"]);
    trial.write("README.md", "changed\n");
    let lock = trial.admin().join("index.lock");
    fs::write(&lock, "half an index").unwrap();
    let before = Portrait::of(&trial.ground, &trial.plot.path);
    let restored = trial.there_and_back();
    Portrait::of(&trial.ground, &restored.path).require_same(&before);
    trial.ground.git_in(&restored.path, ["add", "--all"]);
}

#[test]
fn i4_no_filter_runs_in_a_rescue() {
    let ground = Ground::new();
    let witness = ground.top().join("witness");
    ground.write(".gitattributes", "*.secret filter=crypt\n");
    ground.git(["config", "filter.crypt.smudge", "tr a-z b-za"]);
    ground.git(["config", "filter.crypt.clean", "tr b-za a-z"]);
    ground.write("a.secret", "abc\n");
    ground.commit("encrypted");
    let trial = Trial::on(ground);
    trial.write("a.secret", "changed\n");
    trial.write("b.secret", "new\n");
    let before = Portrait::of(&trial.ground, &trial.plot.path);
    let spy = format!("touch {}; tr b-za a-z", witness.display());
    trial.ground.git(["config", "filter.crypt.clean", &spy]);
    support::rescue(&trial.plot);
    assert!(!witness.exists(), "the clean filter ran");
    trial.ground.git(["config", "filter.crypt.clean", "tr b-za a-z"]);
    let restored = trial.there_and_back();
    Portrait::of(&trial.ground, &restored.path).require_same(&before);
}

#[test]
fn i4_a_sparse_checkout_deletes_nothing() {
    let ground = Ground::new();
    ground.write("big/one", "1\n");
    ground.write("big/two", "2\n");
    ground.commit("big");
    let trial = Trial::on(ground);
    trial.git(&["sparse-checkout", "set", "--no-sparse-index", "src"]);
    assert!(!trial.path("big").exists());
    trial.write("src/main.rs", "changed\n");
    trial.write("src/new", "new\n");
    let restored = trial.round_trip();
    assert_eq!(restored.files, 2);
    trial.ground.git_in(&restored.path, ["sparse-checkout", "disable"]);
    assert!(restored.path.join("big/one").exists());
}

#[test]
fn i4_a_sparse_index() {
    let ground = Ground::new();
    ground.write("big/one", "1\n");
    ground.write("big/sub/two", "2\n");
    ground.commit("big");
    let trial = Trial::on(ground);
    trial.git(&["sparse-checkout", "set", "--cone", "--sparse-index", "src"]);
    trial.write("src/main.rs", "changed\n");
    trial.git(&["add", "src/main.rs"]);
    let restored = trial.round_trip();
    assert_eq!(restored.files, 1);
}

#[test]
fn i4_a_file_outside_of_the_sparse_checkout_is_saved() {
    let ground = Ground::new();
    ground.write("big/one", "1\n");
    ground.commit("big");
    let trial = Trial::on(ground);
    trial.git(&["sparse-checkout", "set", "--no-sparse-index", "src"]);
    trial.write("big/one", "written all the same\n");
    trial.write("big/new", "new\n");
    trial.round_trip();
}

#[test]
fn i4_a_split_index() {
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
fn i4_an_index_of_version_4() {
    let trial = Trial::new();
    trial.git(&["update-index", "--index-version", "4"]);
    trial.write("src/main.rs", "staged\n");
    trial.write("src/new", "staged\n");
    trial.git(&["add", "--all"]);
    trial.write("src/deep/er/file.txt", "changed\n");
    trial.round_trip();
}

#[test]
fn i4_a_split_index_of_version_4_with_everything_that_git_keeps_beside() {
    let ground = Ground::new();
    for number in 0..40 {
        ground.write(&format!("src/many/{number}.txt"), format!("{number}\n"));
    }
    ground.commit("many");
    let trial = Trial::on(ground);
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
fn i4_after_a_fetch_of_annotated_tags() {
    let trial = Trial::new();
    let upstream = trial.ground.top().join("upstream");
    trial.ground.git(["clone", "--quiet", "--bare", ".", upstream.to_str().unwrap()]);
    for (tag, object) in [("v1", "HEAD"), ("tree", "HEAD^{tree}"), ("file", "HEAD:README.md")] {
        trial.ground.git_in(&upstream, ["tag", "--annotate", "--message", tag, tag, object]);
    }
    trial.ground.git_in(&upstream, ["tag", "--annotate", "--message", "nested", "nested", "v1"]);
    // Into FETCH_HEAD alone.
    trial.git(&["fetch", "--quiet", "--no-tags", upstream.to_str().unwrap(), "v1", "tree", "file", "nested"]);
    // And one that only this worktree knows.
    let own = trial.git(&["rev-parse", "FETCH_HEAD"]);
    trial.git(&["update-ref", "refs/worktree/mine", &own]);
    trial.write("README.md", "changed\n");
    let restored = trial.round_trip();
    assert_eq!(trial.ground.git_in(&restored.path, ["rev-parse", "refs/worktree/mine"]), own);
    assert_eq!(trial.ground.git_in(&restored.path, ["cat-file", "-t", &own]), "tag");
}

#[test]
fn i4_announced_with_intent_to_add() {
    let trial = Trial::new();
    trial.write("announced", "content\n");
    trial.git(&["add", "--intent-to-add", "announced"]);
    trial.round_trip();
}

#[test]
fn i4_changed_though_assumed_unchanged() {
    let trial = Trial::new();
    trial.git(&["update-index", "--assume-unchanged", "README.md"]);
    trial.git(&["update-index", "--skip-worktree", "src/main.rs"]);
    trial.write("README.md", "changed in secret\n");
    trial.write("src/main.rs", "this too\n");
    let restored = trial.round_trip();
    assert_eq!(restored.files, 2);
}

/// The bytes of an index that says `new` where it said `old`, and has no checksum.
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
fn i4_an_edit_in_the_instant_of_the_index_whose_time_was_set_back() {
    let trial = Trial::new();
    let file = trial.path("README.md");
    trial.write("README.md", "hxllo\n");
    set_time(&file, SystemTime::UNIX_EPOCH);
    // The index says that this very file is as HEAD has it: so it was, when it was added in the same instant.
    let (mine, head) =
        (trial.git(&["hash-object", "README.md"]), trial.git(&["rev-parse", "HEAD:README.md"]));
    trial.git(&["add", "README.md"]);
    let index = trial.admin().join("index");
    fs::write(&index, with_object(&fs::read(&index).unwrap(), &mine, &head)).unwrap();
    let changed = file.metadata().unwrap();
    let seconds = Duration::from_secs(changed.ctime().try_into().unwrap());
    let changed = seconds + Duration::from_nanos(changed.ctime_nsec().try_into().unwrap());
    set_time(&index, SystemTime::UNIX_EPOCH + changed);
    assert!(matches!(inspect(&trial.plot), Inspection::Present { dirty: true, .. }));
}

#[test]
fn i4_a_branch_without_a_commit() {
    let trial = Trial::new();
    trial.git(&["checkout", "--quiet", "--orphan", "fresh"]);
    trial.git(&["rm", "--quiet", "-r", "--cached", "src"]);
    trial.write("README.md", "changed\n");
    trial.write("new", "new\n");
    let restored = trial.round_trip();
    assert_eq!(restored.branch.as_deref(), Some("fresh"));
}

#[test]
fn i4_without_an_index() {
    let trial = Trial::new();
    trial.write("README.md", "changed\n");
    fs::remove_file(trial.admin().join("index")).unwrap();
    trial.round_trip();
}

#[test]
fn i4_of_a_bare_repository() {
    let mut ground = Ground::new();
    let bare = ground.top().join("bare.git");
    ground.git(["clone", "--quiet", "--bare", ".", bare.to_str().unwrap()]);
    ground.repo = bare;
    let trial = Trial::on(ground);
    trial.write(".gitignore", "*.o\n");
    trial.write("README.md", "changed\n");
    trial.write("a.o", "ignored\n");
    trial.git(&["add", ".gitignore"]);
    let restored = trial.round_trip();
    assert_eq!(restored.files, 3);
}

#[test]
fn i4_with_relative_links() {
    let ground = Ground::new();
    ground.git(["config", "core.repositoryFormatVersion", "1"]);
    ground.git(["config", "extensions.relativeWorktrees", "true"]);
    let trial = Trial::on(ground);
    trial.write("README.md", "changed\n");
    trial.write("new", "new\n");
    // This git may be too old to open such a repository, so only the files are compared.
    let mut before = support::picture(&trial.plot.path);
    trial.remove();
    let mut after = support::picture(&trial.restore().path);
    for files in [&mut before, &mut after] {
        files.retain(|(path, _)| path.as_os_str() != ".git");
    }
    support::require_same(&after, &before);
}
