//! Facts about a process, for display and for the decision whether it may be registered.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Duration;

use rustix::io::Errno;
use rustix::time::{ClockId, clock_gettime};
use sexton_core::probe::ProcessDetails;
use sexton_core::{ProbeError, ProcessIdentity, Time};

use crate::LinuxProbe;
use crate::credentials::Credentials;
use crate::handle::Handle;
use crate::procfs_dir::is_refusal;
use crate::reader::Answer;
use crate::reading::Reading;

/// Returns when a process started that began `ticks` after boot. The result changes when the wall clock is
/// set.
fn started_at(ticks: u64) -> Option<Time> {
    let read = |clock| Duration::try_from(clock_gettime(clock)).ok();
    let boot = read(ClockId::Realtime)?.checked_sub(read(ClockId::Boottime)?)?;
    let per_second = procfs::ticks_per_second();
    let since_boot = Duration::from_millis(ticks.checked_mul(1000)? / per_second);
    Some(Time::since_1970(boot + since_boot))
}

impl LinuxProbe {
    pub(crate) fn describe_pid(&self, pid: u32) -> Result<ProcessDetails, ProbeError> {
        let denied = |error: io::Error| ProbeError::Denied { pid, why: error.to_string() };
        let gone = || ProbeError::Gone { pid };
        let handle = Handle::open(pid).map_err(denied)?.ok_or_else(gone)?;
        let identity = self.identify_handle(&handle).map_err(denied)?.ok_or_else(gone)?;
        let stat = self.load_stat(&handle).map_err(denied)?.ok_or_else(gone)?;
        let credentials = Credentials::load(&self.proc, &pid.to_string()).map_err(denied)?;
        let details = ProcessDetails {
            identity,
            uid: credentials.map(|credentials| credentials.effective_uid),
            kernel_thread: stat.is_kernel_thread(),
            stopped: stat.is_stopped(),
            parent: (stat.parent != 0).then_some(stat.parent),
            command: self.load_command(pid).map_err(denied)?,
            cwd: self.find_cwd(pid).map_err(denied)?,
            started_at: started_at(stat.start_ticks),
        };
        // The facts describe the process of the handle only if it has not exited.
        if handle.has_exited().map_err(denied)? { Err(gone()) } else { Ok(details) }
    }

    /// Returns the identity of the process that has `pid` now, and the pid of its parent.
    pub(crate) fn find_parent(&self, pid: u32) -> Result<(ProcessIdentity, Option<u32>), ProbeError> {
        let denied = |error: io::Error| ProbeError::Denied { pid, why: error.to_string() };
        let gone = || ProbeError::Gone { pid };
        let handle = Handle::open(pid).map_err(denied)?.ok_or_else(gone)?;
        let identity = self.identify_handle(&handle).map_err(denied)?.ok_or_else(gone)?;
        let stat = self.load_stat(&handle).map_err(denied)?.ok_or_else(gone)?;
        let parent = (stat.parent != 0).then_some(stat.parent);
        if handle.has_exited().map_err(denied)? { Err(gone()) } else { Ok((identity, parent)) }
    }

    fn load_command(&self, pid: u32) -> io::Result<Vec<OsString>> {
        // Like an environment, a command line may block forever when read; then it counts as empty.
        let line = match Reading::default().load(&self.proc, &format!("{pid}/cmdline"))? {
            Answer::Content(line) => line,
            Answer::Failed(Errno::NOENT | Errno::SRCH) | Answer::TimedOut | Answer::NotAsked => Vec::new(),
            Answer::Failed(errno) => return Err(errno.into()),
        };
        let line = line.strip_suffix(b"\0").unwrap_or(&line);
        if line.is_empty() {
            return Ok(Vec::new());
        }
        Ok(line.split(|byte| *byte == 0).map(|word| OsString::from_vec(word.to_vec())).collect())
    }

    fn find_cwd(&self, pid: u32) -> io::Result<Option<PathBuf>> {
        match self.proc.load_link(&format!("{pid}/cwd")) {
            Err(error) if is_refusal(&error) => Ok(None),
            found => found,
        }
    }
}
