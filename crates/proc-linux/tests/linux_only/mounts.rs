//! The same directory under another name.

use std::path::Path;

use pollster::block_on;

use super::namespaces::unshared;
use super::play::{Actor, Case, pids, probe};

pub const CASES: &[Case] = &[
    ("i3_a_process_in_another_mount_namespace_is_seen_inside", another_mount_namespace),
    ("i3_all_who_share_a_directory_in_another_mount_namespace_are_seen_inside", several_in_one_directory),
];

fn another_mount_namespace() {
    let dir = tempfile::tempdir().unwrap();
    let (yard, elsewhere) = (dir.path().join("yard"), dir.path().join("elsewhere"));
    for path in [yard.join("deep/down"), elsewhere.clone(), dir.path().join("other")] {
        std::fs::create_dir_all(path).unwrap();
    }
    let script = "mount --bind \"$YARD\" \"$ELSEWHERE\" && cd \"$ELSEWHERE/deep/down\" && echo ready && exec sleep 600";
    let mut command = unshared(&["--mount"], Path::new("/bin/sh"));
    command.args(["-c", script]).env("YARD", &yard).env("ELSEWHERE", &elsewhere);
    let actor = Actor::start(&mut command);
    let inside = |path: &Path| pids(&block_on(probe().occupants(path)).unwrap().processes);
    assert_eq!(inside(&yard), [actor.pid()]);
    assert_eq!(inside(&yard.join("deep")), [actor.pid()]);
    assert_eq!(inside(&dir.path().join("other")), [0; 0]);
}

fn several_in_one_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (yard, elsewhere) = (dir.path().join("yard"), dir.path().join("elsewhere"));
    for path in [yard.join("a"), yard.join("b"), elsewhere.clone()] {
        std::fs::create_dir_all(path).unwrap();
    }
    let start = |place: &str| {
        let script = format!(
            "mount --bind \"$YARD\" \"$ELSEWHERE\" && cd \"$ELSEWHERE/{place}\" && echo ready && exec sleep 600"
        );
        let mut command = unshared(&["--mount"], Path::new("/bin/sh"));
        command.args(["-c", &script]).env("YARD", &yard).env("ELSEWHERE", &elsewhere);
        Actor::start(&mut command)
    };
    // Those outside come first, those inside after them: what was found out of one directory must not be
    // taken for another.
    let outside = [start("b"), start("b")];
    let inside = [start("a"), start("a")];
    let found = |path: &Path| {
        let mut found = pids(&block_on(probe().occupants(path)).unwrap().processes);
        found.sort_unstable();
        found
    };
    let sorted = |actors: &[Actor; 2]| {
        let mut pids = [actors[0].pid(), actors[1].pid()];
        pids.sort_unstable();
        pids
    };
    assert_eq!(found(&yard.join("a")), sorted(&inside));
    assert_eq!(found(&yard.join("b")), sorted(&outside));
}
