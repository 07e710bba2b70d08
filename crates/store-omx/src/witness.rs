//! Who we are and who others were: the owner that a lock names. It is judged by the strongest probe that is
//! linked into the program; where none is, nobody is ever judged to be gone.

use std::process;

use pollster::block_on;
use serde::{Deserialize, Serialize};
use sexton_core::plugin::{AUTO, Registry};
use sexton_core::{Liveness, ProcessIdentity, ProcessProbe};

use sexton_durable::random_uuid;

/// What we write into a lock, so that whoever finds it can tell whether we are still there.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Owner {
    /// Tells two locks of one process apart.
    pub(crate) token: String,
    /// The process that holds it.
    pub(crate) process: ProcessIdentity,
}

/// What sees processes.
pub(crate) struct Witness {
    probe: Option<Box<dyn ProcessProbe>>,
}

impl Witness {
    /// Opens the probe.
    pub(crate) fn open() -> Witness {
        Witness { probe: Registry::linked().ok().and_then(|registry| registry.open_probe(AUTO).ok()) }
    }

    /// This process, as the owner of a new lock.
    pub(crate) fn new_owner(&self) -> Owner {
        let me = process::id();
        let identity = self.probe.as_ref().and_then(|probe| block_on(probe.identify(me)).ok());
        Owner { token: random_uuid(), process: identity.unwrap_or_else(|| ProcessIdentity::of_pid(me)) }
    }

    /// Whether the process that `identity` speaks of is proved to be gone.
    pub(crate) fn is_gone(&self, identity: &ProcessIdentity) -> bool {
        let seen = self.probe.as_ref().map(|probe| block_on(probe.observe(identity)));
        matches!(seen, Some(Liveness::Gone | Liveness::Reused))
    }

    /// Whether the process `pid` runs and began at `start_ticks`, where that is known.
    pub(crate) fn is_running(&self, pid: u32, start_ticks: Option<u64>) -> bool {
        let identity = self.probe.as_ref().and_then(|probe| block_on(probe.identify(pid)).ok());
        identity.is_some_and(|found| start_ticks.is_none_or(|ticks| found.start_ticks == Some(ticks)))
    }
}
