//! Finding the members of many sessions in one pass, and proving each.
//!
//! Who is a candidate is decided by [`membership`]; here it is seen whether that is still so.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io;
use std::time::{Duration, Instant};

use sexton_core::ProcessIdentity;
use sexton_core::identity::Match;
use sexton_core::membership::{self, Anchor, Claim, Cookie, Evidence};
use sexton_core::probe::{Group, Members};

use crate::LinuxProbe;
use crate::cgroup::Cgroup;
use crate::prove::Proved;
use crate::scan::{Row, Scan};

/// How long one look at the whole machine may take.
pub(crate) const SWEEP_LIMIT: Duration = Duration::from_secs(10);

/// A session whose members are looked for.
pub(crate) struct Wanted<'a> {
    pub(crate) group: &'a Group,
    /// Members that an earlier sweep proved.
    pub(crate) known: Vec<&'a ProcessIdentity>,
}

/// A process that has to do with some of the sessions.
pub(crate) enum Found {
    /// Proved a member, by this evidence.
    Member(Proved, Evidence),
    /// Perhaps a member: something could not be read.
    Doubtful(Proved),
    /// It looked like a member and had changed or gone when it was to be proved. Whoever asks whether
    /// anybody is left, has to look again.
    Slipped(ProcessIdentity),
}

/// What is called for each find, with the numbers of the sessions it belongs to.
pub(crate) type OnFind<'f> = &'f mut dyn FnMut(&[usize], Found);

/// What a sweep saw besides its finds.
pub(crate) struct Swept {
    /// Whether it saw the whole machine.
    pub(crate) complete: bool,
    /// For each session, its control group, if it still is the recorded one.
    pub(crate) cgroups: Vec<Option<Contained>>,
}

/// A control group and what it held.
pub(crate) struct Contained {
    pub(crate) cgroup: Cgroup,
    pub(crate) processes: HashSet<u32>,
    /// Whether all of them are of this session, or of none.
    pub(crate) is_ours: bool,
}

/// How often members are looked for while some slip away.
const LOOKS: usize = 3;

/// What one sweep for members found.
#[derive(Default)]
struct Look {
    found: BTreeMap<u32, ProcessIdentity>,
    unreadable: Vec<u32>,
    slipped: Vec<ProcessIdentity>,
}

impl LinuxProbe {
    pub(crate) fn find_members(&self, group: &Group) -> io::Result<Members> {
        let limit = Instant::now() + SWEEP_LIMIT;
        let mut members = self.look_for_members(group, limit)?;
        for _ in 1..LOOKS {
            if members.slipped.is_empty() {
                break;
            }
            members = self.look_for_members(group, limit)?;
        }
        // Whoever slips away every time is somebody.
        members.unreadable.extend(members.slipped.into_iter().map(|process| process.pid));
        Ok(Members { processes: members.found.into_values().collect(), unreadable: members.unreadable })
    }

    fn look_for_members(&self, group: &Group, limit: Instant) -> io::Result<Look> {
        let mut look = Look::default();
        let mut collect = |_: &[usize], find: Found| match find {
            Found::Member(process, _) => drop(look.found.insert(process.handle.pid, process.identity)),
            Found::Doubtful(process) => look.unreadable.push(process.handle.pid),
            Found::Slipped(process) => look.slipped.push(process),
        };
        let wanted = Wanted { group, known: Vec::new() };
        let swept = self.sweep(&[wanted], limit, &mut collect)?;
        if !swept.complete {
            return Err(io::Error::new(io::ErrorKind::TimedOut, "processes fork faster than they are read"));
        }
        Ok(look)
    }

    /// Looks at every process once, and calls `on_find` for each that has to do with a session.
    pub(crate) fn sweep(&self, wanted: &[Wanted], until: Instant, on_find: OnFind) -> io::Result<Swept> {
        let mut by_session: HashMap<&str, Vec<usize>> = HashMap::new();
        for (number, wanted) in wanted.iter().enumerate() {
            by_session.entry(wanted.group.session.as_str()).or_default().push(number);
        }
        let mut scan = self.scan(until, |row| {
            let Cookie::Session(id) = &row.sighting.cookie else { return Ok(()) };
            let Some(numbers) = by_session.get(id.as_str()) else { return Ok(()) };
            self.report_carrier(row, wanted, numbers, on_find)
        })?;
        let cgroups = self.load_cgroups(wanted, &mut scan)?;
        self.report_others(wanted, &scan, &cgroups, on_find)?;
        Ok(Swept { complete: scan.complete, cgroups })
    }

    /// A process with a session's cookie: a member of it, unless it is its supervisor.
    fn report_carrier(
        &self,
        row: &Row,
        wanted: &[Wanted],
        numbers: &[usize],
        on_find: OnFind,
    ) -> io::Result<()> {
        let group = wanted[numbers[0]].group;
        let is_command = || group.process.as_ref().is_some_and(|process| process.pid == row.pid());
        if sexton_mutant::is("command_only") && !is_command() {
            return Ok(());
        }
        let session = group.session.as_str();
        let proved = self.prove(row.pid(), |process| self.carries(process, session))?;
        let identity =
            proved.as_ref().map_or_else(|| self.identity_of(row), |proved| proved.identity.clone());
        // Where the evidence does not say whether it is the supervisor, it is left alone.
        let supervises = |group: &Group| {
            group.supervisor.as_ref().is_some_and(|known| known.compare(&identity) != Match::Different)
        };
        let numbers = numbers.iter().copied().filter(|number| !supervises(wanted[*number].group));
        let numbers: Vec<usize> = numbers.collect();
        if numbers.is_empty() {
            return Ok(());
        }
        let found = proved.map(|process| Found::Member(process, Evidence::Cookie));
        on_find(&numbers, found.unwrap_or(Found::Slipped(identity)));
        Ok(())
    }

    /// What a row says of a process that could not be proved.
    fn identity_of(&self, row: &Row) -> ProcessIdentity {
        ProcessIdentity { start_ticks: Some(row.stat.start_ticks), ..self.here.identity(row.pid()) }
    }

    /// The control groups that are still the recorded ones; what they hold and the pass has not seen is
    /// added to it.
    fn load_cgroups(&self, wanted: &[Wanted], scan: &mut Scan) -> io::Result<Vec<Option<Contained>>> {
        let recorded = wanted.iter().map(|wanted| wanted.group.cgroup.as_ref());
        if recorded.clone().flatten().next().is_none() {
            return Ok(recorded.map(|_| None).collect());
        }
        let mut cookies: HashMap<u32, Cookie> =
            scan.rows.iter().map(|row| (row.pid(), row.sighting.cookie.clone())).collect();
        let mut loaded = Vec::with_capacity(wanted.len());
        for wanted in wanted {
            let Some(cgroup) = wanted.group.cgroup.as_ref().map(Cgroup::find).transpose()?.flatten() else {
                loaded.push(None);
                continue;
            };
            let processes: HashSet<u32> = cgroup.load_processes()?.into_iter().collect();
            let mut is_ours = true;
            for pid in &processes {
                if !cookies.contains_key(pid)
                    && let Some(row) = self.load_row(*pid)?
                {
                    cookies.insert(*pid, row.sighting.cookie.clone());
                    scan.rows.push(row);
                }
                let session = wanted.group.session.as_str();
                is_ours &= !matches!(cookies.get(pid), Some(Cookie::Session(id)) if id != session);
            }
            loaded.push(Some(Contained { cgroup, processes, is_ours }));
        }
        Ok(loaded)
    }

    /// Members that other evidence than the cookie shows, and those that are in doubt.
    fn report_others(
        &self,
        wanted: &[Wanted],
        scan: &Scan,
        cgroups: &[Option<Contained>],
        on_find: OnFind,
    ) -> io::Result<()> {
        let rows: HashMap<u32, &Row> = scan.rows.iter().map(|row| (row.pid(), row)).collect();
        let mut claims = Vec::with_capacity(wanted.len());
        for (wanted, contained) in wanted.iter().zip(cgroups) {
            claims.push(self.claim(wanted, contained.as_ref(), &rows)?);
        }
        let sightings: Vec<_> = scan.rows.iter().map(|row| row.sighting.clone()).collect();
        for (number, roster) in membership::assign(&sightings, &claims).into_iter().enumerate() {
            let wanted = &wanted[number];
            for (pid, evidence) in roster.members {
                let row = rows[&pid];
                if carries(row, wanted.group) {
                    continue; // reported at sight
                }
                let contained = cgroups[number].as_ref();
                let proved = self.prove(pid, |process| self.confirm(process, evidence, wanted, contained))?;
                let found = proved.map(|process| Found::Member(process, evidence));
                on_find(&[number], found.unwrap_or_else(|| Found::Slipped(self.identity_of(row))));
            }
            for pid in roster.doubtful {
                if let Some(process) = self.prove(pid, |_| Ok(true))? {
                    on_find(&[number], Found::Doubtful(process));
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
            // The cookie is enough, and cheaper.
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
        })
    }

    /// Whether the evidence for a process, which is held, is still there.
    fn confirm(
        &self,
        process: &Proved,
        evidence: Evidence,
        wanted: &Wanted,
        contained: Option<&Contained>,
    ) -> io::Result<bool> {
        let session = wanted.group.session.as_str();
        let is = |known: &ProcessIdentity| known.compare(&process.identity) == Match::Same;
        Ok(match evidence {
            Evidence::Recorded => wanted.group.process.as_ref().is_some_and(is),
            Evidence::Cookie => self.carries(process, session)?,
            Evidence::Known => {
                wanted.known.iter().any(|known| is(known)) && self.is_in_no_other(process, &[session])?
            }
            Evidence::Contained => match contained {
                Some(contained) => {
                    self.is_in_no_other(process, &[session])?
                        && self.is_contained(process, &contained.cgroup)?
                }
                None => false,
            },
            Evidence::Descent => self.descends(process, wanted)?,
        })
    }

    /// What became of a recorded process, as far as the pass has seen it.
    fn find_anchor(
        &self,
        recorded: Option<&ProcessIdentity>,
        rows: &HashMap<u32, &Row>,
    ) -> io::Result<Anchor> {
        let Some(recorded) = recorded.filter(|recorded| rows.contains_key(&recorded.pid)) else {
            return Ok(Anchor::Missing);
        };
        let pid = recorded.pid;
        if self.here.is_of_another_boot(recorded) || recorded.same_vantage(&self.here.identity(pid)).is_err()
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

fn carries(row: &Row, group: &Group) -> bool {
    matches!(&row.sighting.cookie, Cookie::Session(id) if id == group.session.as_str())
}
