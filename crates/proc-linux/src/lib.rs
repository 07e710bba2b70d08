//! The process probe for Linux: `/proc` to inspect, pidfds to signal.
//!
//! Architecture invariant: a signal is never sent to a pid. It is sent through a pidfd that was opened before
//! the process was examined. While that process has not exited, its pid cannot belong to another process, so
//! everything read by pid in between was about this one process.
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
mod identity_scope;
mod neighbours;
mod occupants;
mod procfs_dir;
mod prove;
mod reader;
mod reading;
mod scan;
mod scope;
mod stat;
mod sweep;
mod terminate;
mod usage;

pub mod cgroup;

use std::path::Path;
use std::sync::OnceLock;

use async_trait::async_trait;
use sexton_core::containment::ContainedBy;
use sexton_core::plugin::{ProbePlugin, inventory};
use sexton_core::probe::{
    Contained, EndPolicy, Ended, Group, Limits, Members, Occupants, ProbeCapabilities, ProcessDetails, Usage,
};
use sexton_core::session;
use sexton_core::{Liveness, Others, ProbeError, ProcessIdentity, ProcessProbe, SessionId, Time};

use crate::cgroup::Cgroup;
use crate::identity_scope::IdentityScope;
use crate::procfs_dir::ProcDir;

const NAME: &str = "linux";

inventory::submit! {
    ProbePlugin {
        name: NAME,
        summary: "procfs and pidfd: exact identities, signals that cannot reach another process, control groups",
        strength: 100,
        open,
    }
}

/// Opens the probe; the error names what is missing.
pub fn open() -> Result<Box<dyn ProcessProbe>, ProbeError> {
    Ok(Box::new(LinuxProbe::open()?))
}

/// Inspects processes through the mounted `/proc`.
struct LinuxProbe {
    proc: ProcDir,
    here: IdentityScope,
    /// Whether `/proc` hides processes from us; set at the first check.
    hides: OnceLock<bool>,
}

impl LinuxProbe {
    fn open() -> Result<LinuxProbe, ProbeError> {
        let proc = ProcDir::open()?;
        let here = IdentityScope::detect(&proc)?;
        Ok(LinuxProbe { proc, here, hides: OnceLock::new() })
    }

    /// Returns whether `/proc` hides processes from us. It hides none from root.
    fn hides_processes(&self) -> std::io::Result<bool> {
        if self.here.uid == 0 {
            return Ok(false);
        }
        match self.hides.get() {
            Some(hides) => Ok(*hides),
            None => {
                let hides = self.proc.hides_processes()?;
                Ok(*self.hides.get_or_init(|| hides))
            }
        }
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

    async fn parent(&self, pid: u32) -> Result<(ProcessIdentity, Option<u32>), ProbeError> {
        self.find_parent(pid)
    }

    async fn members(&self, group: &Group, others: &Others) -> Result<Members, ProbeError> {
        self.find_members(group, others)
            .map_err(|source| failed("searching for the session's processes", source))
    }

    async fn occupants(&self, dir: &Path) -> Result<Occupants, ProbeError> {
        self.find_occupants(dir)
            .map_err(|source| failed(&format!("searching for processes inside {}", dir.display()), source))
    }

    async fn terminate(&self, groups: &[Group], policy: &EndPolicy) -> Result<Vec<Ended>, ProbeError> {
        terminate::terminate(self, groups, policy)
            .map_err(|source| failed("stopping the processes of a session", source))
    }

    async fn usage(&self, groups: &[Group]) -> Result<Vec<Usage>, ProbeError> {
        self.measure(groups).map_err(|source| failed("measuring the processes of sessions", source))
    }

    async fn signal(&self, process: &ProcessIdentity, signal: i32) -> Result<Liveness, ProbeError> {
        self.signal_process(process, signal)
            .map_err(|source| failed(&format!("sending a signal to process {}", process.pid), source))
    }

    fn contain(&self, session: &SessionId, limits: &Limits) -> Result<Contained, ProbeError> {
        cgroup::contain(session, limits).map_err(not_contained(ContainedBy::Cgroup))
    }

    fn contain_in_scope(
        &self,
        session: &SessionId,
        limits: &Limits,
        command: u32,
    ) -> Result<Contained, ProbeError> {
        scope::contain(session, limits, command).map_err(not_contained(ContainedBy::Systemd))
    }

    fn check_containment(&self, by: ContainedBy) -> Result<(), ProbeError> {
        match by {
            ContainedBy::Cgroup => cgroup::find_base().map(|_| ()).map_err(not_contained(by)),
            ContainedBy::Systemd => scope::check().map_err(not_contained(by)),
            ContainedBy::Tree => Ok(()),
        }
    }

    fn lingers(&self) -> bool {
        scope::lingers()
    }

    fn find_container(&self, session: &SessionId) -> Option<session::Cgroup> {
        let made = Cgroup::find_of(session).ok().flatten();
        let found = made.or_else(|| scope::find_of(session).ok().flatten());
        found.map(|cgroup| cgroup.to_record())
    }

    fn release(&self, cgroup: &session::Cgroup) {
        // A group that is busy or cannot be opened stays, and `release_empty` finds it later.
        if let Ok(Some(cgroup)) = Cgroup::find(cgroup) {
            let _ = cgroup.remove();
        }
    }

    fn release_empty(&self, made_before: Time) {
        // If groups cannot be listed, none is removed; the next call tries again.
        let empty = cgroup::find_base().and_then(|base| cgroup::find_empty(&base, made_before));
        empty.unwrap_or_default().iter().for_each(|group| _ = group.remove());
        let _ = scope::release_empty(made_before);
    }
}

/// Returns a function that turns an error into "cannot be contained `by`".
fn not_contained(by: ContainedBy) -> impl Fn(std::io::Error) -> ProbeError {
    move |error| ProbeError::NotContained { by, why: error.to_string() }
}

/// Returns the error that this probe does not work here.
fn missing(why: impl Into<String>) -> ProbeError {
    ProbeError::Unsupported { probe: NAME, why: why.into() }
}

/// Classifies an error of `open`: unsupported here, in which case another probe may be tried, or a failure
/// that says nothing about support.
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
