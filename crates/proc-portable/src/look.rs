//! Looking at processes through `sysinfo`.
//!
//! `sysinfo` keeps what it saw and does not say why it could not see; so what is to be trusted is read
//! with a new `System`, and a process that it does not show is asked for by a signal 0 before it is gone.

use std::collections::HashSet;
use std::io;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use sexton_core::{OsText, ProcessIdentity, Time};
use sysinfo::{
    Pid, Process, ProcessRefreshKind, ProcessStatus, ProcessesToUpdate, System, ThreadKind, UpdateKind,
};

/// What every identity taken by this process has in common.
pub(crate) struct Vantage {
    boot_id: Option<String>,
    pid_namespace: Option<u64>,
}

impl Vantage {
    /// Looks around. Only Linux has a boot id that no correction of the clock can change; a time of boot
    /// would call every process dead after one.
    pub(crate) fn look() -> Vantage {
        use std::os::unix::fs::MetadataExt;

        let boot_id = std::fs::read_to_string("/proc/sys/kernel/random/boot_id").ok();
        Vantage {
            boot_id: boot_id.map(|id| id.trim().to_owned()).filter(|id| !id.is_empty()),
            pid_namespace: std::fs::metadata("/proc/self/ns/pid").ok().map(|namespace| namespace.ino()),
        }
    }

    /// The beginning of an identity: what is known of a pid without looking at the process.
    pub(crate) fn identity(&self, pid: u32) -> ProcessIdentity {
        ProcessIdentity {
            boot_id: self.boot_id.clone(),
            pid_namespace: self.pid_namespace,
            ..ProcessIdentity::of_pid(pid)
        }
    }

    /// Whether a recorded process belongs to an earlier boot, and so is gone without a look.
    pub(crate) fn is_of_another_boot(&self, recorded: &ProcessIdentity) -> bool {
        matches!((&recorded.boot_id, &self.boot_id), (Some(recorded), Some(now)) if recorded != now)
    }

    fn identity_of(&self, process: &Process) -> ProcessIdentity {
        // Where the time is not known, `sysinfo` says 0.
        let seconds = Some(process.start_time()).filter(|seconds| *seconds != 0);
        ProcessIdentity {
            start_time_us: seconds.and_then(|seconds| seconds.checked_mul(1_000_000)),
            exe: process.exe().map(OsText::from),
            ..self.identity(process.pid().as_u32())
        }
    }
}

/// A living process, as one look showed it.
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

    /// Whether it is our user's: such a process may be looked at.
    pub(crate) fn is_our_users(&self) -> bool {
        let own = rustix::process::geteuid().as_raw();
        self.real_uid == Some(own) || self.effective_uid == Some(own)
    }
}

/// What a look at one pid shows.
pub(crate) enum Glance {
    /// A living process.
    Alive(Box<Seen>),
    /// Nobody, or a zombie.
    Nobody,
    /// Somebody whom we cannot see.
    Hidden,
}

/// Looks at the process that has `pid` now, with nothing remembered of any that had it before.
pub(crate) fn look_at(here: &Vantage, pid: u32) -> io::Result<Glance> {
    look_with(&mut new_system()?, here, pid)
}

fn look_with(system: &mut System, here: &Vantage, pid: u32) -> io::Result<Glance> {
    // Beyond what a pid can be.
    if pid == 0 || i32::try_from(pid).is_err() {
        return Ok(Glance::Nobody);
    }
    let always = UpdateKind::Always;
    let everything = ProcessRefreshKind::nothing().with_cmd(always).with_cwd(always).with_environ(always);
    let everything = everything.with_exe(always).with_user(always);
    let number = Pid::from_u32(pid);
    let look = |system: &mut System, kind| {
        system.refresh_processes_specifics(ProcessesToUpdate::Some(&[number]), true, kind);
    };
    look(system, everything);
    if system.process(number).is_some_and(has_ended) {
        look(system, everything.with_tasks());
    }
    match system.process(number) {
        Some(process) if is_program_or_kernel(process) => {
            let is_gone = has_ended(process) && !has_other_threads(process);
            Ok(if is_gone { Glance::Nobody } else { Glance::Alive(Box::new(seen(here, process))) })
        }
        // A thread of somebody has the number.
        Some(_) => Ok(Glance::Nobody),
        None => Ok(if exists(pid)? { Glance::Hidden } else { Glance::Nobody }),
    }
}

fn seen(here: &Vantage, process: &Process) -> Seen {
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

/// A process whose first thread ended before the others is listed as a zombie, and is none.
fn has_other_threads(process: &Process) -> bool {
    process.tasks().is_some_and(|tasks| tasks.iter().any(|task| *task != process.pid()))
}

/// The processor time and the memory of the process that has `pid` now; `None` where nobody has.
pub(crate) fn measure_one(pid: u32) -> io::Result<Option<(Duration, u64)>> {
    let mut system = new_system()?;
    let number = Pid::from_u32(pid);
    let kind = ProcessRefreshKind::nothing().with_cpu().with_memory();
    system.refresh_processes_specifics(ProcessesToUpdate::Some(&[number]), true, kind);
    let process = system.process(number).filter(|process| !has_ended(process));
    Ok(process.map(|process| (Duration::from_millis(process.accumulated_cpu_time()), process.memory())))
}

/// Whether somebody, a zombie included, has a pid.
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

/// Calls `visit` for each living program, until a listing shows nobody who was not visited: a process that
/// forked and exited between being listed and being looked at left a child that the listing does not name.
/// `false` where that was not reached at the moment `until`.
pub(crate) fn for_each_program(
    here: &Vantage,
    until: Instant,
    mut visit: impl FnMut(Seen) -> io::Result<()>,
) -> io::Result<bool> {
    let mut lister = new_system()?;
    let mut looker = new_system()?;
    let mut visited = HashSet::new();
    while Instant::now() < until {
        let mut fresh = list_pids(&mut lister);
        fresh.retain(|pid| visited.insert(*pid));
        if fresh.is_empty() {
            return Ok(true);
        }
        for pid in fresh {
            if let Glance::Alive(seen) = look_with(&mut looker, here, pid)?
                && !seen.is_kernel_thread
            {
                visit(*seen)?;
            }
        }
    }
    Ok(false)
}

/// The pids there are. `sysinfo` reads every process to list them, which takes longer than some live; where
/// there is a `/proc`, it names them at once.
fn list_pids(lister: &mut System) -> Vec<u32> {
    let names = std::fs::read_dir("/proc").into_iter().flatten().flatten().map(|entry| entry.file_name());
    let pids: Vec<u32> = names.filter_map(|name| name.to_str()?.parse().ok()).collect();
    if pids.contains(&std::process::id()) {
        return pids;
    }
    lister.refresh_processes_specifics(ProcessesToUpdate::All, true, ProcessRefreshKind::nothing());
    lister.processes().keys().map(|pid| pid.as_u32()).collect()
}

fn new_system() -> io::Result<System> {
    System::new().map_err(|error| io::Error::other(error.to_string()))
}
