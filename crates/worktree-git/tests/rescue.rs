//! What a rescue saves, what it rejects, and that it is durable when it returns.

#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

mod support;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use sexton_core::WorktreeError;
use sexton_core::worktree::{Inspection, Rescue, WorktreeLocation, WorktreeOptions};
use support::{TestEnv, cleaner, inspect, require_same, rescue, snapshot, try_rescue, write};

/// Returns the rescue of a worktree that has something to save.
#[track_caller]
fn saved(location: &WorktreeLocation) -> Rescue {
    rescue(location).saved.expect("there was something to save")
}

/// Returns why a rescue was rejected.
#[track_caller]
fn refusal(location: &WorktreeLocation) -> String {
    match try_rescue(location) {
        Err(WorktreeError::CannotRescue { why, .. }) => why,
        other => panic!("it was not rejected: {other:?}"),
    }
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

#[test]
fn new_worktree_has_nothing_to_save() {
    let env = TestEnv::new();
    let location = env.create("s1");
    let before = snapshot(&env.repo);
    assert_eq!(rescue(&location).saved, None);
    assert_eq!(inspect(&location), Inspection::Present { dirty: false, own_commits: 0 });
    require_same(&snapshot(&env.repo), &before);
}

#[test]
fn rewritten_file_with_the_same_content_is_clean() {
    let env = TestEnv::new();
    let location = env.create("s1");
    write(&location.path.join("README.md"), "hello\n");
    assert_eq!(rescue(&location).saved, None);
    assert_eq!(inspect(&location), Inspection::Present { dirty: false, own_commits: 0 });
}

/// A change to a worktree.
type Change = fn(&Path);

#[test]
fn inspection_and_rescue_agree_on_what_is_dirty() {
    let env = TestEnv::new();
    let dirty: [(&str, Change); 7] = [
        ("modified", |path| write(&path.join("README.md"), "HELLO\n")),
        ("untracked", |path| write(&path.join("a/b/c"), "")),
        ("deleted", |path| fs::remove_file(path.join("README.md")).unwrap()),
        ("executable", |path| {
            fs::set_permissions(path.join("README.md"), fs::Permissions::from_mode(0o755)).unwrap();
        }),
        ("private", |path| {
            fs::set_permissions(path.join("README.md"), fs::Permissions::from_mode(0o600)).unwrap();
        }),
        ("empty", |path| fs::create_dir(path.join("empty")).unwrap()),
        ("link", |path| {
            fs::remove_file(path.join("link")).unwrap();
            std::os::unix::fs::symlink("elsewhere", path.join("link")).unwrap();
        }),
    ];
    for (session, change) in dirty {
        let location = env.create(session);
        change(&location.path);
        assert_eq!(inspect(&location), Inspection::Present { dirty: true, own_commits: 0 }, "{session}");
        assert!(rescue(&location).saved.is_some(), "{session}");
    }
}

#[test]
fn rescue_of_the_same_content_changes_nothing() {
    let env = TestEnv::new();
    let location = env.create("s1");
    write(&location.path.join("README.md"), "changed\n");
    write(&location.path.join("new"), "new\n");
    let first = saved(&location);
    let before = snapshot(env.top());
    assert_eq!(saved(&location), first);
    require_same(&snapshot(env.top()), &before);
}

#[test]
fn later_rescue_has_the_earlier_one_as_a_parent() {
    let env = TestEnv::new();
    let location = env.create("s1");
    write(&location.path.join("README.md"), "first\n");
    let first = saved(&location);
    write(&location.path.join("README.md"), "second\n");
    let second = saved(&location);
    assert_eq!(env.git(["rev-parse", &second.reference]), second.commit);
    assert_eq!(env.git(["rev-parse", &format!("{}^4", second.commit)]), first.commit);
    env.git(["gc", "--quiet", "--prune=now"]);
    assert_eq!(env.git(["show", &format!("{}:README.md", first.commit)]), "first");
    // A worktree that is clean again keeps its earlier rescue.
    write(&location.path.join("README.md"), "hello\n");
    assert_eq!(saved(&location), second);
}

#[test]
fn plain_git_can_use_a_rescue() {
    let env = TestEnv::new();
    let location = env.create("s1");
    write(&location.path.join("README.md"), "changed\n");
    write(&location.path.join("new"), "new\n");
    saved(&location);
    write(&location.path.join("new"), "newer\n");
    let rescue = saved(&location);
    let git = |arguments: &[&str]| env.git(arguments);
    assert_eq!(git(&["diff", "--name-status", "HEAD", &rescue.reference]), "M\tREADME.md\nA\tnew");
    git(&["stash", "apply", "--quiet", &rescue.reference]);
    assert_eq!(fs::read(env.repo.join("README.md")).unwrap(), b"changed\n");
    assert_eq!(fs::read(env.repo.join("new")).unwrap(), b"newer\n");
    assert!(git(&["show", "--stat", &rescue.reference]).contains("Rescue of session s1"));
    assert!(git(&["show", &format!("{}^2:manifest.json", rescue.reference)]).contains("\"format\": 1"));
}

#[test]
fn small_ignored_file_is_saved_if_its_directory_is_not_ignored() {
    let env = TestEnv::new();
    env.write(".gitignore", "*.o\n.env\nbuild/\n");
    env.commit("ignore");
    let location = env.create("s1");
    write(&location.path.join(".env"), "SECRET=1\n");
    write(&location.path.join("src/a.o"), "small");
    write(&location.path.join("src/b.o"), vec![7; (1 << 20) + 1]);
    write(&location.path.join("build/c"), "in an ignored folder");
    let rescue = saved(&location);
    let paths = paths(&env, &rescue);
    assert!(paths.contains(&".env".to_owned()) && paths.contains(&"src/a.o".to_owned()), "{paths:?}");
    assert_eq!(
        left_out(&env, &location),
        [
            ("build".to_owned(), "the folder is ignored".to_owned()),
            ("src/b.o".to_owned(), "it is ignored and larger than 1 MiB".to_owned()),
        ]
    );
}

#[test]
fn at_most_16_mebibytes_of_ignored_files_are_saved() {
    let env = TestEnv::new();
    env.write(".gitignore", "*.o\n");
    env.commit("ignore");
    let location = env.create("s1");
    for number in 10..28 {
        write(&location.path.join(format!("{number}.o")), vec![number; 1 << 20]);
    }
    let rescue = saved(&location);
    assert_eq!(rescue.files, 16);
    let left: Vec<String> = left_out(&env, &location).into_iter().map(|(path, _)| path).collect();
    assert_eq!(left, ["26.o", "27.o"]);
}

#[test]
fn untracked_file_is_never_treated_as_ignored() {
    let env = TestEnv::new();
    env.write(
        ".gitignore",
        "*.log\n!keep.log\n/top\nsub/*\n!sub/yes\nd1/\n!d1/x\na/**/z\n**/q\n\\#h\n\\!i\nsp\\ \n[ab].c\nfoo/bar\n",
    );
    env.write("src/.gitignore", "!*.log\nlocal\n/anchored\n");
    write(&env.repo.join(".git/info/exclude"), "excluded*\n!excluded-not\n");
    env.commit("rules");
    let location = env.create("s1");
    let folders = ["", "src/", "sub/", "d1/", "a/", "a/b/", "a/b/c/", "foo/", "xx/foo/", "sub/yes2/", "q/"];
    let files = [
        "a.log",
        "keep.log",
        "top",
        "yes",
        "x",
        "z",
        "q1",
        "#h",
        "!i",
        "sp ",
        "a.c",
        "c.c",
        "bar",
        "local",
        "anchored",
        "excluded1",
        "excluded-not",
        "plain",
    ];
    for folder in folders {
        for file in files {
            write(&location.path.join(format!("{folder}{file}")), format!("{folder}{file}"));
        }
    }
    let rescue = saved(&location);
    let known = paths(&env, &rescue);
    let untracked = env.git_in(
        &location.path,
        ["-c", "core.quotePath=false", "ls-files", "--others", "--exclude-standard", "-z"],
    );
    let missing: Vec<&str> = untracked
        .split('\0')
        .filter(|path| !path.is_empty() && !known.contains(&(*path).to_owned()))
        .collect();
    assert!(untracked.split('\0').count() > 50, "{untracked}");
    assert_eq!(missing, [""; 0]);
}

/// A deterministic pseudo-random number generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        usize::try_from(self.0 % sides as u64).unwrap()
    }

    fn pick<'a>(&mut self, among: &[&'a str]) -> &'a str {
        among[self.roll(among.len())]
    }

    /// Returns a few lines of an ignore file.
    fn rules(&mut self) -> String {
        let parts = [
            "a",
            "b",
            "*",
            "?",
            "**",
            "[ab]",
            "[!a]",
            "*.c",
            "*.o",
            "foo",
            "b*",
            "*a",
            "\\a",
            "#a",
            "[a-c]",
            "[[:alpha:]]",
            ".x",
            ".*",
            "A",
            "a*b",
            "a**",
            "[]a]",
            "fo[o",
            "\\",
        ];
        let mut rules = String::new();
        for _ in 0..=self.roll(4) {
            rules += self.pick(&["", "", "", "!"]);
            rules += self.pick(&["", "", "", "/"]);
            for depth in 0..=self.roll(3) {
                rules += if depth > 0 { "/" } else { "" };
                rules += self.pick(&parts);
            }
            rules += self.pick(&["", "", "/"]);
            rules += self.pick(&["", "", "", "", "  ", "\\ ", "\r"]);
            rules += "\n";
        }
        rules
    }
}

#[test]
fn same_files_are_ignored_as_by_git() {
    let rounds = std::env::var("SEXTON_TEST_ROUNDS").map_or(40, |rounds| rounds.parse().unwrap());
    let env = TestEnv::new();
    let location = env.create("s1");
    let strict = sexton_worktree_git::open(&WorktreeOptions { rescue_ignored: false, host: None }).unwrap();
    let names = ["a", "b", "c", "ab", "a.c", "b.o", "foo", "bar", ".x", "A"];
    let mut dice = Dice(rounds as u64 | 0x9e37_79b9_7f4a_7c15);
    let mut untracked_in_all = 0;
    for round in 0..rounds {
        for name in names {
            let _ = fs::remove_dir_all(location.path.join(name));
            let _ = fs::remove_file(location.path.join(name));
        }
        for _ in 0..14 {
            let mut path = location.path.clone();
            (0..=dice.roll(3)).for_each(|_| path.push(dice.pick(&names)));
            // A path that is already a file cannot become a directory.
            if fs::create_dir_all(path.parent().unwrap()).is_ok() {
                let _ = fs::write(&path, "x");
            }
            if dice.roll(3) == 0 {
                let _ = fs::write(path.with_file_name(".gitignore"), dice.rules());
            }
        }
        fs::write(location.path.join(".gitignore"), dice.rules()).unwrap();
        write(&env.repo.join(".git/info/exclude"), dice.rules());
        write(&env.top().join("mine"), dice.rules());
        env.git(["config", "core.excludesFile", env.top().join("mine").to_str().unwrap()]);

        let listed = env.git_in(&location.path, ["ls-files", "--others", "--exclude-standard", "-z"]);
        let mut untracked: Vec<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
        untracked.sort_unstable();
        let mut saved = Vec::new();
        if let Some(rescue) = pollster::block_on(strict.rescue(&location, support::now())).unwrap().saved {
            let details = pollster::block_on(strict.describe_rescue(&env.repo, &location.session)).unwrap();
            saved.extend(details.paths.iter().map(|path| path.path.display().to_string()));
            pollster::block_on(strict.drop_rescue(&env.repo, &location.session, &rescue.commit)).unwrap();
        }
        assert_eq!(saved, untracked, "round {round}");
        untracked_in_all += untracked.len();
    }
    assert!(untracked_in_all > 3 * rounds, "only {untracked_in_all} untracked files in all");
}

#[test]
fn special_files_are_listed_as_left_out() {
    let env = TestEnv::new();
    let location = env.create("s1");
    let pipe = location.path.join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o644)).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(location.path.join("socket")).unwrap();
    fs::remove_file(location.path.join("README.md")).unwrap();
    let rescue = saved(&location);
    assert_eq!(rescue.files, 1);
    let left: Vec<String> = left_out(&env, &location).into_iter().map(|(path, _)| path).collect();
    assert_eq!(left, ["pipe", "socket"]);
}

#[test]
fn name_that_git_cannot_store_keeps_the_worktree() {
    let env = TestEnv::new();
    let location = env.create("s1");
    write(&location.path.join("a/.GIT/file"), "x");
    assert_eq!(refusal(&location), "git cannot store a file named a/.GIT/file");
}

#[test]
fn damaged_index_keeps_the_worktree() {
    let env = TestEnv::new();
    let location = env.create("s1");
    let admin = PathBuf::from(env.git_in(&location.path, ["rev-parse", "--absolute-git-dir"]));
    let mut index = fs::read(admin.join("index")).unwrap();
    index[40] ^= 1;
    fs::write(admin.join("index"), index).unwrap();
    let error = try_rescue(&location).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "the index is damaged: its checksum is wrong");
}

#[test]
fn i4_staged_content_is_rescued_without_the_directory() {
    let env = TestEnv::new();
    let location = env.create("s1");
    write(&location.path.join("README.md"), "staged\n");
    write(&location.path.join("new"), "staged too\n");
    env.git_in(&location.path, ["add", "--all"]);
    fs::remove_dir_all(&location.path).unwrap();
    let rescue = saved(&location);
    assert_eq!(rescue.files, 2);
    assert_eq!(env.git(["show", &format!("{}:new", rescue.commit)]), "staged too");
    assert!(paths(&env, &rescue).contains(&"src/main.rs".to_owned()), "no file is recorded as deleted");
    assert_eq!(saved(&location), rescue);
}

#[test]
fn i4_rescue_without_the_directory_replaces_no_earlier_rescue() {
    let env = TestEnv::new();
    let location = env.create("s1");
    write(&location.path.join("README.md"), "staged\n");
    env.git_in(&location.path, ["add", "--all"]);
    write(&location.path.join("README.md"), "modified again\n");
    write(&location.path.join("untracked"), "untracked\n");
    let earlier = saved(&location);
    fs::remove_dir_all(&location.path).unwrap();
    assert_eq!(saved(&location), earlier);
}

#[test]
fn files_of_an_interrupted_creation_are_not_work() {
    let env = TestEnv::new();
    let location = env.create("s1");
    let admin = PathBuf::from(env.git_in(&location.path, ["rev-parse", "--absolute-git-dir"]));
    fs::write(admin.join("locked"), "sexton is making this worktree").unwrap();
    fs::remove_file(admin.join("index")).unwrap();
    fs::remove_dir_all(location.path.join("src")).unwrap();
    fs::write(location.path.join("README.md"), "hel").unwrap();
    assert_eq!(inspect(&location), Inspection::Present { dirty: false, own_commits: 0 });
    assert_eq!(rescue(&location).saved, None);
    fs::write(location.path.join("README.md"), "help").unwrap();
    fs::write(location.path.join("new"), "new").unwrap();
    assert_eq!(saved(&location).files, 2);
}

#[test]
fn i4_file_that_keeps_changing_is_not_partly_rescued() {
    let env = TestEnv::new();
    let location = env.create("s1");
    let path = location.path.join("growing");
    write(&path, vec![1; 24 << 20]);
    let done = AtomicBool::new(false);
    let refused = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
            while !done.load(Ordering::Relaxed) {
                file.write_all(b"more").unwrap();
            }
        });
        // The writer may be delayed, but not in all attempts.
        let refused = (0..50).find_map(|_| try_rescue(&location).err());
        done.store(true, Ordering::Relaxed);
        refused
    });
    let source = std::error::Error::source(&refused.unwrap()).unwrap().to_string();
    assert_eq!(source, "it keeps changing while it is read");
    assert!(saved(&location).files == 1, "it is saved once it no longer changes");
}

#[test]
fn rescues_are_listed_newest_first_described_and_dropped() {
    let env = TestEnv::new();
    let times = ["2026-01-02T03:04:05.1Z", "2026-01-02T03:04:05.3Z", "2026-01-02T03:04:05.2Z"];
    for (session, time) in ["one", "two", "three"].into_iter().zip(times) {
        let location = env.create(session);
        write(&location.path.join("README.md"), session);
        fs::remove_file(location.path.join("run.sh")).unwrap();
        write(&location.path.join("new"), session);
        pollster::block_on(cleaner().rescue(&location, time.parse().unwrap())).unwrap();
    }
    let listed = || pollster::block_on(cleaner().rescues(&env.repo)).unwrap().entries;
    let order: Vec<String> = listed().iter().map(|entry| entry.session.to_string()).collect();
    assert_eq!(order, ["two", "three", "one"]);
    assert_eq!(listed()[0].created_at, times[1].parse().unwrap());

    let session = "two".parse().unwrap();
    let details = pollster::block_on(cleaner().describe_rescue(&env.repo, &session)).unwrap();
    let paths: Vec<String> =
        details.paths.iter().map(|path| format!("{:?} {}", path.change, path.path.display())).collect();
    assert_eq!(paths, ["Modified README.md", "Added new", "Deleted run.sh"]);
    assert_eq!(details.branch.as_deref(), Some("sexton/two"));

    let drop = |commit: &str| pollster::block_on(cleaner().drop_rescue(&env.repo, &session, commit)).unwrap();
    assert!(!drop(&"0".repeat(40)), "a rescue at another commit is not dropped");
    assert!(drop(&details.entry.rescue.commit));
    assert!(!drop(&details.entry.rescue.commit));
    assert_eq!(listed().len(), 2);
    let gone = pollster::block_on(cleaner().describe_rescue(&env.repo, &session)).unwrap_err();
    assert!(matches!(gone, WorktreeError::NoRescue { .. }));
}
