//! Observation and termination of processes: the [`ProcessProbe`] trait.

use std::path::{Path, PathBuf};
use std::time::Duration;

use async_trait::async_trait;

use crate::containment::ContainedBy;
use crate::session::Cgroup;
use crate::{Liveness, Others, ProcessIdentity, Session, SessionId, Time};

/// Returns whether `/proc/self/status` describes the process `own`, that is, whether `/proc` shows its pid
/// namespace. Under a `/proc` of an outer namespace the file lists several pids, the outermost first.
pub fn is_own_status(status: &[u8], own: u32) -> bool {
    let status = String::from_utf8_lossy(status);
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    numbers.split_whitespace().map(str::parse).eq([Ok(own)])
}

/// The environment variable that every process of a session inherits. Its value is the session's id.
pub const COOKIE: &str = "SEXTON_SESSION_ID";

/// Observes processes and ends them.
///
/// # Contract
/// - **Unknown is an answer.** A probe that could not examine a process says so ([`Liveness::Unknown`],
///   [`Members::unreadable`]). It never guesses, and no caller turns Unknown into a kill or a removal.
/// - **Never the wrong process.** [`terminate`](ProcessProbe::terminate) proves the identity of each process at
///   the moment of the signal, through a handle that cannot be reused if the platform has one
///   ([`ProbeCapabilities::handle`]); otherwise it reads the identity again immediately before the signal.
/// - **Bounded.** Nothing waits longer than its policy allows. A process that cannot die (in uninterruptible
///   sleep) is reported as a survivor.
/// - **Concurrency.** A probe is stateless; any number of threads may use one.
/// - **Blocking**, as for [`Store`](crate::Store): futures do their work when first polled.
#[async_trait]
pub trait ProcessProbe: Send + Sync {
    /// Returns the plugin's name, as it is written in records.
    fn name(&self) -> &'static str;

    /// Returns what this probe can guarantee on this machine.
    fn capabilities(&self) -> ProbeCapabilities;

    /// Returns the identity of the process that has `pid` now. A zombie is [`ProbeError::Gone`].
    async fn identify(&self, pid: u32) -> Result<ProcessIdentity, ProbeError>;

    /// Returns whether the process is alive, dead or unknown.
    async fn observe(&self, identity: &ProcessIdentity) -> Liveness;

    /// Returns details of a live process: some decide whether it may be registered, the others are shown to
    /// users.
    async fn describe(&self, pid: u32) -> Result<ProcessDetails, ProbeError>;

    /// Returns the identity of the process that has `pid` now, and its parent.
    async fn parent(&self, pid: u32) -> Result<(ProcessIdentity, Option<u32>), ProbeError> {
        self.describe(pid).await.map(|details| (details.identity, details.parent))
    }

    /// Returns every live process of a session, however it was re-parented.
    ///
    /// [`membership`](crate::membership) defines the rule. `others` are the other active sessions, whose
    /// processes are not members.
    async fn members(&self, group: &Group, others: &Others) -> Result<Members, ProbeError>;

    /// Returns the processes whose working directory is `dir` or lies inside it.
    async fn occupants(&self, dir: &Path) -> Result<Occupants, ProbeError>;

    /// Ends every member of every group. All groups share one grace period; a group is done when two
    /// consecutive scans find no member. Processes in `policy.spare` and those of `policy.others` are never
    /// signalled.
    ///
    /// Members that can be found without reading an environment (the recorded command, the control group, their
    /// descendants, the limit mark) are signalled before any environment is read, because reading them can take
    /// long.
    async fn terminate(&self, groups: &[Group], policy: &EndPolicy) -> Result<Vec<Ended>, ProbeError>;

    /// Returns what the live members of each group use now, in the order of the groups. For display only: the
    /// values are outdated when they are read, and no decision may depend on them.
    async fn usage(&self, groups: &[Group]) -> Result<Vec<Usage>, ProbeError> {
        let _ = groups;
        Err(ProbeError::Unsupported { probe: self.name(), why: "it does not measure usage".to_owned() })
    }

    /// Sends `signal` to one process, whose identity is proved at that moment. Returns [`Liveness::Alive`] if
    /// it was sent, anything else if it was not.
    async fn signal(&self, process: &ProcessIdentity, signal: i32) -> Result<Liveness, ProbeError> {
        let _ = (process, signal);
        Err(ProbeError::Unsupported { probe: self.name(), why: "it sends no signals".to_owned() })
    }

    /// Creates a control group for a session, beside those of other sessions and never inside one.
    fn contain(&self, session: &SessionId, limits: &Limits) -> Result<Contained, ProbeError> {
        let _ = (session, limits);
        Err(not_contained(ContainedBy::Cgroup, "this probe makes no control groups"))
    }

    /// Requests a transient scope from the user's service manager for the caller and for `command`, its child
    /// that has not executed anything yet. Returns once the kernel shows both in the scope, with `command` in
    /// its own control group, or fails within a few seconds.
    fn contain_in_scope(
        &self,
        session: &SessionId,
        limits: &Limits,
        command: u32,
    ) -> Result<Contained, ProbeError> {
        let _ = (session, limits, command);
        Err(not_contained(ContainedBy::Systemd, "this probe uses no service manager"))
    }

    /// Returns whether a session started now could be contained this way, as far as this is known without
    /// starting one.
    fn check_containment(&self, by: ContainedBy) -> Result<(), ProbeError> {
        match by {
            ContainedBy::Cgroup => Err(not_contained(by, "this probe makes no control groups")),
            ContainedBy::Systemd => Err(not_contained(by, "this probe uses no service manager")),
            ContainedBy::Tree => Ok(()),
        }
    }

    /// Returns whether the user's service manager keeps running after the user's last logout.
    fn lingers(&self) -> bool {
        false
    }

    /// Returns the control group that this probe would have created for `session`, if it exists.
    fn find_container(&self, session: &SessionId) -> Option<Cgroup> {
        let _ = session;
        None
    }

    /// Removes a session's control group if it is empty and still the recorded one. One that cannot be removed
    /// is found later as a stray.
    fn release(&self, cgroup: &Cgroup) {
        let _ = cgroup;
    }

    /// Removes this user's session control groups that are empty and were created before `made_before`: an
    /// interrupted start may leave one. Never removes one that holds a process, whatever the clock shows.
    fn release_empty(&self, made_before: Time) {
        let _ = made_before;
    }
}

fn not_contained(by: ContainedBy, why: &str) -> ProbeError {
    ProbeError::NotContained { by, why: why.to_owned() }
}

/// More generations than any process tree has.
const MAX_GENERATIONS: usize = 1000;

/// Returns the process `pid` and its ancestors, the nearest first, as far as they can be followed.
pub async fn lineage(probe: &dyn ProcessProbe, pid: u32) -> Result<Vec<ProcessIdentity>, ProbeError> {
    let mut line = Vec::new();
    let mut next = Some(pid);
    while let Some(pid) = next.filter(|_| line.len() < MAX_GENERATIONS) {
        match probe.parent(pid).await {
            Ok((identity, parent)) => {
                next = parent.filter(|parent| *parent != 0);
                line.push(identity);
            }
            // The line ends here: this user may not read the ancestors above.
            Err(ProbeError::Gone { .. } | ProbeError::Denied { .. }) => break,
            Err(error) => return Err(error),
        }
    }
    Ok(line)
}

/// Resource limits of a session.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Memory, in bytes.
    pub memory_max: Option<u64>,
    /// Processes.
    pub pids_max: Option<u64>,
}

/// A control group that was created for a session.
#[derive(Debug)]
pub struct Contained {
    /// The group, as recorded.
    pub cgroup: Cgroup,
    /// Its directory, into which a process can be forked.
    pub directory: std::os::fd::OwnedFd,
}

/// What a probe can guarantee.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProbeCapabilities {
    /// Signals go through a handle that cannot be reused. Without it there is a window of microseconds between
    /// the check and the signal.
    pub handle: bool,
    /// Two processes never have the same identity.
    pub exact_identity: bool,
    /// A session can be held in a control group, and ended through it.
    pub cgroup: bool,
}

/// Details of a process that are needed before it is registered.
#[derive(Clone, Debug, PartialEq)]
pub struct ProcessDetails {
    /// Its identity.
    pub identity: ProcessIdentity,
    /// The user that it runs as, if readable.
    pub uid: Option<u32>,
    /// Whether it is a kernel thread.
    pub kernel_thread: bool,
    /// Whether it is stopped by a signal or a debugger, and does not continue by itself.
    pub stopped: bool,
    /// Its parent.
    pub parent: Option<u32>,
    /// Its command line.
    pub command: Vec<std::ffi::OsString>,
    /// Its working directory, if readable.
    pub cwd: Option<PathBuf>,
    /// When it started, by the wall clock and accurate to about a second: the clock may have been set since.
    pub started_at: Option<Time>,
}

/// What is known about a session's processes: the start of a search for its members.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// The session; its id is the cookie.
    pub session: SessionId,
    /// The command's process.
    pub process: Option<ProcessIdentity>,
    /// Its supervisor; a member only if this is set.
    pub supervisor: Option<ProcessIdentity>,
    /// The control group that holds the members.
    pub cgroup: Option<Cgroup>,
    /// The limit mark that the members inherit.
    pub limit_mark: Option<u64>,
}

impl Group {
    /// Creates the group of a session of which only the cookie is known.
    pub fn of_cookie(session: &SessionId) -> Group {
        let session = session.clone();
        Group { session, process: None, supervisor: None, cgroup: None, limit_mark: None }
    }

    /// Creates the group of a recorded session.
    pub fn of(session: &Session) -> Group {
        Group {
            session: session.id.clone(),
            process: session.process.clone(),
            supervisor: session.supervisor.clone(),
            cgroup: session.cgroup.clone(),
            limit_mark: session.limit_mark,
        }
    }
}

/// The processes of a session.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Members {
    /// Processes that are proved to be members.
    pub processes: Vec<ProcessIdentity>,
    /// Processes whose membership is unknown. They are never signalled.
    pub unreadable: Vec<u32>,
}

/// The resources that the processes of a session use together.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// The number of processes.
    pub processes: usize,
    /// The processor time that they have used so far, including that of their exited children where the
    /// platform reports it. It decreases when a process exits whose time no parent inherits; the difference of
    /// two samples is what was used in between.
    pub cpu: Duration,
    /// The memory that they hold, in bytes. Shared memory is counted for each process.
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

/// The processes inside a directory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Occupants {
    /// Processes whose working directory is inside.
    pub processes: Vec<ProcessIdentity>,
    /// Processes of the caller's own user whose working directory could not be read. They count as inside.
    /// Those of other users do not, or an ordinary user could never remove anything.
    pub unreadable: Vec<u32>,
}

impl Occupants {
    /// Returns whether no process is known or suspected to be inside.
    pub fn is_empty(&self) -> bool {
        self.processes.is_empty() && self.unreadable.is_empty()
    }
}

/// How processes are ended: a first signal immediately, SIGTERM after half of the grace period, SIGKILL at its
/// end.
#[derive(Clone, Debug, PartialEq)]
pub struct EndPolicy {
    /// The grace period.
    pub grace: Duration,
    /// The first signal to send; SIGINT unless the user chose another.
    pub first_signal: i32,
    /// How long to wait after SIGKILL for the kernel to end the process.
    pub kill_wait: Duration,
    /// Processes that are left alone, such as the caller itself when it stops its own session.
    pub spare: Vec<ProcessIdentity>,
    /// The other active sessions, whose processes are left alone.
    pub others: Others,
}

/// The number of SIGTERM, on every Unix.
pub const SIGTERM: i32 = 15;
/// The number of SIGKILL, on every Unix.
pub const SIGKILL: i32 = 9;

impl EndPolicy {
    /// Returns the signal to send when `elapsed` of the time has passed.
    pub fn signal_at(&self, elapsed: Duration) -> i32 {
        if elapsed >= self.grace {
            SIGKILL
        } else if elapsed >= self.grace / 2 {
            SIGTERM
        } else {
            self.first_signal
        }
    }

    /// Returns the time of the next stronger signal after `elapsed`; `None` after SIGKILL.
    ///
    /// Pass the time at which the last signal was chosen, not the present one: if sending took longer than the
    /// interval between two signals, the next one is due immediately.
    pub fn next_change(&self, elapsed: Duration) -> Option<Duration> {
        [self.grace / 2, self.grace].into_iter().find(|at| *at > elapsed)
    }
}

/// The outcome for one group.
#[derive(Clone, Debug, PartialEq)]
pub struct Ended {
    /// The session.
    pub session: SessionId,
    /// Every process that was signalled, and the last signal sent to it.
    pub signalled: Vec<(ProcessIdentity, i32)>,
    /// Processes that were still alive at the end: in uninterruptible sleep, or not permitted to be signalled.
    pub survivors: Vec<Survivor>,
    /// Members that were spared.
    pub spared: Vec<ProcessIdentity>,
}

/// A process that did not end.
#[derive(Clone, Debug, PartialEq)]
pub struct Survivor {
    /// The process.
    pub identity: ProcessIdentity,
    /// Why it did not end.
    pub why: String,
}

/// Why a probe failed.
#[derive(Debug, thiserror::Error)]
pub enum ProbeError {
    /// There is no such process, or it is a zombie.
    #[error("there is no process {pid}")]
    Gone {
        /// The pid.
        pid: u32,
    },
    /// The process may not be examined.
    #[error("process {pid} cannot be examined: {why}")]
    Denied {
        /// The pid.
        pid: u32,
        /// What prevented it.
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
    /// The requested containment is not available.
    #[error("the containment `{}` cannot be used here: {why}", .by.as_str())]
    NotContained {
        /// The requested containment.
        by: ContainedBy,
        /// What is missing.
        why: String,
    },
    /// The mounted `/proc` shows another pid namespace. No weaker probe may be used instead: it would read
    /// the same `/proc`.
    #[error(
        "the {probe} probe does not work here: /proc shows another pid namespace, where the same numbers are other processes"
    )]
    ForeignProc {
        /// The probe's name.
        probe: &'static str,
    },
    /// The operating system failed.
    #[error("{action}")]
    Io {
        /// The failed action.
        action: String,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signals_escalate_during_the_grace_period() {
        let ms = Duration::from_millis;
        let policy = EndPolicy {
            grace: ms(100),
            first_signal: 2,
            kill_wait: ms(30),
            spare: Vec::new(),
            others: Others::none(),
        };
        let signals = [0, 49, 50, 99, 100, 130].map(|at| policy.signal_at(ms(at)));
        assert_eq!(signals, [2, 2, SIGTERM, SIGTERM, SIGKILL, SIGKILL]);
        let until = [0, 49, 50, 99, 100].map(|at| policy.next_change(ms(at)));
        assert_eq!(until, [Some(ms(50)), Some(ms(50)), Some(ms(100)), Some(ms(100)), None]);
    }

    #[test]
    fn zero_grace_sends_sigkill_first() {
        let policy = EndPolicy {
            grace: Duration::ZERO,
            first_signal: 2,
            kill_wait: Duration::ZERO,
            spare: Vec::new(),
            others: Others::none(),
        };
        assert_eq!(policy.signal_at(Duration::ZERO), SIGKILL);
    }
}
