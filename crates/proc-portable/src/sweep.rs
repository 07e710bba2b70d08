//! Finding the members of many sessions in one look at the machine.

use std::collections::{HashMap, HashSet};
use std::io;
use std::time::{Duration, Instant};

use sexton_core::identity::Match;
use sexton_core::membership::{self, Anchor, Claim, Roster, Sighting};
use sexton_core::probe::{Group, Members};
use sexton_core::{ProbeError, ProcessIdentity};

use crate::cookie::load_cookie;
use crate::look::{Seen, for_each_program};
use crate::{PortableProbe, failed};

/// How long one look at the whole machine may take.
pub(crate) const LOOK_LIMIT: Duration = Duration::from_secs(10);

/// Everything that one look showed.
pub(crate) struct Sweep {
    /// Whether it saw the whole machine.
    pub(crate) complete: bool,
    pub(crate) seen: HashMap<u32, Seen>,
    /// For each group, who answered to it.
    pub(crate) rosters: Vec<Roster>,
}

impl PortableProbe {
    pub(crate) fn find_members(&self, group: &Group) -> Result<Members, ProbeError> {
        let until = Instant::now() + LOOK_LIMIT;
        let sweep = self.sweep(std::slice::from_ref(group), &[Vec::new()], until);
        let sweep = sweep.and_then(|sweep| if sweep.complete { Ok(sweep) } else { Err(too_many_forks()) });
        let sweep = sweep.map_err(|error| failed("looking for the session's processes", error))?;
        let roster = &sweep.rosters[0];
        Ok(Members {
            processes: roster.members.iter().map(|(pid, _)| sweep.seen[pid].identity.clone()).collect(),
            unreadable: roster.doubtful.clone(),
        })
    }

    /// Looks at everybody. `known` are the members of each group that were found before.
    pub(crate) fn sweep(
        &self,
        groups: &[Group],
        known: &[Vec<ProcessIdentity>],
        until: Instant,
    ) -> io::Result<Sweep> {
        let mut seen = HashMap::new();
        let mut sightings = Vec::new();
        let complete = for_each_program(&self.here, until, |process| {
            let cookie = load_cookie(&self.here, &process)?;
            sightings.push(Sighting { pid: process.pid(), parent: process.parent.unwrap_or(0), cookie });
            seen.insert(process.pid(), process);
            Ok(())
        })?;
        let anchor = |recorded: &Option<ProcessIdentity>| self.find_anchor(recorded.as_ref(), &seen);
        let claims: Vec<Claim> = groups
            .iter()
            .zip(known)
            .map(|(group, known)| Claim {
                session: &group.session,
                command: anchor(&group.process),
                supervisor: anchor(&group.supervisor),
                contained: HashSet::new(),
                known: known
                    .iter()
                    .filter_map(|member| self.find_anchor(Some(member), &seen).present())
                    .collect(),
            })
            .collect();
        let rosters = membership::assign(&sightings, &claims);
        Ok(Sweep { complete, seen, rosters })
    }

    fn find_anchor(&self, recorded: Option<&ProcessIdentity>, seen: &HashMap<u32, Seen>) -> Anchor {
        let Some((recorded, current)) = recorded.and_then(|known| Some((known, seen.get(&known.pid)?)))
        else {
            return Anchor::Missing;
        };
        let elsewhere = recorded.same_vantage(&self.here.identity(recorded.pid)).is_err();
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

/// Why a look did not come to its end.
pub(crate) fn too_many_forks() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "processes fork faster than they are read")
}
