//! Rescued, removed, and restored: whatever was in a worktree comes back byte for byte. Every case also goes
//! through a `git gc --prune=now` in between, and git finds nothing wrong with the repository.

mod support;

use std::ffi::OsStr;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use sexton_core::worktree::{Plot, Removal, RestoredWork};
use support::{Ground, cleaner, names, picture, require_same, sweep, try_remove, write};

/// What a worktree is, for git and on disk.
#[derive(Debug, PartialEq)]
struct Portrait {
    files: Vec<(PathBuf, String)>,
    index: Vec<u8>,
    head: String,
    status: String,
    staged: String,
    unstaged: String,
}

impl Portrait {
    fn of(ground: &Ground, worktree: &Path) -> Portrait {
        // A status that refreshed the index would not be looking any more, but changing.
        let git = |arguments: &[&str]| {
            let mut command = ground.git_command(worktree, arguments);
            let output = command.env("GIT_OPTIONAL_LOCKS", "0").output().unwrap();
            assert!(output.status.success(), "{command:?}: {}", support::said(&output));
            String::from_utf8_lossy(&output.stdout).into_owned()
        };
        let admin = PathBuf::from(git(&["rev-parse", "--absolute-git-dir"]).trim_end());
        let mut files = picture(worktree);
        files.retain(|(path, _)| path != Path::new(".git"));
        Portrait {
            files,
            index: fs::read(admin.join("index")).unwrap_or_default(),
            head: fs::read_to_string(admin.join("HEAD")).unwrap(),
            status: git(&["status", "--porcelain=v2", "--ignored", "--untracked-files=all"]),
            staged: git(&["diff", "--cached", "--binary", "--no-ext-diff", "--no-renames"]),
            unstaged: git(&["diff", "--binary", "--no-ext-diff", "--no-renames"]),
        }
    }

    #[track_caller]
    fn require_same(&self, before: &Portrait) {
        require_same(&self.files, &before.files);
        assert_eq!(self.head, before.head, "HEAD");
        assert_eq!(self.status, before.status, "git status");
        assert_eq!(self.staged, before.staged, "what is staged");
        assert_eq!(self.unstaged, before.unstaged, "what is not staged");
        assert!(self.index == before.index, "the bytes of the index");
    }
}

/// A worktree with a session's work in it.
struct Trial {
    ground: Ground,
    plot: Plot,
}

impl Trial {
    fn new() -> Trial {
        Trial::on(Ground::new())
    }

    fn on(ground: Ground) -> Trial {
        let plot = ground.create("s1");
        Trial { ground, plot }
    }

    fn path(&self, path: &str) -> PathBuf {
        self.plot.path.join(path)
    }

    fn write(&self, path: &str, content: impl AsRef<[u8]>) {
        write(&self.path(path), content);
    }

    fn git(&self, arguments: &[&str]) -> String {
        self.ground.git_in(&self.plot.path, arguments)
    }

    /// Runs git where it is meant to stop in the middle.
    fn git_stops(&self, arguments: &[&str]) {
        let output = self.ground.git_command(&self.plot.path, arguments).output().unwrap();
        assert!(!output.status.success(), "{arguments:?} went through");
    }

    fn admin(&self) -> PathBuf {
        self.git(&["rev-parse", "--absolute-git-dir"]).into()
    }

    /// Rescue, removal, garbage collection, restoration; all that was there is there again.
    #[track_caller]
    fn round_trip(&self) -> RestoredWork {
        let before = Portrait::of(&self.ground, &self.plot.path);
        let restored = self.there_and_back();
        Portrait::of(&self.ground, &restored.path).require_same(&before);
        restored
    }

    #[track_caller]
    fn there_and_back(&self) -> RestoredWork {
        assert_eq!(try_remove(&self.plot).unwrap(), Removal::Removed);
        sweep(&self.plot.root);
        assert!(!self.plot.path.exists());
        self.ground.git(["fsck", "--strict", "--no-dangling"]);
        self.ground.git(["gc", "--quiet", "--prune=now"]);
        let into = self.ground.top().join("restored");
        let restored =
            pollster::block_on(cleaner().restore(&self.ground.repo, &self.plot.session, &into)).unwrap();
        assert_eq!(restored.path, into);
        self.ground.require_clean(&[&into]);
        restored
    }
}

#[test]
fn i4_modified() {
    let trial = Trial::new();
    trial.write("README.md", "changed\n");
    let restored = trial.round_trip();
    assert_eq!((restored.files, restored.branch.as_deref()), (1, Some("sexton/s1")));
}

#[test]
fn i4_staged() {
    let trial = Trial::new();
    trial.write("README.md", "changed\n");
    trial.write("new", "new\n");
    trial.git(&["add", "--all"]);
    trial.round_trip();
}

#[test]
fn i4_staged_and_modified_again() {
    let trial = Trial::new();
    trial.write("README.md", "staged\n");
    trial.write("new", "staged\n");
    trial.git(&["add", "--all"]);
    trial.write("README.md", "modified again\n");
    trial.write("new", "modified again\n");
    trial.round_trip();
}

#[test]
fn i4_staged_and_put_back_on_disk() {
    let trial = Trial::new();
    trial.write("README.md", "staged\n");
    trial.git(&["add", "--all"]);
    trial.write("README.md", "hello\n");
    trial.round_trip();
}

#[test]
fn i4_staged_and_deleted_on_disk() {
    let trial = Trial::new();
    trial.write("README.md", "staged\n");
    trial.write("new", "staged\n");
    trial.git(&["add", "--all"]);
    fs::remove_file(trial.path("README.md")).unwrap();
    fs::remove_file(trial.path("new")).unwrap();
    trial.round_trip();
}

#[test]
fn i4_untracked() {
    let trial = Trial::new();
    trial.write("new", "");
    trial.write("some/where/deep/new", "content");
    let restored = trial.round_trip();
    assert_eq!(restored.files, 2);
}

#[test]
fn i4_ignored_beside_tracked_files() {
    let trial = Trial::new();
    trial.write(".gitignore", ".env\n*.log\n");
    trial.git(&["add", ".gitignore"]);
    trial.write(".env", "SECRET=1\n");
    trial.write("src/a.log", "log\n");
    fs::set_permissions(trial.path(".env"), fs::Permissions::from_mode(0o600)).unwrap();
    trial.round_trip();
}

#[test]
fn i4_deleted() {
    let trial = Trial::new();
    fs::remove_file(trial.path("README.md")).unwrap();
    fs::remove_dir_all(trial.path("src/deep")).unwrap();
    trial.git(&["rm", "--quiet", "run.sh"]);
    let restored = trial.round_trip();
    assert_eq!(restored.files, 3);
}

#[test]
fn i4_removed_from_the_index_and_still_on_disk() {
    let trial = Trial::new();
    trial.write(".gitignore", "src/\n");
    trial.git(&["rm", "--quiet", "--cached", "README.md", "src/main.rs"]);
    trial.write("src/main.rs", "changed, and in an ignored folder\n");
    trial.round_trip();
}

#[test]
fn i4_renamed() {
    let trial = Trial::new();
    trial.git(&["mv", "README.md", "renamed.md"]);
    fs::rename(trial.path("src/main.rs"), trial.path("moved.rs")).unwrap();
    trial.round_trip();
}

#[test]
fn i4_a_file_becomes_a_directory_and_a_directory_a_file() {
    let trial = Trial::new();
    fs::remove_file(trial.path("README.md")).unwrap();
    trial.write("README.md/inside", "x");
    fs::remove_dir_all(trial.path("src")).unwrap();
    trial.write("src", "a file now");
    fs::remove_file(trial.path("link")).unwrap();
    trial.write("link/through", "not through the link");
    trial.round_trip();
}

#[test]
fn i5_a_restore_writes_through_no_symlink_of_head() {
    let ground = Ground::new();
    let outside = ground.top().join("outside");
    write(&outside.join("main.rs"), "not ours\n");
    symlink("src", ground.repo.join("inside")).unwrap();
    symlink(&outside, ground.repo.join("out")).unwrap();
    ground.commit("links");
    let trial = Trial::on(ground);
    for link in ["inside", "out"] {
        fs::remove_file(trial.path(link)).unwrap();
        trial.write(&format!("{link}/main.rs"), "a directory now\n");
    }
    trial.round_trip();
    assert_eq!(fs::read(outside.join("main.rs")).unwrap(), b"not ours\n");
}

#[test]
fn i4_executable() {
    let trial = Trial::new();
    let set = |path: &str, mode| {
        fs::set_permissions(trial.path(path), fs::Permissions::from_mode(mode)).unwrap();
    };
    set("README.md", 0o755);
    set("run.sh", 0o644);
    let restored = trial.round_trip();
    assert_eq!(restored.files, 2);
}

#[test]
fn i4_permission_bits_that_git_does_not_know() {
    let trial = Trial::new();
    trial.write("secret/key", "key\n");
    for (path, mode) in [("README.md", 0o600), ("secret/key", 0o400), ("secret", 0o700), ("src", 0o750)] {
        fs::set_permissions(trial.path(path), fs::Permissions::from_mode(mode)).unwrap();
    }
    trial.round_trip();
}

#[test]
fn i4_permission_bits_alone() {
    let trial = Trial::new();
    fs::set_permissions(trial.path("README.md"), fs::Permissions::from_mode(0o600)).unwrap();
    trial.round_trip();
}

#[test]
fn i4_symlinks() {
    let trial = Trial::new();
    fs::remove_file(trial.path("link")).unwrap();
    symlink("src/main.rs", trial.path("link")).unwrap();
    symlink("nowhere", trial.path("dangling")).unwrap();
    symlink("/etc", trial.path("outside")).unwrap();
    fs::remove_file(trial.path("README.md")).unwrap();
    symlink("run.sh", trial.path("README.md")).unwrap();
    trial.round_trip();
}

#[test]
fn i4_an_empty_directory_with_a_tracked_sibling() {
    let trial = Trial::new();
    fs::create_dir_all(trial.path("src/empty")).unwrap();
    fs::create_dir_all(trial.path("all/the/way/empty")).unwrap();
    trial.round_trip();
}

#[test]
fn i4_names_that_are_not_utf8() {
    let trial = Trial::new();
    let name = OsStr::from_bytes(b"na\xffme \n\"\t");
    fs::write(trial.plot.path.join(name), "x").unwrap();
    fs::create_dir(trial.plot.path.join(OsStr::from_bytes(b"d\xfe"))).unwrap();
    fs::write(trial.plot.path.join(OsStr::from_bytes(b"d\xfe/\xfd")), "y").unwrap();
    trial.git(&["add", "--all"]);
    fs::write(trial.plot.path.join(name), "and modified").unwrap();
    trial.round_trip();
}

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
fn i4_line_ends_stay_as_they_are_on_disk() {
    let ground = Ground::new();
    ground.write(".gitattributes", "* text=auto\n*.bat text eol=crlf\n");
    ground.write("run.bat", "one\r\ntwo\r\n");
    ground.write("plain.txt", "one\ntwo\n");
    ground.commit("attributes");
    let trial = Trial::on(ground);
    assert_eq!(fs::read(trial.path("run.bat")).unwrap(), b"one\r\ntwo\r\n");
    trial.write("run.bat", "one\nno return\r\n");
    trial.write("plain.txt", "with\r\nreturns\r\n");
    trial.write("staged.txt", "staged\r\nwith returns\r\n");
    trial.git(&["add", "staged.txt"]);
    trial.write("untracked.txt", "untracked\r\nwith\nboth\r\n");
    trial.round_trip();
}

#[test]
fn i4_bytes_that_git_takes_for_heads_come_back_as_they_were() {
    let ground = Ground::new();
    ground.write(".gitattributes", "*.bat text eol=crlf\n");
    ground.write("run.bat", "one\r\ntwo\r\n");
    ground.commit("attributes");
    let trial = Trial::on(ground);
    // HEAD's own bytes: a checkout would write others.
    trial.write("run.bat", "one\ntwo\n");
    trial.write("README.md", "changed\n");
    trial.round_trip();
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
fn i4_everything_at_once() {
    let ground = Ground::new();
    for folder in 0..30 {
        for file in 0..20 {
            ground.write(&format!("f{folder}/g{}/{file}", file % 3), format!("{folder} {file}\n"));
        }
    }
    ground.write(".gitignore", "*.o\nbuild/\n");
    ground.commit("many");
    let trial = Trial::on(ground);
    for folder in (0..30).step_by(2) {
        trial.write(&format!("f{folder}/g0/0"), "modified\n");
        trial.write(&format!("f{folder}/g1/1"), "staged\n");
        trial.git(&["add", &format!("f{folder}/g1/1")]);
        fs::remove_file(trial.path(&format!("f{folder}/g2/2"))).unwrap();
        trial.write(&format!("f{folder}/new/{folder}"), "untracked\n");
        trial.write(&format!("f{folder}/x.o"), "ignored\n");
    }
    fs::remove_dir_all(trial.path("f1")).unwrap();
    let restored = trial.round_trip();
    assert_eq!(restored.files, 15 * 5 + 20);
}
