//! The process probe for platforms that have nothing better: what `sysinfo` sees, and `kill`.
//!
//! It keeps every rule of [`ProcessProbe`], with weaker evidence:
//!
//! - **Identity** is a pid and a start time in whole seconds. Only an exact match counts; anything else is
//!   Unknown, never "reused". Two processes that had one pid within one second cannot be told apart.
//! - **There is no handle.** The identity is taken again immediately before each signal. Between that look
//!   and the signal, some microseconds, the process could end and its pid be given to another.
//! - **The boot** is known on Linux alone. Elsewhere a reboot is not noticed as such: a recorded pid that
//!   nobody has is gone, one that somebody has is compared.
//! - **Waiting** for an end means looking again, every 20 ms; there is no event.
//! - The **processor time** of children that have ended is not known.
//! - An **environment** that is empty cannot everywhere be told from one that is hidden (macOS hides those
//!   of its own programs). Of a process of our user it counts as empty, so that descent decides.

mod cookie;
mod identity;
mod look;
mod occupants;
mod sweep;
mod terminate;
mod usage;

use std::path::Path;

use async_trait::async_trait;
use sexton_core::plugin::{ProbePlugin, inventory};
use sexton_core::probe::{
    EndPolicy, Ended, Group, Members, Occupants, ProbeCapabilities, ProcessDetails, Usage,
};
use sexton_core::{Liveness, ProbeError, ProcessIdentity, ProcessProbe};

use crate::look::Vantage;

const NAME: &str = "portable";

inventory::submit! {
    ProbePlugin {
        name: NAME,
        summary: "what every Unix shows: start times in seconds, signals by pid after a second look",
        strength: 10,
        open,
    }
}

/// Opens the probe, or says what is missing here.
pub fn open() -> Result<Box<dyn ProcessProbe>, ProbeError> {
    let probe = PortableProbe { here: Vantage::look() };
    probe.identify_pid(std::process::id()).map_err(|error| ProbeError::Unsupported {
        probe: NAME,
        why: format!("it does not see this very process: {error}"),
    })?;
    Ok(Box::new(probe))
}

/// What looks at processes.
struct PortableProbe {
    here: Vantage,
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

    async fn members(&self, group: &Group) -> Result<Members, ProbeError> {
        self.find_members(group)
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
            .map_err(|source| failed(&format!("signalling process {}", process.pid), source))
    }
}

fn failed(action: &str, source: std::io::Error) -> ProbeError {
    ProbeError::Io { action: format!("{action} failed"), source }
}
