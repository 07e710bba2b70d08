//! SIGKILL at every system call that changes something: the next run reaches the same result as an
//! uninterrupted run.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sexton_core::worktree::{Inspection, Removal, WorktreeLocation};

use crate::Case;
use crate::roles::{self, Role};
use crate::support::{
    TestEnv, inspect, output_text, require_same, rescue, snapshot, sweep, try_create, try_remove, write,
};

pub const CASES: &[Case] = &[
    ("i7_creation_killed_at_any_call_is_finished_by_the_next", creation_then_creation),
    ("i7_creation_killed_at_any_call_is_removed_by_a_removal", creation_then_removal),
    ("i7_removal_killed_at_any_call_is_finished_by_the_next", removal_then_removal),
    ("i4_removal_that_fails_at_any_open_leaves_the_worktree_in_place", removal_that_fails),
    ("i7_removal_with_a_read_error_is_finished_by_the_next", removal_that_cannot_read),
    ("i8_removal_succeeds_without_additional_threads", removal_without_threads),
    ("i7_removal_with_a_packed_branch_killed_at_any_call_is_finished_by_the_next", removal_of_packed),
];

/// All calls that change a file system. A kill before such a call shows the state after the previous one, so
/// an `open` that creates a file need not be included.
const CHANGES: [&str; 21] = [
    "write",
    "pwrite64",
    "writev",
    "mkdir",
    "mkdirat",
    "rename",
    "renameat",
    "renameat2",
    "unlink",
    "unlinkat",
    "rmdir",
    "symlink",
    "symlinkat",
    "link",
    "linkat",
    "fsync",
    "fdatasync",
    "ftruncate",
    "chmod",
    "fchmod",
    "flock",
];
/// More calls than any run makes of one kind.
const MAX_CALLS: usize = 200;
/// More opens than the removal of two files needs.
const MAX_OPENS: usize = 60;

/// For a trace that is not read.
const NOWHERE: &str = "/dev/null";

/// Returns the command for `role` on `location` with the fault `what` at the `when`th call of `call`; the
/// calls are written to `trace`. With `of`, only calls on that file count.
fn command_with(
    role: Role,
    location: &WorktreeLocation,
    (call, what, when): (&str, &str, usize),
    trace: &Path,
    of: Option<&Path>,
) -> Command {
    let plain = roles::command(role, location);
    let mut traced = Command::new("strace");
    // strace cannot deliver signals with --seccomp-bpf, which is faster otherwise.
    traced.args((!what.starts_with("signal")).then_some("--seccomp-bpf"));
    traced.args(["-f", "-qq", "-e"]).arg(format!("inject={call}:{what}:when={when}")).arg("-o").arg(trace);
    traced.args(of.iter().flat_map(|path| ["-P".as_ref(), path.as_os_str()]));
    traced.args(["-e", &format!("trace={call}"), "--"]).arg(plain.get_program());
    traced.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    traced
}

/// Runs `role` on `location`, killed at the `when`th call of `call`; returns whether it finished.
fn run_killed(role: Role, location: &WorktreeLocation, call: &str, when: usize) -> bool {
    let mut traced = command_with(role, location, (call, "signal=SIGKILL", when), NOWHERE.as_ref(), None);
    // The output of a killed run is not needed.
    traced.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("strace is installed").success()
}

/// Kills `role` at every call in turn, and checks the result each time.
fn at_every_call(
    role: Role,
    location: &WorktreeLocation,
    mut prepare: impl FnMut(),
    mut check: impl FnMut(&str),
) {
    let mut killed = 0;
    for call in CHANGES {
        for when in 1..=MAX_CALLS {
            prepare();
            let finished = run_killed(role, location, call, when);
            check(&format!("{call} {when}"));
            if finished {
                break;
            }
            killed += 1;
        }
    }
    assert!(killed > 20, "only {killed} runs were killed: the test proves too little");
}

/// Returns a small repository: every file adds more calls to be killed at.
fn env() -> TestEnv {
    let env = TestEnv::empty();
    env.write("a.txt", "a\n");
    env.write("dir/b.txt", "b\n");
    env.commit("first");
    env
}

/// Returns what is in the repository, without objects, logs and staged entries.
fn registered(env: &TestEnv) -> Vec<(PathBuf, String)> {
    let mut snapshot = snapshot(&env.repo.join(".git"));
    let passing = ["objects", "logs", "sexton"];
    snapshot.retain(|(path, _)| !passing.iter().any(|name| path.starts_with(name)));
    snapshot
}

fn creation_then_creation() {
    let env = env();
    let location = env.location("s1");
    try_create(&location).unwrap();
    let whole = snapshot(&location.path);
    let clear = || {
        try_remove(&location).unwrap();
        sweep(&env.root);
    };
    at_every_call(Role::Create, &location, clear, |point| {
        try_create(&location).unwrap_or_else(|error| panic!("{point}: {error:?}"));
        require_same(&snapshot(&location.path), &whole);
        assert_eq!(inspect(&location), Inspection::Present { dirty: false, own_commits: 0 }, "{point}");
        assert_eq!(env.git_in(&location.path, ["status", "--porcelain"]), "", "{point}");
        env.require_clean(&[&location.path]);
        sweep(&env.root);
        assert_eq!(env.trash(), [""; 0], "{point}");
        require_same(&snapshot(&location.path), &whole);
    });
}

fn creation_then_removal() {
    let env = env();
    let location = env.location("s1");
    let before = registered(&env);
    at_every_call(
        Role::Create,
        &location,
        || {},
        |point| {
            // A concurrent sweep deletes nothing that is still registered.
            sweep(&env.root);
            assert_eq!(rescue(&location).saved, None, "{point}: no command ran, so there is nothing to save");
            let removal = try_remove(&location).unwrap_or_else(|error| panic!("{point}: {error:?}"));
            assert!(matches!(removal, Removal::Removed | Removal::AlreadyGone), "{point}: {removal:?}");
            sweep(&env.root);
            assert_eq!(env.trash(), [""; 0], "{point}");
            assert!(!location.path.exists(), "{point}");
            env.require_clean(&[]);
            require_same(&registered(&env), &before);
        },
    );
}

fn removal_then_removal() {
    require_removals(|_| {});
}

fn removal_of_packed() {
    require_removals(|env| {
        env.git(["pack-refs", "--all"]);
    });
}

fn removal_that_fails() {
    let env = env();
    let location = env.location("s1");
    let mut failed = 0;
    for when in 1..=MAX_OPENS {
        try_create(&location).unwrap();
        write(&location.path.join("a.txt"), "changed\n");
        let mut traced = command_with(
            Role::RemoveOnly,
            &location,
            ("openat2", "error=EMFILE", when),
            NOWHERE.as_ref(),
            None,
        );
        let printed = output_text(&traced.output().expect("strace is installed"));
        let whole = location.path.join("dir/b.txt").exists();
        assert!(whole || !printed.contains("Err("), "call {when}: it is not in its place: {printed}");
        assert!(!env.trash().iter().any(|name| name.ends_with(".unsaved")), "call {when}: {printed}");
        failed += usize::from(printed.contains("Err("));
    }
    assert!(failed > 5, "only {failed} runs failed: the test proves too little");
}

fn removal_that_cannot_read() {
    let env = env();
    let location = env.location("s1");
    let trace = env.root.with_extension("trace");
    let git = env.repo.join(".git");
    let mut failed = 0;
    for place in [&git, &git.join("HEAD"), &git.join("refs/heads/sexton/s1")] {
        for call in ["newfstatat", "openat", "read"] {
            for when in 1.. {
                begin_work(&env, &location);
                let mut traced =
                    command_with(Role::Remove, &location, (call, "error=EIO", when), &trace, Some(place));
                let printed = output_text(&traced.output().expect("strace is installed"));
                let point = format!("{call} {when} of {}, which printed {printed}", place.display());
                assert!(!printed.contains("is gone"), "{point}: an unreadable file was reported as gone");
                require_removed(&env, &location, &point);
                if !std::fs::read_to_string(&trace).unwrap().contains("INJECTED") {
                    break;
                }
                failed += 1;
            }
        }
    }
    assert!(failed > 10, "only {failed} runs failed: the test proves too little");
}

fn removal_without_threads() {
    let env = env();
    let location = env.location("s1");
    let trace = env.root.with_extension("trace");
    let mut failed = 0;
    for when in 1.. {
        begin_work(&env, &location);
        let fault = ("clone3", "error=EAGAIN", when);
        let printed =
            output_text(&command_with(Role::Remove, &location, fault, &trace, None).output().unwrap());
        assert!(printed.contains("Ok(Removed)"), "thread {when}: {printed}");
        require_removed(&env, &location, &format!("thread {when}"));
        if !std::fs::read_to_string(&trace).unwrap().contains("INJECTED") {
            break;
        }
        failed += 1;
    }
    assert!(failed > 0, "no thread was started: the test proves nothing");
}

fn require_removals(before: impl Fn(&TestEnv)) {
    let env = env();
    let location = env.location("s1");
    let work = || {
        begin_work(&env, &location);
        before(&env);
    };
    at_every_call(Role::Remove, &location, work, |point| require_removed(&env, &location, point));
}

/// Creates a worktree with work in it that is not saved yet.
fn begin_work(env: &TestEnv, location: &WorktreeLocation) {
    env.git(["update-ref", "-d", "refs/sexton/rescue/s1"]);
    try_create(location).unwrap();
    write(&location.path.join("a.txt"), "changed\n");
    write(&location.path.join("new.txt"), "new\n");
    std::fs::remove_file(location.path.join("dir/b.txt")).unwrap();
}

/// Removes it once more: whatever happened before, its work is saved and everything else is gone, including
/// the branch.
fn require_removed(env: &TestEnv, location: &WorktreeLocation, point: &str) {
    let removal = try_remove(location).unwrap_or_else(|error| panic!("{point}: {error:?}"));
    assert!(matches!(removal, Removal::Removed | Removal::AlreadyGone), "{point}: {removal:?}");
    sweep(&env.root);
    assert_eq!(env.trash(), [""; 0], "{point}");
    assert!(!location.path.exists(), "{point}");
    let saved = env.git(["diff", "--name-status", "--no-renames", "main", "refs/sexton/rescue/s1"]);
    assert_eq!(saved, "M\ta.txt\nD\tdir/b.txt\nA\tnew.txt", "{point}");
    assert_eq!(env.git(["show", "refs/sexton/rescue/s1:new.txt"]), "new", "{point}");
    assert_eq!(env.git(["branch", "--list", "sexton/*"]), "", "{point}");
    env.require_clean(&[]);
}
