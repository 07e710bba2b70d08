//! The process probe for Linux: `/proc` to see, pidfds to act.
//!
//! Architecture invariant: a number is never signalled. Whatever is told to end is told through a pidfd
//! that was opened first and examined afterwards; while that pidfd has not exited, its number cannot belong
//! to anybody else, so that everything read under the number in between was about this one process.
//!
//! On other systems this crate is empty.

#![cfg(target_os = "linux")]

mod cookie;
mod credentials;
mod describe;
#[cfg(fuzzing)]
pub mod fuzzing;
mod handle;
mod identity;
mod occupants;
mod procfs_dir;
mod prove;
mod scan;
mod stat;
mod sweep;
mod terminate;
mod usage;
mod vantage;

pub mod cgroup;

use std::path::Path;

use async_trait::async_trait;
use sexton_core::plugin::{ProbePlugin, inventory};
use sexton_core::probe::{
    Contained, EndPolicy, Ended, Group, Limits, Members, Occupants, ProbeCapabilities, ProcessDetails, Usage,
};
use sexton_core::session;
use sexton_core::{Liveness, ProbeError, ProcessIdentity, ProcessProbe, SessionId};

use crate::cgroup::Cgroup;
use crate::procfs_dir::ProcDir;
use crate::vantage::Vantage;

const NAME: &str = "linux";

inventory::submit! {
    ProbePlugin {
        name: NAME,
        summary: "procfs and pidfd: exact identities, signals that cannot go astray, control groups",
        strength: 100,
        open,
    }
}

/// Opens the probe, or says what is missing here.
pub fn open() -> Result<Box<dyn ProcessProbe>, ProbeError> {
    Ok(Box::new(LinuxProbe::open()?))
}

/// What looks at processes: the mounted `/proc`, and where we stand.
struct LinuxProbe {
    proc: ProcDir,
    here: Vantage,
}

impl LinuxProbe {
    fn open() -> Result<LinuxProbe, ProbeError> {
        let proc = ProcDir::open()?;
        let here = Vantage::look(&proc)?;
        Ok(LinuxProbe { proc, here })
    }
}

#[async_trait]
impl ProcessProbe for LinuxProbe {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> ProbeCapabilities {
        ProbeCapabilities {
            handle: true,
            exact_identity: self.here.has_pidfs,
            cgroup: cgroup::find_base().is_ok(),
        }
    }

    async fn identify(&self, pid: u32) -> Result<ProcessIdentity, ProbeError> {
        self.identify_pid(pid)
    }

    async fn observe(&self, identity: &ProcessIdentity) -> Liveness {
        self.observe_process(identity)
    }

    async fn describe(&self, pid: u32) -> Result<ProcessDetails, ProbeError> {
        self.describe_pid(pid)
    }

    async fn members(&self, group: &Group) -> Result<Members, ProbeError> {
        self.find_members(group).map_err(|source| failed("looking for the session's processes", source))
    }

    async fn occupants(&self, dir: &Path) -> Result<Occupants, ProbeError> {
        self.find_occupants(dir)
            .map_err(|source| failed(&format!("looking for processes inside {}", dir.display()), source))
    }

    async fn terminate(&self, groups: &[Group], policy: &EndPolicy) -> Result<Vec<Ended>, ProbeError> {
        terminate::terminate(self, groups, policy)
            .map_err(|source| failed("ending the processes of a session", source))
    }

    async fn usage(&self, groups: &[Group]) -> Result<Vec<Usage>, ProbeError> {
        self.measure(groups).map_err(|source| failed("measuring the processes of sessions", source))
    }

    async fn signal(&self, process: &ProcessIdentity, signal: i32) -> Result<Liveness, ProbeError> {
        self.signal_process(process, signal)
            .map_err(|source| failed(&format!("signalling process {}", process.pid), source))
    }

    fn contain(&self, session: &SessionId, limits: &Limits) -> Result<Contained, ProbeError> {
        let unsupported =
            |error: std::io::Error| ProbeError::Unsupported { probe: NAME, why: error.to_string() };
        cgroup::contain(session, limits).map_err(unsupported)
    }

    fn find_container(&self, session: &SessionId) -> Option<session::Cgroup> {
        Cgroup::find_of(session).ok().flatten().map(|cgroup| cgroup.to_record())
    }

    fn release(&self, cgroup: &session::Cgroup) {
        // One that is busy or cannot be opened stays, and is found again as a stray.
        if let Ok(Some(cgroup)) = Cgroup::find(cgroup) {
            let _ = cgroup.remove();
        }
    }
}

/// That this probe cannot work here, and why.
fn missing(why: impl Into<String>) -> ProbeError {
    ProbeError::Unsupported { probe: NAME, why: why.into() }
}

/// What an error says when we look around: that something is missing here, or only that looking failed. After
/// the one somebody else may try; after the other nobody knows anything.
fn obstacle(action: &str, error: std::io::Error) -> ProbeError {
    use std::io::ErrorKind::{InvalidInput, NotADirectory, NotFound, PermissionDenied, Unsupported};
    match error.kind() {
        NotFound | PermissionDenied | NotADirectory | InvalidInput | Unsupported => {
            missing(format!("{action} does not work: {error}"))
        }
        _ => failed(action, error),
    }
}

fn failed(action: &str, source: std::io::Error) -> ProbeError {
    ProbeError::Io { action: format!("{action} failed"), source }
}
