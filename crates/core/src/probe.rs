//! What can be known of processes, and how they are ended: the [`ProcessProbe`] trait.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;

use crate::session::Cgroup;
use crate::{Liveness, ProcessIdentity, Session, SessionId, Time};

/// The environment variable that every process of a session inherits. Its value is the session's id.
pub const COOKIE: &str = "SEXTON_SESSION_ID";

/// Sees processes, and ends them.
///
/// # Contract
/// - **Unknown is an answer.** A probe that could not look says so ([`Liveness::Unknown`],
///   [`Members::unreadable`]); it never guesses, and no caller turns Unknown into a kill or a removal.
/// - **Never the wrong process.** [`terminate`](ProcessProbe::terminate) proves each process at the moment
///   of the signal, through a handle that cannot be reused where the platform has one
///   ([`ProbeCapabilities::handle`]); elsewhere it takes the identity again immediately before.
/// - **Bounded.** Nothing waits longer than its policy says. A process that cannot die (in
///   uninterruptible sleep) is reported as a survivor.
/// - **Concurrency.** A probe has no state of its own; any number of threads may use one.
/// - **Blocking**, as for [`Store`](crate::Store): futures do their work when first polled.
#[async_trait]
pub trait ProcessProbe: Send + Sync {
    /// The plugin's name, as records keep it.
    fn name(&self) -> &'static str;

    /// What this probe can promise here.
    fn capabilities(&self) -> ProbeCapabilities;

    /// The identity of the process that has `pid` now. A zombie is [`ProbeError::Gone`].
    async fn identify(&self, pid: u32) -> Result<ProcessIdentity, ProbeError>;

    /// What became of a process.
    async fn observe(&self, identity: &ProcessIdentity) -> Liveness;

    /// Facts about a living process that decide whether it may be registered, and that people read.
    async fn describe(&self, pid: u32) -> Result<ProcessDetails, ProbeError>;

    /// Every living process of a session, however it was re-parented.
    ///
    /// The cookie decides first: a process that carries another session's is never a member. Descent
    /// decides only for a process whose readable environment has no cookie.
    async fn members(&self, group: &Group) -> Result<Members, ProbeError>;

    /// The processes whose working directory is `dir` or lies inside it.
    async fn occupants(&self, dir: &Path) -> Result<Occupants, ProbeError>;

    /// Ends every member of every group. All of them share one grace period; a group is done when two
    /// scans in a row find nobody. Processes named in `policy.spare` are never signalled.
    async fn terminate(&self, groups: &[Group], policy: &EndPolicy) -> Result<Vec<Ended>, ProbeError>;

    /// What the living members of each group use now, in the order of the groups. For people to look at: it
    /// is old when it is read, and nothing is decided by it.
    async fn usage(&self, groups: &[Group]) -> Result<Vec<Usage>, ProbeError> {
        let _ = groups;
        Err(ProbeError::Unsupported { probe: self.name(), why: "it does not measure".to_owned() })
    }

    /// Sends `signal` to one process, proved at that moment. [`Liveness::Alive`] means that it was sent;
    /// anything else, that it was not.
    async fn signal(&self, process: &ProcessIdentity, signal: i32) -> Result<Liveness, ProbeError> {
        let _ = (process, signal);
        Err(ProbeError::Unsupported { probe: self.name(), why: "it sends no signals".to_owned() })
    }

    /// Makes a control group that will hold a session, beside those of others and never inside one.
    fn contain(&self, session: &SessionId, limits: &Limits) -> Result<Contained, ProbeError> {
        let _ = (session, limits);
        Err(ProbeError::Unsupported { probe: self.name(), why: "it makes no control groups".to_owned() })
    }

    /// The control group that this probe would have made for `session`, where there is one.
    fn find_container(&self, session: &SessionId) -> Option<Cgroup> {
        let _ = session;
        None
    }

    /// Removes a session's control group, where it is empty and still the recorded one. One that cannot
    /// be removed is found again as a stray.
    fn release(&self, cgroup: &Cgroup) {
        let _ = cgroup;
    }
}

/// More generations than any process tree has.
const MAX_GENERATIONS: usize = 1000;

/// The process `pid` and its ancestors, the nearest first, as far as they can be followed.
pub async fn lineage(probe: &dyn ProcessProbe, pid: u32) -> Result<Vec<ProcessIdentity>, ProbeError> {
    let mut line = Vec::new();
    let mut next = Some(pid);
    while let Some(pid) = next.filter(|_| line.len() < MAX_GENERATIONS) {
        match probe.describe(pid).await {
            Ok(details) => {
                next = details.parent.filter(|parent| *parent != 0);
                line.push(details.identity);
            }
            // The line ends where it cannot be followed: what is above may not be read by us.
            Err(ProbeError::Gone { .. } | ProbeError::Denied { .. }) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(line)
}

/// What a session may use at most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Memory, in bytes.
    pub memory_max: Option<u64>,
    /// Processes.
    pub pids_max: Option<u64>,
}

/// A control group that was made for a session.
#[derive(Debug)]
pub struct Contained {
    /// As the record keeps it.
    pub cgroup: Cgroup,
    /// Its directory, into which a process can be forked.
    pub directory: std::os::fd::OwnedFd,
}

/// What a probe can promise.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeCapabilities {
    /// A signal goes through a handle that cannot be reused. Without it there is a window of
    /// microseconds between the check and the signal.
    pub handle: bool,
    /// Two processes never have the same identity.
    pub exact_identity: bool,
    /// A session can be held in, and ended through, a control group.
    pub cgroup: bool,
}

/// What a person wants to know of a process before it is registered.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessDetails {
    /// Who it is.
    pub identity: ProcessIdentity,
    /// The user it runs as, where that can be seen.
    pub uid: Option<u32>,
    /// Whether it is a part of the kernel, with no program.
    pub kernel_thread: bool,
    /// Whether it was stopped by a signal or a debugger, and does not go on by itself.
    pub stopped: bool,
    /// Its parent.
    pub parent: Option<u32>,
    /// Its command line.
    pub command: Vec<std::ffi::OsString>,
    /// Its working directory, where that can be seen.
    pub cwd: Option<PathBuf>,
    /// When it started, by the clock on the wall and to about a second: that clock may have been set since.
    pub started_at: Option<Time>,
}

/// What is known of a session's processes: where a search for its members begins.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The session; its id is the cookie.
    pub session: SessionId,
    /// The command's process.
    pub process: Option<ProcessIdentity>,
    /// The process that supervises it; a member only where it is asked for.
    pub supervisor: Option<ProcessIdentity>,
    /// The control group that holds the members.
    pub cgroup: Option<Cgroup>,
}

impl Group {
    /// The group of a recorded session.
    pub fn of(session: &Session) -> Group {
        Group {
            session: session.id.clone(),
            process: session.process.clone(),
            supervisor: session.supervisor.clone(),
            cgroup: session.cgroup.clone(),
        }
    }
}

/// The processes of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Members {
    /// Those that were proved.
    pub processes: Vec<ProcessIdentity>,
    /// Processes that descend from the session but could not be read: perhaps members, never signalled.
    pub unreadable: Vec<u32>,
}

/// What the processes of a session use together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// How many there are.
    pub processes: usize,
    /// The processor time that they have used so far, and where the platform tells it that of their ended
    /// children. It becomes less when one ends whose time nobody inherits; the difference of two looks is
    /// what was used in between.
    pub cpu: Duration,
    /// The memory that they hold, in bytes. What several share is counted for each.
    pub memory: u64,
}

impl Usage {
    /// Adds one process.
    pub fn add(&mut self, cpu: Duration, memory: u64) {
        self.processes += 1;
        self.cpu += cpu;
        self.memory += memory;
    }
}

/// Who is inside a directory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Occupants {
    /// Processes whose working directory is inside.
    pub processes: Vec<ProcessIdentity>,
    /// Processes of the caller's own user whose directory could not be read. They count as inside;
    /// those of other users do not, or an ordinary user could never clean anything.
    pub unreadable: Vec<u32>,
}

impl Occupants {
    /// Whether the directory may be touched.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.unreadable.is_empty()
    }
}

/// How processes are ended: a first signal at once, SIGTERM at half of the grace, SIGKILL at its end.
#[derive(Clone, Debug, PartialEq)]
pub struct EndPolicy {
    /// How long they have.
    pub grace: Duration,
    /// What they are told first; SIGINT unless a user chose another.
    pub first_signal: i32,
    /// How long to wait, after SIGKILL, for the kernel to let go.
    pub kill_wait: Duration,
    /// Processes that are left alone, such as the caller itself when it stops its own session.
    pub spare: Vec<ProcessIdentity>,
}

/// The number of SIGTERM, on every Unix.
pub const SIGTERM: i32 = 15;
/// The number of SIGKILL, on every Unix.
pub const SIGKILL: i32 = 9;

impl EndPolicy {
    /// What a process is told when `elapsed` of the time is over.
    pub fn signal_at(&self, elapsed: Duration) -> i32 {
        if elapsed >= self.grace {
            SIGKILL
        } else if elapsed >= self.grace / 2 {
            SIGTERM
        } else {
            self.first_signal
        }
    }

    /// When somebody who was told what is due `elapsed` into it is told something else; never after SIGKILL.
    ///
    /// Ask with the moment of which one acted, not with the present one: where acting took longer than the time
    /// between two signals, the next is due at once.
    pub fn next_change(&self, elapsed: Duration) -> Option<Duration> {
        [self.grace / 2, self.grace].into_iter().find(|at| *at > elapsed)
    }
}

/// What became of one group.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The session.
    pub session: SessionId,
    /// Every process that was signalled, and the last signal it got.
    pub signalled: Vec<(ProcessIdentity, i32)>,
    /// Processes that were still there at the end, in uninterruptible sleep or with no right to signal.
    pub survivors: Vec<Survivor>,
    /// Members that were spared.
    pub spared: Vec<ProcessIdentity>,
}

/// A process that did not end.
#[derive(Clone, Debug, PartialEq)]
pub struct Survivor {
    /// Who.
    pub identity: ProcessIdentity,
    /// Why, in words.
    pub why: String,
}

/// Why a probe could not answer.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// There is no such process, or only its zombie.
    #[error("there is no process {pid}")]
    Gone {
        /// The pid.
        pid: u32,
    },
    /// It may not be looked at.
    #[error("process {pid} cannot be examined: {why}")]
    Denied {
        /// The pid.
        pid: u32,
        /// What stood in the way.
        why: String,
    },
    /// The probe cannot work here.
    #[error("the {probe} probe does not work here: {why}")]
    Unsupported {
        /// The probe's name.
        probe: &'static str,
        /// What is missing.
        why: String,
    },
    /// The operating system failed.
    #[error("{action}")]
    Io {
        /// What was tried.
        action: String,
        /// Why it failed.
        #[source]
        source: std::io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_become_stronger_until_the_grace_is_over() {
        let ms = Duration::from_millis;
        let policy = EndPolicy { grace: ms(100), first_signal: 2, kill_wait: ms(30), spare: Vec::new() };
        let told = [0, 49, 50, 99, 100, 130].map(|at| policy.signal_at(ms(at)));
        assert_eq!(told, [2, 2, SIGTERM, SIGTERM, SIGKILL, SIGKILL]);
        let until = [0, 49, 50, 99, 100].map(|at| policy.next_change(ms(at)));
        assert_eq!(until, [Some(ms(50)), Some(ms(50)), Some(ms(100)), Some(ms(100)), None]);
    }

    #[test]
    fn without_any_grace_the_first_signal_is_the_last() {
        let policy = EndPolicy {
            grace: Duration::ZERO,
            first_signal: 2,
            kill_wait: Duration::ZERO,
            spare: Vec::new(),
        };
        assert_eq!(policy.signal_at(Duration::ZERO), SIGKILL);
    }
}
