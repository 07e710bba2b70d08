//! A rescue is durable when it returns, whatever happens to the process that makes it.

#![allow(clippy::unwrap_used, reason = "a failed precondition fails the test")]

mod support;

use std::fs;
use std::path::PathBuf;
use std::process::Command;

use sexton_core::worktree::{Rescue, WorktreeLocation};
use support::{TestEnv, cleaner, names, rescue, write};

/// Returns the rescue of a worktree that has something to save.
#[track_caller]
fn saved(location: &WorktreeLocation) -> Rescue {
    rescue(location).saved.expect("there was something to save")
}

/// The variable with the path of the test environment for a role.
const TEST_ENV: &str = "SEXTON_TEST_ENV";

/// Rescues a worktree: that of the test environment that the variable names, if another test runs this one in
/// a separate process; otherwise one of its own.
#[test]
fn rescue_in_a_separate_process() {
    let Some(top) = std::env::var_os(TEST_ENV).map(PathBuf::from) else {
        let env = TestEnv::new();
        let location = env.create("s1");
        write(&location.path.join("README.md"), "changed\n");
        assert_eq!(saved(&location).files, 1);
        return;
    };
    let location = WorktreeLocation {
        store: support::STORE.to_owned(),
        session: "s1".parse().unwrap(),
        repo: top.join("repo"),
        root: top.join("worktrees"),
        path: top.join("worktrees/s1"),
    };
    saved(&location);
}

/// Returns the command for the role, run by a program that takes a command as its last arguments.
fn role(env: &TestEnv, program: &str, arguments: &[&str]) -> Command {
    let mut command = Command::new(program);
    command.args(arguments).arg(std::env::current_exe().unwrap());
    command.args(["--exact", "rescue_in_a_separate_process", "--nocapture"]).env(TEST_ENV, env.top());
    command
}

#[test]
fn i4_rescue_is_durable_before_its_ref() {
    let env = TestEnv::new();
    let location = env.create("s1");
    write(&location.path.join("README.md"), "changed\n");
    let trace = env.top().join("trace");
    let calls = "-etrace=fsync,fdatasync,rename,renameat,renameat2,openat,unlink";
    let output = role(&env, "strace", &["-f", "--seccomp-bpf", "-y", "-o", trace.to_str().unwrap(), calls])
        .output()
        .expect("strace");
    assert!(output.status.success(), "{}", support::output_text(&output));
    let trace = fs::read_to_string(&trace).unwrap();
    let git = env.repo.join(".git").display().to_string();
    // Each step must come after the one before it.
    let steps = [
        vec![format!("fsync(*<{git}/objects/pack/tmp_pack_"), format!("fsync(*<{git}/objects/pack/tmp_idx_")],
        // From here until the ref exists, no gc deletes the pack.
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
            from + position.unwrap_or_else(|| panic!("{pattern} does not occur after line {from}:\n{trace}"))
        });
        from = found.max().unwrap();
    }
    for directory in ["refs", "refs/sexton"] {
        let pattern = format!("fsync(*<{git}/{directory}>)");
        assert!(trace.lines().any(|line| matches(line, &pattern)), "{pattern}:\n{trace}");
    }
}

#[test]
fn i4_unsynced_objects_are_copied_into_the_pack() {
    let env = TestEnv::new();
    env.git(["repack", "-a", "-d", "--quiet"]);
    env.git(["prune-packed"]);
    let location = env.create("s1");
    write(&location.path.join("src/deep/er/file.txt"), "committed\n");
    env.git_in(&location.path, ["commit", "--quiet", "--all", "--message", "mine"]);
    write(&location.path.join("README.md"), "staged\n");
    env.git_in(&location.path, ["add", "--all"]);
    write(&location.path.join("README.md"), "changed\n");
    let rescue = saved(&location);
    let objects = env.repo.join(".git/objects");
    for name in names(&objects).iter().filter(|name| name.len() == 2) {
        fs::remove_dir_all(objects.join(name)).unwrap();
    }
    env.git(["rev-list", "--objects", &rescue.commit]);
    let into = env.top().join("restored");
    pollster::block_on(cleaner().restore(&env.repo, &location.session, &into)).unwrap();
    assert_eq!(env.git_in(&into, ["show", ":README.md"]), "staged");
}

/// Returns whether a line contains the parts of a pattern, separated by stars, in this order.
fn matches(line: &str, pattern: &str) -> bool {
    let mut rest = Some(line);
    for part in pattern.split('*') {
        rest = rest.and_then(|rest| rest.split_once(part)).map(|(_, after)| after);
    }
    rest.is_some()
}

#[test]
fn i4_unreadable_file_keeps_the_worktree() {
    let env = TestEnv::new();
    let location = env.create("s1");
    let path = location.path.join("README.md");
    write(&path, "changed\n");
    let arguments = ["-f", "-o", "/dev/null", "-P", path.to_str().unwrap(), "-e", "inject=read:error=EIO"];
    let output = role(&env, "strace", &arguments).output().expect("strace");
    assert!(!output.status.success());
    let printed = support::output_text(&output);
    assert!(printed.contains("README.md") && printed.contains("Input/output error"), "{printed}");
    assert!(!env.repo.join(".git/refs/sexton").exists());
}

#[test]
fn i4_large_file_is_rescued_in_pieces() {
    let env = TestEnv::new();
    let location = env.create("s1");
    let content = noise(100 << 20);
    write(&location.path.join("large"), &content);
    // Half of the file's size for the whole process.
    let output = role(&env, "prlimit", &["--data=50000000", "--"]).output().expect("prlimit");
    assert!(output.status.success(), "{}", support::output_text(&output));
    let into = env.top().join("restored");
    pollster::block_on(cleaner().restore(&env.repo, &location.session, &into)).unwrap();
    assert!(fs::read(into.join("large")).unwrap() == content);
    env.git(["fsck", "--strict"]);
}

/// Returns bytes that do not compress.
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

/// The calls at which a kill could leave something incomplete.
const MUTATING: [&str; 10] =
    ["write", "ftruncate", "fsync", "rename", "renameat2", "link", "linkat", "unlink", "mkdir", "mkdirat"];

#[test]
fn i7_rescue_killed_at_any_call_and_repeated_is_the_same() {
    let env = TestEnv::new();
    let location = env.create("s1");
    write(&location.path.join("README.md"), "committed\n");
    env.git_in(&location.path, ["commit", "--quiet", "--all", "--message", "mine"]);
    write(&location.path.join("staged"), "staged\n");
    env.git_in(&location.path, ["add", "--all"]);
    write(&location.path.join("untracked"), "untracked\n");
    let whole = saved(&location);
    let tree = env.git(["rev-parse", &format!("{}^{{tree}}", whole.commit)]);
    let session = location.session.clone();
    let forget = || {
        for entry in pollster::block_on(cleaner().rescues(&env.repo)).unwrap().entries {
            let commit = &entry.rescue.commit;
            pollster::block_on(cleaner().drop_rescue(&env.repo, &session, commit)).unwrap();
        }
    };
    let mut kills = 0;
    for call in MUTATING {
        // strace counts each call separately, and per thread.
        for point in 1.. {
            forget();
            let inject = format!("inject={call}:signal=SIGKILL:when={point}");
            let only = format!("trace={call}");
            let strace = ["-f", "-o", "/dev/null", "-e", &only, "-e", &inject];
            let output = role(&env, "strace", &strace).output().unwrap();
            let again = saved(&location);
            let found = env.git(["rev-parse", &format!("{}^{{tree}}", again.commit)]);
            assert_eq!(found, tree, "{call} {point}");
            assert_eq!(names(&env.repo.join(".git/refs/sexton/rescue")), ["s1"], "{call} {point}");
            let packs = names(&env.repo.join(".git/objects/pack"));
            assert!(!packs.iter().any(|name| name.ends_with(".keep")), "{call} {point}: {packs:?}");
            if output.status.success() {
                break;
            }
            kills += 1;
        }
    }
    env.git(["fsck", "--strict", "--no-dangling"]);
    assert!(kills > 15, "only {kills} kills: the test proves too little");
}
