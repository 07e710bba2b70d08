//! Merging, with real repositories, looked at with plain git.

use std::ffi::OsStr;
use std::process::Command;

use tempfile::TempDir;

use super::*;

struct Ground {
    directory: TempDir,
}

impl Ground {
    fn new() -> Ground {
        let ground = Ground { directory: tempfile::tempdir().unwrap() };
        fs::create_dir(ground.repo()).unwrap();
        ground.git(&["init", "--quiet", "--initial-branch=main"]);
        for (name, value) in [("user.name", "A Tester"), ("user.email", "tester@example.org")] {
            ground.git(&["config", name, value]);
        }
        ground.write("tracked", "first\n");
        ground.commit("the beginning");
        ground
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

    /// Work on a ticket that changes one file, seen from where the base branch is now.
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
        Mainline::new(&self.repo(), "main", true).merge(ticket, tip).unwrap()
    }

    fn deferral(&self, work: &(Ticket, String)) -> String {
        let before = (self.tip("main"), self.git(&["status", "--porcelain"]));
        let MergeOutcome::Deferred { why } = self.merge(work) else { panic!("it was not deferred") };
        assert_eq!((self.tip("main"), self.git(&["status", "--porcelain"])), before, "something was touched");
        why
    }
}

#[test]
fn what_can_be_fast_forwarded_is() {
    let ground = Ground::new();
    let work = ground.work("T-1", "new", "x\n");
    let merged = MergeOutcome::Merged { commit: work.1.clone(), how: How::FastForward };
    assert_eq!(ground.merge(&work), merged);
    assert_eq!((ground.tip("main"), ground.read("new").as_str()), (work.1, "x\n"));
    assert_eq!(ground.git(&["status", "--porcelain"]), "");
}

#[test]
fn what_cannot_becomes_a_merge_commit_and_is_merged_only_once() {
    let ground = Ground::new();
    let (one, other) = (ground.work("T-1", "one", "1\n"), ground.work("T-2", "two", "2\n"));
    ground.merge(&one);
    let MergeOutcome::Merged { commit, how } = ground.merge(&other) else { panic!("it was not merged") };
    assert_eq!((how, &commit), (How::MergeCommit, &ground.tip("main")));
    assert_eq!(ground.git(&["rev-parse", "main^1", "main^2"]), format!("{}\n{}", one.1, other.1));
    assert_eq!((ground.read("one"), ground.read("two")), ("1\n".to_owned(), "2\n".to_owned()));
    for work in [&one, &other] {
        let again = MergeOutcome::Merged { commit: commit.clone(), how: How::Already };
        assert_eq!(ground.merge(work), again);
    }
    assert_eq!(ground.tip("main"), commit);
}

#[test]
fn a_conflict_touches_nothing() {
    let ground = Ground::new();
    let work = ground.work("T-1", "tracked", "theirs\n");
    ground.write("tracked", "ours\n");
    ground.commit("something else");
    let before = ground.tip("main");
    assert_eq!(
        ground.merge(&work),
        MergeOutcome::Conflict { paths: vec!["tracked".to_owned()], worktree: None }
    );
    assert_eq!((ground.tip("main"), ground.read("tracked").as_str()), (before, "ours\n"));
    assert_eq!(ground.git(&["status", "--porcelain"]), "");
}

#[test]
fn uncommitted_changes_of_the_base_are_never_touched() {
    let ground = Ground::new();
    let work = ground.work("T-1", "tracked", "theirs\n");
    ground.write("tracked", "mine\n");
    assert!(ground.deferral(&work).contains("uncommitted changes in"));
    assert_eq!(ground.read("tracked"), "mine\n");
    ground.git(&["add", "tracked"]);
    assert!(ground.deferral(&work).contains("tracked"));
    ground.git(&["reset", "--quiet", "--hard"]);
    assert!(matches!(ground.merge(&work), MergeOutcome::Merged { .. }));
}

#[test]
fn an_untracked_file_defers_only_what_would_overwrite_it() {
    let ground = Ground::new();
    let (harmless, other) = (ground.work("T-1", "a", "1\n"), ground.work("T-2", "note", "theirs\n"));
    ground.write("note", "mine\n");
    assert!(matches!(ground.merge(&harmless), MergeOutcome::Merged { .. }));
    assert!(ground.deferral(&other).contains("note"));
    assert_eq!(ground.read("note"), "mine\n");
}

#[test]
fn what_git_is_in_the_middle_of_is_not_disturbed() {
    let ground = Ground::new();
    let work = ground.work("T-1", "new", "x\n");
    let head = ground.tip("main");
    fs::write(ground.repo().join(".git/MERGE_HEAD"), format!("{head}\n")).unwrap();
    assert!(ground.deferral(&work).contains("where a merge is not finished"));
    fs::remove_file(ground.repo().join(".git/MERGE_HEAD")).unwrap();
    fs::write(ground.repo().join(".git/index.lock"), "").unwrap();
    assert!(ground.deferral(&work).contains("index.lock"));
    fs::remove_file(ground.repo().join(".git/index.lock")).unwrap();
    ground.git(&["switch", "--quiet", "--detach"]);
    fs::create_dir(ground.repo().join(".git/rebase-merge")).unwrap();
    fs::write(ground.repo().join(".git/rebase-merge/head-name"), "refs/heads/main\n").unwrap();
    let MergeOutcome::Deferred { why } = ground.merge(&work) else { panic!("it was not deferred") };
    assert!(why.contains("is being rebased"), "{why}");
}

#[test]
fn a_base_that_nobody_has_checked_out_is_moved_by_its_ref() {
    let ground = Ground::new();
    let work = ground.work("T-1", "new", "x\n");
    ground.git(&["switch", "--quiet", "--create", "elsewhere"]);
    ground.write("tracked", "mine\n");
    assert!(matches!(ground.merge(&work), MergeOutcome::Merged { how: How::FastForward, .. }));
    assert_eq!(ground.tip("main"), work.1);
    assert_eq!(ground.read("tracked"), "mine\n");
    assert!(!ground.repo().join("new").exists());
}

#[test]
fn a_base_that_is_checked_out_elsewhere_is_moved_there() {
    let ground = Ground::new();
    let work = ground.work("T-1", "new", "x\n");
    ground.git(&["switch", "--quiet", "--create", "elsewhere"]);
    let place = ground.directory.path().join("of main");
    ground.git(&["worktree", "add", "--quiet", place.to_str().unwrap(), "main"]);
    fs::write(place.join("tracked"), "mine\n").unwrap();
    let MergeOutcome::Deferred { why } = ground.merge(&work) else { panic!("it was not deferred") };
    assert!(why.contains("of main"), "{why}");
    ground.git_in(&place, &["reset", "--quiet", "--hard"]);
    assert!(matches!(ground.merge(&work), MergeOutcome::Merged { .. }));
    assert_eq!(fs::read_to_string(place.join("new")).unwrap(), "x\n");
    fs::remove_dir_all(&place).unwrap();
    let more = ground.work("T-2", "more", "y\n");
    let MergeOutcome::Deferred { why } = ground.merge(&more) else { panic!("it was not deferred") };
    assert!(why.contains("which is not there"), "{why}");
}

#[test]
fn a_branch_is_discarded_only_where_all_of_it_is_saved() {
    let ground = Ground::new();
    let (ticket, tip) = ground.work("T-1", "new", "x\n");
    let mainline = Mainline::new(&ground.repo(), "main", true);
    ground.git(&["update-ref", "refs/saved", &tip]);
    assert!(!mainline.discard_branch(&ticket, &tip, "refs/saved").unwrap(), "it is checked out");
    ground.git(&["worktree", "remove", ground.directory.path().join("T-1").to_str().unwrap()]);
    assert!(!mainline.discard_branch(&ticket, &tip, "main").unwrap(), "main does not have it");
    assert!(!mainline.discard_branch(&ticket, &ground.tip("main"), "refs/saved").unwrap(), "it moved");
    assert!(mainline.discard_branch(&ticket, &tip, "refs/saved").unwrap());
    assert_eq!(mainline.find_branch(&ticket).unwrap(), None);
}
