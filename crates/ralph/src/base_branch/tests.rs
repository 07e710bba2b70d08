//! Tests of merging in real repositories, checked with plain git.

use std::ffi::OsStr;
use std::fs;
use std::process::Command;

use tempfile::TempDir;

use super::*;

struct TestEnv {
    directory: TempDir,
}

impl TestEnv {
    fn new() -> TestEnv {
        let test_env = TestEnv { directory: tempfile::tempdir().unwrap() };
        fs::create_dir(test_env.repo()).unwrap();
        test_env.git(&["init", "--quiet", "--initial-branch=main"]);
        for (name, value) in [("user.name", "A Tester"), ("user.email", "tester@example.org")] {
            test_env.git(&["config", name, value]);
        }
        test_env.write("tracked", "first\n");
        test_env.commit("the beginning");
        test_env
    }

    fn repo(&self) -> PathBuf {
        self.directory.path().join("repo")
    }

    fn git_in<S: AsRef<OsStr>>(&self, place: &Path, arguments: &[S]) -> String {
        let mut command = Command::new("git");
        command.current_dir(place).args(arguments).env("HOME", self.directory.path());
        command.env("GIT_CONFIG_GLOBAL", "/dev/null").env("GIT_CONFIG_NOSYSTEM", "1");
        let output = command.output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    fn git(&self, arguments: &[&str]) -> String {
        self.git_in(&self.repo(), arguments)
    }

    fn write(&self, name: &str, text: &str) {
        fs::write(self.repo().join(name), text).unwrap();
    }

    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.repo().join(name)).unwrap()
    }

    fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["commit", "--quiet", "--message", message]);
    }

    fn tip(&self, name: &str) -> String {
        self.git(&["rev-parse", name])
    }

    /// Creates work on a ticket that changes one file, starting from the base branch.
    fn work(&self, text: &str, file: &str, content: &str) -> (Ticket, String) {
        let ticket: Ticket = text.parse().unwrap();
        let place = self.directory.path().join(text);
        let shown = place.display().to_string();
        self.git(&["worktree", "add", "--quiet", "-b", &ticket.branch(), &shown, "main"]);
        fs::write(place.join(file), content).unwrap();
        self.git_in(&place, &["add", "--all"]);
        self.git_in(&place, &["commit", "--quiet", "--message", text]);
        let tip = self.tip(&ticket.branch());
        (ticket, tip)
    }

    fn merge(&self, (ticket, tip): &(Ticket, String)) -> MergeOutcome {
        BaseBranch::new(&self.repo(), "main", true).merge(ticket, tip).unwrap()
    }

    fn deferral(&self, work: &(Ticket, String)) -> String {
        let before = (self.tip("main"), self.git(&["status", "--porcelain"]));
        let MergeOutcome::Deferred { why } = self.merge(work) else { panic!("it was not deferred") };
        assert_eq!((self.tip("main"), self.git(&["status", "--porcelain"])), before, "something was touched");
        why
    }
}

#[test]
fn merge_fast_forwards_if_possible() {
    let test_env = TestEnv::new();
    let work = test_env.work("T-1", "new", "x\n");
    let merged = MergeOutcome::Merged { commit: work.1.clone(), how: How::FastForward };
    assert_eq!(test_env.merge(&work), merged);
    assert_eq!((test_env.tip("main"), test_env.read("new").as_str()), (work.1, "x\n"));
    assert_eq!(test_env.git(&["status", "--porcelain"]), "");
}

#[test]
fn diverged_work_gets_one_merge_commit() {
    let test_env = TestEnv::new();
    let (one, other) = (test_env.work("T-1", "one", "1\n"), test_env.work("T-2", "two", "2\n"));
    test_env.merge(&one);
    let MergeOutcome::Merged { commit, how } = test_env.merge(&other) else { panic!("it was not merged") };
    assert_eq!((how, &commit), (How::MergeCommit, &test_env.tip("main")));
    assert_eq!(test_env.git(&["rev-parse", "main^1", "main^2"]), format!("{}\n{}", one.1, other.1));
    assert_eq!((test_env.read("one"), test_env.read("two")), ("1\n".to_owned(), "2\n".to_owned()));
    for work in [&one, &other] {
        let again = MergeOutcome::Merged { commit: commit.clone(), how: How::Already };
        assert_eq!(test_env.merge(work), again);
    }
    assert_eq!(test_env.tip("main"), commit);
}

#[test]
fn conflict_changes_nothing() {
    let test_env = TestEnv::new();
    let work = test_env.work("T-1", "tracked", "theirs\n");
    test_env.write("tracked", "ours\n");
    test_env.commit("something else");
    let before = test_env.tip("main");
    assert_eq!(
        test_env.merge(&work),
        MergeOutcome::Conflict { paths: vec!["tracked".to_owned()], worktree: None }
    );
    assert_eq!((test_env.tip("main"), test_env.read("tracked").as_str()), (before, "ours\n"));
    assert_eq!(test_env.git(&["status", "--porcelain"]), "");
}

#[test]
fn uncommitted_changes_defer_the_merge() {
    let test_env = TestEnv::new();
    let work = test_env.work("T-1", "tracked", "theirs\n");
    test_env.write("tracked", "mine\n");
    assert!(test_env.deferral(&work).contains("uncommitted changes in"));
    assert_eq!(test_env.read("tracked"), "mine\n");
    test_env.git(&["add", "tracked"]);
    assert!(test_env.deferral(&work).contains("tracked"));
    test_env.git(&["reset", "--quiet", "--hard"]);
    assert!(matches!(test_env.merge(&work), MergeOutcome::Merged { .. }));
}

#[test]
fn untracked_file_defers_only_a_merge_that_would_overwrite_it() {
    let test_env = TestEnv::new();
    let (harmless, other) = (test_env.work("T-1", "a", "1\n"), test_env.work("T-2", "note", "theirs\n"));
    test_env.write("note", "mine\n");
    assert!(matches!(test_env.merge(&harmless), MergeOutcome::Merged { .. }));
    assert!(test_env.deferral(&other).contains("note"));
    assert_eq!(test_env.read("note"), "mine\n");
}

#[test]
fn git_operation_in_progress_defers_the_merge() {
    let test_env = TestEnv::new();
    let work = test_env.work("T-1", "new", "x\n");
    let head = test_env.tip("main");
    fs::write(test_env.repo().join(".git/MERGE_HEAD"), format!("{head}\n")).unwrap();
    assert!(test_env.deferral(&work).contains("where a merge is in progress"));
    fs::remove_file(test_env.repo().join(".git/MERGE_HEAD")).unwrap();
    fs::write(test_env.repo().join(".git/index.lock"), "").unwrap();
    assert!(test_env.deferral(&work).contains("index.lock"));
    fs::remove_file(test_env.repo().join(".git/index.lock")).unwrap();
    test_env.git(&["switch", "--quiet", "--detach"]);
    fs::create_dir(test_env.repo().join(".git/rebase-merge")).unwrap();
    fs::write(test_env.repo().join(".git/rebase-merge/head-name"), "refs/heads/main\n").unwrap();
    let MergeOutcome::Deferred { why } = test_env.merge(&work) else { panic!("it was not deferred") };
    assert!(why.contains("is being rebased"), "{why}");
}

#[test]
fn base_that_is_not_checked_out_is_moved_by_ref() {
    let test_env = TestEnv::new();
    let work = test_env.work("T-1", "new", "x\n");
    test_env.git(&["switch", "--quiet", "--create", "elsewhere"]);
    test_env.write("tracked", "mine\n");
    assert!(matches!(test_env.merge(&work), MergeOutcome::Merged { how: How::FastForward, .. }));
    assert_eq!(test_env.tip("main"), work.1);
    assert_eq!(test_env.read("tracked"), "mine\n");
    assert!(!test_env.repo().join("new").exists());
}

#[test]
fn base_checked_out_in_another_worktree_is_moved_there() {
    let test_env = TestEnv::new();
    let work = test_env.work("T-1", "new", "x\n");
    test_env.git(&["switch", "--quiet", "--create", "elsewhere"]);
    let place = test_env.directory.path().join("of main");
    test_env.git(&["worktree", "add", "--quiet", place.to_str().unwrap(), "main"]);
    fs::write(place.join("tracked"), "mine\n").unwrap();
    let MergeOutcome::Deferred { why } = test_env.merge(&work) else { panic!("it was not deferred") };
    assert!(why.contains("of main"), "{why}");
    test_env.git_in(&place, &["reset", "--quiet", "--hard"]);
    assert!(matches!(test_env.merge(&work), MergeOutcome::Merged { .. }));
    assert_eq!(fs::read_to_string(place.join("new")).unwrap(), "x\n");
    fs::remove_dir_all(&place).unwrap();
    let more = test_env.work("T-2", "more", "y\n");
    let MergeOutcome::Deferred { why } = test_env.merge(&more) else { panic!("it was not deferred") };
    assert!(why.contains("which does not exist"), "{why}");
}

#[test]
fn branch_is_deleted_only_if_its_commits_are_saved() {
    let test_env = TestEnv::new();
    let (ticket, tip) = test_env.work("T-1", "new", "x\n");
    let base_branch = BaseBranch::new(&test_env.repo(), "main", true);
    test_env.git(&["update-ref", "refs/saved", &tip]);
    assert!(!base_branch.discard_branch(&ticket, &tip, "refs/saved").unwrap(), "it is checked out");
    test_env.git(&["worktree", "remove", test_env.directory.path().join("T-1").to_str().unwrap()]);
    assert!(!base_branch.discard_branch(&ticket, &tip, "main").unwrap(), "main does not have it");
    assert!(!base_branch.discard_branch(&ticket, &test_env.tip("main"), "refs/saved").unwrap(), "it moved");
    assert!(base_branch.discard_branch(&ticket, &tip, "refs/saved").unwrap());
    assert_eq!(base_branch.find_branch(&ticket).unwrap(), None);
}
