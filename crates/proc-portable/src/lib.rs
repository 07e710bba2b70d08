//! The process probe for platforms without a better one: `sysinfo` to inspect, `kill` to signal.
//!
//! It keeps every rule of [`ProcessProbe`], with weaker evidence:
//!
//! - **Identity** is a pid and a start time in whole seconds. Only an exact match counts; anything else is
//!   Unknown, never "reused". Two processes that had one pid within one second cannot be distinguished.
//! - **There is no handle.** The identity is read again immediately before each signal. In the microseconds
//!   in between, the process could exit and its pid be reused.
//! - **The boot** is known only on Linux. Elsewhere a reboot is not detected as such: a recorded pid that
//!   does not exist is gone, one that exists is compared.
//! - **Waiting** for an exit means polling every 20 ms; there is no event.
//! - An **environment** that takes too long to read is left to a thread that may never end; such a thread can
//!   keep this process from exiting. The Linux probe uses a separate process for that.
//! - The **CPU time** of children that have exited is not known.
//! - An **empty environment** cannot always be distinguished from a hidden one (macOS hides those of its own
//!   programs). For a process of our user it counts as empty, so that descent decides.

mod cookie;
mod hold;
mod identity;
mod look;
mod memory;
mod occupants;
mod sweep;
mod terminate;
mod usage;

use std::path::Path;

use async_trait::async_trait;
use sexton_core::plugin::{ProbePlugin, inventory};
use sexton_core::probe::{
    EndPolicy, Ended, Group, Members, Occupants, ProbeCapabilities, ProcessDetails, Usage, is_own_status,
};
use sexton_core::{Liveness, Others, ProbeError, ProcessIdentity, ProcessProbe};

use crate::look::IdentityScope;

const NAME: &str = "portable";

inventory::submit! {
    ProbePlugin {
        name: NAME,
        summary: "any Unix: start times in seconds, signals by pid after a second check",
        strength: 10,
        open,
    }
}

/// Opens the probe; the error names what is missing.
pub fn open() -> Result<Box<dyn ProcessProbe>, ProbeError> {
    // With the `/proc` of another pid namespace our pids denote other processes.
    let is_foreign = |status: Vec<u8>| !is_own_status(&status, std::process::id());
    if cfg!(target_os = "linux") && std::fs::read("/proc/self/status").is_ok_and(is_foreign) {
        return Err(ProbeError::ForeignProc { probe: NAME });
    }
    let probe = PortableProbe { here: IdentityScope::detect() };
    probe.identify_pid(std::process::id()).map_err(|error| ProbeError::Unsupported {
        probe: NAME,
        why: format!("it does not find this process itself: {error}"),
    })?;
    Ok(Box::new(probe))
}

/// Inspects processes through `sysinfo`.
struct PortableProbe {
    here: IdentityScope,
}

#[async_trait]
impl ProcessProbe for PortableProbe {
    fn name(&self) -> &'static str {
        NAME
    }

    fn capabilities(&self) -> ProbeCapabilities {
        ProbeCapabilities { handle: false, exact_identity: false, cgroup: false }
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

    async fn members(&self, group: &Group, others: &Others) -> Result<Members, ProbeError> {
        self.find_members(group, others)
    }

    async fn occupants(&self, dir: &Path) -> Result<Occupants, ProbeError> {
        self.find_occupants(dir)
    }

    async fn terminate(&self, groups: &[Group], policy: &EndPolicy) -> Result<Vec<Ended>, ProbeError> {
        terminate::terminate(self, groups, policy)
    }

    async fn usage(&self, groups: &[Group]) -> Result<Vec<Usage>, ProbeError> {
        self.measure(groups).map_err(|source| failed("measuring the processes of sessions", source))
    }

    async fn signal(&self, process: &ProcessIdentity, signal: i32) -> Result<Liveness, ProbeError> {
        terminate::signal_process(self, process, signal)
            .map_err(|source| failed(&format!("sending a signal to process {}", process.pid), source))
    }
}

fn failed(action: &str, source: std::io::Error) -> ProbeError {
    ProbeError::Io { action: format!("{action} failed"), source }
}
