//! Who has a working directory inside another directory.

use std::path::{Path, PathBuf};

use tempfile::TempDir;

use super::ProbeSubject;
use super::scene::{Actor, Scene, sorted};
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<ProbeSubject> = theme!("occupants":
    i3_whoever_is_in_a_directory_or_below_it_is_an_occupant,
    a_sibling_with_the_same_beginning_is_another_directory,
    an_empty_directory_has_no_occupants,
    i3_whoever_is_in_a_deleted_directory_is_still_an_occupant,
    i3_a_symlink_to_the_directory_is_the_directory,
    i3_a_daemon_of_no_session_is_an_occupant_too,
    i3_the_caller_is_an_occupant_as_well,
    a_directory_that_does_not_exist_has_no_occupants,
    a_zombie_is_nowhere,
);

/// A directory with its real path: that is how the kernel knows it.
fn yard() -> (TempDir, PathBuf) {
    let directory = TempDir::new().expect("a temporary directory");
    let path = directory.path().canonicalize().expect("it is there");
    (directory, path)
}

/// A process whose working directory is `dir`, made where it is missing.
fn someone_in(scene: &Scene, dir: &Path) -> Actor {
    std::fs::create_dir_all(dir).expect("a directory can be made");
    let play = scene.stranger(["chdir".as_ref(), dir.as_os_str(), "say".as_ref(), "inside".as_ref()]);
    play.pids(["inside"]);
    play
}

fn i3_whoever_is_in_a_directory_or_below_it_is_an_occupant(subject: &ProbeSubject) {
    let (scene, (_guard, yard)) = (Scene::new(subject), yard());
    let top = someone_in(&scene, &yard.join("a"));
    let below = someone_in(&scene, &yard.join("a/b c/d"));
    assert_eq!(scene.occupant_pids(&yard.join("a")), sorted([top.pid(), below.pid()]));
    assert_eq!(scene.occupant_pids(&yard.join("a/b c")), [below.pid()]);
    assert_eq!(scene.occupant_pids(&yard), sorted([top.pid(), below.pid()]));
    // The same directory, written otherwise.
    assert_eq!(scene.occupant_pids(&yard.join("a/b c/d/")), [below.pid()]);
    assert_eq!(scene.occupant_pids(&yard.join("a/b c/../b c/./d")), [below.pid()]);
}

fn a_sibling_with_the_same_beginning_is_another_directory(subject: &ProbeSubject) {
    let (scene, (_guard, yard)) = (Scene::new(subject), yard());
    let inside = someone_in(&scene, &yard.join("a"));
    let _sibling = someone_in(&scene, &yard.join("ab"));
    let _parent = someone_in(&scene, &yard);
    assert_eq!(scene.occupant_pids(&yard.join("a")), [inside.pid()]);
}

fn an_empty_directory_has_no_occupants(subject: &ProbeSubject) {
    let (scene, (_guard, yard)) = (Scene::new(subject), yard());
    // Where this runs as an ordinary user, the machine is full of processes it cannot read: those of
    // other users do not count.
    assert_eq!(scene.occupant_pids(&yard), [0; 0]);
}

fn i3_whoever_is_in_a_deleted_directory_is_still_an_occupant(subject: &ProbeSubject) {
    let (scene, (_guard, yard)) = (Scene::new(subject), yard());
    let inside = someone_in(&scene, &yard.join("a/gone"));
    std::fs::remove_dir(yard.join("a/gone")).expect("an empty directory can be removed");
    assert_eq!(scene.occupant_pids(&yard.join("a")), [inside.pid()]);
}

fn i3_a_symlink_to_the_directory_is_the_directory(subject: &ProbeSubject) {
    let (scene, (_guard, yard)) = (Scene::new(subject), yard());
    let inside = someone_in(&scene, &yard.join("real/sub"));
    std::os::unix::fs::symlink(yard.join("real"), yard.join("link")).expect("a symlink can be made");
    assert_eq!(scene.occupant_pids(&yard.join("link")), [inside.pid()]);
}

fn i3_a_daemon_of_no_session_is_an_occupant_too(subject: &ProbeSubject) {
    let (scene, (_guard, yard)) = (Scene::new(subject), yard());
    let dir = yard.to_str().expect("a plain path");
    let play = scene.stranger(["leave", "setsid", "chdir", dir, "leave", "say", "daemon"]);
    let [daemon] = play.pids(["daemon"]);
    assert_eq!(scene.occupant_pids(&yard), [daemon]);
}

fn i3_the_caller_is_an_occupant_as_well(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let here = std::env::current_dir().expect("there is a working directory");
    let occupants = pollster::block_on(scene.probe.occupants(&here)).expect("the processes can be listed");
    assert!(occupants.processes.iter().any(|process| process.pid == std::process::id()), "{occupants:?}");
}

fn a_directory_that_does_not_exist_has_no_occupants(subject: &ProbeSubject) {
    let (scene, (_guard, yard)) = (Scene::new(subject), yard());
    let _inside = someone_in(&scene, &yard.join("a"));
    assert_eq!(scene.occupant_pids(&yard.join("never")), [0; 0]);
}

fn a_zombie_is_nowhere(subject: &ProbeSubject) {
    let (scene, (_guard, yard)) = (Scene::new(subject), yard());
    let inside = someone_in(&scene, &yard);
    inside.become_zombie();
    assert_eq!(scene.occupant_pids(&yard), [0; 0]);
}
