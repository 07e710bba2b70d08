//! The processes that are being ended, and the handles on which we wait for their end.

use std::collections::{HashMap, HashSet};
use std::io;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::process::Resource;
use sexton_core::ProcessIdentity;
use sexton_core::identity::Match;

use crate::handle::Handle;

/// One process that somebody wants ended.
pub(super) struct Target {
    pub(super) identity: ProcessIdentity,
    /// The groups that it belongs to.
    pub(super) groups: Vec<usize>,
    /// The last signal that reached it.
    pub(super) last_signal: Option<i32>,
    /// Why it could not be told.
    pub(super) refused: Option<String>,
    /// It was found in this round, and not been dealt with yet.
    pub(super) is_met: bool,
    /// It was proved a member.
    pub(super) is_member: bool,
    /// It is the recorded command of a group, and so a member whatever cookie it carries.
    pub(super) is_recorded: bool,
    /// It was seen to have ended.
    pub(super) has_exited: bool,
    handle: Option<Handle>,
}

/// All of them, in the order in which they were met.
pub(super) struct Targets {
    targets: Vec<Target>,
    /// Which one has a pid now.
    by_pid: HashMap<u32, usize>,
    /// How many handles may be held. There can be more processes than file descriptors.
    limit: usize,
    held: usize,
}

const LEAST_HANDLES: usize = 8;
const MOST_HANDLES: usize = 8192;

impl Targets {
    pub(super) fn new() -> Targets {
        let files = rustix::process::getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX);
        let half = usize::try_from(files / 2).unwrap_or(usize::MAX);
        let limit = half.clamp(LEAST_HANDLES, MOST_HANDLES);
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
            is_met: false,
            is_member: false,
            is_recorded: false,
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

    /// Keeps a handle to wait on, if there is room.
    pub(super) fn hold(&mut self, handle: Handle) {
        let Some(index) = self.by_pid.get(&handle.pid) else { return };
        let target = &mut self.targets[*index];
        if target.handle.is_none() && self.held < self.limit {
            target.handle = Some(handle);
            self.held += 1;
        }
    }

    /// Gives up all handles, and will hold half as many from now on; `false` where there are none.
    pub(super) fn let_go(&mut self) -> bool {
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

    /// Those that were found in this round, each once.
    pub(super) fn take_met(&mut self) -> impl Iterator<Item = &mut Target> {
        self.targets.iter_mut().filter_map(|target| std::mem::take(&mut target.is_met).then_some(target))
    }

    /// The proved members of each group that have not been seen to end.
    pub(super) fn find_living_members(&self, groups: usize) -> Vec<Vec<ProcessIdentity>> {
        let mut members = vec![Vec::new(); groups];
        for target in self.targets.iter().filter(|target| target.is_member && !target.has_exited) {
            for group in &target.groups {
                members[*group].push(target.identity.clone());
            }
        }
        members
    }

    /// The groups of which a process is held and has not ended.
    pub(super) fn find_living_groups(&self) -> HashSet<usize> {
        let held = self.targets.iter().filter(|target| target.handle.is_some());
        held.flat_map(|target| target.groups.iter().copied()).collect()
    }

    /// Whether nobody of those who live may be told anything.
    pub(super) fn are_all_refused(&self) -> bool {
        self.targets.iter().all(|target| target.has_exited || target.refused.is_some())
    }

    /// Sleeps until none of the held processes is left, or until `deadline`.
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

    /// Sees who has ended by now.
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
