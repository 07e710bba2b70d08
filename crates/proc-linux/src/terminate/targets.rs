//! The processes to stop, and the handles used to wait for their exit.

use std::collections::{HashMap, HashSet};
use std::io;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Resource;
use sexton_core::ProcessIdentity;
use sexton_core::identity::Match;

use crate::handle::Handle;

/// One process to stop.
pub(super) struct Target {
    pub(super) identity: ProcessIdentity,
    /// Indexes of its groups.
    pub(super) groups: Vec<usize>,
    /// The last signal that was delivered.
    pub(super) last_signal: Option<i32>,
    /// Why it could not be signalled.
    pub(super) refused: Option<String>,
    /// Found in this round and not handled yet.
    pub(super) is_pending: bool,
    /// Found, at least with doubt.
    pub(super) is_current: bool,
    /// The next pass may resolve the doubt.
    pub(super) is_temporary: bool,
    /// Proved a member.
    pub(super) is_member: bool,
    /// Known to have exited.
    pub(super) has_exited: bool,
    handle: Option<Handle>,
}

/// All targets, in the order in which they were found.
pub(super) struct Targets {
    targets: Vec<Target>,
    /// Index of the target that has a pid now.
    by_pid: HashMap<u32, usize>,
    /// How many handles may be open. There can be more processes than file descriptors.
    limit: usize,
    held: usize,
}

const MIN_HANDLES: usize = 8;
const MAX_HANDLES: usize = 8192;

impl Targets {
    pub(super) fn new() -> Targets {
        let files = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let half = usize::try_from(files / 2).unwrap_or(usize::MAX);
        let all = sexton_mutant::is("hold_every_handle");
        let limit = if all { usize::MAX } else { half.clamp(MIN_HANDLES, MAX_HANDLES) };
        Targets { targets: Vec::new(), by_pid: HashMap::new(), limit, held: 0 }
    }

    pub(super) fn find_or_add(&mut self, identity: &ProcessIdentity, groups: &[usize]) -> &mut Target {
        let known = self.by_pid.get(&identity.pid).copied();
        let known = known.filter(|index| self.targets[*index].identity.compare(identity) == Match::Same);
        let index = known.unwrap_or_else(|| self.add(identity));
        let target = &mut self.targets[index];
        for group in groups {
            if !target.groups.contains(group) {
                target.groups.push(*group);
            }
        }
        target
    }

    fn add(&mut self, identity: &ProcessIdentity) -> usize {
        let index = self.targets.len();
        if let Some(former) = self.by_pid.insert(identity.pid, index) {
            self.mark_exited(former);
        }
        self.targets.push(Target {
            identity: identity.clone(),
            groups: Vec::new(),
            last_signal: None,
            refused: None,
            is_pending: false,
            is_current: false,
            is_temporary: false,
            is_member: false,
            has_exited: false,
            handle: None,
        });
        index
    }

    fn mark_exited(&mut self, index: usize) {
        let target = &mut self.targets[index];
        target.has_exited = true;
        self.held -= usize::from(target.handle.take().is_some());
    }

    /// Keeps a handle to wait on, if the limit allows.
    pub(super) fn hold(&mut self, handle: Handle) {
        let Some(index) = self.by_pid.get(&handle.pid) else { return };
        let target = &mut self.targets[*index];
        if target.handle.is_none() && self.held < self.limit {
            target.handle = Some(handle);
            self.held += 1;
        }
    }

    /// Closes all handles and halves the limit; returns `false` if there were none.
    pub(super) fn release_handles(&mut self) -> bool {
        if sexton_mutant::is("hold_every_handle") {
            return false;
        }
        let had = self.held;
        for target in &mut self.targets {
            target.handle = None;
        }
        self.limit = had / 2;
        self.held = 0;
        had > 0
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Target> {
        self.targets.iter()
    }

    /// Begins a round. Processes with a temporary doubt must be found again.
    pub(super) fn begin_round(&mut self) {
        for target in self.targets.iter_mut().filter(|target| !target.is_member && target.is_temporary) {
            target.is_current = false;
            self.held -= usize::from(target.handle.take().is_some());
        }
    }

    /// Returns the targets found in this round, each once.
    pub(super) fn take_pending(&mut self) -> impl Iterator<Item = &mut Target> {
        self.targets.iter_mut().filter_map(|target| std::mem::take(&mut target.is_pending).then_some(target))
    }

    /// Returns the proved members of each group that are not known to have exited.
    pub(super) fn find_living_members(&self, groups: usize) -> Vec<Vec<ProcessIdentity>> {
        let mut members = vec![Vec::new(); groups];
        for target in self.targets.iter().filter(|target| target.is_member && !target.has_exited) {
            for group in &target.groups {
                members[*group].push(target.identity.clone());
            }
        }
        members
    }

    /// Returns the groups with a process whose handle is open and that has not exited.
    pub(super) fn find_living_groups(&self) -> HashSet<usize> {
        let held = self.targets.iter().filter(|target| target.handle.is_some());
        held.flat_map(|target| target.groups.iter().copied()).collect()
    }

    /// Returns whether none of the live targets may be signalled.
    pub(super) fn are_all_refused(&self) -> bool {
        let mut counting = self.targets.iter().filter(|target| target.is_member || target.is_current);
        counting.all(|target| target.has_exited || target.refused.is_some())
    }

    /// Waits until all held processes have exited, or until `deadline`.
    pub(super) fn wait(&mut self, deadline: Instant) -> io::Result<()> {
        while self.held > 0 {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
            self.poll(&left)?;
        }
        Ok(())
    }

    /// Marks the targets that have exited by now.
    pub(super) fn notice_exits(&mut self) -> io::Result<()> {
        self.poll(&Timespec { tv_sec: 0, tv_nsec: 0 })
    }

    fn poll(&mut self, timeout: &Timespec) -> io::Result<()> {
        let held = self.targets.iter().enumerate();
        let held = held.filter_map(|(index, target)| Some((index, target.handle.as_ref()?)));
        let (indexes, mut fds): (Vec<usize>, Vec<PollFd<'_>>) =
            held.map(|(index, handle)| (index, PollFd::new(handle, PollFlags::IN))).unzip();
        match rustix::event::poll(&mut fds, Some(timeout)) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
        let ended: Vec<bool> = fds.iter().map(|fd| !fd.revents().is_empty()).collect();
        drop(fds);
        for (index, _) in indexes.into_iter().zip(ended).filter(|(_, ended)| *ended) {
            self.mark_exited(index);
        }
        Ok(())
    }
}
