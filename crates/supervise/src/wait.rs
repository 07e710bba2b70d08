//! Waits for processes that are not children.

use std::io;
use std::os::fd::{AsRawFd, RawFd};
use std::time::Instant;

use rustix::process::Resource;
use sexton_core::{Liveness, ProcessIdentity, ProcessProbe};

use crate::platform::{ExitWatch, wait_for};

/// Watches one process until it is gone.
pub struct ProcessWatch {
    pub(crate) watch: ExitWatch,
}

/// The descriptor is readable once the process is gone, for programs with their own event loop.
impl AsRawFd for ProcessWatch {
    fn as_raw_fd(&self) -> RawFd {
        self.watch.as_fd().as_raw_fd()
    }
}

/// Result of watching a process.
pub enum Watched {
    /// It is alive, and its exit will be detected.
    Alive(ProcessWatch),
    /// It is gone.
    Gone,
    /// Its state cannot be determined, with the reason.
    Unknown(String),
}

/// Watches `process`. The handle is opened before the identity is verified: if the process is alive then, it
/// had its pid all the time, and the handle refers to it.
pub fn watch_process(probe: &dyn ProcessProbe, process: &ProcessIdentity) -> Watched {
    let watch = match ExitWatch::open(process.pid) {
        Ok(Some(watch)) => watch,
        Ok(None) => return observe_missing(probe, process),
        Err(error) => return Watched::Unknown(error.to_string()),
    };
    match pollster::block_on(probe.observe(process)) {
        Liveness::Alive => Watched::Alive(ProcessWatch { watch }),
        Liveness::Gone | Liveness::Reused => Watched::Gone,
        Liveness::Unknown(why) => Watched::Unknown(why),
    }
}

/// Handles a pid without a process here; in another namespace it may still exist.
fn observe_missing(probe: &dyn ProcessProbe, process: &ProcessIdentity) -> Watched {
    match pollster::block_on(probe.observe(process)) {
        Liveness::Unknown(why) => Watched::Unknown(why),
        Liveness::Alive | Liveness::Gone | Liveness::Reused => Watched::Gone,
    }
}

/// Waits until every process is gone, or `until` is reached. Returns whether all are gone.
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

/// Maximum and minimum number of processes watched at a time.
const MAX_WATCHED: usize = 1024;
const MIN_WATCHED: usize = 8;

/// Waits until all these processes are gone, or `until` is reached. There may be more of them than this
/// program may have descriptors, so they are watched in groups: they exit whether watched or not.
pub fn wait_for_ends<'a>(
    probe: &dyn ProcessProbe,
    processes: impl Iterator<Item = &'a ProcessIdentity>,
    until: Instant,
) -> io::Result<()> {
    let mut processes = processes.peekable();
    let limit = watch_limit();
    while processes.peek().is_some() {
        let watches: Vec<_> = processes
            .by_ref()
            .filter_map(|process| match watch_process(probe, process) {
                Watched::Alive(watch) => Some(watch),
                Watched::Gone | Watched::Unknown(_) => None,
            })
            .take(limit)
            .collect();
        wait_for_all(&watches, Some(until))?;
    }
    Ok(())
}

/// Returns a fraction of the descriptor limit: this program needs other descriptors meanwhile.
fn watch_limit() -> usize {
    let files = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
    usize::try_from(files / 4).unwrap_or(MAX_WATCHED).clamp(MIN_WATCHED, MAX_WATCHED)
}
