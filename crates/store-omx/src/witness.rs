//! The identity of a lock's owner. The strongest probe that is linked into the program decides whether the
//! owner is gone; without a probe, no owner is ever considered gone.

use std::process;

use pollster::block_on;
use serde::{Deserialize, Serialize};
use sexton_core::plugin::{AUTO, Registry};
use sexton_core::{Liveness, ProcessIdentity, ProcessProbe};

use sexton_durable::random_uuid;

/// The owner recorded in a lock, so that other processes can determine whether it is still running.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// Distinguishes two locks of one process.
    pub(crate) token: String,
    /// The process that holds it.
    pub(crate) process: ProcessIdentity,
}

/// The probe for processes.
pub(crate) struct Witness {
    probe: Option<Box<dyn ProcessProbe>>,
}

impl Witness {
    /// Opens the probe.
    pub(crate) fn open() -> Witness {
        Witness { probe: Registry::linked().ok().and_then(|registry| registry.open_probe(AUTO).ok()) }
    }

    /// Returns this process as the owner of a new lock.
    pub(crate) fn new_owner(&self) -> Owner {
        let me = process::id();
        let identity = self.probe.as_ref().and_then(|probe| block_on(probe.identify(me)).ok());
        Owner { token: random_uuid(), process: identity.unwrap_or_else(|| ProcessIdentity::of_pid(me)) }
    }

    /// Returns whether the process of `identity` is proved to be gone.
    pub(crate) fn is_gone(&self, identity: &ProcessIdentity) -> bool {
        let seen = self.probe.as_ref().map(|probe| block_on(probe.observe(identity)));
        matches!(seen, Some(Liveness::Gone | Liveness::Reused))
    }

    /// Returns whether the process `pid` is running and started at `start_ticks`, if that is known.
    pub(crate) fn is_running(&self, pid: u32, start_ticks: Option<u64>) -> bool {
        let identity = self.probe.as_ref().and_then(|probe| block_on(probe.identify(pid)).ok());
        identity.is_some_and(|found| start_ticks.is_none_or(|ticks| found.start_ticks == Some(ticks)))
    }
}
