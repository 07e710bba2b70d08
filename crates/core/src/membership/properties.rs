//! Properties of the membership rule.

use proptest::prelude::*;

use super::*;

const IDS: [&str; 4] = ["a", "b", "c", "nosuch"];
const MARKS: [u64; 3] = [1 << 50, (1 << 50) - 7, 1 << 47];

fn cookie() -> impl Strategy<Value = Cookie> {
    prop_oneof![
        Just(Cookie::Absent),
        Just(Cookie::Unreadable),
        Just(Cookie::Unanswered),
        (0..IDS.len()).prop_map(|id| Cookie::Session(IDS[id].to_owned())),
    ]
}

fn process(pid: u32) -> impl Strategy<Value = Sighting> {
    (0..24_u32, cookie(), prop::option::of(0..MARKS.len()), prop::bool::weighted(0.8)).prop_map(
        move |(parent, cookie, mark, is_own_user)| Sighting {
            pid,
            parent,
            cookie,
            limit: mark.map(|mark| MARKS[mark]),
            is_own_user,
        },
    )
}

fn machine() -> impl Strategy<Value = Vec<Sighting>> {
    (2..20_u32).prop_flat_map(|last| (2..=last).map(process).collect::<Vec<_>>())
}

fn anchor() -> impl Strategy<Value = Anchor> {
    prop_oneof![
        3 => (2..20_u32).prop_map(Anchor::Present),
        1 => (2..20_u32).prop_map(Anchor::Doubtful),
        3 => Just(Anchor::Missing),
    ]
}

#[derive(Clone, Debug)]
struct Recorded {
    command: Anchor,
    supervisor: Anchor,
    contained: HashSet<u32>,
    mark: Option<u64>,
}

fn recorded() -> impl Strategy<Value = Recorded> {
    let contained = prop::collection::hash_set(2..20_u32, 0..6);
    let mark = prop::option::of((0..MARKS.len()).prop_map(|mark| MARKS[mark]));
    (anchor(), anchor(), contained, mark).prop_map(|(command, supervisor, contained, mark)| Recorded {
        command,
        supervisor,
        contained,
        mark,
    })
}

impl Recorded {
    fn claim<'a>(&self, session: &'a SessionId) -> Claim<'a> {
        Claim {
            session,
            command: self.command,
            supervisor: self.supervisor,
            contained: self.contained.clone(),
            known: HashSet::new(),
            limit_mark: self.mark,
        }
    }
}

proptest! {
    /// A recorded process of one session never becomes a member of another whose cookie it does not carry.
    #[test]
    fn i2_recorded_process_of_another_session_is_no_member(seen in machine(), a in recorded(), b in recorded()) {
        let ids: Vec<SessionId> = IDS[..2].iter().map(|id| id.parse().unwrap()).collect();
        let others = Neighbours { claims: vec![b.claim(&ids[1])], complete: true };
        let roster = &assign(&seen, &[a.claim(&ids[0])], &others)[0];
        for process in &seen {
            let theirs = [b.command, b.supervisor].contains(&Anchor::Present(process.pid));
            let ours = a.command == Anchor::Present(process.pid)
                || process.cookie == Cookie::Session("a".to_owned());
            // Two sessions cannot both have recorded the same process.
            if theirs && !ours && a.supervisor != Anchor::Present(process.pid) {
                prop_assert!(roster.members.iter().all(|(pid, _)| *pid != process.pid), "{process:?}");
            }
        }
    }

    /// Each process is listed once, and no process without evidence is a member.
    #[test]
    fn i2_every_member_has_evidence(seen in machine(), a in recorded(), complete: bool) {
        let id: SessionId = "a".parse().unwrap();
        let others = Neighbours { claims: Vec::new(), complete };
        let roster = &assign(&seen, &[a.claim(&id)], &others)[0];
        let mut listed: Vec<u32> = roster.members.iter().map(|(pid, _)| *pid).collect();
        listed.extend(roster.doubtful.iter().map(|(pid, _)| *pid));
        let count = listed.len();
        listed.sort_unstable();
        listed.dedup();
        prop_assert_eq!(listed.len(), count, "a process is listed twice");
        let parent_of = |pid: u32| seen.iter().find(|one| one.pid == pid).map(|one| one.parent);
        for (pid, evidence) in &roster.members {
            let process = seen.iter().find(|one| one.pid == *pid).unwrap();
            prop_assert!(!a.supervisor.may_be(*pid));
            match evidence {
                Evidence::Recorded => prop_assert_eq!(a.command, Anchor::Present(*pid)),
                Evidence::Cookie => {
                    prop_assert!(process.is_own_user);
                    prop_assert_eq!(&process.cookie, &Cookie::Session("a".to_owned()));
                }
                Evidence::Contained => prop_assert!(a.contained.contains(pid)),
                Evidence::LimitMark => {
                    prop_assert!(process.is_own_user && process.limit == a.mark && a.mark.is_some());
                }
                Evidence::Known => prop_assert!(false, "no member was known"),
                Evidence::Descent => prop_assert!(parent_of(*pid).is_some()),
            }
        }
    }

    /// A neighbour only removes members: every member with it is a member without it.
    #[test]
    fn neighbour_adds_no_member(seen in machine(), a in recorded(), b in recorded()) {
        let ids: Vec<SessionId> = IDS[..2].iter().map(|id| id.parse().unwrap()).collect();
        let claim = a.claim(&ids[0]);
        let alone = Neighbours { claims: Vec::new(), complete: true };
        let others = Neighbours { claims: vec![b.claim(&ids[1])], complete: true };
        let without = &assign(&seen, std::slice::from_ref(&claim), &alone)[0];
        for (pid, _) in &assign(&seen, &[claim], &others)[0].members {
            prop_assert!(without.members.iter().any(|(one, _)| one == pid), "{pid}");
        }
    }
}
