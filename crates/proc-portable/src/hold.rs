//! Stops members that fork faster than the processes can be listed.
//!
//! A process of such a chain has exited before the pass is over, and its successor is not in any listing yet.
//! Stopped, it keeps its evidence and cannot fork, so the pass completes, and then it gets the signal that is due.

use rustix::process::Signal;
use sexton_core::{Liveness, ProcessIdentity};

use crate::PortableProbe;
use crate::terminate::signal_process;

/// Stopped processes. They are continued when this is dropped.
pub(crate) struct Held<'a> {
    probe: &'a PortableProbe,
    processes: Vec<ProcessIdentity>,
}

impl<'a> Held<'a> {
    pub(crate) fn new(probe: &'a PortableProbe) -> Held<'a> {
        Held { probe, processes: Vec::new() }
    }

    /// Stops a process, if its identity still matches. One that may not be signalled is not held.
    pub(crate) fn hold(&mut self, identity: &ProcessIdentity) {
        if let Ok(Liveness::Alive) = signal_process(self.probe, identity, Signal::STOP.as_raw()) {
            self.processes.push(identity.clone());
        }
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        for identity in &self.processes {
            // A process that cannot be signalled now was not stopped by this, or has exited.
            let _ = signal_process(self.probe, identity, Signal::CONT.as_raw());
        }
    }
}
