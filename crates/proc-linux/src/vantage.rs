//! Where we stand: the boot, and the namespaces that give pids and ticks their meaning.

use sexton_core::{ProbeError, ProcessIdentity};

use crate::handle::Handle;
use crate::procfs_dir::ProcDir;
use crate::{missing, obstacle};

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
    pub(crate) fn look(proc: &ProcDir) -> Result<Vantage, ProbeError> {
        let own = std::process::id();
        // A `/proc` of an outer namespace shows other processes under our numbers.
        if proc.load_own_pids().map_err(|error| obstacle("reading /proc/self", error))? != [own] {
            return Err(missing("/proc belongs to another pid namespace"));
        }
        let boot_id = proc.load("sys/kernel/random/boot_id");
        let boot_id = boot_id.map_err(|error| obstacle("reading the boot id", error))?;
        let boot_id = boot_id.and_then(|text| Some(String::from_utf8(text).ok()?.trim().to_owned()));
        let boot_id = boot_id.filter(|id| !id.is_empty()).ok_or_else(|| missing("there is no boot id"))?;
        let pid_namespace = namespace(proc, "pid")?;
        let handle = Handle::open(own).map_err(|error| obstacle("pidfd_open", error))?;
        let handle = handle.ok_or_else(|| missing("pidfd_open does not find this very process"))?;
        let inode = handle.load_inode().map_err(|error| obstacle("examining a pidfd", error))?;
        Ok(Vantage {
            boot_id,
            pid_namespace: pid_namespace.ok_or_else(|| missing("/proc/self/ns/pid is missing"))?,
            time_namespace: namespace(proc, "time")?,
            has_pidfs: inode.is_some(),
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
        let another = recorded.boot_id.as_ref().is_some_and(|boot| *boot != self.boot_id);
        another && !sexton_mutant::is("no_boot_check")
    }
}

fn namespace(proc: &ProcDir, kind: &str) -> Result<Option<u64>, ProbeError> {
    let metadata = proc.load_metadata(&format!("self/ns/{kind}"));
    let metadata = metadata.map_err(|error| obstacle("examining /proc/self/ns", error))?;
    Ok(metadata.map(|metadata| metadata.st_ino))
}
