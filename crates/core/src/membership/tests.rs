//! Tests of the membership rule, case by case.

use super::*;

const MARK: u64 = 1 << 50;

fn plain(pid: u32, parent: u32) -> Sighting {
    Sighting { pid, parent, cookie: Cookie::Absent, limit: None, is_own_user: true }
}

fn carrying(pid: u32, parent: u32, id: &str) -> Sighting {
    Sighting { cookie: Cookie::Session(id.into()), ..plain(pid, parent) }
}

fn closed(pid: u32, parent: u32) -> Sighting {
    Sighting { cookie: Cookie::Unreadable, ..plain(pid, parent) }
}

fn marked(limit: u64, process: Sighting) -> Sighting {
    Sighting { limit: Some(limit), ..process }
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
        limit_mark: None,
    }
}

/// Returns a session whose command and supervisor are gone.
fn bare(session: &SessionId) -> Claim<'_> {
    Claim { command: Anchor::Missing, supervisor: Anchor::Missing, ..claim(session, 0, 0) }
}

fn alone() -> Neighbours<'static> {
    Neighbours { claims: Vec::new(), complete: true }
}

fn among(claims: Vec<Claim<'_>>) -> Neighbours<'_> {
    Neighbours { claims, complete: true }
}

fn pids(roster: &Roster) -> Vec<u32> {
    roster.members.iter().map(|(pid, _)| *pid).collect()
}

#[test]
fn cookie_finds_reparented_members_but_not_the_supervisor() {
    let seen = [carrying(10, 1, "a"), carrying(11, 10, "a"), carrying(12, 1, "a"), plain(13, 1)];
    let a = id("a");
    let roster = &assign(&seen, &[claim(&a, 11, 10)], &alone())[0];
    assert_eq!(roster.members, [(11, Evidence::Recorded), (12, Evidence::Cookie)]);
    assert_eq!(roster.doubtful, []);
}

#[test]
fn descendants_of_command_supervisor_and_members_are_members() {
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
    let roster = &assign(&seen, &[claim(&a, 11, 10)], &alone())[0];
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
fn i10_foreign_cookie_value_exempts_nothing() {
    let seen =
        [carrying(11, 10, "a"), carrying(20, 11, "nosuchsession"), plain(21, 20), carrying(22, 1, "b")];
    let (a, b) = (id("a"), id("b"));
    // `b` is an active session, and none of these is provably its process.
    let others = among(vec![Claim { contained: HashSet::from([77]), ..claim(&b, 99, 98) }]);
    let mut wanted = claim(&a, 11, 10);
    wanted.contained = HashSet::from([22]);
    let roster = &assign(&seen, &[wanted], &others)[0];
    let expected = [
        (11, Evidence::Recorded),
        (20, Evidence::Descent),
        (21, Evidence::Descent),
        (22, Evidence::Contained),
    ];
    assert_eq!(roster.members, expected);
}

#[test]
fn i2_nested_session_and_its_processes_stay_separate() {
    // 20 supervises `b`, 21 is its command, 22 cleared its environment, 23 was re-parented to 20.
    let seen = [
        carrying(11, 10, "a"),
        carrying(20, 11, "b"),
        carrying(21, 20, "b"),
        plain(22, 21),
        closed(23, 20),
        carrying(24, 21, "nosuchsession"),
    ];
    let (a, b) = (id("a"), id("b"));
    let mut wanted = claim(&a, 11, 10);
    wanted.contained = HashSet::from([11, 20, 21, 22, 23, 24]);
    let others = among(vec![claim(&b, 21, 20)]);
    assert_eq!(pids(&assign(&seen, &[wanted.clone()], &others)[0]), [11]);
    // With both as claims, each has its own members.
    let rosters = assign(&seen, &[wanted, claim(&b, 21, 20)], &alone());
    assert_eq!((pids(&rosters[0]), pids(&rosters[1])), (vec![11], vec![21, 22, 23, 24]));
}

#[test]
fn i2_nested_session_stays_separate_after_its_supervisor_died() {
    let seen = [carrying(11, 10, "a"), carrying(21, 10, "b"), plain(22, 21), carrying(30, 10, "b")];
    let (a, b) = (id("a"), id("b"));
    let mut inner = claim(&b, 21, 20);
    inner.supervisor = Anchor::Missing;
    inner.contained = HashSet::from([21, 22, 30]);
    assert_eq!(pids(&assign(&seen, &[claim(&a, 11, 10)], &among(vec![inner.clone()]))[0]), [11]);
    // Without a control group, a process with only the other session's cookie belongs to this one.
    inner.contained.clear();
    assert_eq!(pids(&assign(&seen, &[claim(&a, 11, 10)], &among(vec![inner]))[0]), [11, 30]);
}

#[test]
fn nested_session_keeps_members_inside_outer_control_group() {
    let seen = [carrying(11, 10, "outer"), carrying(20, 11, "in"), carrying(21, 20, "in"), plain(22, 21)];
    let (outer, inner) = (id("outer"), id("in"));
    let mut around = claim(&outer, 11, 10);
    around.contained = HashSet::from([11, 20, 21, 22]);
    assert_eq!(pids(&assign(&seen, &[claim(&inner, 21, 20)], &among(vec![around]))[0]), [21, 22]);
}

#[test]
fn i10_descent_counts_if_environment_is_unreadable() {
    let seen = [carrying(11, 10, "a"), closed(12, 11), plain(13, 12), closed(14, 1), closed(15, 10)];
    let a = id("a");
    let roster = &assign(&seen, &[claim(&a, 11, 10)], &alone())[0];
    assert_eq!((pids(roster), &roster.doubtful[..]), (vec![11, 12, 13, 15], &[][..]));
}

#[test]
fn known_members_and_their_children_stay_members() {
    let seen = [plain(40, 1), plain(41, 40), closed(42, 1), carrying(43, 1, "b")];
    let a = id("a");
    let mut claim = claim(&a, 11, 10);
    claim.known = HashSet::from([40, 42, 43]);
    let roster = &assign(&seen, &[claim], &alone())[0];
    let expected =
        [(40, Evidence::Known), (41, Evidence::Descent), (42, Evidence::Known), (43, Evidence::Known)];
    assert_eq!(roster.members, expected);
}

#[test]
fn recorded_command_is_a_member_even_inside_another_session() {
    let seen = [carrying(11, 1, "outer")];
    let (a, outer) = (id("a"), id("outer"));
    let roster = &assign(&seen, &[claim(&a, 11, 10)], &among(vec![claim(&outer, 8, 9)]))[0];
    assert_eq!(roster.members, [(11, Evidence::Recorded)]);
}

#[test]
fn i2_doubtful_anchor_neither_proves_nor_exempts() {
    let seen = [plain(10, 1), plain(11, 10), plain(12, 11)];
    let (a, b) = (id("a"), id("b"));
    let weak = Claim { command: Anchor::Doubtful(11), supervisor: Anchor::Doubtful(10), ..claim(&a, 0, 0) };
    let roster = &assign(&seen, &[weak], &alone())[0];
    assert_eq!((roster.members.len(), &roster.doubtful[..]), (0, &[(11, Doubt::WeakIdentity)][..]));
    // A neighbour's command that may be 11: its descendants are left alone.
    let weak = Claim { command: Anchor::Doubtful(11), supervisor: Anchor::Missing, ..claim(&b, 0, 0) };
    let roster = &assign(&seen, &[claim(&a, 90, 10)], &among(vec![weak]))[0];
    assert_eq!(roster.doubtful, [(11, Doubt::WeakIdentity), (12, Doubt::WeakIdentity)]);
}

#[test]
fn i2_unknown_cookie_is_doubtful_if_other_sessions_are_unknown() {
    let seen = [carrying(11, 10, "a"), carrying(20, 11, "b"), plain(21, 20), closed(22, 11)];
    let a = id("a");
    let blind = Neighbours { claims: Vec::new(), complete: false };
    let roster = &assign(&seen, &[claim(&a, 11, 10)], &blind)[0];
    assert_eq!(pids(roster), [11, 22]);
    assert_eq!(roster.doubtful, [(20, Doubt::UnknownSession), (21, Doubt::UnknownSession)]);
}

#[test]
fn i10_limit_mark_finds_members_without_other_evidence() {
    let seen = [marked(MARK, plain(50, 1)), marked(MARK, closed(51, 1)), plain(52, 51), plain(53, 1)];
    let a = id("a");
    let wanted = Claim { limit_mark: Some(MARK), ..bare(&a) };
    let expected = [(50, Evidence::LimitMark), (51, Evidence::LimitMark), (52, Evidence::Descent)];
    assert_eq!(assign(&seen, &[wanted], &alone())[0].members, expected);
}

#[test]
fn i11_cookie_of_another_user_proves_nothing_but_descent_does() {
    let a = id("a");
    let foreign = |pid, parent| Sighting { is_own_user: false, ..carrying(pid, parent, "a") };
    let seen = [plain(10, 1), foreign(11, 10), foreign(50, 1), plain(51, 50)];
    let wanted = Claim { command: Anchor::Present(10), ..bare(&a) };
    let expected = [(10, Evidence::Recorded), (11, Evidence::Descent)];
    assert_eq!(
        assign(&seen, &[wanted], &alone())[0],
        Roster { members: expected.into(), ..Roster::default() }
    );
}

#[test]
fn i2_limit_mark_of_another_user_proves_nothing() {
    let seen = [Sighting { is_own_user: false, ..marked(MARK, plain(50, 1)) }];
    let a = id("a");
    let wanted = Claim { limit_mark: Some(MARK), ..bare(&a) };
    assert_eq!(assign(&seen, &[wanted], &alone())[0], Roster::default());
}

#[test]
fn i2_lowered_mark_is_doubtful_unless_its_session_is_known() {
    let lowered = MARK - 5;
    let seen =
        [marked(lowered, plain(50, 1)), marked(MARK / 2, plain(51, 1)), marked(MARK + 1, plain(52, 1))];
    let (a, b) = (id("a"), id("b"));
    let wanted = Claim { limit_mark: Some(MARK), ..bare(&a) };
    let roster = &assign(&seen, std::slice::from_ref(&wanted), &alone())[0];
    assert_eq!((roster.members.len(), &roster.doubtful[..]), (0, &[(50, Doubt::LoweredMark)][..]));
    let known = among(vec![Claim { limit_mark: Some(lowered), ..bare(&b) }]);
    assert_eq!(assign(&seen, &[wanted], &known)[0], Roster::default());
}

#[test]
fn i2_children_of_nested_supervisor_do_not_belong_to_outer_session() {
    // The supervisor of `b` and its notification carry the mark of `a`, in which they were started.
    let seen = [
        marked(MARK, carrying(20, 1, "b")),
        marked(MARK - 9, carrying(21, 20, "b")),
        marked(MARK, plain(22, 20)),
        marked(MARK, plain(23, 1)),
    ];
    let (a, b) = (id("a"), id("b"));
    let outer = Claim { limit_mark: Some(MARK), ..bare(&a) };
    let inner = Claim { limit_mark: Some(MARK - 9), ..claim(&b, 21, 20) };
    assert_eq!(pids(&assign(&seen, std::slice::from_ref(&outer), &among(vec![inner]))[0]), [23]);
    // If `b` is not recorded, its supervisor and its descendants belong to the outer session.
    assert_eq!(pids(&assign(&seen, &[outer], &alone())[0]), [20, 21, 22, 23]);
}

#[test]
fn nested_session_keeps_marked_processes_below_outer_supervisor() {
    // The supervisor of the nested session died, and the outer one became the parent.
    let seen = [marked(MARK - 9, plain(31, 10)), carrying(32, 10, "in"), plain(33, 32)];
    let (outer, inner) = (id("outer"), id("in"));
    let around = Claim { limit_mark: Some(MARK), ..claim(&outer, 11, 10) };
    let wanted = Claim { limit_mark: Some(MARK - 9), ..bare(&inner) };
    assert_eq!(pids(&assign(&seen, &[wanted], &among(vec![around]))[0]), [31, 32, 33]);
}

#[test]
fn unread_environment_is_doubtful_only_without_a_mark() {
    let seen = [Sighting { cookie: Cookie::Unanswered, ..plain(60, 1) }];
    let a = id("a");
    let unmarked = &assign(&seen, &[bare(&a)], &alone())[0];
    assert_eq!(unmarked.doubtful, [(60, Doubt::Unanswered)]);
    let wanted = Claim { limit_mark: Some(MARK), ..bare(&a) };
    assert_eq!(assign(&seen, &[wanted], &alone())[0], Roster::default());
    let theirs = [Sighting { is_own_user: false, ..seen[0].clone() }];
    assert_eq!(assign(&theirs, &[bare(&a)], &alone())[0], Roster::default());
}

#[test]
fn parent_cycle_ends_the_search() {
    let seen = [plain(20, 21), plain(21, 20)];
    let a = id("a");
    assert_eq!(assign(&seen, &[claim(&a, 11, 10)], &alone())[0], Roster::default());
}

#[test]
fn i7_members_are_signalled_before_their_parents() {
    let session = id("outer");
    // The numbers have wrapped: a child has a smaller pid than its parent.
    let seen = [plain(11, 1), plain(12, 11), plain(5, 12), plain(13, 11), plain(14, 13)];
    let roster = &assign(&seen, &[claim(&session, 11, 10)], &alone())[0];
    let parents = |pid| seen.iter().find(|process| process.pid == pid).map(|process| process.parent);
    let order: Vec<u32> = roster.children_first(parents).into_iter().map(|(pid, _)| pid).collect();
    assert_eq!(order, [5, 14, 12, 13, 11]);
    // Parents that seem to form a cycle do not prevent an order.
    assert_eq!(roster.children_first(|pid| Some(if pid == 11 { 12 } else { 11 })).len(), 5);
}
