//! The scope of our identities: the boot, and the namespaces that give pids and ticks their meaning.

use sexton_core::probe::is_own_status;
use sexton_core::{ProbeError, ProcessIdentity};

use crate::handle::Handle;
use crate::procfs_dir::ProcDir;
use crate::{NAME, missing, obstacle};

/// What every identity taken by this process has in common. None of it changes while the process runs.
pub(crate) struct IdentityScope {
    boot_id: String,
    pid_namespace: u64,
    /// `None` before Linux 5.6, which has no time namespaces.
    time_namespace: Option<u64>,
    /// Whether each pidfd has its own inode (Linux 6.9, 64 bit).
    pub(crate) has_pidfs: bool,
    /// The effective user id.
    pub(crate) uid: u32,
}

impl IdentityScope {
    /// Reads the scope of this process; the error names what is missing.
    pub(crate) fn detect(proc: &ProcDir) -> Result<IdentityScope, ProbeError> {
        let own = std::process::id();
        // A `/proc` of an outer namespace shows other processes under our pids.
        let status = proc.load("self/status").map_err(|error| obstacle("reading /proc/self", error))?;
        if !is_own_status(&status.unwrap_or_default(), own) {
            return Err(ProbeError::ForeignProc { probe: NAME });
        }
        let boot_id = proc.load("sys/kernel/random/boot_id");
        let boot_id = boot_id.map_err(|error| obstacle("reading the boot id", error))?;
        let boot_id = boot_id.and_then(|text| Some(String::from_utf8(text).ok()?.trim().to_owned()));
        let boot_id = boot_id.filter(|id| !id.is_empty()).ok_or_else(|| missing("the boot id is missing"))?;
        let pid_namespace = namespace(proc, "pid")?;
        let handle = Handle::open(own).map_err(|error| obstacle("pidfd_open", error))?;
        let handle = handle.ok_or_else(|| missing("pidfd_open does not find this process itself"))?;
        let inode = handle.load_inode().map_err(|error| obstacle("examining a pidfd", error))?;
        Ok(IdentityScope {
            boot_id,
            pid_namespace: pid_namespace.ok_or_else(|| missing("/proc/self/ns/pid is missing"))?,
            time_namespace: namespace(proc, "time")?,
            has_pidfs: inode.is_some(),
            uid: rustix::process::geteuid().as_raw(),
        })
    }

    /// Returns the part of an identity that is known without reading anything about the process.
    pub(crate) fn identity(&self, pid: u32) -> ProcessIdentity {
        ProcessIdentity {
            boot_id: Some(self.boot_id.clone()),
            pid_namespace: Some(self.pid_namespace),
            time_namespace: self.time_namespace,
            ..ProcessIdentity::of_pid(pid)
        }
    }

    /// Returns whether a recorded process belongs to an earlier boot, and is therefore gone.
    pub(crate) fn is_of_another_boot(&self, recorded: &ProcessIdentity) -> bool {
        let another = recorded.boot_id.as_ref().is_some_and(|boot| *boot != self.boot_id);
        another && !sexton_mutant::is("no_boot_check")
    }
}

fn namespace(proc: &ProcDir, kind: &str) -> Result<Option<u64>, ProbeError> {
    let metadata = proc.load_metadata(&format!("self/ns/{kind}"));
    let metadata = metadata.map_err(|error| obstacle("examining /proc/self/ns", error))?;
    Ok(metadata.map(|metadata| metadata.st_ino))
}
