//! Assigns each process to its session.

use std::collections::{HashMap, HashSet};

use super::{
    Anchor, Claim, Cookie, Doubt, Evidence, MarkRelation, Neighbours, Roster, Sighting, compare_limit_mark,
};

/// Returns the members of each claim among the observed processes.
pub fn assign(seen: &[Sighting], claims: &[Claim], neighbours: &Neighbours) -> Vec<Roster> {
    let index = Index::new(seen, claims, neighbours);
    let mut rosters = vec![Roster::default(); claims.len()];
    for process in seen {
        let trail = index.follow(process);
        for number in index.concerned(process, &trail) {
            let roster = &mut rosters[number];
            match index.judge(process, number, &trail) {
                Some(Standing::Member(evidence)) => roster.members.push((process.pid, evidence)),
                Some(Standing::Doubtful(doubt)) => roster.doubtful.push((process.pid, doubt)),
                None => {}
            }
        }
    }
    rosters
}

enum Standing {
    Member(Evidence),
    Doubtful(Doubt),
}

/// A session: the index of a claim, or one of the neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Claim(usize),
    Neighbour,
}

/// What was found between a process and its nearest ancestor that provably belongs to a session.
#[derive(Default)]
struct Trail {
    /// The sessions whose recorded process, or whose control group, was reached first.
    owners: Vec<Owner>,
    /// The limit of the process at which they were reached.
    limit_there: Option<u64>,
    /// Claims whose cookie or mark was found before that.
    hints: Vec<Hint>,
    /// Sessions of which a process on the path may be a recorded one.
    weak: Vec<Owner>,
    /// Whether a process on the path has a cookie whose session could not be looked up.
    has_unknown_cookie: bool,
}

/// The cookie or the mark of a claim.
#[derive(Clone, Copy)]
struct Hint {
    claim: usize,
    is_mark: bool,
    /// Whether the process itself carries it, rather than an ancestor.
    is_own: bool,
}

/// The claims by what identifies their members, so that a thousand claims cost one lookup per process.
struct Index<'a> {
    claims: &'a [Claim<'a>],
    complete: bool,
    seen: HashMap<u32, &'a Sighting>,
    by_cookie: HashMap<&'a str, Vec<usize>>,
    by_mark: HashMap<u64, Vec<usize>>,
    /// Every recorded process and every known member.
    anchors: HashMap<u32, Vec<Owner>>,
    doubtful_anchors: HashMap<u32, Vec<Owner>>,
    containers: HashMap<u32, Vec<(Owner, &'a HashSet<u32>)>>,
    neighbour_ids: HashSet<&'a str>,
    neighbour_marks: HashSet<u64>,
    /// The marks of claims in ascending order, to find the nearest above a limit.
    sorted_marks: Vec<(u64, usize)>,
}

impl<'a> Index<'a> {
    fn new(seen: &'a [Sighting], claims: &'a [Claim], neighbours: &'a Neighbours) -> Index<'a> {
        let mut index = Index {
            claims,
            complete: neighbours.complete,
            seen: seen.iter().map(|process| (process.pid, process)).collect(),
            by_cookie: HashMap::new(),
            by_mark: HashMap::new(),
            anchors: HashMap::new(),
            doubtful_anchors: HashMap::new(),
            containers: HashMap::new(),
            neighbour_ids: neighbours.claims.iter().map(|claim| claim.session.as_str()).collect(),
            neighbour_marks: neighbours.claims.iter().filter_map(|claim| claim.limit_mark).collect(),
            sorted_marks: Vec::new(),
        };
        for (number, claim) in claims.iter().enumerate() {
            index.by_cookie.entry(claim.session.as_str()).or_default().push(number);
            if let Some(mark) = claim.limit_mark {
                index.by_mark.entry(mark).or_default().push(number);
                index.sorted_marks.push((mark, number));
            }
            index.add_anchors(claim, Owner::Claim(number));
        }
        for claim in &neighbours.claims {
            index.add_anchors(claim, Owner::Neighbour);
        }
        index.sorted_marks.sort_unstable();
        index
    }

    fn add_anchors(&mut self, claim: &'a Claim, owner: Owner) {
        let recorded = [claim.command, claim.supervisor];
        let certain = recorded.into_iter().filter_map(Anchor::present).chain(claim.known.iter().copied());
        for pid in certain {
            self.anchors.entry(pid).or_default().push(owner);
        }
        for pid in recorded.into_iter().filter_map(Anchor::doubtful) {
            self.doubtful_anchors.entry(pid).or_default().push(owner);
        }
        for pid in &claim.contained {
            self.containers.entry(*pid).or_default().push((owner, &claim.contained));
        }
    }

    /// Follows the ancestors of a process to the nearest session that provably owns it.
    fn follow(&self, process: &'a Sighting) -> Trail {
        let mut trail = Trail::default();
        let mut here = process;
        // Parents are not read atomically, so they may seem to form a cycle.
        for _ in 0..=self.seen.len() {
            if let Some(owners) = self.anchors.get(&here.pid) {
                trail.arrive(owners.iter().copied(), here.limit);
                break;
            }
            self.note_hints(here, here.pid == process.pid, &mut trail);
            // A control group owns a process only at the point where the ancestors leave the group: a session
            // that was started inside, without its own group, is nearer.
            let leaves = self.containers.get(&here.pid).into_iter().flatten();
            let left = leaves.filter(|(_, group)| !group.contains(&here.parent)).map(|(owner, _)| *owner);
            trail.arrive(left, here.limit);
            if !trail.owners.is_empty() {
                break;
            }
            let Some(parent) = self.seen.get(&here.parent) else {
                if let Some(owners) = self.anchors.get(&here.parent) {
                    trail.arrive(owners.iter().copied(), None);
                }
                break;
            };
            here = parent;
        }
        trail
    }

    fn note_hints(&self, here: &Sighting, is_own: bool, trail: &mut Trail) {
        // Every user can read the id of a session and set its cookie.
        if let Cookie::Session(id) = &here.cookie
            && (here.is_own_user || sexton_mutant::is("any_users_cookie"))
        {
            let claims = named(&self.by_cookie, id.as_str());
            trail.hints.extend(claims.iter().map(|claim| Hint { claim: *claim, is_mark: false, is_own }));
            let is_known = !claims.is_empty() || self.neighbour_ids.contains(id.as_str());
            trail.has_unknown_cookie |= !self.complete && !is_known;
        }
        if let Some(limit) = here.limit.filter(|_| here.is_own_user || sexton_mutant::is("mark_is_enough")) {
            let claims = named(&self.by_mark, &limit);
            trail.hints.extend(claims.iter().map(|claim| Hint { claim: *claim, is_mark: true, is_own }));
        }
        trail.weak.extend(named(&self.doubtful_anchors, &here.pid));
    }

    /// Returns the claims that a process may be relevant for.
    fn concerned(&self, process: &Sighting, trail: &Trail) -> Vec<usize> {
        let mut numbers: Vec<usize> = trail.hints.iter().map(|hint| hint.claim).collect();
        let anchors = self.anchors.get(&process.pid).into_iter().flatten();
        let owners = trail.owners.iter().chain(&trail.weak).chain(anchors);
        numbers.extend(owners.filter_map(|owner| match owner {
            Owner::Claim(number) => Some(*number),
            Owner::Neighbour => None,
        }));
        if let Cookie::Session(id) = &process.cookie
            && process.is_own_user
        {
            numbers.extend(named(&self.by_cookie, id.as_str()));
        }
        if process.is_own_user && trail.owners.is_empty() {
            if let Some(limit) = process.limit {
                numbers.extend(self.lowered_from(limit));
            }
            if process.cookie == Cookie::Unanswered {
                numbers.extend(0..self.claims.len());
            }
        }
        numbers.sort_unstable();
        numbers.dedup();
        numbers
    }

    /// Returns the claims whose marks this limit may have been lowered from.
    fn lowered_from(&self, limit: u64) -> impl Iterator<Item = usize> {
        let above = self.sorted_marks.partition_point(|(mark, _)| *mark <= limit);
        self.sorted_marks[above..]
            .iter()
            .take_while(move |(mark, _)| compare_limit_mark(*mark, limit) == MarkRelation::Lowered)
            .map(|(_, number)| *number)
    }

    fn judge(&self, process: &Sighting, number: usize, trail: &Trail) -> Option<Standing> {
        let claim = &self.claims[number];
        if claim.supervisor.may_be(process.pid) {
            return None;
        }
        if claim.command.present() == Some(process.pid) {
            return Some(Standing::Member(Evidence::Recorded));
        }
        match &process.cookie {
            Cookie::Session(id)
                if id == claim.session.as_str()
                    && (process.is_own_user || sexton_mutant::is("any_users_cookie")) =>
            {
                return Some(Standing::Member(Evidence::Cookie));
            }
            Cookie::Session(_) if sexton_mutant::is("foreign_cookie_exempts") => return None,
            _ => {}
        }
        let evidence = if trail.owners.contains(&Owner::Claim(number)) {
            Some(match process.pid {
                pid if claim.known.contains(&pid) => Evidence::Known,
                pid if claim.contained.contains(&pid) => Evidence::Contained,
                _ => Evidence::Descent,
            })
        } else {
            // Another session owns it, unless the path to that session leads through this one.
            let is_elsewhere = |hint: &Hint| !trail.owners.is_empty() && self.is_inside(trail, hint);
            let hint = trail.hints.iter().find(|hint| hint.claim == number && !is_elsewhere(hint));
            hint.map(|hint| match (hint.is_own, hint.is_mark) {
                (true, true) => Evidence::LimitMark,
                _ => Evidence::Descent,
            })
        };
        match evidence {
            Some(_) if trail.weak.iter().any(|owner| *owner != Owner::Claim(number)) => {
                Some(Standing::Doubtful(Doubt::WeakIdentity))
            }
            Some(_) if trail.has_unknown_cookie => Some(Standing::Doubtful(Doubt::UnknownSession)),
            Some(evidence) => Some(Standing::Member(evidence)),
            None => self.find_doubt(process, claim, trail).map(Standing::Doubtful),
        }
    }

    /// Returns whether the owning session was itself started inside the claim whose mark was found: then its
    /// supervisor, and what that starts besides the command, carry the outer mark.
    fn is_inside(&self, trail: &Trail, hint: &Hint) -> bool {
        let mark = self.claims[hint.claim].limit_mark;
        hint.is_mark
            && mark
                .zip(trail.limit_there)
                .is_some_and(|(mark, limit)| compare_limit_mark(mark, limit) != MarkRelation::Unrelated)
    }

    /// Returns why a process without any evidence may still be a member.
    fn find_doubt(&self, process: &Sighting, claim: &Claim, trail: &Trail) -> Option<Doubt> {
        if claim.command.doubtful() == Some(process.pid) {
            return Some(Doubt::WeakIdentity);
        }
        if !trail.owners.is_empty() || !process.is_own_user {
            return None;
        }
        match (claim.limit_mark, process.limit) {
            (Some(mark), Some(limit)) if compare_limit_mark(mark, limit) == MarkRelation::Lowered => {
                let is_known = self.by_mark.contains_key(&limit) || self.neighbour_marks.contains(&limit);
                (!is_known).then_some(Doubt::LoweredMark)
            }
            (None, _) if process.cookie == Cookie::Unanswered => Some(Doubt::Unanswered),
            _ => None,
        }
    }
}

impl Trail {
    fn arrive(&mut self, owners: impl Iterator<Item = Owner>, limit: Option<u64>) {
        self.owners.extend(owners);
        self.limit_there = limit;
    }
}

fn named<'m, K, Q, T>(map: &'m HashMap<K, Vec<T>>, key: &Q) -> &'m [T]
where
    K: std::borrow::Borrow<Q> + std::hash::Hash + Eq,
    Q: std::hash::Hash + Eq + ?Sized,
{
    map.get(key).map_or(&[], Vec::as_slice)
}
