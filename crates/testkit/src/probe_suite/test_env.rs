//! The test environment of a case: the probe under test, a session, and its processes.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pollster::block_on;
use sexton_core::probe::{COOKIE, EndPolicy, Ended, Group, Members};
use sexton_core::{Liveness, Others, ProcessIdentity, ProcessProbe, SessionId};

use super::ProbeSubject;
use super::actor::ACTOR;
use crate::role::{self, Helper};

/// Signal numbers, as in reports.
pub(super) const INT: i32 = 2;
/// See [`INT`].
pub(super) const TERM: i32 = 15;
/// See [`INT`].
pub(super) const KILL: i32 = 9;

/// The probe under test and a new session.
pub(super) struct TestEnv {
    /// The probe under test.
    pub(super) probe: Box<dyn ProcessProbe>,
    /// The session. Its id is in the environment of its members.
    pub(super) session: SessionId,
}

impl TestEnv {
    pub(super) fn new(subject: &ProbeSubject) -> TestEnv {
        let probe = (subject.open)().expect("the probe works here");
        TestEnv { probe, session: SessionId::random() }
    }

    /// Starts a process of this session that performs `acts`.
    pub(super) fn member<A: AsRef<OsStr>>(&self, acts: impl IntoIterator<Item = A>) -> Actor {
        Actor::start(role::command(ACTOR).env(COOKIE, self.session.as_str()), acts)
    }

    /// Starts a process without a session that performs `acts`.
    pub(super) fn stranger<A: AsRef<OsStr>>(&self, acts: impl IntoIterator<Item = A>) -> Actor {
        Actor::start(&mut role::command(ACTOR), acts)
    }

    /// Returns the identity of a process that must be alive.
    pub(super) fn identify(&self, pid: u32) -> ProcessIdentity {
        block_on(self.probe.identify(pid)).expect("a living process has an identity")
    }

    /// Returns the liveness of a process according to the probe.
    pub(super) fn observe(&self, identity: &ProcessIdentity) -> Liveness {
        block_on(self.probe.observe(identity))
    }

    /// Returns the session's group with the command `process`.
    pub(super) fn group(&self, process: Option<ProcessIdentity>) -> Group {
        Group { process, ..Group::of_cookie(&self.session) }
    }

    /// Returns the members of `group`.
    pub(super) fn members(&self, group: &Group) -> Members {
        self.members_beside(group, &Others::none())
    }

    /// Returns the members of `group` while `others` are active.
    pub(super) fn members_beside(&self, group: &Group, others: &Others) -> Members {
        block_on(self.probe.members(group, others)).expect("the processes can be listed")
    }

    /// Returns the sorted pids of the members of `group`.
    pub(super) fn member_pids(&self, group: &Group) -> Vec<u32> {
        sorted(self.members(group).processes.iter().map(|process| process.pid))
    }

    /// Returns the sorted pids of the processes whose working directory is in `dir`.
    pub(super) fn occupant_pids(&self, dir: &Path) -> Vec<u32> {
        let occupants = block_on(self.probe.occupants(dir)).expect("the processes can be listed");
        for pid in occupants.unreadable {
            require_unreadable(pid);
        }
        sorted(occupants.processes.iter().map(|process| process.pid))
    }

    /// Ends `groups`.
    pub(super) fn terminate(&self, groups: &[Group], policy: &EndPolicy) -> Vec<Ended> {
        let ended = block_on(self.probe.terminate(groups, policy)).expect("processes can be ended");
        let sessions: Vec<&SessionId> = ended.iter().map(|ended| &ended.session).collect();
        let expected: Vec<&SessionId> = groups.iter().map(|group| &group.session).collect();
        assert_eq!(sessions, expected, "one report for each group, in the same order");
        ended
    }

    /// Ends one group.
    pub(super) fn terminate_one(&self, group: &Group, policy: &EndPolicy) -> Ended {
        self.terminate(std::slice::from_ref(group), policy).remove(0)
    }
}

/// Checks that `pid`, which a probe reports as unreadable, is. The user may have such a process, for example an init
/// with more rights, and its directory is unknown. A process that is exiting has no directory any more, so it may be
/// reported as unreadable too.
fn require_unreadable(pid: u32) {
    let process = format!("/proc/{pid}");
    let Ok(metadata) = std::fs::metadata(&process) else { return };
    let own = rustix::process::geteuid().as_raw();
    assert_eq!(metadata.uid(), own, "process {pid} belongs to another user and must not count");
    let cwd = std::fs::read_link(format!("{process}/cwd"));
    assert!(cwd.is_err(), "process {pid} can be read: it is in {cwd:?}");
}

/// Returns the policy of most cases: `grace`, and no spared process.
pub(super) fn within(grace: Duration) -> EndPolicy {
    let (spare, others) = (Vec::new(), Others::none());
    EndPolicy { grace, first_signal: INT, kill_wait: Duration::from_secs(30), spare, others }
}

/// Sorts numbers.
pub(super) fn sorted(numbers: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let mut numbers: Vec<u32> = numbers.into_iter().collect();
    numbers.sort_unstable();
    numbers
}

/// A process that performs acts, and its descendants. When it is dropped, the first process is killed and reaped, and
/// the others exit because their standard input closes.
pub(super) struct Actor(Helper);

impl Actor {
    /// Starts `command`, which performs `acts`.
    pub(super) fn start<A: AsRef<OsStr>>(command: &mut Command, acts: impl IntoIterator<Item = A>) -> Actor {
        command.args(acts);
        Actor(Helper::spawn(command))
    }

    /// Returns the pid of the first process.
    pub(super) fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// Returns the pids of the processes that print `labels`, in that order.
    pub(super) fn pids<const N: usize>(&self, labels: [&str; N]) -> [u32; N] {
        let mut printed = Vec::new();
        for _ in labels {
            let line = self.0.line();
            let (label, pid) = line.rsplit_once(' ').expect("a label and a pid");
            printed.push((label.to_owned(), pid.parse().expect("a pid")));
        }
        labels
            .map(|label| printed.iter().find(|(found, _)| found == label).expect("every label is printed").1)
    }

    /// Waits until the actor and all its descendants have exited. Panics if one does not.
    pub(super) fn wait_until_all_gone(&self) {
        assert!(self.0.wait_for_output_end(), "a process of the actor still runs");
    }

    /// Returns whether the first process still runs.
    pub(super) fn is_running(&mut self) -> bool {
        self.0.find_status().is_none()
    }

    /// Kills the first process without reaping it.
    pub(super) fn become_zombie(&self) {
        self.0.signal(rustix::process::Signal::KILL);
        self.0.wait_for_zombie();
    }

    /// Waits until the first process has stopped itself.
    pub(super) fn wait_until_stopped(&self) {
        self.0.wait_until_stopped();
    }

    /// Closes standard input, waits until all processes have exited, and reaps the first one.
    pub(super) fn finish(self) {
        drop(self.0.finish());
    }
}
