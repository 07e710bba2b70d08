//! Waiting for processes that are nobody's children here.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Instant;

use sexton_core::{Liveness, ProcessIdentity, ProcessProbe};

use crate::platform::{ExitWatch, wait_for};

/// Watches one process until it is gone.
pub struct ProcessWatch {
    pub(crate) watch: ExitWatch,
}

/// For a program that waits for much else: the descriptor is readable once the process is gone.
impl AsRawFd for ProcessWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.watch.as_fd().as_raw_fd()
    }
}

/// What became of the wish to watch a process.
pub enum Watched {
    /// It lives, and its end will be seen.
    Alive(ProcessWatch),
    /// It is gone.
    Gone,
    /// Nobody can tell, and why.
    Unknown(String),
}

/// Watches `process`. The handle is opened first and the process proved afterwards: if it is alive then,
/// it has had its number all the while, and the handle is on it.
pub fn watch_process(probe: &dyn ProcessProbe, process: &ProcessIdentity) -> Watched {
    let watch = match ExitWatch::open(process.pid) {
        Ok(Some(watch)) => watch,
        Ok(None) => return settled(probe, process),
        Err(error) => return Watched::Unknown(error.to_string()),
    };
    match pollster::block_on(probe.observe(process)) {
        Liveness::Alive => Watched::Alive(ProcessWatch { watch }),
        Liveness::Gone | Liveness::Reused => Watched::Gone,
        Liveness::Unknown(why) => Watched::Unknown(why),
    }
}

/// Nobody has the number here; in another namespace it may still be somebody's.
fn settled(probe: &dyn ProcessProbe, process: &ProcessIdentity) -> Watched {
    match pollster::block_on(probe.observe(process)) {
        Liveness::Unknown(why) => Watched::Unknown(why),
        Liveness::Alive | Liveness::Gone | Liveness::Reused => Watched::Gone,
    }
}

/// Waits until every process is gone, or `until` has come. Says whether all are gone.
pub fn wait_for_all(watches: &[ProcessWatch], until: Option<Instant>) -> io::Result<bool> {
    let mut pending: Vec<_> = watches.iter().collect();
    while !pending.is_empty() {
        let fds: Vec<_> = pending.iter().map(|watch| watch.watch.as_fd()).collect();
        let ready = wait_for(&fds, until)?;
        if !ready.contains(&true) {
            return Ok(false);
        }
        pending =
            pending.into_iter().zip(ready).filter(|(_, ended)| !ended).map(|(watch, _)| watch).collect();
    }
    Ok(true)
}
