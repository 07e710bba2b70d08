//! Nested and parallel sessions: which process belongs to which, and what another session's cookie proves.

use std::time::Duration;

use sexton_core::probe::Group;
use sexton_core::{Liveness, Others, SessionId};

use super::ProbeSubject;
use super::test_env::{Actor, TestEnv, sorted, within};
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<ProbeSubject> = theme!("neighbours":
    i2_nested_active_session_is_separate,
    i2_descendants_of_a_nested_session_belong_to_it,
    i2_nested_session_is_never_signalled,
    i10_invalid_cookie_exempts_nothing,
    i10_cookie_of_an_unrelated_session_exempts_nothing,
    i2_unknown_cookie_is_not_signalled_if_sessions_are_unknown,
    i10_limit_mark_finds_a_process_without_other_evidence,
    i2_lowered_limit_is_reported_and_not_signalled,
    i2_other_limit_proves_nothing,
);

const SHORT: Duration = Duration::from_millis(300);

/// Returns the group of a session of which only the command is known.
fn other(test_env: &TestEnv, session: &SessionId, command: u32) -> Group {
    Group { process: Some(test_env.identify(command)), ..Group::of_cookie(session) }
}

fn beside(test_env: &TestEnv, group: &Group, others: &Others) -> Vec<u32> {
    sorted(test_env.members_beside(group, others).processes.iter().map(|process| process.pid))
}

fn group_of(test_env: &TestEnv, actor: &Actor) -> Group {
    test_env.group(Some(test_env.identify(actor.pid())))
}

fn i2_nested_active_session_is_separate(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let inner = SessionId::random();
    let actor = test_env.member(["say", "command", "fork", "carry", inner.as_str(), "say", "other"]);
    let [command, elsewhere] = actor.pids(["command", "other"]);
    let outer = test_env.group(Some(test_env.identify(command)));
    let others = Others::Known(vec![other(&test_env, &inner, elsewhere)]);
    assert_eq!(beside(&test_env, &outer, &others), [command]);
    // And in the other direction.
    let others = Others::Known(vec![outer]);
    assert_eq!(beside(&test_env, &other(&test_env, &inner, elsewhere), &others), [elsewhere]);
}

fn i2_descendants_of_a_nested_session_belong_to_it(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let inner = SessionId::random();
    let acts = ["fork", "carry", inner.as_str(), "say", "theirs", "fork", "forget", "say", "deep"];
    let actor = test_env.member(acts);
    let [theirs, _] = actor.pids(["theirs", "deep"]);
    // The nearest ancestor that belongs to a session decides.
    let others = Others::Known(vec![other(&test_env, &inner, theirs)]);
    assert_eq!(beside(&test_env, &group_of(&test_env, &actor), &others), [actor.pid()]);
}

fn i2_nested_session_is_never_signalled(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let inner = SessionId::random();
    let actor = test_env.member(["say", "command", "fork", "carry", inner.as_str(), "say", "other"]);
    let [command, elsewhere] = actor.pids(["command", "other"]);
    let survivor = test_env.identify(elsewhere);
    let mut policy = within(SHORT);
    policy.others = Others::Known(vec![other(&test_env, &inner, elsewhere)]);
    let ended = test_env.terminate_one(&group_of(&test_env, &actor), &policy);
    let signalled: Vec<u32> = ended.signalled.iter().map(|(process, _)| process.pid).collect();
    assert_eq!((signalled, ended.survivors), (vec![command], Vec::new()));
    assert_eq!(test_env.observe(&survivor), Liveness::Alive);
}

fn i10_invalid_cookie_exempts_nothing(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let actor =
        test_env.member(["say", "command", "fork", "carry", "nosuchsession", "setsid", "say", "forged"]);
    let pids = actor.pids(["command", "forged"]);
    let group = group_of(&test_env, &actor);
    assert_eq!(test_env.member_pids(&group), sorted(pids));
    let ended = test_env.terminate_one(&group, &within(SHORT));
    assert_eq!((ended.signalled.len(), ended.survivors), (2, Vec::new()));
    actor.wait_until_all_gone();
}

/// The id of an active session exempts only processes that provably belong to it.
fn i10_cookie_of_an_unrelated_session_exempts_nothing(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let (inner, elsewhere) = (SessionId::random(), test_env.stranger(["say", "elsewhere"]));
    elsewhere.pids(["elsewhere"]);
    let actor = test_env.member(["say", "command", "fork", "carry", inner.as_str(), "say", "forged"]);
    let pids = actor.pids(["command", "forged"]);
    let others = Others::Known(vec![other(&test_env, &inner, elsewhere.pid())]);
    assert_eq!(beside(&test_env, &group_of(&test_env, &actor), &others), sorted(pids));
}

fn i2_unknown_cookie_is_not_signalled_if_sessions_are_unknown(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let inner = SessionId::random();
    let actor = test_env.member(["say", "command", "fork", "carry", inner.as_str(), "say", "other"]);
    let [command, elsewhere] = actor.pids(["command", "other"]);
    let survivor = test_env.identify(elsewhere);
    let group = group_of(&test_env, &actor);
    assert_eq!(beside(&test_env, &group, &Others::Unknown), [command]);
    assert_eq!(test_env.members_beside(&group, &Others::Unknown).unreadable, [elsewhere]);
    let mut policy = within(SHORT);
    (policy.others, policy.kill_wait) = (Others::Unknown, SHORT);
    let ended = test_env.terminate_one(&group, &policy);
    assert_eq!(ended.signalled.len(), 1);
    let left: Vec<u32> = ended.survivors.iter().map(|survivor| survivor.identity.pid).collect();
    assert_eq!(left, [elsewhere], "{ended:?}");
    assert_eq!(test_env.observe(&survivor), Liveness::Alive);
}

/// Returns a unique mark below the inherited limit, as a supervisor would choose it.
fn mark() -> u64 {
    let mut random = [0; 8];
    random.copy_from_slice(&SessionId::random().as_str().as_bytes()[..8]);
    let inherited = inherited_limit();
    let random = u64::from_ne_bytes(random).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    sexton_core::membership::choose_limit_mark(inherited, random).expect("there is space for a mark")
}

#[cfg(target_os = "linux")]
fn inherited_limit() -> Option<u64> {
    rustix::process::getrlimit(rustix::process::Resource::Locks).maximum
}

#[cfg(not(target_os = "linux"))]
fn inherited_limit() -> Option<u64> {
    None
}

fn i10_limit_mark_finds_a_process_without_other_evidence(subject: &ProbeSubject) {
    if cfg!(not(target_os = "linux")) {
        return;
    }
    let test_env = TestEnv::new(subject);
    let mark = mark();
    let limit = mark.to_string();
    let actor = test_env.stranger(["leave", "limit", &limit, "setsid", "leave", "say", "hidden"]);
    let [hidden] = actor.pids(["hidden"]);
    assert_eq!(test_env.member_pids(&test_env.group(None)), [0; 0]);
    let group = Group { limit_mark: Some(mark), ..test_env.group(None) };
    assert_eq!(test_env.member_pids(&group), [hidden]);
    let ended = test_env.terminate_one(&group, &within(SHORT));
    assert_eq!((ended.signalled.len(), ended.survivors), (1, Vec::new()));
    actor.wait_until_all_gone();
}

fn i2_lowered_limit_is_reported_and_not_signalled(subject: &ProbeSubject) {
    if cfg!(not(target_os = "linux")) {
        return;
    }
    let test_env = TestEnv::new(subject);
    let mark = mark();
    let limit = (mark - 3).to_string();
    let actor = test_env.stranger(["limit", &limit, "say", "lowered"]);
    let [lowered] = actor.pids(["lowered"]);
    let group = Group { limit_mark: Some(mark), ..test_env.group(None) };
    let members = test_env.members(&group);
    assert_eq!((members.processes.len(), &members.unreadable[..]), (0, &[lowered][..]));
    let mut policy = within(SHORT);
    policy.kill_wait = SHORT;
    let ended = test_env.terminate_one(&group, &policy);
    assert_eq!((ended.signalled.len(), ended.survivors.len()), (0, 1), "{ended:?}");
    assert!(ended.survivors[0].why.contains("limit mark"), "{ended:?}");
    // If another known session has that mark, the process belongs to it.
    let known = Group { limit_mark: Some(mark - 3), ..Group::of_cookie(&SessionId::random()) };
    let members = test_env.members_beside(&group, &Others::Known(vec![known]));
    assert_eq!((members.processes.len(), members.unreadable.len()), (0, 0));
}

fn i2_other_limit_proves_nothing(subject: &ProbeSubject) {
    if cfg!(not(target_os = "linux")) {
        return;
    }
    let test_env = TestEnv::new(subject);
    let mark = mark();
    let limit = (mark / 2).to_string();
    let actor = test_env.stranger(["limit", &limit, "say", "other"]);
    actor.pids(["other"]);
    let group = Group { limit_mark: Some(mark), ..test_env.group(None) };
    let members = test_env.members(&group);
    assert_eq!((members.processes.len(), members.unreadable.len()), (0, 0));
}
