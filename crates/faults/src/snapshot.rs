//! A yard as it was: made once, put back before every trial.

use std::path::PathBuf;
use std::process::Command;

use sexton_field::Yard;

/// The state directory and the repository of a yard, set aside.
pub(crate) struct Snapshot {
    pairs: [(PathBuf, PathBuf); 2],
}

impl Snapshot {
    /// Sets a copy aside.
    pub(crate) fn take(yard: &Yard) -> Snapshot {
        let aside = |name: &str| yard.path().join(format!("{name}.aside"));
        let pairs = [(yard.state_dir(), aside("state")), (yard.work_dir(), aside("work"))];
        for (live, aside) in &pairs {
            copy(live, aside);
        }
        Snapshot { pairs }
    }

    /// Puts everything back.
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
