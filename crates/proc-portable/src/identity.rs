//! The identity of a process, and the liveness of a recorded one.

use sexton_core::identity::Match;
use sexton_core::probe::ProcessDetails;
use sexton_core::{Liveness, ProbeError, ProcessIdentity};

use crate::PortableProbe;
use crate::look::{Inspection, Seen, inspect};
use crate::memory::load_command;

impl PortableProbe {
    pub(crate) fn identify_pid(&self, pid: u32) -> Result<ProcessIdentity, ProbeError> {
        self.require(pid).map(|seen| seen.identity)
    }

    fn require(&self, pid: u32) -> Result<Seen, ProbeError> {
        match inspect(&self.here, pid) {
            Ok(Inspection::Alive(seen)) => Ok(*seen),
            Ok(Inspection::Absent) => Err(ProbeError::Gone { pid }),
            Ok(Inspection::Hidden) => {
                Err(ProbeError::Denied { pid, why: "it is hidden from this user".to_owned() })
            }
            Err(error) => Err(ProbeError::Denied { pid, why: error.to_string() }),
        }
    }

    pub(crate) fn observe_process(&self, recorded: &ProcessIdentity) -> Liveness {
        if self.here.is_of_another_boot(recorded) {
            return Liveness::Gone;
        }
        if let Err(why) = recorded.same_identity_scope(&self.here.identity(recorded.pid)) {
            return Liveness::Unknown(why);
        }
        match self.require(recorded.pid) {
            Ok(seen) => match recorded.compare(&seen.identity) {
                Match::Same => Liveness::Alive,
                // A resolution of one second cannot prove that it is another process.
                Match::Different => Liveness::Unknown("the evidence is too weak".to_owned()),
                Match::CannotTell(why) => Liveness::Unknown(why),
            },
            Err(ProbeError::Gone { .. }) => Liveness::Gone,
            Err(error) => Liveness::Unknown(error.to_string()),
        }
    }

    pub(crate) fn describe_pid(&self, pid: u32) -> Result<ProcessDetails, ProbeError> {
        let seen = self.require(pid)?;
        Ok(ProcessDetails {
            identity: seen.identity,
            uid: seen.effective_uid.or(seen.real_uid),
            kernel_thread: seen.is_kernel_thread,
            stopped: seen.is_stopped,
            parent: seen.parent,
            command: load_command(pid, seen.command),
            cwd: seen.cwd,
            started_at: seen.started_at,
        })
    }
}
