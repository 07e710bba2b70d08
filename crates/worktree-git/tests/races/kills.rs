//! SIGKILL at every system call that changes something: the next run reaches the end that an uninterrupted
//! one would have reached.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use sexton_core::worktree::{Inspection, Plot, Removal};

use crate::Case;
use crate::roles::{self, Role};
use crate::support::{
    Ground, inspect, picture, require_same, rescue, said, sweep, try_create, try_remove, write,
};

pub const CASES: &[Case] = &[
    ("i7_a_creation_killed_anywhere_is_finished_by_the_next", creation_then_creation),
    ("i7_a_creation_killed_anywhere_is_taken_away_by_a_removal", creation_then_removal),
    ("i7_a_removal_killed_anywhere_is_finished_by_the_next", removal_then_removal),
    ("i4_a_removal_that_fails_at_any_look_leaves_the_worktree_in_its_place", removal_that_fails),
    ("i7_a_removal_that_could_not_read_something_is_finished_by_the_next", removal_that_cannot_read),
    ("i8_a_removal_for_which_there_is_no_thread_does_it_alone", removal_without_threads),
    ("i7_a_removal_with_a_packed_branch_killed_anywhere_is_finished_by_the_next", removal_of_packed),
];

/// Everything that changes a file system. A kill before such a call shows the state after the one before it,
/// so that an `open` which makes a file need not be among them.
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
/// More than any of them is called.
const MAX_CALLS: usize = 200;
/// More than a removal of two files looks at.
const MAX_LOOKS: usize = 60;

/// For a trace that nobody reads.
const NOWHERE: &str = "/dev/null";

/// `role` on `plot`, with `what` done to the `when`th call of `call`; the calls are written into `trace`. With `of`
/// only calls about that file count.
fn command_with(
    role: Role,
    plot: &Plot,
    (call, what, when): (&str, &str, usize),
    trace: &Path,
    of: Option<&Path>,
) -> Command {
    let plain = roles::command(role, plot);
    let mut traced = Command::new("strace");
    // Strace delivers no signal where the kernel lets pass what is not traced, which is quicker otherwise.
    traced.args((!what.starts_with("signal")).then_some("--seccomp-bpf"));
    traced.args(["-f", "-qq", "-e"]).arg(format!("inject={call}:{what}:when={when}")).arg("-o").arg(trace);
    traced.args(of.iter().flat_map(|path| ["-P".as_ref(), path.as_os_str()]));
    traced.args(["-e", &format!("trace={call}"), "--"]).arg(plain.get_program());
    traced.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    traced
}

/// Runs `role` on `plot`, killed at the `when`th call of `call`; says whether it came to its end.
fn run_killed(role: Role, plot: &Plot, call: &str, when: usize) -> bool {
    let mut traced = command_with(role, plot, (call, "signal=SIGKILL", when), NOWHERE.as_ref(), None);
    // What a killed one tells nobody wants to know.
    traced.stdout(Stdio::null()).stderr(Stdio::null()).status().expect("strace is installed").success()
}

/// Kills `role` at every call in turn, and looks at what is left each time.
fn at_every_call(role: Role, plot: &Plot, mut prepare: impl FnMut(), mut check: impl FnMut(&str)) {
    let mut killed = 0;
    for call in CHANGES {
        for when in 1..=MAX_CALLS {
            prepare();
            let finished = run_killed(role, plot, call, when);
            check(&format!("{call} {when}"));
            if finished {
                break;
            }
            killed += 1;
        }
    }
    assert!(killed > 20, "only {killed} were killed: the case proves too little");
}

/// A small repository: every file is a few more calls to be killed at.
fn ground() -> Ground {
    let ground = Ground::empty();
    ground.write("a.txt", "a\n");
    ground.write("dir/b.txt", "b\n");
    ground.commit("first");
    ground
}

/// What is in the repository beside objects and what only says what happened.
fn registered(ground: &Ground) -> Vec<(PathBuf, String)> {
    let mut picture = picture(&ground.repo.join(".git"));
    let passing = ["objects", "logs", "sexton"];
    picture.retain(|(path, _)| !passing.iter().any(|name| path.starts_with(name)));
    picture
}

fn creation_then_creation() {
    let ground = ground();
    let plot = ground.plot("s1");
    try_create(&plot).unwrap();
    let whole = picture(&plot.path);
    let clear = || {
        try_remove(&plot).unwrap();
        sweep(&ground.root);
    };
    at_every_call(Role::Create, &plot, clear, |point| {
        try_create(&plot).unwrap_or_else(|error| panic!("{point}: {error:?}"));
        require_same(&picture(&plot.path), &whole);
        assert_eq!(inspect(&plot), Inspection::Present { dirty: false, own_commits: 0 }, "{point}");
        assert_eq!(ground.git_in(&plot.path, ["status", "--porcelain"]), "", "{point}");
        ground.require_clean(&[&plot.path]);
        sweep(&ground.root);
        assert_eq!(ground.trash(), [""; 0], "{point}");
        require_same(&picture(&plot.path), &whole);
    });
}

fn creation_then_removal() {
    let ground = ground();
    let plot = ground.plot("s1");
    let before = registered(&ground);
    at_every_call(
        Role::Create,
        &plot,
        || {},
        |point| {
            // Whoever sweeps meanwhile takes nothing away that is still registered.
            sweep(&ground.root);
            assert_eq!(rescue(&plot).saved, None, "{point}: no command ran, so there is nothing to save");
            let removal = try_remove(&plot).unwrap_or_else(|error| panic!("{point}: {error:?}"));
            assert!(matches!(removal, Removal::Removed | Removal::AlreadyGone), "{point}: {removal:?}");
            sweep(&ground.root);
            assert_eq!(ground.trash(), [""; 0], "{point}");
            assert!(!plot.path.exists(), "{point}");
            ground.require_clean(&[]);
            require_same(&registered(&ground), &before);
        },
    );
}

fn removal_then_removal() {
    require_removals(|_| {});
}

fn removal_of_packed() {
    require_removals(|ground| {
        ground.git(["pack-refs", "--all"]);
    });
}

fn removal_that_fails() {
    let ground = ground();
    let plot = ground.plot("s1");
    let mut failed = 0;
    for when in 1..=MAX_LOOKS {
        try_create(&plot).unwrap();
        write(&plot.path.join("a.txt"), "changed\n");
        let mut traced =
            command_with(Role::RemoveOnly, &plot, ("openat2", "error=EMFILE", when), NOWHERE.as_ref(), None);
        let said = said(&traced.output().expect("strace is installed"));
        let whole = plot.path.join("dir/b.txt").exists();
        assert!(whole || !said.contains("Err("), "call {when}: it is not in its place: {said}");
        assert!(!ground.trash().iter().any(|name| name.ends_with(".unsaved")), "call {when}: {said}");
        failed += usize::from(said.contains("Err("));
    }
    assert!(failed > 5, "only {failed} failed: the case proves too little");
}

fn removal_that_cannot_read() {
    let ground = ground();
    let plot = ground.plot("s1");
    let trace = ground.root.with_extension("trace");
    let git = ground.repo.join(".git");
    let mut failed = 0;
    for place in [&git, &git.join("HEAD"), &git.join("refs/heads/sexton/s1")] {
        for call in ["newfstatat", "openat", "read"] {
            for when in 1.. {
                begin_work(&ground, &plot);
                let mut traced =
                    command_with(Role::Remove, &plot, (call, "error=EIO", when), &trace, Some(place));
                let said = said(&traced.output().expect("strace is installed"));
                let point = format!("{call} {when} of {}, which said {said}", place.display());
                assert!(!said.contains("is gone"), "{point}: what cannot be seen is not gone");
                require_removed(&ground, &plot, &point);
                if !std::fs::read_to_string(&trace).unwrap().contains("INJECTED") {
                    break;
                }
                failed += 1;
            }
        }
    }
    assert!(failed > 10, "only {failed} failed: the case proves too little");
}

fn removal_without_threads() {
    let ground = ground();
    let plot = ground.plot("s1");
    let trace = ground.root.with_extension("trace");
    let mut failed = 0;
    for when in 1.. {
        begin_work(&ground, &plot);
        let fault = ("clone3", "error=EAGAIN", when);
        let said = said(&command_with(Role::Remove, &plot, fault, &trace, None).output().unwrap());
        assert!(said.contains("Ok(Removed)"), "thread {when}: {said}");
        require_removed(&ground, &plot, &format!("thread {when}"));
        if !std::fs::read_to_string(&trace).unwrap().contains("INJECTED") {
            break;
        }
        failed += 1;
    }
    assert!(failed > 0, "no thread was wanted: the case proves nothing");
}

fn require_removals(before: impl Fn(&Ground)) {
    let ground = ground();
    let plot = ground.plot("s1");
    let work = || {
        begin_work(&ground, &plot);
        before(&ground);
    };
    at_every_call(Role::Remove, &plot, work, |point| require_removed(&ground, &plot, point));
}

/// A worktree with work in it that nobody saved yet.
fn begin_work(ground: &Ground, plot: &Plot) {
    ground.git(["update-ref", "-d", "refs/sexton/rescue/s1"]);
    try_create(plot).unwrap();
    write(&plot.path.join("a.txt"), "changed\n");
    write(&plot.path.join("new.txt"), "new\n");
    std::fs::remove_file(plot.path.join("dir/b.txt")).unwrap();
}

/// Removes it once more: whatever happened before, its work is saved and all else is gone, the branch too.
fn require_removed(ground: &Ground, plot: &Plot, point: &str) {
    let removal = try_remove(plot).unwrap_or_else(|error| panic!("{point}: {error:?}"));
    assert!(matches!(removal, Removal::Removed | Removal::AlreadyGone), "{point}: {removal:?}");
    sweep(&ground.root);
    assert_eq!(ground.trash(), [""; 0], "{point}");
    assert!(!plot.path.exists(), "{point}");
    let saved = ground.git(["diff", "--name-status", "--no-renames", "main", "refs/sexton/rescue/s1"]);
    assert_eq!(saved, "M\ta.txt\nD\tdir/b.txt\nA\tnew.txt", "{point}");
    assert_eq!(ground.git(["show", "refs/sexton/rescue/s1:new.txt"]), "new", "{point}");
    assert_eq!(ground.git(["branch", "--list", "sexton/*"]), "", "{point}");
    ground.require_clean(&[]);
}
