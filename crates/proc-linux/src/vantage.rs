//! Where we stand: the boot, and the namespaces that give pids and ticks their meaning.

use std::io;

use sexton_core::ProcessIdentity;

use crate::handle::Handle;
use crate::procfs_dir::ProcDir;

/// What every identity taken by this process has in common. None of it changes while we live.
pub(crate) struct Vantage {
    boot_id: String,
    pid_namespace: u64,
    /// Kernels before 5.6 have no time namespaces.
    time_namespace: Option<u64>,
    /// Whether a pidfd has an inode of its own (Linux 6.9, 64 bit).
    pub(crate) has_pidfs: bool,
}

impl Vantage {
    /// Looks around; the error says what is missing here.
    pub(crate) fn look(proc: &ProcDir) -> Result<Vantage, String> {
        let own = std::process::id();
        // A `/proc` of an outer namespace shows other processes under our numbers.
        if proc.load_own_pids().map_err(|error| format!("/proc/self cannot be read: {error}"))? != [own] {
            return Err("/proc belongs to another pid namespace".to_owned());
        }
        let boot_id = proc.load("sys/kernel/random/boot_id").ok().flatten();
        let boot_id = boot_id.and_then(|text| Some(String::from_utf8(text).ok()?.trim().to_owned()));
        let boot_id = boot_id.filter(|id| !id.is_empty()).ok_or("the boot id cannot be read")?;
        let pid_namespace = namespace(proc, "pid").map_err(|error| error.to_string())?;
        let handle = Handle::open(own).map_err(|error| format!("pidfd_open does not work: {error}"))?;
        let handle = handle.ok_or("pidfd_open does not find this very process")?;
        Ok(Vantage {
            boot_id,
            pid_namespace: pid_namespace.ok_or("/proc/self/ns/pid is missing")?,
            time_namespace: namespace(proc, "time").map_err(|error| error.to_string())?,
            has_pidfs: handle.load_inode().map_err(|error| error.to_string())?.is_some(),
        })
    }

    /// The beginning of an identity: what is known of a pid without looking at the process.
    pub(crate) fn identity(&self, pid: u32) -> ProcessIdentity {
        ProcessIdentity {
            boot_id: Some(self.boot_id.clone()),
            pid_namespace: Some(self.pid_namespace),
            time_namespace: self.time_namespace,
            ..ProcessIdentity::of_pid(pid)
        }
    }

    /// Whether a recorded process belongs to an earlier boot, and so is gone without a look.
    pub(crate) fn is_of_another_boot(&self, recorded: &ProcessIdentity) -> bool {
        recorded.boot_id.as_ref().is_some_and(|boot| *boot != self.boot_id)
    }
}

fn namespace(proc: &ProcDir, kind: &str) -> io::Result<Option<u64>> {
    Ok(proc.load_metadata(&format!("self/ns/{kind}"))?.map(|metadata| metadata.st_ino))
}
