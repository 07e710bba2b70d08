//! A rescue is on disk when it says so, whatever happens to the process that makes it.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use sexton_core::worktree::{Plot, Rescue};
use support::{Ground, cleaner, names, rescue, write};

/// The rescue of a worktree that has something to save.
#[track_caller]
fn saved(plot: &Plot) -> Rescue {
    rescue(plot).saved.expect("there was something to save")
}

/// The variable that tells a role where its ground is.
const GROUND: &str = "SEXTON_TEST_GROUND";

/// Rescues a worktree: that of the ground in the environment, where another test runs this one in a process
/// that it can look at from outside; else one of its own.
#[test]
fn a_rescue_in_a_process_of_its_own() {
    let Some(top) = std::env::var_os(GROUND).map(PathBuf::from) else {
        let ground = Ground::new();
        let plot = ground.create("s1");
        write(&plot.path.join("README.md"), "changed\n");
        assert_eq!(saved(&plot).files, 1);
        return;
    };
    let plot = Plot {
        store: support::STORE.to_owned(),
        session: "s1".parse().unwrap(),
        repo: top.join("repo"),
        root: top.join("yard"),
        path: top.join("yard/s1"),
    };
    saved(&plot);
}

/// The role, run by a program that takes a command as its last arguments.
fn role(ground: &Ground, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "a_rescue_in_a_process_of_its_own", "--nocapture"]).env(GROUND, ground.top());
    command
}

#[test]
fn i4_all_of_a_rescue_is_on_disk_before_the_ref_is() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    write(&plot.path.join("README.md"), "changed\n");
    let trace = ground.top().join("trace");
    let calls = "-etrace=fsync,fdatasync,rename,renameat,renameat2,openat,unlink";
    let output =
        role(&ground, "strace", &["-f", "--seccomp-bpf", "-y", "-o", trace.to_str().unwrap(), calls])
            .output()
            .expect("strace");
    assert!(output.status.success(), "{}", support::said(&output));
    let trace = fs::read_to_string(&trace).unwrap();
    let git = ground.repo.join(".git").display().to_string();
    // Each must come after the one before it.
    let steps = [
        vec![format!("fsync(*<{git}/objects/pack/tmp_pack_"), format!("fsync(*<{git}/objects/pack/tmp_idx_")],
        // From here until the ref is there, no gc takes the pack away.
        vec![format!("openat(*{git}/objects/pack/pack-*.keep\"*O_CREAT")],
        vec![format!("rename*{git}/objects/pack/pack-*.pack\"")],
        vec![format!("rename*{git}/objects/pack/pack-*.idx\"")],
        vec![format!("fsync(*<{git}/objects/pack>)")],
        vec![format!("fsync(*<{git}/refs/sexton/rescue/.s1.new>)")],
        vec![format!("rename*{git}/refs/sexton/rescue/s1\"")],
        vec![format!("fsync(*<{git}/refs/sexton/rescue>)")],
        vec![format!("unlink(*{git}/objects/pack/pack-*.keep\"")],
    ];
    let mut from = 0;
    for step in steps {
        let found = step.iter().map(|pattern| {
            let position = trace.lines().skip(from).position(|line| matches(line, pattern));
            from + position.unwrap_or_else(|| panic!("{pattern} is not there after line {from}:\n{trace}"))
        });
        from = found.max().unwrap();
    }
    for directory in ["refs", "refs/sexton"] {
        let pattern = format!("fsync(*<{git}/{directory}>)");
        assert!(trace.lines().any(|line| matches(line, &pattern)), "{pattern}:\n{trace}");
    }
}

#[test]
fn i4_objects_that_git_did_not_sync_are_copied_into_the_pack() {
    let ground = Ground::new();
    ground.git(["repack", "-a", "-d", "--quiet"]);
    ground.git(["prune-packed"]);
    let plot = ground.create("s1");
    write(&plot.path.join("src/deep/er/file.txt"), "committed\n");
    ground.git_in(&plot.path, ["commit", "--quiet", "--all", "--message", "mine"]);
    write(&plot.path.join("README.md"), "staged\n");
    ground.git_in(&plot.path, ["add", "--all"]);
    write(&plot.path.join("README.md"), "changed\n");
    let rescue = saved(&plot);
    let objects = ground.repo.join(".git/objects");
    for name in names(&objects).iter().filter(|name| name.len() == 2) {
        fs::remove_dir_all(objects.join(name)).unwrap();
    }
    ground.git(["rev-list", "--objects", &rescue.commit]);
    let into = ground.top().join("restored");
    pollster::block_on(cleaner().restore(&ground.repo, &plot.session, &into)).unwrap();
    assert_eq!(ground.git_in(&into, ["show", ":README.md"]), "staged");
}

/// Whether the parts of a pattern, between its stars, are in a line one after another.
fn matches(line: &str, pattern: &str) -> bool {
    let mut rest = Some(line);
    for part in pattern.split('*') {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, after)| after);
    }
    rest.is_some()
}

#[test]
fn i4_a_file_that_cannot_be_read_keeps_the_worktree() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    let path = plot.path.join("README.md");
    write(&path, "changed\n");
    let arguments = ["-f", "-o", "/dev/null", "-P", path.to_str().unwrap(), "-e", "inject=read:error=EIO"];
    let output = role(&ground, "strace", &arguments).output().expect("strace");
    assert!(!output.status.success());
    let said = support::said(&output);
    assert!(said.contains("README.md") && said.contains("Input/output error"), "{said}");
    assert!(!ground.repo.join(".git/refs/sexton").exists());
}

#[test]
fn i4_a_large_file_goes_through_in_pieces() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    let content = noise(100 << 20);
    write(&plot.path.join("large"), &content);
    // Half of the file's size for everything, the program itself included.
    let output = role(&ground, "prlimit", &["--data=50000000", "--"]).output().expect("prlimit");
    assert!(output.status.success(), "{}", support::said(&output));
    let into = ground.top().join("restored");
    pollster::block_on(cleaner().restore(&ground.repo, &plot.session, &into)).unwrap();
    assert!(fs::read(into.join("large")).unwrap() == content);
    ground.git(["fsck", "--strict"]);
}

/// Bytes that do not compress.
fn noise(length: usize) -> Vec<u8> {
    let mut state = 0x9e37_79b9_7f4a_7c15_u64;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend(state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

/// What a killed process could leave half done.
const MUTATING: [&str; 10] =
    ["write", "ftruncate", "fsync", "rename", "renameat2", "link", "linkat", "unlink", "mkdir", "mkdirat"];

#[test]
fn i7_killed_at_any_moment_and_made_again_it_is_the_same_rescue() {
    let ground = Ground::new();
    let plot = ground.create("s1");
    write(&plot.path.join("README.md"), "committed\n");
    ground.git_in(&plot.path, ["commit", "--quiet", "--all", "--message", "mine"]);
    write(&plot.path.join("staged"), "staged\n");
    ground.git_in(&plot.path, ["add", "--all"]);
    write(&plot.path.join("untracked"), "untracked\n");
    let whole = saved(&plot);
    let tree = ground.git(["rev-parse", &format!("{}^{{tree}}", whole.commit)]);
    let session = plot.session.clone();
    let forget = || {
        for entry in pollster::block_on(cleaner().rescues(&ground.repo)).unwrap().entries {
            let commit = &entry.rescue.commit;
            pollster::block_on(cleaner().drop_rescue(&ground.repo, &session, commit)).unwrap();
        }
    };
    let mut kills = 0;
    for call in MUTATING {
        // strace counts every call by itself, and in every thread.
        for point in 1.. {
            forget();
            let inject = format!("inject={call}:signal=SIGKILL:when={point}");
            let only = format!("trace={call}");
            let strace = ["-f", "-o", "/dev/null", "-e", &only, "-e", &inject];
            let output = role(&ground, "strace", &strace).output().unwrap();
            let again = saved(&plot);
            let found = ground.git(["rev-parse", &format!("{}^{{tree}}", again.commit)]);
            assert_eq!(found, tree, "{call} {point}");
            assert_eq!(names(&ground.repo.join(".git/refs/sexton/rescue")), ["s1"], "{call} {point}");
            let packs = names(&ground.repo.join(".git/objects/pack"));
            assert!(!packs.iter().any(|name| name.ends_with(".keep")), "{call} {point}: {packs:?}");
            if output.status.success() {
                break;
            }
            kills += 1;
        }
    }
    ground.git(["fsck", "--strict", "--no-dangling"]);
    assert!(kills > 15, "only {kills} kills: the points are not where the work is");
}
