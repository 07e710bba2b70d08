//! The same directory under another path.

use std::path::Path;

use pollster::block_on;

use super::namespaces::unshared;
use super::play::{Case, TestProcess, pids, probe};

pub const CASES: &[Case] = &[
    ("i3_process_in_another_mount_namespace_counts_as_inside", another_mount_namespace),
    ("i3_all_processes_in_a_directory_of_another_mount_namespace_count_as_inside", several_in_one_directory),
];

fn another_mount_namespace() {
    let dir = tempfile::tempdir().unwrap();
    let (directory, elsewhere) = (dir.path().join("directory"), dir.path().join("elsewhere"));
    for path in [directory.join("deep/down"), elsewhere.clone(), dir.path().join("other")] {
        std::fs::create_dir_all(path).unwrap();
    }
    let script = "mount --bind \"$DIRECTORY\" \"$ELSEWHERE\" && cd \"$ELSEWHERE/deep/down\" && echo ready && exec sleep 600";
    let mut command = unshared(&["--mount"], Path::new("/bin/sh"));
    command.args(["-c", script]).env("DIRECTORY", &directory).env("ELSEWHERE", &elsewhere);
    let process = TestProcess::start(&mut command);
    let inside = |path: &Path| pids(&block_on(probe().occupants(path)).unwrap().processes);
    assert_eq!(inside(&directory), [process.pid()]);
    assert_eq!(inside(&directory.join("deep")), [process.pid()]);
    assert_eq!(inside(&dir.path().join("other")), [0; 0]);
}

fn several_in_one_directory() {
    let dir = tempfile::tempdir().unwrap();
    let (directory, elsewhere) = (dir.path().join("directory"), dir.path().join("elsewhere"));
    for path in [directory.join("a"), directory.join("b"), elsewhere.clone()] {
        std::fs::create_dir_all(path).unwrap();
    }
    let start = |place: &str| {
        let script = format!(
            "mount --bind \"$DIRECTORY\" \"$ELSEWHERE\" && cd \"$ELSEWHERE/{place}\" && echo ready && exec sleep 600"
        );
        let mut command = unshared(&["--mount"], Path::new("/bin/sh"));
        command.args(["-c", &script]).env("DIRECTORY", &directory).env("ELSEWHERE", &elsewhere);
        TestProcess::start(&mut command)
    };
    // The processes outside are started first: the cached result of one directory must not be used for
    // another.
    let outside = [start("b"), start("b")];
    let inside = [start("a"), start("a")];
    let found = |path: &Path| {
        let mut found = pids(&block_on(probe().occupants(path)).unwrap().processes);
        found.sort_unstable();
        found
    };
    let sorted = |processes: &[TestProcess; 2]| {
        let mut pids = [processes[0].pid(), processes[1].pid()];
        pids.sort_unstable();
        pids
    };
    assert_eq!(found(&directory.join("a")), sorted(&inside));
    assert_eq!(found(&directory.join("b")), sorted(&outside));
}
