//! The identity of a process, and the liveness of a recorded one.

use std::io;

use sexton_core::identity::Match;
use sexton_core::{Liveness, OsText, ProbeError, ProcessIdentity};

use crate::LinuxProbe;
use crate::handle::Handle;
use crate::procfs_dir::is_refusal;
use crate::stat::Stat;

impl LinuxProbe {
    pub(crate) fn identify_pid(&self, pid: u32) -> Result<ProcessIdentity, ProbeError> {
        let denied = |error: io::Error| ProbeError::Denied { pid, why: error.to_string() };
        let gone = ProbeError::Gone { pid };
        let Some(handle) = Handle::open(pid).map_err(denied)? else { return Err(gone) };
        self.identify_handle(&handle).map_err(denied)?.ok_or(gone)
    }

    /// Identifies the process of a handle. Everything is read by pid while the handle shows that the process
    /// has not exited, so that all of it is about one process.
    pub(crate) fn identify_handle(&self, handle: &Handle) -> io::Result<Option<ProcessIdentity>> {
        let stat = self.find_stat(handle)?;
        let identity = match &stat {
            Some(stat) => Some(self.identity_from(handle, stat)?),
            None => None,
        };
        if handle.has_exited()? {
            return Ok(None);
        }
        match identity {
            Some(identity) => Ok(Some(identity)),
            None => Err(io::Error::other("/proc does not list it")),
        }
    }

    pub(crate) fn load_stat(&self, handle: &Handle) -> io::Result<Option<Stat>> {
        match self.proc.load_stat(&handle.pid.to_string()) {
            // Listed only by its number (`hidepid=1`).
            Err(error) if is_refusal(&error) => Ok(None),
            result => result,
        }
    }

    /// Like [`load_stat`](LinuxProbe::load_stat), but also for a process that `/proc` hides from us: its
    /// handle still proves its identity where pidfds have their own inodes.
    pub(crate) fn find_stat(&self, handle: &Handle) -> io::Result<Option<Stat>> {
        match self.load_stat(handle)? {
            None if self.hides_processes()? && self.here.has_pidfs && !handle.has_exited()? => {
                Ok(Some(Stat::hidden()))
            }
            found => Ok(found),
        }
    }

    /// Returns the identity of a process whose `stat` was read while `handle` was open. It is valid only if
    /// the handle is later seen not to have exited.
    pub(crate) fn identity_from(&self, handle: &Handle, stat: &Stat) -> io::Result<ProcessIdentity> {
        Ok(ProcessIdentity {
            pidfd_inode: if self.here.has_pidfs { handle.load_inode()? } else { None },
            start_ticks: (!stat.is_hidden()).then_some(stat.start_ticks),
            exe: self.find_exe(handle.pid)?,
            ..self.here.identity(handle.pid)
        })
    }

    fn find_exe(&self, pid: u32) -> io::Result<Option<OsText>> {
        match self.proc.load_link(&format!("{pid}/exe")) {
            Ok(path) => Ok(path.map(OsText::from)),
            Err(error) if is_refusal(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn observe_process(&self, recorded: &ProcessIdentity) -> Liveness {
        if self.here.is_of_another_boot(recorded) {
            return Liveness::Gone;
        }
        if let Err(why) = recorded.same_identity_scope(&self.here.identity(recorded.pid)) {
            return Liveness::Unknown(why);
        }
        match self.identify_pid(recorded.pid) {
            Ok(current) => match recorded.compare(&current) {
                Match::Same => Liveness::Alive,
                Match::Different => Liveness::Reused,
                Match::CannotTell(why) => Liveness::Unknown(why),
            },
            Err(ProbeError::Gone { .. }) => Liveness::Gone,
            Err(error) => Liveness::Unknown(error.to_string()),
        }
    }
}
