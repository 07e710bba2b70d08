//! Scripted processes in memory, and a probe for them.
//!
//! A signal to a process that is not proved alive at that moment panics, and so does a policy that could wait forever.
//! No time passes: a grace period is over when all members have received the signals of that period.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sexton_core::probe::{
    EndPolicy, Ended, Group, Members, Occupants, ProbeCapabilities, ProcessDetails, Survivor,
};
use sexton_core::session::Cgroup;
use sexton_core::{Liveness, Others, ProbeError, ProcessIdentity, ProcessProbe, SessionId};

mod membership;
mod process;

pub use process::FakeProcess;

use process::Entry;

/// Boot id of the fake machine.
const BOOT: &str = "fake-boot-1";
/// The longest wait that a policy may have.
const LONGEST_WAIT: Duration = Duration::from_secs(3600);

const SIGTERM: i32 = 15;
const SIGKILL: i32 = 9;

/// A [`ProcessProbe`] with processes in memory. Clones share them.
#[derive(Clone, Default)]
pub struct FakeProbe {
    machine: Arc<Mutex<Machine>>,
}

/// The processes by pid, and the signals sent to them.
#[derive(Default)]
struct Machine {
    processes: BTreeMap<u32, Entry>,
    /// Number of processes started so far. Their inodes are derived from it and never reused.
    started: u64,
    signals: Vec<(u32, i32)>,
    /// Pids whose next observation fails, and why.
    failing_once: BTreeMap<u32, String>,
    /// Control groups that were not removed.
    containers: BTreeSet<SessionId>,
}

impl FakeProbe {
    /// Creates a machine without processes.
    pub fn new() -> FakeProbe {
        FakeProbe::default()
    }

    /// Starts a process and returns its identity.
    pub fn start(&self, process: FakeProcess) -> ProcessIdentity {
        let mut machine = self.machine();
        let pid = machine.processes.keys().next_back().map_or(100, |last| last + 1);
        machine.start_as(pid, process)
    }

    /// Starts a process with the pid of one that has ended.
    ///
    /// # Panics
    /// If the process with that pid is still alive.
    pub fn start_in_place_of(&self, gone: &ProcessIdentity, process: FakeProcess) -> ProcessIdentity {
        let mut machine = self.machine();
        let lives = machine.processes.get(&gone.pid).is_some_and(|entry| entry.alive);
        assert!(!lives, "pid {} is still in use", gone.pid);
        machine.start_as(gone.pid, process)
    }

    /// Ends a process as if it exited by itself.
    pub fn end(&self, identity: &ProcessIdentity) {
        let mut machine = self.machine();
        let entry = machine.require(identity);
        assert!(entry.alive, "process {} has already ended", identity.pid);
        entry.alive = false;
    }

    /// Makes the liveness of a process unknown, because of `why`.
    pub fn hide(&self, identity: &ProcessIdentity, why: &str) {
        self.machine().require(identity).hidden = Some(why.to_owned());
    }

    /// Makes only the next observation of a process fail, because of `why`.
    pub fn hide_once(&self, identity: &ProcessIdentity, why: &str) {
        self.machine().failing_once.insert(identity.pid, why.to_owned());
    }

    /// Moves a process into another directory.
    pub fn move_to(&self, identity: &ProcessIdentity, cwd: impl Into<PathBuf>) {
        self.machine().require(identity).process.cwd = Some(cwd.into());
    }

    /// Adds an empty control group of a session.
    pub fn leave_container(&self, session: &SessionId) {
        self.machine().containers.insert(session.clone());
    }

    /// Returns the sessions whose control group still exists.
    pub fn containers(&self) -> Vec<SessionId> {
        self.machine().containers.iter().cloned().collect()
    }

    /// Returns all sent signals in order, as pid and signal.
    pub fn signals(&self) -> Vec<(u32, i32)> {
        self.machine().signals.clone()
    }

    /// Returns whether exactly this process is alive.
    pub fn is_alive(&self, identity: &ProcessIdentity) -> bool {
        self.machine().observe(identity) == Liveness::Alive
    }

    fn machine(&self) -> MutexGuard<'_, Machine> {
        // A test that panicked inside a call has already failed; other tests can continue.
        self.machine.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Machine {
    fn start_as(&mut self, pid: u32, process: FakeProcess) -> ProcessIdentity {
        self.started += 1;
        let identity = ProcessIdentity {
            boot_id: Some(BOOT.to_owned()),
            pidfd_inode: Some(self.started),
            // All have the same tick, so that code that relies on ticks fails.
            start_ticks: Some(1),
            pid_namespace: Some(1),
            time_namespace: Some(1),
            exe: process.command.first().map(|program| program.clone().into()),
            ..ProcessIdentity::of_pid(pid)
        };
        let entry = Entry { identity: identity.clone(), process, alive: true, hidden: None };
        self.processes.insert(pid, entry);
        identity
    }

    fn require(&mut self, identity: &ProcessIdentity) -> &mut Entry {
        let entry = self.processes.get_mut(&identity.pid).expect("only a started process");
        assert_eq!(entry.identity.pidfd_inode, identity.pidfd_inode, "another process has this pid now");
        entry
    }

    fn observe(&self, identity: &ProcessIdentity) -> Liveness {
        if identity.boot_id.as_deref().is_some_and(|boot| boot != BOOT) {
            return Liveness::Gone;
        }
        let here =
            ProcessIdentity { pid_namespace: Some(1), time_namespace: Some(1), ..ProcessIdentity::of_pid(0) };
        if let Err(why) = identity.same_identity_scope(&here) {
            return Liveness::Unknown(why);
        }
        self.processes.get(&identity.pid).map_or(Liveness::Gone, |entry| entry.judge(identity))
    }

    fn living(&self) -> impl Iterator<Item = &Entry> {
        self.processes.values().filter(|entry| entry.alive)
    }

    /// Sends `signal` to the process `identity`, which must be proved alive.
    fn signal(&mut self, identity: &ProcessIdentity, signal: i32) {
        let liveness = self.observe(identity);
        assert_eq!(liveness, Liveness::Alive, "signal {signal} to {identity:?}, which was not proved alive");
        self.signals.push((identity.pid, signal));
        let entry = self.require(identity);
        let successor = entry.receive(signal);
        if let Some(successor) = successor {
            let pid = self.processes.keys().next_back().map_or(100, |last| last + 1);
            self.start_as(pid, successor);
        }
    }

    /// Sends `signal` to every member that is not spared, until a scan finds none that has not received it.
    fn sweep(&mut self, group: &Group, policy: &EndPolicy, signal: i32, ended: &mut Ended) {
        loop {
            let received = |process: &ProcessIdentity, ended: &Ended| {
                ended.signalled.iter().any(|(known, last)| known == process && *last == signal)
            };
            let spared =
                |process: &ProcessIdentity| policy.spare.iter().any(|spared| is_same(spared, process));
            let members = self.members(group, &policy.others).processes.into_iter();
            let next = members.filter(|process| !spared(process)).find(|process| !received(process, ended));
            let Some(process) = next else { return };
            self.signal(&process, signal);
            ended.signalled.retain(|(known, _)| *known != process);
            ended.signalled.push((process, signal));
        }
    }

    fn end_group(&mut self, group: &Group, policy: &EndPolicy) -> Ended {
        let mut ended = Ended {
            session: group.session.clone(),
            signalled: Vec::new(),
            survivors: Vec::new(),
            spared: Vec::new(),
        };
        let gentle = [policy.first_signal, SIGTERM].into_iter().filter(|_| !policy.grace.is_zero());
        for signal in gentle.chain([SIGKILL]) {
            self.sweep(group, policy, signal, &mut ended);
        }
        for process in self.members(group, &policy.others).processes {
            if policy.spare.iter().any(|spared| is_same(spared, &process)) {
                ended.spared.push(process);
            } else {
                let why = "it is in uninterruptible sleep".to_owned();
                ended.survivors.push(Survivor { identity: process, why });
            }
        }
        ended
    }
}

/// Returns whether two identities are of the same process.
fn is_same(one: &ProcessIdentity, other: &ProcessIdentity) -> bool {
    one.compare(other) == sexton_core::identity::Match::Same
}

#[async_trait]
impl ProcessProbe for FakeProbe {
    fn name(&self) -> &'static str {
        "fake"
    }

    fn capabilities(&self) -> ProbeCapabilities {
        ProbeCapabilities { handle: true, exact_identity: true, cgroup: false }
    }

    async fn identify(&self, pid: u32) -> Result<ProcessIdentity, ProbeError> {
        Ok(self.machine().require_living(pid)?.identity.clone())
    }

    async fn observe(&self, identity: &ProcessIdentity) -> Liveness {
        let mut machine = self.machine();
        match machine.failing_once.remove(&identity.pid) {
            Some(why) => Liveness::Unknown(why),
            None => machine.observe(identity),
        }
    }

    async fn describe(&self, pid: u32) -> Result<ProcessDetails, ProbeError> {
        let machine = self.machine();
        let entry = machine.require_living(pid)?;
        Ok(ProcessDetails {
            identity: entry.identity.clone(),
            uid: Some(entry.process.uid),
            kernel_thread: entry.process.kernel_thread,
            stopped: entry.process.stopped,
            parent: entry.process.parent,
            command: entry.process.command.clone(),
            cwd: entry.process.cwd.clone(),
            started_at: entry.process.started_at,
        })
    }

    async fn signal(&self, process: &ProcessIdentity, signal: i32) -> Result<Liveness, ProbeError> {
        let mut machine = self.machine();
        let liveness = machine.observe(process);
        if liveness == Liveness::Alive {
            machine.signal(process, signal);
        }
        Ok(liveness)
    }

    async fn members(&self, group: &Group, others: &Others) -> Result<Members, ProbeError> {
        Ok(self.machine().members(group, others))
    }

    async fn occupants(&self, dir: &Path) -> Result<Occupants, ProbeError> {
        let machine = self.machine();
        let inside = |entry: &&Entry| entry.process.cwd.as_ref().is_some_and(|cwd| cwd.starts_with(dir));
        let (hidden, seen): (Vec<&Entry>, Vec<&Entry>) =
            machine.living().partition(|entry| entry.hidden.is_some());
        Ok(Occupants {
            processes: seen.into_iter().filter(inside).map(|entry| entry.identity.clone()).collect(),
            // Their directories are unknown, so they count for every directory.
            unreadable: hidden.into_iter().map(|entry| entry.identity.pid).collect(),
        })
    }

    async fn terminate(&self, groups: &[Group], policy: &EndPolicy) -> Result<Vec<Ended>, ProbeError> {
        assert!(policy.grace <= LONGEST_WAIT && policy.kill_wait <= LONGEST_WAIT, "a wait without a limit");
        assert!(policy.first_signal > 0, "signal {} ends no process", policy.first_signal);
        let mut seen: Vec<&SessionId> = Vec::new();
        for group in groups {
            assert!(!seen.contains(&&group.session), "session {} is in the list twice", group.session);
            seen.push(&group.session);
        }
        let mut machine = self.machine();
        Ok(groups.iter().map(|group| machine.end_group(group, policy)).collect())
    }

    fn find_container(&self, session: &SessionId) -> Option<Cgroup> {
        self.machine().containers.get(session).map(container_of)
    }

    fn release(&self, cgroup: &Cgroup) {
        self.machine().containers.retain(|session| container_of(session) != *cgroup);
    }
}

fn container_of(session: &SessionId) -> Cgroup {
    Cgroup { path: format!("/groups/{session}").into(), inode: 1, extra: Default::default() }
}

impl Machine {
    fn require_living(&self, pid: u32) -> Result<&Entry, ProbeError> {
        let entry = self.processes.get(&pid).filter(|entry| entry.alive).ok_or(ProbeError::Gone { pid })?;
        match &entry.hidden {
            Some(why) => Err(ProbeError::Denied { pid, why: why.clone() }),
            None => Ok(entry),
        }
    }
}

#[cfg(test)]
mod tests;
