//! Processes with a working directory inside a given directory.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::ProbeSubject;
use super::test_env::{Actor, TestEnv, sorted};
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<ProbeSubject> = theme!("occupants":
    i3_process_in_a_directory_or_below_is_an_occupant,
    sibling_with_the_same_prefix_does_not_count,
    unused_directory_has_no_occupants,
    i3_process_in_a_deleted_directory_is_an_occupant,
    i3_symlink_to_the_directory_is_resolved,
    i3_daemon_without_session_is_an_occupant,
    i3_caller_is_an_occupant,
    missing_directory_has_no_occupants,
    zombie_is_not_an_occupant,
);

/// Creates a temporary directory and returns it with its real path, as reported by the kernel.
fn real_dir() -> (TempDir, PathBuf) {
    let directory = TempDir::new().expect("a temporary directory");
    let path = directory.path().canonicalize().expect("it is there");
    (directory, path)
}

/// Starts a process with the working directory `dir`, which is created if needed.
fn process_in(test_env: &TestEnv, dir: &Path) -> Actor {
    std::fs::create_dir_all(dir).expect("a directory can be made");
    let actor = test_env.stranger(["chdir".as_ref(), dir.as_os_str(), "say".as_ref(), "inside".as_ref()]);
    actor.pids(["inside"]);
    actor
}

fn i3_process_in_a_directory_or_below_is_an_occupant(subject: &ProbeSubject) {
    let (test_env, (_guard, real_dir)) = (TestEnv::new(subject), real_dir());
    let top = process_in(&test_env, &real_dir.join("a"));
    let below = process_in(&test_env, &real_dir.join("a/b c/d"));
    assert_eq!(test_env.occupant_pids(&real_dir.join("a")), sorted([top.pid(), below.pid()]));
    assert_eq!(test_env.occupant_pids(&real_dir.join("a/b c")), [below.pid()]);
    assert_eq!(test_env.occupant_pids(&real_dir), sorted([top.pid(), below.pid()]));
    // The same directory by other paths.
    assert_eq!(test_env.occupant_pids(&real_dir.join("a/b c/d/")), [below.pid()]);
    assert_eq!(test_env.occupant_pids(&real_dir.join("a/b c/../b c/./d")), [below.pid()]);
}

fn sibling_with_the_same_prefix_does_not_count(subject: &ProbeSubject) {
    let (test_env, (_guard, real_dir)) = (TestEnv::new(subject), real_dir());
    let inside = process_in(&test_env, &real_dir.join("a"));
    let _sibling = process_in(&test_env, &real_dir.join("ab"));
    let _parent = process_in(&test_env, &real_dir);
    assert_eq!(test_env.occupant_pids(&real_dir.join("a")), [inside.pid()]);
}

fn unused_directory_has_no_occupants(subject: &ProbeSubject) {
    let (test_env, (_guard, real_dir)) = (TestEnv::new(subject), real_dir());
    // An unprivileged user cannot read processes of other users; they do not count.
    assert_eq!(test_env.occupant_pids(&real_dir), [0; 0]);
}

fn i3_process_in_a_deleted_directory_is_an_occupant(subject: &ProbeSubject) {
    let (test_env, (_guard, real_dir)) = (TestEnv::new(subject), real_dir());
    let inside = process_in(&test_env, &real_dir.join("a/gone"));
    std::fs::remove_dir(real_dir.join("a/gone")).expect("an empty directory can be removed");
    assert_eq!(test_env.occupant_pids(&real_dir.join("a")), [inside.pid()]);
}

fn i3_symlink_to_the_directory_is_resolved(subject: &ProbeSubject) {
    let (test_env, (_guard, real_dir)) = (TestEnv::new(subject), real_dir());
    let inside = process_in(&test_env, &real_dir.join("real/sub"));
    std::os::unix::fs::symlink(real_dir.join("real"), real_dir.join("link")).expect("a symlink can be made");
    assert_eq!(test_env.occupant_pids(&real_dir.join("link")), [inside.pid()]);
}

fn i3_daemon_without_session_is_an_occupant(subject: &ProbeSubject) {
    let (test_env, (_guard, real_dir)) = (TestEnv::new(subject), real_dir());
    let dir = real_dir.to_str().expect("a plain path");
    let actor = test_env.stranger(["leave", "setsid", "chdir", dir, "leave", "say", "daemon"]);
    let [daemon] = actor.pids(["daemon"]);
    assert_eq!(test_env.occupant_pids(&real_dir), [daemon]);
}

fn i3_caller_is_an_occupant(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let here = std::env::current_dir().expect("there is a working directory");
    let occupants = pollster::block_on(test_env.probe.occupants(&here)).expect("the processes can be listed");
    assert!(occupants.processes.iter().any(|process| process.pid == std::process::id()), "{occupants:?}");
}

fn missing_directory_has_no_occupants(subject: &ProbeSubject) {
    let (test_env, (_guard, real_dir)) = (TestEnv::new(subject), real_dir());
    let _inside = process_in(&test_env, &real_dir.join("a"));
    assert_eq!(test_env.occupant_pids(&real_dir.join("never")), [0; 0]);
}

fn zombie_is_not_an_occupant(subject: &ProbeSubject) {
    let (test_env, (_guard, real_dir)) = (TestEnv::new(subject), real_dir());
    let inside = process_in(&test_env, &real_dir);
    inside.become_zombie();
    assert_eq!(test_env.occupant_pids(&real_dir), [0; 0]);
}
