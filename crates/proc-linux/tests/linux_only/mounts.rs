//! The same directory under another name.

use std::path::Path;

use pollster::block_on;

use super::namespaces::unshared;
use super::play::{Actor, Case, pids, probe};

pub const CASES: &[Case] =
    &[("i3_a_process_in_another_mount_namespace_is_seen_inside", another_mount_namespace)];

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
