//! Finds the members of many sessions in one pass, and proves each.
//!
//! [`membership`] decides which processes are candidates; this module verifies that the evidence still holds.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::time::{Duration, Instant};

use sexton_core::identity::Match;
use sexton_core::membership::{self, Anchor, Claim, Cookie, Doubt, Evidence, Roster};
use sexton_core::probe::{Group, Members};
use sexton_core::{Others, ProcessIdentity};

use crate::LinuxProbe;
use crate::cgroup::Cgroup;
use crate::neighbours::OtherGroups;
use crate::procfs_dir::too_many_forks;
use crate::prove::Proved;
use crate::reading::Reading;
use crate::scan::{Depth, Row, Scan};

/// How long one pass over all processes may take.
pub(crate) const SWEEP_LIMIT: Duration = Duration::from_secs(10);

/// A session whose members are searched for.
pub(crate) struct Wanted<'a> {
    pub(crate) group: &'a Group,
    /// Members that an earlier sweep proved.
    pub(crate) known: Vec<&'a ProcessIdentity>,
}

/// A process that concerns some of the sessions.
pub(crate) enum Found {
    /// A proved member, with the evidence.
    Member(Proved, Evidence),
    /// Possibly a member, with the reason why that is uncertain.
    Doubtful(Proved, Doubt),
    /// It looked like a member but had changed or exited when it was to be proved. To show that no process is
    /// left, the search must be repeated.
    Changed(ProcessIdentity),
}

/// Called for each find, with the indexes of its sessions.
pub(crate) type OnFind<'f> = &'f mut dyn FnMut(&[usize], Found);

/// Parameters of a sweep.
pub(crate) struct Search<'a> {
    pub(crate) wanted: &'a [Wanted<'a>],
    pub(crate) others: &'a OtherGroups<'a>,
    /// Reads environments; without it, only members that need none are found.
    pub(crate) reading: Option<&'a Reading>,
    pub(crate) until: Instant,
}

/// What a sweep returns besides its finds.
pub(crate) struct Swept {
    /// Whether it saw all processes.
    pub(crate) complete: bool,
    /// Whether it saw all processes that existed when it began.
    pub(crate) read_first_listing: bool,
    /// For each session its control group, if that is still the recorded one.
    pub(crate) cgroups: Vec<Option<Contained>>,
}

/// A control group and the processes in it.
pub(crate) struct Contained {
    pub(crate) cgroup: Cgroup,
    pub(crate) processes: HashSet<u32>,
    /// Whether every process in it is a member of this session.
    pub(crate) is_ours: bool,
}

/// How often members are searched for while candidates change.
const ATTEMPTS: usize = 3;

/// Result of one sweep for members.
#[derive(Default)]
struct FoundMembers {
    found: BTreeMap<u32, ProcessIdentity>,
    unreadable: Vec<u32>,
    changed: Vec<ProcessIdentity>,
}

impl LinuxProbe {
    pub(crate) fn find_members(&self, group: &Group, others: &Others) -> io::Result<Members> {
        let others = OtherGroups::new(others, &[group]);
        let until = Instant::now() + SWEEP_LIMIT;
        let mut members = self.search_members(group, &others, until)?;
        for _ in 1..ATTEMPTS {
            if members.changed.is_empty() {
                break;
            }
            members = self.search_members(group, &others, until)?;
        }
        // A candidate that changes every time may be a member.
        members.unreadable.extend(members.changed.into_iter().map(|process| process.pid));
        Ok(Members { processes: members.found.into_values().collect(), unreadable: members.unreadable })
    }

    fn search_members(
        &self,
        group: &Group,
        others: &OtherGroups,
        until: Instant,
    ) -> io::Result<FoundMembers> {
        let mut result = FoundMembers::default();
        let mut collect = |_: &[usize], find: Found| match find {
            Found::Member(process, _) => drop(result.found.insert(process.handle.pid, process.identity)),
            Found::Doubtful(process, _) => result.unreadable.push(process.handle.pid),
            Found::Changed(process) => result.changed.push(process),
        };
        let (wanted, reading) = ([Wanted { group, known: Vec::new() }], Reading::default());
        let search = Search { wanted: &wanted, others, reading: Some(&reading), until };
        let swept = self.sweep(&search, &mut collect)?;
        let saw_all = swept.complete || swept.read_first_listing && self.is_vacated(group)?;
        if saw_all { Ok(result) } else { Err(too_many_forks()) }
    }

    /// Checks every process once and calls `on_find` for each that concerns a session.
    pub(crate) fn sweep(&self, search: &Search, on_find: OnFind) -> io::Result<Swept> {
        if let Some(reading) = search.reading {
            reading.begin();
        }
        let swept = self.sweep_once(search, on_find);
        if let Some(reading) = search.reading {
            reading.end(swept.as_ref().is_ok_and(|swept| swept.complete));
        }
        swept
    }

    fn sweep_once(&self, search: &Search, on_find: OnFind) -> io::Result<Swept> {
        let mut cgroups = self.load_cgroups(search.wanted)?;
        let index = QuickIndex::new(search);
        let mut reported_early = HashSet::new();
        let depth = self.depth(search, &cgroups);
        let mut scan = self.scan(
            &depth,
            search.until,
            || self.are_all_vacated(search),
            |row| {
                let Some((numbers, evidence)) = index.find(self, row)? else { return Ok(()) };
                reported_early.insert(row.pid());
                self.report_early(row, search, &numbers, evidence, on_find)
            },
        )?;
        let contained = cgroups.iter().flatten().flat_map(|held| held.processes.iter().copied()).collect();
        self.add_hidden(&mut scan.rows, &contained)?;
        self.report_others(search, &scan, &reported_early, &mut cgroups, on_find)?;
        let (complete, read_first_listing) = (scan.complete, scan.read_first_listing);
        Ok(Swept { complete, read_first_listing, cgroups })
    }

    /// Returns whether the control group of a session exists no more or is empty. Then no process can appear in
    /// it, and one that left it while it ran is in the first listing of a pass: processes that other programs
    /// start and end all the time hide nothing.
    pub(crate) fn is_vacated(&self, group: &Group) -> io::Result<bool> {
        let is_of_this_boot =
            group.process.as_ref().is_none_or(|process| !self.here.is_of_another_boot(process));
        match &group.cgroup {
            Some(recorded) if is_of_this_boot => Cgroup::is_vacated(recorded),
            _ => Ok(false),
        }
    }

    fn are_all_vacated(&self, search: &Search) -> io::Result<bool> {
        for wanted in search.wanted {
            if !self.is_vacated(wanted.group)? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    fn depth<'a>(&self, search: &Search<'a>, cgroups: &[Option<Contained>]) -> Depth<'a> {
        let recorded = search.wanted.iter().flat_map(|wanted| {
            wanted.group.process.iter().chain(&wanted.group.supervisor).map(|process| process.pid)
        });
        let contained = cgroups.iter().flatten().flat_map(|held| held.processes.iter().copied());
        let known = search.wanted.iter().flat_map(|wanted| wanted.known.iter());
        Depth {
            environments: search.reading,
            limits: search.wanted.iter().any(|wanted| wanted.group.limit_mark.is_some()),
            known: known.filter_map(|known| Some((known.pid, known.start_ticks?))).collect(),
            first: recorded.chain(contained).collect(),
        }
    }

    /// Reports a process that is a member by its own evidence, whatever it descends from. Skips the session's
    /// supervisor.
    fn report_early(
        &self,
        row: &Row,
        search: &Search,
        numbers: &[usize],
        evidence: Evidence,
        on_find: OnFind,
    ) -> io::Result<()> {
        let group = search.wanted[numbers[0]].group;
        let is_command = || group.process.as_ref().is_some_and(|process| process.pid == row.pid());
        if sexton_mutant::is("command_only") && !is_command() {
            return Ok(());
        }
        let proved = self.prove(row.pid(), |process| match (evidence, search.reading) {
            (Evidence::Cookie, Some(reading)) => self.carries(reading, process, group.session.as_str()),
            _ => self.has_mark(process, group),
        })?;
        let identity =
            proved.as_ref().map_or_else(|| self.identity_of(row), |proved| proved.identity.clone());
        // If the evidence does not exclude that it is the supervisor, it is skipped.
        let supervises = |group: &Group| {
            group.supervisor.as_ref().is_some_and(|known| known.compare(&identity) != Match::Different)
        };
        let numbers = numbers.iter().copied().filter(|number| !supervises(search.wanted[*number].group));
        let numbers: Vec<usize> = numbers.collect();
        if numbers.is_empty() {
            return Ok(());
        }
        let found = proved.map(|process| Found::Member(process, evidence));
        on_find(&numbers, found.unwrap_or(Found::Changed(identity)));
        Ok(())
    }

    /// Returns what a row shows of the identity of a process that could not be proved.
    fn identity_of(&self, row: &Row) -> ProcessIdentity {
        let start_ticks = (!row.stat.is_hidden()).then_some(row.stat.start_ticks);
        ProcessIdentity { start_ticks, ..self.here.identity(row.pid()) }
    }

    /// Returns the control groups that are still the recorded ones.
    fn load_cgroups(&self, wanted: &[Wanted]) -> io::Result<Vec<Option<Contained>>> {
        let load = |wanted: &Wanted| {
            let Some(cgroup) = wanted.group.cgroup.as_ref().map(Cgroup::find).transpose()?.flatten() else {
                return Ok(None);
            };
            let processes = cgroup.load_processes()?.into_iter().collect();
            Ok(Some(Contained { cgroup, processes, is_ours: false }))
        };
        wanted.iter().map(load).collect()
    }

    /// Reports members that were not reported early, and doubtful processes.
    fn report_others(
        &self,
        search: &Search,
        scan: &Scan,
        reported_early: &HashSet<u32>,
        cgroups: &mut [Option<Contained>],
        on_find: OnFind,
    ) -> io::Result<()> {
        let rows: HashMap<u32, &Row> = scan.rows.iter().map(|row| (row.pid(), row)).collect();
        let mut claims = Vec::with_capacity(search.wanted.len());
        for (wanted, contained) in search.wanted.iter().zip(&*cgroups) {
            claims.push(self.claim(wanted, contained.as_ref(), &rows)?);
        }
        let sightings: Vec<_> = scan.rows.iter().map(|row| row.sighting.clone()).collect();
        let candidates = membership::assign(&sightings, &claims, &search.others.unexamined());
        let neighbours = self.examine_neighbours(search.others, &candidates, &rows)?;
        let rosters = membership::assign(&sightings, &claims, &neighbours);
        for (number, roster) in rosters.iter().enumerate() {
            if let Some(contained) = &mut cgroups[number] {
                contained.is_ours = is_all_of(roster, contained, &rows);
            }
            let wanted = &search.wanted[number];
            let parent_of = |pid: u32| rows.get(&pid).map(|row| row.sighting.parent);
            let members = match wanted.group.limit_mark {
                Some(_) => roster.members.clone(),
                None => roster.children_first(parent_of),
            };
            for (pid, evidence) in &members {
                let row = rows[pid];
                if reported_early.contains(pid) && matches!(evidence, Evidence::Cookie | Evidence::LimitMark)
                {
                    continue;
                }
                let contained = cgroups[number].as_ref();
                let proved = self.prove(*pid, |process| {
                    self.confirm(process, row, *evidence, search, wanted, contained)
                })?;
                let found = proved.map(|process| Found::Member(process, *evidence));
                on_find(&[number], found.unwrap_or_else(|| Found::Changed(self.identity_of(row))));
            }
            for (pid, doubt) in &roster.doubtful {
                if let Some(process) = self.prove(*pid, |_| Ok(true))? {
                    on_find(&[number], Found::Doubtful(process, *doubt));
                }
            }
        }
        Ok(())
    }

    fn claim<'a>(
        &self,
        wanted: &Wanted<'a>,
        contained: Option<&Contained>,
        rows: &HashMap<u32, &Row>,
    ) -> io::Result<Claim<'a>> {
        let mut known = HashSet::new();
        for member in &wanted.known {
            // The cookie is sufficient and cheaper.
            let has_cookie = rows.get(&member.pid).is_some_and(|row| carries(row, wanted.group));
            if !has_cookie && let Anchor::Present(pid) = self.find_anchor(Some(member), rows)? {
                known.insert(pid);
            }
        }
        Ok(Claim {
            session: &wanted.group.session,
            command: self.find_anchor(wanted.group.process.as_ref(), rows)?,
            supervisor: self.find_anchor(wanted.group.supervisor.as_ref(), rows)?,
            contained: contained.map(|held| held.processes.clone()).unwrap_or_default(),
            known,
            limit_mark: wanted.group.limit_mark,
        })
    }

    /// Returns whether the evidence for a process still holds. Its handle is open.
    fn confirm(
        &self,
        process: &Proved,
        row: &Row,
        evidence: Evidence,
        search: &Search,
        wanted: &Wanted,
        contained: Option<&Contained>,
    ) -> io::Result<bool> {
        let is = |known: &ProcessIdentity| known.compare(&process.identity) == Match::Same;
        Ok(match evidence {
            Evidence::Recorded => wanted.group.process.as_ref().is_some_and(is),
            Evidence::Cookie => match search.reading {
                Some(reading) => self.carries(reading, process, wanted.group.session.as_str())?,
                None => false,
            },
            Evidence::Known => wanted.known.iter().any(|known| is(known)),
            Evidence::Contained => match contained {
                Some(contained) => self.is_contained(process, &contained.cgroup)?,
                None => false,
            },
            Evidence::LimitMark => self.has_mark(process, wanted.group)?,
            Evidence::Descent => self.descends(process, row.sighting.parent, search, wanted, contained)?,
        })
    }

    /// Returns the state of a recorded process, as far as the pass has seen it.
    pub(crate) fn find_anchor(
        &self,
        recorded: Option<&ProcessIdentity>,
        rows: &HashMap<u32, &Row>,
    ) -> io::Result<Anchor> {
        let Some(recorded) = recorded.filter(|recorded| rows.contains_key(&recorded.pid)) else {
            return Ok(Anchor::Missing);
        };
        let pid = recorded.pid;
        if self.here.is_of_another_boot(recorded)
            || recorded.same_identity_scope(&self.here.identity(pid)).is_err()
        {
            return Ok(Anchor::Missing);
        }
        let Some(current) = self.prove(pid, |_| Ok(true))? else { return Ok(Anchor::Missing) };
        Ok(match recorded.compare(&current.identity) {
            Match::Same => Anchor::Present(pid),
            Match::Different => Anchor::Missing,
            Match::CannotTell(_) => Anchor::Doubtful(pid),
        })
    }
}

/// The sessions, indexed by evidence that needs only one row.
struct QuickIndex<'a> {
    by_cookie: HashMap<&'a str, Vec<usize>>,
    by_mark: HashMap<u64, Vec<usize>>,
    recorded: HashSet<u32>,
    search: &'a Search<'a>,
}

/// A process with more ancestors than this is judged after the pass has seen all of them.
const MAX_EARLY_ANCESTORS: usize = 4;

impl<'a> QuickIndex<'a> {
    fn new(search: &'a Search<'a>) -> QuickIndex<'a> {
        let recorded = search.wanted.iter().flat_map(|wanted| {
            wanted.group.process.iter().chain(&wanted.group.supervisor).map(|process| process.pid)
        });
        let recorded = recorded.collect();
        let mut index = QuickIndex { by_cookie: HashMap::new(), by_mark: HashMap::new(), recorded, search };
        for (number, wanted) in search.wanted.iter().enumerate() {
            index.by_cookie.entry(wanted.group.session.as_str()).or_default().push(number);
            if let Some(mark) = wanted.group.limit_mark {
                index.by_mark.entry(mark).or_default().push(number);
            }
        }
        index
    }

    fn find(&self, probe: &LinuxProbe, row: &Row) -> io::Result<Option<(Vec<usize>, Evidence)>> {
        let sighting = &row.sighting;
        if let Cookie::Session(id) = &sighting.cookie
            && let Some(numbers) = self.by_cookie.get(id.as_str())
        {
            return Ok(Some((numbers.clone(), Evidence::Cookie)));
        }
        // A process with another cookie is judged after the other sessions are known.
        let names_no_session = !matches!(sighting.cookie, Cookie::Session(_) | Cookie::Unanswered);
        let marked = sighting.limit.and_then(|limit| self.by_mark.get(&limit));
        let marked =
            marked.filter(|_| sighting.is_own_user && names_no_session && self.search.reading.is_some());
        match marked {
            Some(numbers) if self.has_no_recorded_ancestor(probe, row)? => {
                Ok(Some((numbers.clone(), Evidence::LimitMark)))
            }
            _ => Ok(None),
        }
    }

    /// Returns whether no recorded process of any session is among the nearest ancestors of this one.
    fn has_no_recorded_ancestor(&self, probe: &LinuxProbe, row: &Row) -> io::Result<bool> {
        let mut pid = row.pid();
        for _ in 0..MAX_EARLY_ANCESTORS {
            if self.search.others.has_recorded(pid) || self.recorded.contains(&pid) {
                return Ok(false);
            }
            match probe.proc.load_stat(&pid.to_string()) {
                Ok(Some(stat)) if stat.parent > 1 => pid = stat.parent,
                Ok(_) => return Ok(true),
                Err(_) => return Ok(false),
            }
        }
        Ok(false)
    }
}

/// Returns whether every live process of a control group is a member.
fn is_all_of(roster: &Roster, contained: &Contained, rows: &HashMap<u32, &Row>) -> bool {
    let members: HashSet<u32> = roster.members.iter().map(|(pid, _)| *pid).collect();
    contained.processes.iter().all(|pid| members.contains(pid) || !rows.contains_key(pid))
}

fn carries(row: &Row, group: &Group) -> bool {
    matches!(&row.sighting.cookie, Cookie::Session(id) if id == group.session.as_str())
}
