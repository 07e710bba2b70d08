//! Inspects processes through `sysinfo`.
//!
//! `sysinfo` caches what it read and does not report why a read failed. So anything that must be reliable is
//! read with a new `System`, and a process that it does not list is checked with signal 0 before it counts as
//! gone.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use sexton_core::membership::parse_limits;
use sexton_core::{OsText, ProcessIdentity, Time};
use sysinfo::{
    Pid, Process, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System, ThreadKind, UpdateKind,
};

/// What every identity taken by this process has in common.
pub(crate) struct IdentityScope {
    boot_id: Option<String>,
    pid_namespace: Option<u64>,
}

impl IdentityScope {
    /// Reads the scope of this process. Only Linux has a boot id that does not depend on the clock; with a
    /// boot time, every process would count as dead after the clock is corrected.
    pub(crate) fn detect() -> IdentityScope {
        use std::os::unix::fs::MetadataExt;

        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        IdentityScope {
            boot_id: boot_id.map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()),
            pid_namespace: std::fs::metadata("/proc/self/ns/pid").ok().map(|namespace| namespace.ino()),
        }
    }

    /// Returns the part of an identity that is known without reading anything about the process.
    pub(crate) fn identity(&self, pid: u32) -> ProcessIdentity {
        ProcessIdentity {
            boot_id: self.boot_id.clone(),
            pid_namespace: self.pid_namespace,
            ..ProcessIdentity::of_pid(pid)
        }
    }

    /// Returns whether a recorded process belongs to an earlier boot, and is therefore gone.
    pub(crate) fn is_of_another_boot(&self, recorded: &ProcessIdentity) -> bool {
        matches!((&recorded.boot_id, &self.boot_id), (Some(recorded), Some(now)) if recorded != now)
    }

    fn identity_of(&self, process: &Process) -> ProcessIdentity {
        // `sysinfo` returns 0 if the time is not known.
        let seconds = Some(process.start_time()).filter(|seconds| *seconds != 0);
        ProcessIdentity {
            start_time_us: seconds.and_then(|seconds| seconds.checked_mul(1_000_000)),
            exe: process.exe().map(OsText::from),
            ..self.identity(process.pid().as_u32())
        }
    }
}

/// A live process, as read at one moment.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) identity: ProcessIdentity,
    pub(crate) parent: Option<u32>,
    pub(crate) real_uid: Option<u32>,
    pub(crate) effective_uid: Option<u32>,
    pub(crate) environment: Vec<std::ffi::OsString>,
    pub(crate) command: Vec<std::ffi::OsString>,
    pub(crate) cwd: Option<PathBuf>,
    pub(crate) started_at: Option<Time>,
    pub(crate) is_kernel_thread: bool,
    pub(crate) is_stopped: bool,
    pub(crate) is_stuck: bool,
}

impl Seen {
    pub(crate) fn pid(&self) -> u32 {
        self.identity.pid
    }

    /// Returns the file lock limit, if it has one and belongs to our user. Only Linux provides it.
    pub(crate) fn load_limit(&self) -> Option<u64> {
        if cfg!(not(target_os = "linux")) || !self.is_our_users() {
            return None;
        }
        parse_limits(&std::fs::read(format!("/proc/{}/limits", self.pid())).ok()?)
    }

    /// Returns whether it belongs to our user: such a process may be read.
    pub(crate) fn is_our_users(&self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        self.real_uid == Some(own) || self.effective_uid == Some(own)
    }
}

/// Result of inspecting one pid.
pub(crate) enum Inspection {
    /// A live process.
    Alive(Box<Seen>),
    /// No process, or a zombie.
    Absent,
    /// A process that cannot be read.
    Hidden,
}

/// Inspects the process that has `pid` now, without cached data of earlier processes.
pub(crate) fn inspect(here: &IdentityScope, pid: u32) -> io::Result<Inspection> {
    inspect_with(&mut new_system()?, here, pid)
}

fn inspect_with(system: &mut System, here: &IdentityScope, pid: u32) -> io::Result<Inspection> {
    // Not a possible pid.
    if pid == 0 || i32::try_from(pid).is_err() {
        return Ok(Inspection::Absent);
    }
    let always = UpdateKind::Always;
    let everything = ProcessRefreshKind::nothing().with_cwd(always).with_exe(always).with_user(always);
    // On Linux these reads can block forever; `memory` reads them with a time limit.
    let everything = match cfg!(target_os = "linux") {
        true => everything,
        false => everything.with_cmd(always).with_environ(always),
    };
    let number = Pid::from_u32(pid);
    let refresh = |system: &mut System, kind| {
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[number]), true, kind);
    };
    refresh(system, everything);
    if system.process(number).is_some_and(has_ended) {
        refresh(system, everything.with_tasks());
    }
    match system.process(number) {
        Some(process) if is_program_or_kernel(process) => {
            let is_gone = has_ended(process) && !has_other_threads(process);
            Ok(if is_gone { Inspection::Absent } else { Inspection::Alive(Box::new(seen(here, process))) })
        }
        // The number is that of a thread.
        Some(_) => Ok(Inspection::Absent),
        None => Ok(if exists(pid)? { Inspection::Hidden } else { Inspection::Absent }),
    }
}

fn seen(here: &IdentityScope, process: &Process) -> Seen {
    Seen {
        identity: here.identity_of(process),
        parent: process.parent().map(Pid::as_u32),
        real_uid: process.user_id().map(|uid| **uid),
        effective_uid: process.effective_user_id().map(|uid| **uid),
        environment: process.environ().to_vec(),
        command: process.cmd().to_vec(),
        cwd: process.cwd().map(PathBuf::from),
        started_at: Some(process.start_time())
            .filter(|seconds| *seconds != 0)
            .map(|seconds| Time::since_1970(Duration::from_secs(seconds))),
        is_kernel_thread: process.thread_kind() == Some(ThreadKind::Kernel),
        is_stopped: process.status() == ProcessStatus::Stop,
        is_stuck: process.status() == ProcessStatus::UninterruptibleDiskSleep,
    }
}

fn is_program_or_kernel(process: &Process) -> bool {
    process.thread_kind() != Some(ThreadKind::Userland)
}

fn has_ended(process: &Process) -> bool {
    matches!(process.status(), ProcessStatus::Zombie | ProcessStatus::Dead)
}

/// Returns whether other threads run. A process whose first thread exited before the others is listed as a
/// zombie but is alive.
fn has_other_threads(process: &Process) -> bool {
    process.tasks().is_some_and(|tasks| tasks.iter().any(|task| *task != process.pid()))
}

/// Returns the CPU time and memory of the process that has `pid` now; `None` if there is none.
pub(crate) fn measure_one(pid: u32) -> io::Result<Option<(Duration, u64)>> {
    let mut system = new_system()?;
    let number = Pid::from_u32(pid);
    let kind = ProcessRefreshKind::nothing().with_cpu().with_memory();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[number]), true, kind);
    let process = system.process(number).filter(|process| !has_ended(process));
    Ok(process.map(|process| (Duration::from_millis(process.accumulated_cpu_time()), process.memory())))
}

/// Returns whether a process, possibly a zombie, has this pid.
fn exists(pid: u32) -> io::Result<bool> {
    let Some(number) = i32::try_from(pid).ok().and_then(rustix::process::Pid::from_raw) else {
        return Ok(false);
    };
    match rustix::process::test_kill_process(number) {
        Ok(()) | Err(Errno::PERM) => Ok(true),
        Err(Errno::SRCH) => Ok(false),
        Err(errno) => Err(errno.into()),
    }
}

/// Lists all processes until a listing shows no unvisited one: a process that forked and exited between being
/// listed and being read left a child that the listing does not contain. Calls `visit` with the live processes
/// of each listing that were not visited before. Returns `false` if it did not finish before `until`.
pub(crate) fn for_each_listing(
    here: &IdentityScope,
    until: Instant,
    mut visit: impl FnMut(Vec<Seen>) -> io::Result<()>,
) -> io::Result<bool> {
    let mut lister = new_system()?;
    let mut inspector = new_system()?;
    let mut visited = HashSet::new();
    while Instant::now() < until {
        let mut fresh = list_pids(&mut lister)?;
        fresh.retain(|pid| visited.insert(*pid));
        if fresh.is_empty() {
            return Ok(true);
        }
        let mut living = Vec::new();
        for pid in fresh {
            if let Inspection::Alive(seen) = inspect_with(&mut inspector, here, pid)?
                && !seen.is_kernel_thread
            {
                living.push(*seen);
            }
        }
        visit(living)?;
    }
    Ok(false)
}

/// Returns all pids. `sysinfo` reads every process to list them, which takes longer than some processes live;
/// `/proc`, where it exists, lists them at once.
///
/// A listing without this process is an error: `sysinfo` reports a failed one as empty, and that must not mean
/// that no process exists.
fn list_pids(lister: &mut System) -> io::Result<Vec<u32>> {
    let own = std::process::id();
    let pids = list_proc().unwrap_or_default();
    if pids.contains(&own) {
        return Ok(pids);
    }
    lister.refresh_processes_specifics(ProcessesToUpdate::All, true, ProcessRefreshKind::nothing());
    let pids: Vec<u32> = lister.processes().keys().map(|pid| pid.as_u32()).collect();
    if pids.contains(&own) { Ok(pids) } else { Err(io::Error::other("the processes cannot be listed")) }
}

fn list_proc() -> io::Result<Vec<u32>> {
    let mut pids = Vec::new();
    for entry in std::fs::read_dir("/proc")? {
        pids.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
    }
    Ok(pids)
}

fn new_system() -> io::Result<System> {
    System::new().map_err(|error| io::Error::other(error.to_string()))
}
