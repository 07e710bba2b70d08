//! The other active sessions that concern one pass.
//!
//! There may be thousands, and most are unrelated to the candidates. So a session is examined only if a
//! candidate or one of its ancestors is its recorded process or is in its control group.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Component, Path};

use sexton_core::Others;
use sexton_core::membership::{Anchor, Claim, Neighbours, Roster};
use sexton_core::probe::Group;

use crate::LinuxProbe;
use crate::cgroup::Cgroup;
use crate::procfs_dir::is_refusal;
use crate::scan::Row;

/// The other sessions, without those that the search itself is for.
pub(crate) struct OtherGroups<'a> {
    groups: Vec<&'a Group>,
    complete: bool,
    /// Every recorded pid.
    pids: HashSet<u32>,
}

impl<'a> OtherGroups<'a> {
    pub(crate) fn new(others: &'a Others, wanted: &[&Group]) -> OtherGroups<'a> {
        let asked: HashSet<&str> = wanted.iter().map(|group| group.session.as_str()).collect();
        let groups = others.groups().iter().filter(|group| !asked.contains(group.session.as_str()));
        let groups: Vec<&Group> = groups.collect();
        let recorded = groups.iter().flat_map(|group| group.process.iter().chain(&group.supervisor));
        let pids = recorded.map(|process| process.pid).collect();
        OtherGroups { groups, complete: others.is_complete(), pids }
    }

    /// Returns whether a recorded process of another session has or had this pid.
    pub(crate) fn has_recorded(&self, pid: u32) -> bool {
        self.pids.contains(&pid)
    }

    /// Returns the recorded processes of other sessions that have this pid.
    pub(crate) fn recorded_as(&self, pid: u32) -> impl Iterator<Item = &'a sexton_core::ProcessIdentity> {
        let recorded = self.groups.iter().flat_map(|group| group.process.iter().chain(&group.supervisor));
        recorded.filter(move |process| process.pid == pid)
    }

    /// Returns the other sessions with nothing examined.
    pub(crate) fn unexamined(&self) -> Neighbours<'a> {
        let claims = self.groups.iter().map(|group| Claim {
            session: &group.session,
            command: Anchor::Missing,
            supervisor: Anchor::Missing,
            contained: HashSet::new(),
            known: HashSet::new(),
            limit_mark: group.limit_mark,
        });
        Neighbours { claims: claims.collect(), complete: self.complete }
    }
}

impl LinuxProbe {
    /// Returns the other sessions, with their recorded processes and control groups where a candidate may
    /// belong to them.
    pub(crate) fn examine_neighbours<'a>(
        &self,
        others: &OtherGroups<'a>,
        candidates: &[Roster],
        rows: &HashMap<u32, &Row>,
    ) -> io::Result<Neighbours<'a>> {
        let mut neighbours = others.unexamined();
        if others.groups.is_empty() {
            return Ok(neighbours);
        }
        let members = candidates.iter().flat_map(|roster| roster.members.iter().map(|(pid, _)| *pid));
        let doubtful = candidates.iter().flat_map(|roster| roster.doubtful.iter().map(|(pid, _)| *pid));
        let candidates: HashSet<u32> = members.chain(doubtful).collect();
        let mut above = HashSet::new();
        for pid in &candidates {
            let mut next = Some(*pid);
            while let Some(pid) = next.filter(|pid| above.insert(*pid)) {
                next = rows.get(&pid).map(|row| row.sighting.parent);
            }
        }
        let places = self.load_places(others, &above)?;
        for (claim, group) in neighbours.claims.iter_mut().zip(&others.groups) {
            let is_above = |process: &&sexton_core::ProcessIdentity| above.contains(&process.pid);
            claim.command = self.find_anchor(group.process.as_ref().filter(is_above), rows)?;
            claim.supervisor = self.find_anchor(group.supervisor.as_ref().filter(is_above), rows)?;
            let cgroup =
                group.cgroup.as_ref().filter(|group| places.contains(base_name(group.path.as_path())));
            if let Some(cgroup) = cgroup.map(Cgroup::find).transpose()?.flatten() {
                claim.contained = cgroup.load_processes()?.into_iter().collect();
            }
        }
        Ok(neighbours)
    }

    /// Returns the names of all control groups that these processes are in, from their own up to the root.
    fn load_places(&self, others: &OtherGroups<'_>, pids: &HashSet<u32>) -> io::Result<HashSet<String>> {
        let mut names = HashSet::new();
        if others.groups.iter().all(|group| group.cgroup.is_none()) {
            return Ok(names);
        }
        for pid in pids {
            let text = match self.proc.load(&format!("{pid}/cgroup")) {
                Err(error) if is_refusal(&error) => None,
                result => result?,
            };
            let text = String::from_utf8_lossy(text.as_deref().unwrap_or_default()).into_owned();
            let place = text.lines().find_map(|line| line.strip_prefix("0::")).unwrap_or_default();
            names.extend(Path::new(place).components().filter_map(|component| match component {
                Component::Normal(name) => Some(name.to_string_lossy().into_owned()),
                _ => None,
            }));
        }
        Ok(names)
    }
}

fn base_name(path: &Path) -> &str {
    path.file_name().and_then(|name| name.to_str()).unwrap_or_default()
}
