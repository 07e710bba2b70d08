//! Which processes belong to which session: a pure function of what was seen of them.
//!
//! Architecture invariant: this decides who is a *candidate*. What was seen is already old when it is
//! judged, so a probe proves each one again before it acts on it.

use std::collections::{HashMap, HashSet};

use crate::SessionId;

/// What the environment of a process says about its session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cookie {
    /// It carries this id.
    Session(String),
    /// It was read, and carries none.
    Absent,
    /// It could not be read: perhaps it carries one.
    Unreadable,
}

/// A living process, as one look at the machine showed it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sighting {
    /// Its number.
    pub pid: u32,
    /// Its parent's number.
    pub parent: u32,
    /// Its cookie.
    pub cookie: Cookie,
}

/// What became of a recorded process, as far as the same look shows it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Anchor {
    /// It is the process with this number.
    Present(u32),
    /// The process with this number may be it, or another.
    Doubtful(u32),
    /// It is not there, or was never recorded.
    #[default]
    Missing,
}

impl Anchor {
    /// The pid, where it is certain.
    pub fn present(self) -> Option<u32> {
        if let Anchor::Present(pid) = self { Some(pid) } else { None }
    }

    fn may_be(self, number: u32) -> bool {
        matches!(self, Anchor::Present(pid) | Anchor::Doubtful(pid) if pid == number)
    }
}

/// A session that looks for its members.
#[derive(Clone, Debug)]
pub struct Claim<'a> {
    /// Its id, which is the cookie.
    pub session: &'a SessionId,
    /// The command: a member, and so is what descends from it.
    pub command: Anchor,
    /// The supervisor: never a member, but what descends from it is.
    pub supervisor: Anchor,
    /// What its control group holds.
    pub contained: HashSet<u32>,
    /// Processes that were proved members before, and are still the same. A parent that has ended since
    /// may have been the only other evidence.
    pub known: HashSet<u32>,
}

/// Why a process is a member. It is what a probe proves again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Evidence {
    /// It is the recorded command, whatever its environment says now.
    Recorded,
    /// It carries the session's cookie.
    Cookie,
    /// It is in the session's control group.
    Contained,
    /// It was proved a member before.
    Known,
    /// It carries no cookie, and its nearest ancestor that belongs to anybody belongs to the session.
    Descent,
}

/// Who answered to one claim.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Roster {
    /// The members, and why.
    pub members: Vec<(u32, Evidence)>,
    /// Processes that may be members: something that had to be read could not be.
    pub doubtful: Vec<u32>,
}

/// Sorts out whose each process is; the answer to a claim does not depend on the others.
///
/// The cookie decides first: a process that carries another session's is never a member, wherever it
/// descends from. The recorded command is the exception, because its identity is the stronger evidence: a
/// session may be registered from inside another.
pub fn assign(seen: &[Sighting], claims: &[Claim]) -> Vec<Roster> {
    let index = Index::new(seen, claims);
    let mut rosters = vec![Roster::default(); claims.len()];
    for process in seen {
        for (number, standing) in index.standings(process) {
            let (claim, roster) = (&claims[number], &mut rosters[number]);
            if claim.supervisor.may_be(process.pid) {
                continue;
            }
            match standing {
                Standing::Member(evidence) => roster.members.push((process.pid, evidence)),
                Standing::Doubtful => roster.doubtful.push(process.pid),
            }
        }
    }
    rosters
}

enum Standing {
    Member(Evidence),
    Doubtful,
}

/// The claims by what they are found through, so that a thousand of them cost one look at each process.
struct Index<'a> {
    seen: HashMap<u32, &'a Sighting>,
    by_cookie: HashMap<&'a str, Vec<usize>>,
    by_command: HashMap<u32, Vec<usize>>,
    by_doubtful_command: HashMap<u32, Vec<usize>>,
    by_anchor: HashMap<u32, Vec<usize>>,
    by_container: HashMap<u32, Vec<usize>>,
    by_known_member: HashMap<u32, Vec<usize>>,
}

impl<'a> Index<'a> {
    fn new(seen: &'a [Sighting], claims: &'a [Claim]) -> Index<'a> {
        let mut index = Index {
            seen: seen.iter().map(|process| (process.pid, process)).collect(),
            by_cookie: HashMap::new(),
            by_command: HashMap::new(),
            by_doubtful_command: HashMap::new(),
            by_anchor: HashMap::new(),
            by_container: HashMap::new(),
            by_known_member: HashMap::new(),
        };
        for (number, claim) in claims.iter().enumerate() {
            index.by_cookie.entry(claim.session.as_str()).or_default().push(number);
            if let Some(pid) = claim.command.present() {
                index.by_command.entry(pid).or_default().push(number);
            }
            if let Anchor::Doubtful(pid) = claim.command {
                index.by_doubtful_command.entry(pid).or_default().push(number);
            }
            for pid in &claim.known {
                index.by_known_member.entry(*pid).or_default().push(number);
                index.by_anchor.entry(*pid).or_default().push(number);
            }
            for pid in [claim.command, claim.supervisor].into_iter().filter_map(Anchor::present) {
                index.by_anchor.entry(pid).or_default().push(number);
            }
            for pid in &claim.contained {
                index.by_container.entry(*pid).or_default().push(number);
            }
        }
        index
    }

    /// How a process stands to each claim that it has to do with, the strongest evidence for each.
    fn standings(&self, process: &Sighting) -> Vec<(usize, Standing)> {
        let mut found = Vec::new();
        let mut add = |numbers: &[usize], standing: fn() -> Standing| {
            for number in numbers {
                if !found.iter().any(|(known, _)| known == number) {
                    found.push((*number, standing()));
                }
            }
        };
        add(named(&self.by_command, &process.pid), || Standing::Member(Evidence::Recorded));
        match &process.cookie {
            Cookie::Session(id) => {
                add(named(&self.by_cookie, id.as_str()), || Standing::Member(Evidence::Cookie));
            }
            Cookie::Absent | Cookie::Unreadable => {
                add(named(&self.by_container, &process.pid), || Standing::Member(Evidence::Contained));
                add(named(&self.by_known_member, &process.pid), || Standing::Member(Evidence::Known));
                let (certain, doubtful) = self.ancestry(process);
                add(&certain, || Standing::Member(Evidence::Descent));
                add(&doubtful, || Standing::Doubtful);
            }
        }
        add(named(&self.by_doubtful_command, &process.pid), || Standing::Doubtful);
        found
    }

    /// The claims that a process without a readable cookie descends from. The first cookie on the way up
    /// ends the search, whosever it is; beyond something unreadable nothing is certain.
    fn ancestry(&self, process: &Sighting) -> (Vec<usize>, Vec<usize>) {
        let (mut certain, mut doubtful) = (Vec::new(), Vec::new());
        let mut doubt = process.cookie == Cookie::Unreadable;
        let mut parent = process.parent;
        // Parents are not all read at one moment, so they may seem to form a circle.
        for _ in 0..self.seen.len() {
            let found = if doubt { &mut doubtful } else { &mut certain };
            found.extend_from_slice(named(&self.by_anchor, &parent));
            let Some(ancestor) = self.seen.get(&parent) else {
                break;
            };
            match &ancestor.cookie {
                Cookie::Session(id) => {
                    found.extend_from_slice(named(&self.by_cookie, id.as_str()));
                    break;
                }
                Cookie::Unreadable => doubt = true,
                Cookie::Absent => {}
            }
            parent = ancestor.parent;
        }
        (certain, doubtful)
    }
}

fn named<'m, K, Q>(map: &'m HashMap<K, Vec<usize>>, key: &Q) -> &'m [usize]
where
    K: std::borrow::Borrow<Q> + std::hash::Hash + Eq,
    Q: std::hash::Hash + Eq + ?Sized,
{
    map.get(key).map_or(&[], Vec::as_slice)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(pid: u32, parent: u32) -> Sighting {
        Sighting { pid, parent, cookie: Cookie::Absent }
    }

    fn carrying(pid: u32, parent: u32, id: &str) -> Sighting {
        Sighting { pid, parent, cookie: Cookie::Session(id.into()) }
    }

    fn closed(pid: u32, parent: u32) -> Sighting {
        Sighting { pid, parent, cookie: Cookie::Unreadable }
    }

    fn id(text: &str) -> SessionId {
        text.parse().unwrap()
    }

    fn claim(session: &SessionId, command: u32, supervisor: u32) -> Claim<'_> {
        Claim {
            session,
            command: Anchor::Present(command),
            supervisor: Anchor::Present(supervisor),
            contained: HashSet::new(),
            known: HashSet::new(),
        }
    }

    #[test]
    fn the_cookie_finds_a_member_wherever_it_was_reparented_and_never_the_supervisor() {
        let seen = [carrying(10, 1, "a"), carrying(11, 10, "a"), carrying(12, 1, "a"), plain(13, 1)];
        let a = id("a");
        let roster = &assign(&seen, &[claim(&a, 11, 10)])[0];
        assert_eq!(roster.members, [(11, Evidence::Recorded), (12, Evidence::Cookie)]);
        assert_eq!(roster.doubtful, [0; 0]);
    }

    #[test]
    fn descent_counts_from_the_command_the_supervisor_and_any_member() {
        let seen = [
            carrying(10, 1, "a"),
            plain(11, 10),
            plain(12, 11),
            plain(13, 10),
            carrying(14, 1, "a"),
            plain(15, 14),
            plain(16, 1),
        ];
        let a = id("a");
        let roster = &assign(&seen, &[claim(&a, 11, 10)])[0];
        let expected = [
            (11, Evidence::Recorded),
            (12, Evidence::Descent),
            (13, Evidence::Descent),
            (14, Evidence::Cookie),
            (15, Evidence::Descent),
        ];
        assert_eq!(roster.members, expected);
    }

    #[test]
    fn i2_another_sessions_cookie_ends_the_descent_for_all_below_it() {
        let seen = [carrying(11, 10, "a"), carrying(20, 11, "b"), plain(21, 20)];
        let (a, b) = (id("a"), id("b"));
        let rosters = assign(&seen, &[claim(&a, 11, 10), claim(&b, 99, 20)]);
        assert_eq!(rosters[0].members, [(11, Evidence::Recorded)]);
        assert_eq!(rosters[1].members, [(21, Evidence::Descent)]);
        assert_eq!(assign(&seen, &[claim(&a, 11, 10)])[0], rosters[0]);
    }

    #[test]
    fn i2_what_cannot_be_read_is_doubtful_and_so_is_what_descends_through_it() {
        let seen = [carrying(11, 10, "a"), closed(12, 11), plain(13, 12), closed(14, 1)];
        let a = id("a");
        let roster = &assign(&seen, &[claim(&a, 11, 10)])[0];
        assert_eq!(roster.members, [(11, Evidence::Recorded)]);
        assert_eq!(roster.doubtful, [12, 13]);
    }

    #[test]
    fn a_control_group_holds_members_that_nothing_else_shows_but_not_another_session() {
        let seen = [closed(30, 1), plain(31, 1), carrying(32, 1, "b")];
        let a = id("a");
        let mut claim = claim(&a, 11, 10);
        claim.contained = HashSet::from([30, 31, 32]);
        let roster = &assign(&seen, &[claim])[0];
        assert_eq!(roster.members, [(30, Evidence::Contained), (31, Evidence::Contained)]);
    }

    #[test]
    fn once_a_member_always_a_member_and_its_children_too_until_it_joins_another_session() {
        let seen = [plain(40, 1), plain(41, 40), closed(42, 1), carrying(43, 1, "b")];
        let a = id("a");
        let mut claim = claim(&a, 11, 10);
        claim.known = HashSet::from([40, 42, 43]);
        let roster = &assign(&seen, &[claim])[0];
        let expected = [(40, Evidence::Known), (41, Evidence::Descent), (42, Evidence::Known)];
        assert_eq!(roster.members, expected);
    }

    #[test]
    fn the_recorded_command_is_a_member_even_inside_another_session() {
        let seen = [carrying(11, 1, "outer")];
        let a = id("a");
        assert_eq!(assign(&seen, &[claim(&a, 11, 10)])[0].members, [(11, Evidence::Recorded)]);
    }

    #[test]
    fn i2_weak_evidence_of_an_anchor_makes_nobody_a_member() {
        let seen = [plain(10, 1), plain(11, 10), plain(12, 11)];
        let a = id("a");
        let mut claim = claim(&a, 11, 10);
        claim.command = Anchor::Doubtful(11);
        claim.supervisor = Anchor::Doubtful(10);
        let roster = &assign(&seen, &[claim])[0];
        assert_eq!((roster.members.len(), &roster.doubtful[..]), (0, &[11][..]));
    }

    #[test]
    fn parents_that_seem_to_form_a_circle_end_the_search() {
        let seen = [plain(20, 21), plain(21, 20)];
        let a = id("a");
        assert_eq!(assign(&seen, &[claim(&a, 11, 10)])[0], Roster::default());
    }
}
