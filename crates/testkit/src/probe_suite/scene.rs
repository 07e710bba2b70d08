//! Where a case takes place: the probe under test, a session of its own, and its processes.

use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use pollster::block_on;
use sexton_core::probe::{COOKIE, EndPolicy, Ended, Group, Members};
use sexton_core::{Liveness, ProcessIdentity, ProcessProbe, SessionId};

use super::ProbeSubject;
use super::actor::ACTOR;
use crate::role::{self, Helper};

/// SIGINT, SIGTERM and SIGKILL, by their numbers: so they are in reports.
pub(super) const INT: i32 = 2;
/// See [`INT`].
pub(super) const TERM: i32 = 15;
/// See [`INT`].
pub(super) const KILL: i32 = 9;

/// A session that no other case knows.
pub(super) struct Scene {
    /// The probe under test.
    pub(super) probe: Box<dyn ProcessProbe>,
    /// The session; its id is in the environment of the actors.
    pub(super) session: SessionId,
}

impl Scene {
    pub(super) fn new(subject: &ProbeSubject) -> Scene {
        let probe = (subject.open)().expect("the probe works here");
        Scene { probe, session: SessionId::random() }
    }

    /// Starts a process of this session that performs `acts`.
    pub(super) fn member<A: AsRef<OsStr>>(&self, acts: impl IntoIterator<Item = A>) -> Actor {
        Actor::start(role::command(ACTOR).env(COOKIE, self.session.as_str()), acts)
    }

    /// Starts a process of no session that performs `acts`.
    pub(super) fn stranger<A: AsRef<OsStr>>(&self, acts: impl IntoIterator<Item = A>) -> Actor {
        Actor::start(&mut role::command(ACTOR), acts)
    }

    /// The identity of a process that must be alive.
    pub(super) fn identify(&self, pid: u32) -> ProcessIdentity {
        block_on(self.probe.identify(pid)).expect("a living process has an identity")
    }

    /// What the probe says of a process now.
    pub(super) fn observe(&self, identity: &ProcessIdentity) -> Liveness {
        block_on(self.probe.observe(identity))
    }

    /// The session's group, beginning at `process`.
    pub(super) fn group(&self, process: Option<ProcessIdentity>) -> Group {
        Group { session: self.session.clone(), process, supervisor: None, cgroup: None }
    }

    /// The members of `group`.
    pub(super) fn members(&self, group: &Group) -> Members {
        block_on(self.probe.members(group)).expect("the processes can be listed")
    }

    /// The pids of the members of `group`, sorted.
    pub(super) fn member_pids(&self, group: &Group) -> Vec<u32> {
        sorted(self.members(group).processes.iter().map(|process| process.pid))
    }

    /// The pids of those whose working directory is in `dir`, sorted.
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
        let asked: Vec<&SessionId> = groups.iter().map(|group| &group.session).collect();
        assert_eq!(sessions, asked, "one report for each group, in their order");
        ended
    }

    /// Ends one group.
    pub(super) fn terminate_one(&self, group: &Group, policy: &EndPolicy) -> Ended {
        self.terminate(std::slice::from_ref(group), policy).remove(0)
    }
}

/// Checks that `pid`, which a probe calls unreadable, is: there may be such a process of our own user,
/// such as an init with more rights, and it is for nobody to guess where it is. One that was just ending
/// has given up its directory before it is gone; it may be called unreadable too.
fn require_unreadable(pid: u32) {
    let process = format!("/proc/{pid}");
    let Ok(metadata) = std::fs::metadata(&process) else { return };
    let own = rustix::process::geteuid().as_raw();
    assert_eq!(metadata.uid(), own, "process {pid} is another user's: it does not count");
    let cwd = std::fs::read_link(format!("{process}/cwd"));
    assert!(cwd.is_err(), "process {pid} can be read: it is in {cwd:?}");
}

/// The policy of most cases: `grace`, and nobody spared.
pub(super) fn within(grace: Duration) -> EndPolicy {
    EndPolicy { grace, first_signal: INT, kill_wait: Duration::from_secs(30), spare: Vec::new() }
}

/// Numbers in order.
pub(super) fn sorted(numbers: impl IntoIterator<Item = u32>) -> Vec<u32> {
    let mut numbers: Vec<u32> = numbers.into_iter().collect();
    numbers.sort_unstable();
    numbers
}

/// A process that performs acts, with all that descends from it. When it is dropped, the first one is
/// killed and reaped, and the leash lets the others go.
pub(super) struct Actor(Helper);

impl Actor {
    /// Starts `command`, which performs `acts`.
    pub(super) fn start<A: AsRef<OsStr>>(command: &mut Command, acts: impl IntoIterator<Item = A>) -> Actor {
        command.args(acts);
        Actor(Helper::spawn(command))
    }

    /// The pid of the first process.
    pub(super) fn pid(&self) -> u32 {
        self.0.pid()
    }

    /// The pids of the processes that say `labels`, in that order, each exactly once.
    pub(super) fn pids<const N: usize>(&self, labels: [&str; N]) -> [u32; N] {
        let mut said = Vec::new();
        for _ in labels {
            let line = self.0.line();
            let (label, pid) = line.rsplit_once(' ').expect("a label and a pid");
            said.push((label.to_owned(), pid.parse().expect("a pid")));
        }
        labels.map(|label| said.iter().find(|(said, _)| said == label).expect("every label is said").1)
    }

    /// Waits until every process of the play has ended, whatever it still says; panics where one does not.
    pub(super) fn wait_until_all_gone(&self) {
        assert!(self.0.has_fallen_silent(), "a process of the play lives on");
    }

    /// Whether the first process still runs: it has neither exited nor been killed.
    pub(super) fn is_running(&mut self) -> bool {
        self.0.find_status().is_none()
    }

    /// Kills the first process, and leaves its zombie.
    pub(super) fn become_zombie(&self) {
        self.0.signal(rustix::process::Signal::KILL);
        self.0.wait_for_zombie();
    }

    /// Waits until the first process has stopped itself.
    pub(super) fn wait_until_stopped(&self) {
        self.0.wait_until_stopped();
    }

    /// Lets the leash go and waits until everyone ended and the first process is reaped.
    pub(super) fn finish(self) {
        drop(self.0.finish());
    }
}
