//! Mounts inside a worktree: mounted files are never deleted.

use std::fs;
use std::path::Path;
use std::process::Command;

use sexton_core::worktree::{Removal, WorktreeLocation};

use crate::Case;
use crate::roles::{self, Role, SOURCE, TARGET};
use crate::support::{TestEnv, names, output_text, require_same, snapshot, sweep, try_remove, write};

pub const CASES: &[Case] = &[
    ("i5_worktree_with_a_mount_inside_is_kept", mount_inside),
    ("i5_worktree_with_a_file_mounted_over_an_ignored_one_is_kept", mount_over_an_ignored_file),
    ("i5_worktree_that_is_a_mount_point_is_rejected", mount_in_place_of_the_worktree),
    ("i5_sweep_keeps_trash_with_a_mount_inside", mount_in_the_trash),
    ("i5_sweep_does_not_cross_a_mount_that_appears_during_it", mount_during_a_sweep),
];

/// Runs `role` with `source` mounted at `target`, for that process only. An ordinary user becomes root in a
/// separate namespace for it.
fn run_under_mount(role: Role, location: &WorktreeLocation, source: &Path, target: &Path) -> String {
    let script = format!("mount --bind \"${SOURCE}\" \"${TARGET}\" && exec \"$0\"");
    run_unshared(role, location, source, target, &script)
}

fn run_unshared(
    role: Role,
    location: &WorktreeLocation,
    source: &Path,
    target: &Path,
    script: &str,
) -> String {
    let plain = roles::command(role, location);
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "--", "/bin/sh", "-c", script]);
    command.arg(plain.get_program()).envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.env(SOURCE, source).env(TARGET, target).output().expect("unshare is installed");
    assert!(output.status.success(), "{}", output_text(&output));
    output_text(&output)
}

/// Creates files that do not belong to the worktree.
fn bystander(env: &TestEnv) -> std::path::PathBuf {
    let bystander = env.top().join("bystander");
    write(&bystander.join("precious"), "precious\n");
    bystander
}

fn mount_inside() {
    let env = TestEnv::new();
    let (location, bystander) = (env.create("s1"), bystander(&env));
    let target = location.path.join("src/deep/mounted here");
    fs::create_dir(&target).unwrap();
    let outcome = run_under_mount(Role::RemoveOnly, &location, &bystander, &target);
    assert!(
        outcome.contains("Err(") && outcome.contains("is mounted there"),
        "it cannot be rescued: {outcome}"
    );
    assert_eq!(env.trash(), [""; 0], "so it stays in its place");
    assert_eq!(names(&bystander), ["precious"]);
    assert!(location.path.join("README.md").exists());
    env.require_clean(&[&location.path]);
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed, "it is removed without the mount");
}

fn mount_over_an_ignored_file() {
    let env = TestEnv::new();
    let (location, bystander) = (env.create("s1"), bystander(&env));
    write(&location.path.join(".gitignore"), "cache/\n");
    let target = location.path.join("cache/mounted");
    write(&target, "");
    let outcome = run_under_mount(Role::RemoveOnly, &location, &bystander.join("precious"), &target);
    assert!(outcome.contains("Kept(\"something is mounted at "), "{outcome}");
    assert_eq!(fs::read_to_string(bystander.join("precious")).unwrap(), "precious\n");
    assert!(location.path.join(".gitignore").exists());
    env.require_clean(&[&location.path]);
}

fn mount_in_place_of_the_worktree() {
    let env = TestEnv::new();
    let (location, bystander) = (env.create("s1"), bystander(&env));
    let outcome = run_under_mount(Role::RemoveOnly, &location, &bystander, &location.path);
    assert!(outcome.contains("it is a mount point"), "{outcome}");
    assert_eq!(names(&bystander), ["precious"]);
    env.require_clean(&[&location.path]);
}

/// Returns a worktree in the trash, with a mount point.
fn discarded(env: &TestEnv) -> (WorktreeLocation, std::path::PathBuf) {
    let location = env.create("s1");
    assert_eq!(try_remove(&location).unwrap(), Removal::Removed);
    let target = env.root.join(".trash").join(&env.trash()[0]).join("src/mounted");
    fs::create_dir(&target).unwrap();
    (location, target)
}

fn mount_in_the_trash() {
    let env = TestEnv::new();
    let ((location, target), bystander) = (discarded(&env), bystander(&env));
    let before = snapshot(env.top());
    let outcome = run_under_mount(Role::Sweep, &location, &bystander, &target);
    assert!(outcome.contains("deleted: 0") && outcome.contains("something is mounted at "), "{outcome}");
    require_same(&snapshot(env.top()), &before);
    assert_eq!(sweep(&env.root), 1, "it is deleted without the mount");
}

fn mount_during_a_sweep() {
    let env = TestEnv::new();
    let ((location, target), bystander) = (discarded(&env), bystander(&env));
    let outcome = run_unshared(Role::SweepUnderAMount, &location, &bystander, &target, "exec \"$0\"");
    assert!(outcome.contains("deleted: 0") && outcome.contains("cannot delete"), "{outcome}");
    assert_eq!(names(&bystander), ["precious"]);
    assert!(target.exists());
}
