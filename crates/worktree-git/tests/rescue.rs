//! What a rescue saves, what it refuses, and that it is on disk when it says so.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::io::Write;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use sexton_core::WorktreeError;
use sexton_core::worktree::{Inspection, Plot, Rescue, WorktreeOptions};
use support::{Ground, cleaner, inspect, picture, require_same, rescue, try_rescue, write};

/// The rescue of a worktree that has something to save.
#[track_caller]
fn saved(plot: &Plot) -> Rescue {
    rescue(plot).saved.expect("there was something to save")
}

/// Why a rescue was refused.
#[track_caller]
fn refusal(plot: &Plot) -> String {
    match try_rescue(plot) {
        Err(WorktreeError::CannotRescue { why, .. }) => why,
        other => panic!("it was not refused: {other:?}"),
    }
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

#[test]
fn a_worktree_as_it_was_made_has_nothing_to_save() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    let before = picture(&ground.repo);
    assert_eq!(rescue(&plot).saved, None);
    assert_eq!(inspect(&plot), Inspection::Present { dirty: false, own_commits: 0 });
    require_same(&picture(&ground.repo), &before);
}

#[test]
fn a_file_that_was_only_touched_is_clean() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    write(&plot.path.join("README.md"), "hello\n");
    assert_eq!(rescue(&plot).saved, None);
    assert_eq!(inspect(&plot), Inspection::Present { dirty: false, own_commits: 0 });
}

/// Something that is done to a worktree.
type Change = fn(&Path);

#[test]
fn inspection_and_rescue_agree_on_what_is_dirty() {
    let ground = Ground::new();
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
        let plot = ground.create(session);
        change(&plot.path);
        assert_eq!(inspect(&plot), Inspection::Present { dirty: true, own_commits: 0 }, "{session}");
        assert!(rescue(&plot).saved.is_some(), "{session}");
    }
}

#[test]
fn the_same_content_again_changes_nothing() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    write(&plot.path.join("README.md"), "changed\n");
    write(&plot.path.join("new"), "new\n");
    let first = saved(&plot);
    let before = picture(ground.top());
    assert_eq!(saved(&plot), first);
    require_same(&picture(ground.top()), &before);
}

#[test]
fn a_later_rescue_has_the_earlier_one_as_a_parent() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    write(&plot.path.join("README.md"), "first\n");
    let first = saved(&plot);
    write(&plot.path.join("README.md"), "second\n");
    let second = saved(&plot);
    assert_eq!(ground.git(["rev-parse", &second.reference]), second.commit);
    assert_eq!(ground.git(["rev-parse", &format!("{}^4", second.commit)]), first.commit);
    ground.git(["gc", "--quiet", "--prune=now"]);
    assert_eq!(ground.git(["show", &format!("{}:README.md", first.commit)]), "first");
    // What is clean again does not forget what was rescued.
    write(&plot.path.join("README.md"), "hello\n");
    assert_eq!(saved(&plot), second);
}

#[test]
fn plain_git_can_use_a_rescue() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    write(&plot.path.join("README.md"), "changed\n");
    write(&plot.path.join("new"), "new\n");
    saved(&plot);
    write(&plot.path.join("new"), "newer\n");
    let rescue = saved(&plot);
    let git = |arguments: &[&str]| ground.git(arguments);
    assert_eq!(git(&["diff", "--name-status", "HEAD", &rescue.reference]), "M\tREADME.md\nA\tnew");
    git(&["stash", "apply", "--quiet", &rescue.reference]);
    assert_eq!(fs::read(ground.repo.join("README.md")).unwrap(), b"changed\n");
    assert_eq!(fs::read(ground.repo.join("new")).unwrap(), b"newer\n");
    assert!(git(&["show", "--stat", &rescue.reference]).contains("Rescue of session s1"));
    assert!(git(&["show", &format!("{}^2:manifest.json", rescue.reference)]).contains("\"format\": 1"));
}

#[test]
fn an_ignored_file_is_saved_where_its_folder_is_not_ignored_and_it_is_small() {
    let ground = Ground::new();
    ground.write(".gitignore", "*.o\n.env\nbuild/\n");
    ground.commit("ignore");
    let plot = ground.create("s1");
    write(&plot.path.join(".env"), "SECRET=1\n");
    write(&plot.path.join("src/a.o"), "small");
    write(&plot.path.join("src/b.o"), vec![7; (1 << 20) + 1]);
    write(&plot.path.join("build/c"), "in an ignored folder");
    let rescue = saved(&plot);
    let paths = paths(&ground, &rescue);
    assert!(paths.contains(&".env".to_owned()) && paths.contains(&"src/a.o".to_owned()), "{paths:?}");
    assert_eq!(
        left_out(&ground, &plot),
        [
            ("build".to_owned(), "the folder is ignored".to_owned()),
            ("src/b.o".to_owned(), "it is ignored and larger than 1 MiB".to_owned()),
        ]
    );
}

#[test]
fn no_more_than_sixteen_mebibytes_of_ignored_files_are_saved() {
    let ground = Ground::new();
    ground.write(".gitignore", "*.o\n");
    ground.commit("ignore");
    let plot = ground.create("s1");
    for number in 10..28 {
        write(&plot.path.join(format!("{number}.o")), vec![number; 1 << 20]);
    }
    let rescue = saved(&plot);
    assert_eq!(rescue.files, 16);
    let left: Vec<String> = left_out(&ground, &plot).into_iter().map(|(path, _)| path).collect();
    assert_eq!(left, ["26.o", "27.o"]);
}

#[test]
fn what_git_calls_untracked_is_never_taken_for_ignored() {
    let ground = Ground::new();
    ground.write(
        ".gitignore",
        "*.log\n!keep.log\n/top\nsub/*\n!sub/yes\nd1/\n!d1/x\na/**/z\n**/q\n\\#h\n\\!i\nsp\\ \n[ab].c\nfoo/bar\n",
    );
    ground.write("src/.gitignore", "!*.log\nlocal\n/anchored\n");
    write(&ground.repo.join(".git/info/exclude"), "excluded*\n!excluded-not\n");
    ground.commit("rules");
    let plot = ground.create("s1");
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
            write(&plot.path.join(format!("{folder}{file}")), format!("{folder}{file}"));
        }
    }
    let rescue = saved(&plot);
    let known = paths(&ground, &rescue);
    let untracked = ground.git_in(
        &plot.path,
        ["-c", "core.quotePath=false", "ls-files", "--others", "--exclude-standard", "-z"],
    );
    let missing: Vec<&str> = untracked
        .split('\0')
        .filter(|path| !path.is_empty() && !known.contains(&(*path).to_owned()))
        .collect();
    assert!(untracked.split('\0').count() > 50, "{untracked}");
    assert_eq!(missing, [""; 0]);
}

/// Numbers that look random and are the same in every run.
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

    /// A few lines of an ignore file.
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
fn ignored_is_what_git_ignores() {
    let rounds = std::env::var("SEXTON_TEST_ROUNDS").map_or(40, |rounds| rounds.parse().unwrap());
    let ground = Ground::new();
    let plot = ground.create("s1");
    let strict = sexton_worktree_git::open(&WorktreeOptions { rescue_ignored: false }).unwrap();
    let names = ["a", "b", "c", "ab", "a.c", "b.o", "foo", "bar", ".x", "A"];
    let mut dice = Dice(rounds as u64 | 0x9e37_79b9_7f4a_7c15);
    let mut untracked_in_all = 0;
    for round in 0..rounds {
        for name in names {
            let _ = fs::remove_dir_all(plot.path.join(name));
            let _ = fs::remove_file(plot.path.join(name));
        }
        for _ in 0..14 {
            let mut path = plot.path.clone();
            (0..=dice.roll(3)).for_each(|_| path.push(dice.pick(&names)));
            // What is a file already cannot become a directory.
            if fs::create_dir_all(path.parent().unwrap()).is_ok() {
                let _ = fs::write(&path, "x");
            }
            if dice.roll(3) == 0 {
                let _ = fs::write(path.with_file_name(".gitignore"), dice.rules());
            }
        }
        fs::write(plot.path.join(".gitignore"), dice.rules()).unwrap();
        write(&ground.repo.join(".git/info/exclude"), dice.rules());
        write(&ground.top().join("mine"), dice.rules());
        ground.git(["config", "core.excludesFile", ground.top().join("mine").to_str().unwrap()]);

        let listed = ground.git_in(&plot.path, ["ls-files", "--others", "--exclude-standard", "-z"]);
        let mut untracked: Vec<&str> = listed.split('\0').filter(|path| !path.is_empty()).collect();
        untracked.sort_unstable();
        let mut saved = Vec::new();
        if let Some(rescue) = pollster::block_on(strict.rescue(&plot, support::now())).unwrap().saved {
            let details = pollster::block_on(strict.describe_rescue(&ground.repo, &plot.session)).unwrap();
            saved.extend(details.paths.iter().map(|path| path.path.display().to_string()));
            pollster::block_on(strict.drop_rescue(&ground.repo, &plot.session, &rescue.commit)).unwrap();
        }
        assert_eq!(saved, untracked, "round {round}");
        untracked_in_all += untracked.len();
    }
    assert!(untracked_in_all > 3 * rounds, "only {untracked_in_all} untracked files in all");
}

#[test]
fn what_has_no_content_is_left_out_by_name() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    let pipe = plot.path.join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &pipe, rustix::fs::Mode::from_raw_mode(0o644)).unwrap();
    let _socket = std::os::unix::net::UnixListener::bind(plot.path.join("socket")).unwrap();
    fs::remove_file(plot.path.join("README.md")).unwrap();
    let rescue = saved(&plot);
    assert_eq!(rescue.files, 1);
    let left: Vec<String> = left_out(&ground, &plot).into_iter().map(|(path, _)| path).collect();
    assert_eq!(left, ["pipe", "socket"]);
}

#[test]
fn a_name_that_no_tree_can_hold_keeps_the_worktree() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    write(&plot.path.join("a/.GIT/file"), "x");
    assert_eq!(refusal(&plot), "git cannot hold a file named a/.GIT/file");
}

#[test]
fn a_damaged_index_keeps_the_worktree() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    let admin = PathBuf::from(ground.git_in(&plot.path, ["rev-parse", "--absolute-git-dir"]));
    let mut index = fs::read(admin.join("index")).unwrap();
    index[40] ^= 1;
    fs::write(admin.join("index"), index).unwrap();
    let error = try_rescue(&plot).unwrap_err();
    let source = std::error::Error::source(&error).unwrap().to_string();
    assert_eq!(source, "the index is damaged: its checksum is wrong");
}

#[test]
fn i4_a_directory_that_is_gone_leaves_what_git_had_of_it() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    write(&plot.path.join("README.md"), "staged\n");
    write(&plot.path.join("new"), "staged too\n");
    ground.git_in(&plot.path, ["add", "--all"]);
    fs::remove_dir_all(&plot.path).unwrap();
    let rescue = saved(&plot);
    assert_eq!(rescue.files, 2);
    assert_eq!(ground.git(["show", &format!("{}:new", rescue.commit)]), "staged too");
    assert!(paths(&ground, &rescue).contains(&"src/main.rs".to_owned()), "nothing is said to be deleted");
    assert_eq!(saved(&plot), rescue);
}

#[test]
fn i4_a_directory_that_is_gone_replaces_no_earlier_rescue() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    write(&plot.path.join("README.md"), "staged\n");
    ground.git_in(&plot.path, ["add", "--all"]);
    write(&plot.path.join("README.md"), "modified again\n");
    write(&plot.path.join("untracked"), "untracked\n");
    let earlier = saved(&plot);
    fs::remove_dir_all(&plot.path).unwrap();
    assert_eq!(saved(&plot), earlier);
}

#[test]
fn what_a_creation_that_was_cut_off_had_written_is_nobodys_work() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    let admin = PathBuf::from(ground.git_in(&plot.path, ["rev-parse", "--absolute-git-dir"]));
    fs::write(admin.join("locked"), "sexton is making this worktree").unwrap();
    fs::remove_file(admin.join("index")).unwrap();
    fs::remove_dir_all(plot.path.join("src")).unwrap();
    fs::write(plot.path.join("README.md"), "hel").unwrap();
    assert_eq!(inspect(&plot), Inspection::Present { dirty: false, own_commits: 0 });
    assert_eq!(rescue(&plot).saved, None);
    fs::write(plot.path.join("README.md"), "help").unwrap();
    fs::write(plot.path.join("new"), "new").unwrap();
    assert_eq!(saved(&plot).files, 2);
}

#[test]
fn i4_a_file_that_keeps_changing_is_not_rescued_half() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    let path = plot.path.join("growing");
    write(&path, vec![1; 24 << 20]);
    let done = AtomicBool::new(false);
    let refused = std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut file = fs::OpenOptions::new().append(true).open(&path).unwrap();
            while !done.load(Ordering::Relaxed) {
                file.write_all(b"more").unwrap();
            }
        });
        // The writer may be kept from running, but not for ever.
        let refused = (0..50).find_map(|_| try_rescue(&plot).err());
        done.store(true, Ordering::Relaxed);
        refused
    });
    let source = std::error::Error::source(&refused.unwrap()).unwrap().to_string();
    assert_eq!(source, "it keeps changing while it is read");
    assert!(saved(&plot).files == 1, "once it is left alone, it is saved");
}

#[test]
fn rescues_are_listed_newest_first_described_and_dropped() {
    let ground = Ground::new();
    let times = ["2026-01-02T03:04:05.1Z", "2026-01-02T03:04:05.3Z", "2026-01-02T03:04:05.2Z"];
    for (session, time) in ["one", "two", "three"].into_iter().zip(times) {
        let plot = ground.create(session);
        write(&plot.path.join("README.md"), session);
        fs::remove_file(plot.path.join("run.sh")).unwrap();
        write(&plot.path.join("new"), session);
        pollster::block_on(cleaner().rescue(&plot, time.parse().unwrap())).unwrap();
    }
    let listed = || pollster::block_on(cleaner().rescues(&ground.repo)).unwrap().entries;
    let order: Vec<String> = listed().iter().map(|entry| entry.session.to_string()).collect();
    assert_eq!(order, ["two", "three", "one"]);
    assert_eq!(listed()[0].created_at, times[1].parse().unwrap());

    let session = "two".parse().unwrap();
    let details = pollster::block_on(cleaner().describe_rescue(&ground.repo, &session)).unwrap();
    let paths: Vec<String> =
        details.paths.iter().map(|path| format!("{:?} {}", path.change, path.path.display())).collect();
    assert_eq!(paths, ["Modified README.md", "Added new", "Deleted run.sh"]);
    assert_eq!(details.branch.as_deref(), Some("sexton/two"));

    let drop =
        |commit: &str| pollster::block_on(cleaner().drop_rescue(&ground.repo, &session, commit)).unwrap();
    assert!(!drop(&"0".repeat(40)), "another commit is not what was asked for");
    assert!(drop(&details.entry.rescue.commit));
    assert!(!drop(&details.entry.rescue.commit));
    assert_eq!(listed().len(), 2);
    let gone = pollster::block_on(cleaner().describe_rescue(&ground.repo, &session)).unwrap_err();
    assert!(matches!(gone, WorktreeError::NoRescue { .. }));
}
