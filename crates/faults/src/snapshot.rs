//! A copy of a test environment: taken once, restored before every trial.

use std::path::PathBuf;
use std::process::Command;

use sexton_test_harness::TestEnv;

/// A copy of the state directory and the repository of a test environment.
pub(crate) struct Snapshot {
    pairs: [(PathBuf, PathBuf); 2],
}

impl Snapshot {
    /// Takes a copy.
    pub(crate) fn take(test_env: &TestEnv) -> Snapshot {
        let aside = |name: &str| test_env.path().join(format!("{name}.aside"));
        let pairs = [(test_env.state_dir(), aside("state")), (test_env.work_dir(), aside("work"))];
        for (live, aside) in &pairs {
            copy(live, aside);
        }
        Snapshot { pairs }
    }

    /// Restores both directories.
    pub(crate) fn put_back(&self) {
        for (live, aside) in &self.pairs {
            std::fs::remove_dir_all(live).unwrap();
            copy(aside, live);
        }
    }
}

fn copy(from: &PathBuf, to: &PathBuf) {
    assert!(Command::new("cp").arg("-a").args([from, to]).status().unwrap().success());
}
