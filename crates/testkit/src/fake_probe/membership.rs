//! Membership of processes on the fake machine: applies the rule of `sexton_core` to the fake processes.

use std::collections::HashSet;

use sexton_core::Others;
use sexton_core::membership::{Anchor, Claim, Cookie, Neighbours, Sighting, assign};
use sexton_core::probe::{Group, Members};

use super::process::Entry;
use super::{Machine, is_same};

/// The user of the probe.
const OWN_UID: u32 = 0;

impl Machine {
    /// Returns the members of `group`, ordered by pid. A hidden process is never a proved member.
    pub(super) fn members(&self, group: &Group, others: &Others) -> Members {
        let seen: Vec<Sighting> = self.living().map(sighting).collect();
        let neighbours = others.groups().iter().filter(|other| other.session != group.session);
        let neighbours = Neighbours {
            claims: neighbours.map(|other| self.claim(other)).collect(),
            complete: others.is_complete(),
        };
        let roster = assign(&seen, &[self.claim(group)], &neighbours).remove(0);
        let mut members = Members::default();
        for (pid, _) in roster.members {
            match &self.processes[&pid] {
                entry if entry.hidden.is_some() => members.unreadable.push(pid),
                entry => members.processes.push(entry.identity.clone()),
            }
        }
        members.unreadable.extend(roster.doubtful.iter().map(|(pid, _)| *pid));
        members.unreadable.sort_unstable();
        members
    }

    fn claim<'a>(&self, group: &'a Group) -> Claim<'a> {
        let anchor = |recorded: Option<&sexton_core::ProcessIdentity>| {
            let found =
                self.living().find(|entry| recorded.is_some_and(|known| is_same(known, &entry.identity)));
            found.map_or(Anchor::Missing, |entry| Anchor::Present(entry.identity.pid))
        };
        Claim {
            session: &group.session,
            command: anchor(group.process.as_ref()),
            supervisor: anchor(group.supervisor.as_ref()),
            contained: HashSet::new(),
            known: HashSet::new(),
            limit_mark: group.limit_mark,
        }
    }
}

fn sighting(entry: &Entry) -> Sighting {
    let cookie = match (&entry.hidden, &entry.process.cookie) {
        (Some(_), _) => Cookie::Unreadable,
        (None, Some(session)) => Cookie::Session(session.as_str().to_owned()),
        (None, None) => Cookie::Absent,
    };
    Sighting {
        pid: entry.identity.pid,
        parent: entry.process.parent.unwrap_or(0),
        cookie,
        limit: entry.process.limit,
        is_own_user: entry.process.uid == OWN_UID,
    }
}
