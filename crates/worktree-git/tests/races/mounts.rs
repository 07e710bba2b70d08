//! Mounts inside a worktree: what is mounted is somebody else's, and stays.

use std::fs;
use std::path::Path;
use std::process::Command;

use sexton_core::worktree::{Plot, Removal};

use crate::Case;
use crate::roles::{self, Role, SOURCE, TARGET};
use crate::support::{Ground, names, picture, require_same, said, sweep, try_remove, write};

pub const CASES: &[Case] = &[
    ("i5_a_worktree_with_a_mount_inside_is_kept", a_mount_inside),
    ("i5_a_worktree_with_a_file_mounted_over_an_ignored_one_is_kept", a_mount_that_a_rescue_passes_by),
    ("i5_a_worktree_that_is_a_mount_point_is_refused", a_mount_in_its_place),
    ("i5_a_sweep_leaves_trash_with_a_mount_inside", a_mount_in_the_trash),
    ("i5_a_sweep_does_not_cross_a_mount_that_appears_under_it", a_mount_during_a_sweep),
];

/// Plays `role` where `source` is mounted at `target`, for that process alone. An ordinary user becomes root
/// in a namespace of his own for it.
fn play_under_mount(role: Role, plot: &Plot, source: &Path, target: &Path) -> String {
    let script = format!("mount --bind \"${SOURCE}\" \"${TARGET}\" && exec \"$0\"");
    play_unshared(role, plot, source, target, &script)
}

fn play_unshared(role: Role, plot: &Plot, source: &Path, target: &Path, script: &str) -> String {
    let plain = roles::command(role, plot);
    let mut command = Command::new("unshare");
    command.args(["--user", "--map-root-user", "--mount", "--", "/bin/sh", "-c", script]);
    command.arg(plain.get_program()).envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let output = command.env(SOURCE, source).env(TARGET, target).output().expect("unshare is installed");
    assert!(output.status.success(), "{}", said(&output));
    said(&output)
}

/// Somebody else's files.
fn bystander(ground: &Ground) -> std::path::PathBuf {
    let bystander = ground.top().join("bystander");
    write(&bystander.join("precious"), "precious\n");
    bystander
}

fn a_mount_inside() {
    let ground = Ground::new();
    let (plot, bystander) = (ground.create("s1"), bystander(&ground));
    let target = plot.path.join("src/deep/mounted here");
    fs::create_dir(&target).unwrap();
    let outcome = play_under_mount(Role::RemoveOnly, &plot, &bystander, &target);
    assert!(
        outcome.contains("Err(") && outcome.contains("is mounted there"),
        "it cannot be rescued: {outcome}"
    );
    assert_eq!(ground.trash(), [""; 0], "and so it stays in its place");
    assert_eq!(names(&bystander), ["precious"]);
    assert!(plot.path.join("README.md").exists());
    ground.require_clean(&[&plot.path]);
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed, "without the mount it goes");
}

fn a_mount_that_a_rescue_passes_by() {
    let ground = Ground::new();
    let (plot, bystander) = (ground.create("s1"), bystander(&ground));
    write(&plot.path.join(".gitignore"), "cache/\n");
    let target = plot.path.join("cache/mounted");
    write(&target, "");
    let outcome = play_under_mount(Role::RemoveOnly, &plot, &bystander.join("precious"), &target);
    assert!(outcome.contains("Kept(\"something is mounted at "), "{outcome}");
    assert_eq!(fs::read_to_string(bystander.join("precious")).unwrap(), "precious\n");
    assert!(plot.path.join(".gitignore").exists());
    ground.require_clean(&[&plot.path]);
}

fn a_mount_in_its_place() {
    let ground = Ground::new();
    let (plot, bystander) = (ground.create("s1"), bystander(&ground));
    let outcome = play_under_mount(Role::RemoveOnly, &plot, &bystander, &plot.path);
    assert!(outcome.contains("it is a mount point"), "{outcome}");
    assert_eq!(names(&bystander), ["precious"]);
    ground.require_clean(&[&plot.path]);
}

/// A worktree in the trash, with a place to mount something.
fn discarded(ground: &Ground) -> (Plot, std::path::PathBuf) {
    let plot = ground.create("s1");
    assert_eq!(try_remove(&plot).unwrap(), Removal::Removed);
    let target = ground.root.join(".trash").join(&ground.trash()[0]).join("src/mounted");
    fs::create_dir(&target).unwrap();
    (plot, target)
}

fn a_mount_in_the_trash() {
    let ground = Ground::new();
    let ((plot, target), bystander) = (discarded(&ground), bystander(&ground));
    let before = picture(ground.top());
    let outcome = play_under_mount(Role::Sweep, &plot, &bystander, &target);
    assert_eq!(outcome.trim(), "Ok(0)");
    require_same(&picture(ground.top()), &before);
    assert_eq!(sweep(&ground.root), 1, "without the mount it goes");
}

fn a_mount_during_a_sweep() {
    let ground = Ground::new();
    let ((plot, target), bystander) = (discarded(&ground), bystander(&ground));
    let outcome = play_unshared(Role::SweepUnderAMount, &plot, &bystander, &target, "exec \"$0\"");
    assert!(outcome.starts_with("Err("), "{outcome}");
    assert_eq!(names(&bystander), ["precious"]);
    assert!(target.exists());
}
