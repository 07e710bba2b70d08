//! Finds the members of many sessions in one pass over all processes.

use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::io;
use std::time::{Duration, Instant};

use sexton_core::identity::Match;
use sexton_core::membership::{self, Anchor, Claim, Cookie, Neighbours, Roster, Sighting};
use sexton_core::probe::{Group, Members};
use sexton_core::{Others, ProbeError, ProcessIdentity};

use crate::cookie::load_cookie;
use crate::hold::Held;
use crate::look::{Seen, for_each_listing};
use crate::memory::Reader;
use crate::{PortableProbe, failed};

/// How long one pass over all processes may take.
pub(crate) const SWEEP_LIMIT: Duration = Duration::from_secs(10);

/// Parameters of a sweep.
pub(crate) struct Search<'a> {
    pub(crate) groups: &'a [Group],
    /// Members of each group that were found before.
    pub(crate) known: &'a [Vec<ProcessIdentity>],
    pub(crate) others: &'a Others,
    /// Environments that did not answer; without this, none is read.
    pub(crate) unanswered: Option<&'a Unanswered>,
    pub(crate) until: Instant,
    /// Processes that are never held. Without this, no member is held.
    pub(crate) hold_except: Option<&'a [ProcessIdentity]>,
}

/// Processes whose environments did not answer, by pid and start: they are not read again.
pub(crate) type Unanswered = RefCell<HashSet<(u32, Option<u64>)>>;

/// The listing from which on members are held. A command that starts programs is in the first ones only.
const FIRST_HELD_LISTING: usize = 3;

/// How many reads may stay unanswered; each leaves a thread behind.
const MAX_UNANSWERED: usize = 6;

/// Result of a sweep.
pub(crate) struct Sweep<'a> {
    /// Whether it saw all processes.
    pub(crate) complete: bool,
    pub(crate) seen: HashMap<u32, Seen>,
    /// The members and doubtful processes of each group.
    pub(crate) rosters: Vec<Roster>,
    /// Members that are stopped until this is dropped.
    _held: Held<'a>,
}

impl PortableProbe {
    pub(crate) fn find_members(&self, group: &Group, others: &Others) -> Result<Members, ProbeError> {
        let sweep = self.sweep(&Search {
            groups: std::slice::from_ref(group),
            known: &[Vec::new()],
            others,
            unanswered: Some(&Unanswered::default()),
            until: Instant::now() + SWEEP_LIMIT,
            hold_except: None,
        });
        let sweep = sweep.and_then(|sweep| if sweep.complete { Ok(sweep) } else { Err(too_many_forks()) });
        let sweep = sweep.map_err(|error| failed("searching for the session's processes", error))?;
        let roster = &sweep.rosters[0];
        Ok(Members {
            processes: roster.members.iter().map(|(pid, _)| sweep.seen[pid].identity.clone()).collect(),
            unreadable: roster.doubtful.iter().map(|(pid, _)| *pid).collect(),
        })
    }

    /// Reads every process once and assigns it to the groups.
    pub(crate) fn sweep(&self, search: &Search) -> io::Result<Sweep<'_>> {
        let mut seen = HashMap::new();
        let mut sightings = Vec::new();
        let mut held = Held::new(self);
        let mut listings = 0;
        let reader = Reader::default();
        let complete = for_each_listing(&self.here, search.until, |listed| {
            listings += 1;
            let fresh: HashSet<u32> = listed.iter().map(Seen::pid).collect();
            for process in listed {
                sightings.push(Sighting {
                    pid: process.pid(),
                    parent: process.parent.unwrap_or(0),
                    cookie: self.read_cookie(search, &reader, &process)?,
                    limit: process.load_limit(),
                    is_own_user: process.is_our_users(),
                });
                seen.insert(process.pid(), process);
            }
            if let Some(exempt) = search.hold_except.filter(|_| listings >= FIRST_HELD_LISTING) {
                let rosters = self.assign(search, &sightings, &seen);
                for (group, roster) in search.groups.iter().zip(&rosters) {
                    let exempt = || exempt.iter().chain(&group.supervisor);
                    let members = roster.members.iter().filter(|(pid, _)| fresh.contains(pid));
                    for process in members.map(|(pid, _)| &seen[pid]).filter(|process| !process.is_stopped) {
                        if exempt().all(|known| known.compare(&process.identity) == Match::Different) {
                            held.hold(&process.identity);
                        }
                    }
                }
            }
            Ok(())
        })?;
        let rosters = self.assign(search, &sightings, &seen);
        Ok(Sweep { complete, seen, rosters, _held: held })
    }

    fn assign(&self, search: &Search, sightings: &[Sighting], seen: &HashMap<u32, Seen>) -> Vec<Roster> {
        let groups = search.groups.iter().zip(search.known);
        let claims: Vec<Claim> = groups.map(|(group, known)| self.claim(group, known, seen)).collect();
        let is_asked = |other: &&Group| search.groups.iter().any(|group| group.session == other.session);
        let others = search.others.groups().iter().filter(|other| !is_asked(other));
        let neighbours = Neighbours {
            claims: others.map(|other| self.claim(other, &[], seen)).collect(),
            complete: search.others.is_complete(),
        };
        membership::assign(sightings, &claims, &neighbours)
    }

    fn claim<'a>(&self, group: &'a Group, known: &[ProcessIdentity], seen: &HashMap<u32, Seen>) -> Claim<'a> {
        let known = known.iter().filter_map(|member| self.find_anchor(Some(member), seen).present());
        Claim {
            session: &group.session,
            command: self.find_anchor(group.process.as_ref(), seen),
            supervisor: self.find_anchor(group.supervisor.as_ref(), seen),
            contained: HashSet::new(),
            known: known.collect(),
            limit_mark: group.limit_mark,
        }
    }

    fn read_cookie(&self, search: &Search, reader: &Reader, process: &Seen) -> io::Result<Cookie> {
        // Another user's cookie proves nothing, and reading it would give that user a way to delay this.
        let reads = search.unanswered.filter(|_| process.is_our_users());
        let Some(unanswered) = reads else { return Ok(Cookie::Unreadable) };
        let key = (process.pid(), process.identity.start_time_us);
        if unanswered.borrow().contains(&key) {
            return Ok(Cookie::Unanswered);
        }
        if unanswered.borrow().len() >= MAX_UNANSWERED {
            return Ok(Cookie::Unanswered);
        }
        let cookie = load_cookie(&self.here, reader, process)?;
        if cookie == Cookie::Unanswered {
            unanswered.borrow_mut().insert(key);
        }
        Ok(cookie)
    }

    fn find_anchor(&self, recorded: Option<&ProcessIdentity>, seen: &HashMap<u32, Seen>) -> Anchor {
        let Some((recorded, current)) = recorded.and_then(|known| Some((known, seen.get(&known.pid)?)))
        else {
            return Anchor::Missing;
        };
        let elsewhere = recorded.same_identity_scope(&self.here.identity(recorded.pid)).is_err();
        if self.here.is_of_another_boot(recorded) || elsewhere {
            return Anchor::Missing;
        }
        match recorded.compare(&current.identity) {
            Match::Same => Anchor::Present(recorded.pid),
            Match::Different => Anchor::Missing,
            Match::CannotTell(_) => Anchor::Doubtful(recorded.pid),
        }
    }
}

/// Returns the error for a sweep that did not complete.
pub(crate) fn too_many_forks() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "processes fork faster than they are read")
}
