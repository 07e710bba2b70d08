//! Tests of the decision, rule by rule and by its properties.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::session::{Agent, Exit, LoopState};
use crate::{Host, Status};

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// Conventions that differ from Sexton's in every point.
const FOREIGN: Dialect = Dialect {
    owner_key: Some("owner_theirs"),
    pane_time: "tmux_pane_set_at",
    spares_the_living: false,
    stamps_changes: false,
    counts_blank_loops: true,
    ..Dialect::SEXTON
};

fn now() -> Time {
    "2026-03-01T00:00:00Z".parse().unwrap()
}

fn ago(span: Duration) -> Time {
    now().saturating_sub(span)
}

fn session(id: &str) -> Session {
    let host = Host::new("m", "laptop");
    let mut session = Session::new(id.parse().unwrap(), host, ago(DAY * 3));
    session.status = Status::Running;
    session.revision = 7;
    session
}

fn agent(session_id: Option<&str>, thread_id: Option<&str>) -> Option<Agent> {
    let owned = |text: Option<&str>| text.map(str::to_owned);
    Some(Agent { session_id: owned(session_id), thread_id: owned(thread_id), ..Agent::default() })
}

fn active(touched: Duration) -> Option<LoopState> {
    Some(LoopState {
        active: true,
        phase: Some("executing".to_owned()),
        iteration: Some(3),
        max_iterations: Some(10),
        updated_at: Some(ago(touched)),
        extra: json!({"mood": "good", "completed_at": "earlier", "stop_reason": "earlier"})
            .as_object()
            .unwrap()
            .clone(),
        ..LoopState::default()
    })
}

/// Returns a session that ended an hour ago and whose loop the agent `a` drove.
fn prior(id: &str) -> Prior {
    let mut session = session(id);
    session.agent = agent(Some("a"), None);
    session.loop_state = active(HOUR);
    session.finish(Exit::signalled(9), ago(HOUR));
    Prior { session, fallback: None, standing: Standing::Ended }
}

fn claim() -> Claim {
    Claim { agent: AgentIdentity::new(Some("a"), Some("t")), stale: DAY, ..Claim::default() }
}

fn found(session: Session) -> Current {
    Current::Found(Box::new(session), None)
}

fn decided(current: &Current, priors: &[Prior]) -> Decision {
    decide(current, priors, &claim(), &Dialect::SEXTON, now())
}

fn state(session: &Session) -> &LoopState {
    session.loop_state.as_ref().unwrap()
}

#[test]
fn transfer_changes_only_both_loops() {
    let old = prior("old");
    let decision = decided(&found(session("new")), std::slice::from_ref(&old));
    assert_eq!(decision.reason, Reason::Resumed);
    assert_eq!(decision.source.unwrap().as_str(), "old");
    assert_eq!(decision.target.unwrap().as_str(), "new");
    let [source, target] = <[Session; 2]>::try_from(decision.changed).unwrap();
    let was = state(&old.session);
    let expected = LoopState {
        updated_at: Some(now()),
        extra: json!({"mood": "good"}).as_object().unwrap().clone(),
        ..was.clone()
    };
    assert_eq!(*state(&target), expected);
    assert_eq!(target.agent, agent(Some("a"), None));
    assert_eq!(Session { agent: None, loop_state: None, ..target }, session("new"));
    let expected = LoopState {
        active: false,
        phase: Some("cancelled".to_owned()),
        extra: json!({"mood": "good", "completed_at": now(), "stop_reason": "ownership_transferred"})
            .as_object()
            .unwrap()
            .clone(),
        ..was.clone()
    };
    assert_eq!(*state(&source), expected);
    let expected = Session { status: Status::Transferred, ..old.session.clone() };
    assert_eq!(Session { loop_state: old.session.loop_state.clone(), ..source }, expected);
}

#[test]
fn thread_is_transferred_only_without_conversation() {
    let mut old = prior("old");
    old.session.agent = agent(None, Some("t"));
    let known = decided(&found(session("new")), std::slice::from_ref(&old));
    assert_eq!(known.changed[1].agent, agent(Some("a"), None));
    let claim = Claim { agent: AgentIdentity::new(None, Some("t")), ..claim() };
    let unknown = decide(&found(session("new")), &[old], &claim, &Dialect::SEXTON, now());
    assert_eq!(unknown.changed[1].agent, agent(None, Some("t")));
}

#[test]
fn pane_of_new_session_replaces_old_one() {
    let mut old = prior("old");
    old.session.loop_state.as_mut().unwrap().pane = Some("%1".to_owned());
    let pane_of = |current: Session, pane: Option<&str>| {
        let claim = Claim { pane: pane.map(str::to_owned), ..claim() };
        let decision = decide(&found(current), std::slice::from_ref(&old), &claim, &Dialect::SEXTON, now());
        let state = state(&decision.changed[1]).clone();
        (state.pane.unwrap(), state.pane_set_at)
    };
    let mut bound = session("new");
    bound.loop_state = Some(LoopState { pane: Some("%5".to_owned()), ..LoopState::default() });
    assert_eq!(pane_of(session("new"), Some("%9")), ("%9".to_owned(), Some(now())));
    assert_eq!(pane_of(bound.clone(), Some("%9")), ("%9".to_owned(), Some(now())));
    assert_eq!(pane_of(bound, None), ("%5".to_owned(), Some(now())));
    assert_eq!(pane_of(session("new"), None), ("%1".to_owned(), None));
}

#[test]
fn transfer_does_not_hide_failed_cleanup() {
    let with = |status, standing| {
        let mut old = prior("old");
        (old.session.status, old.session.finished_at, old.session.exit) = (status, None, None);
        let source = decided(&found(session("new")), &[Prior { standing, ..old }]).changed[0].clone();
        (source.status, source.finished_at.is_some(), source.recovery.is_some())
    };
    assert_eq!(with(Status::CleanupFailed, Standing::Gone), (Status::CleanupFailed, false, false));
    assert_eq!(with(Status::Running, Standing::Dying), (Status::Running, false, false));
    assert_eq!(with(Status::Running, Standing::Gone), (Status::Transferred, true, true));
}

#[test]
fn running_or_unknown_session_keeps_its_loop() {
    for standing in [Standing::Running("it".into()), Standing::Unclear("cannot tell".into())] {
        for age in [HOUR, DAY * 2] {
            let mut old = Prior { standing: standing.clone(), ..prior("old") };
            old.session.loop_state = active(age);
            let decision = decided(&found(session("new")), std::slice::from_ref(&old));
            assert_eq!(decision.reason, Reason::PriorSessionRunning, "{standing:?}");
            assert_eq!(decision.source.as_ref().unwrap().as_str(), "old");
            assert!(decision.evidence.is_some() && decision.changed.is_empty());
            let foreign = decide(&found(session("new")), &[old], &claim(), &FOREIGN, now()).reason;
            let expected = if age > DAY { Reason::MatchingPriorLoopAbandonedStale } else { Reason::Resumed };
            assert_eq!(foreign, expected, "a foreign dialect does not check liveness");
        }
    }
}

#[test]
fn finished_and_foreign_loops_are_skipped() {
    let mut priors = Vec::new();
    for phase in ["complete", " Failed\n", "CANCELLED", "blocked_on_user", "interrupted"] {
        let mut over = prior("over");
        over.session.loop_state.as_mut().unwrap().phase = Some(phase.to_owned());
        priors.push(over);
    }
    let mut inactive = prior("inactive");
    inactive.session.loop_state.as_mut().unwrap().active = false;
    let mut other = prior("other");
    other.session.agent = agent(Some("b"), Some("t"));
    let mut unknown = prior("unknown");
    unknown.session.agent = None;
    priors.extend([inactive, other, unknown]);
    let decision = decided(&found(session("new")), &priors);
    assert_eq!((decision.reason, decision.changed.len()), (Reason::NoMatchingPriorLoop, 0));
    priors.push(prior("mine"));
    assert_eq!(decided(&found(session("new")), &priors).source.unwrap().as_str(), "mine");
}

#[test]
fn stale_matches_are_marked_and_cause_no_ambiguity() {
    let mut stale = prior("stale");
    stale.session.loop_state = active(DAY + HOUR);
    let decision = decided(&found(session("new")), std::slice::from_ref(&stale));
    assert_eq!(decision.reason, Reason::MatchingPriorLoopAbandonedStale);
    let [marked] = decision.changed.as_slice() else { panic!("{decision:?}") };
    let marks = &state(marked).extra;
    assert!(!state(marked).active);
    assert_eq!(state(marked).phase.as_deref(), Some("cancelled"));
    for (key, value) in [
        ("stop_reason", json!("stale_active_state")),
        ("abandoned_at", json!(now())),
        ("stale_resume_age_ms", json!(90_000_000)),
        ("stale_resume_threshold_ms", json!(86_400_000)),
        ("stale_resume_timestamp_source", json!("updated_at")),
        ("mood", json!("good")),
    ] {
        assert_eq!(marks.get(key), Some(&value), "{key}");
    }
    let both = decided(&found(session("new")), &[stale.clone(), prior("fresh")]);
    assert_eq!((both.reason, both.changed.len()), (Reason::Resumed, 3));
    let three = decided(&found(session("new")), &[stale, prior("one"), prior("two")]);
    assert_eq!((three.reason, three.changed.len()), (Reason::MultipleMatchingPriorLoops, 0));
    assert_eq!(three.evidence.as_deref(), Some("one, two"));
}

#[test]
fn current_loop_takes_precedence() {
    let mut own = session("new");
    own.loop_state = active(HOUR);
    own.agent = agent(Some("b"), Some("t"));
    let decision = decided(&found(own.clone()), &[prior("old")]);
    assert_eq!((decision.reason, decision.updated_current_owner), (Reason::CurrentLoopActive, true));
    assert_eq!(decision.changed[0].agent, agent(Some("a"), None));
    assert_eq!(state(&decision.changed[0]).updated_at, Some(now()));
    let again = decided(&found(decision.changed[0].clone()), &[prior("old")]);
    assert_eq!((again.reason, again.updated_current_owner), (Reason::CurrentLoopActive, false));
    assert_eq!(again.changed, [], "an unchanged record was written");

    own.loop_state = active(DAY * 2);
    let stale = decided(&found(own.clone()), &[prior("old")]);
    assert_eq!((stale.reason, stale.changed.len()), (Reason::CurrentLoopAbandonedStale, 1));
    let present = decided(&found(stale.changed[0].clone()), &[prior("old")]);
    assert_eq!((present.reason, present.changed.len()), (Reason::CurrentLoopPresent, 0));
}

#[test]
fn turn_is_recorded_without_owner_change() {
    let mut own = session("new");
    own.loop_state = active(HOUR);
    own.agent = agent(Some("a"), None);
    let claim = Claim { turn: true, kind: Some("codex".to_owned()), ..claim() };
    let decision = decide(&found(own), &[], &claim, &Dialect::SEXTON, now());
    assert!(!decision.updated_current_owner);
    let changed = &decision.changed[0];
    assert_eq!((state(changed).last_turn_at, state(changed).updated_at), (Some(now()), Some(ago(HOUR))));
    assert_eq!(changed.agent.as_ref().unwrap().kind.as_deref(), Some("codex"));
}

#[test]
fn pane_alone_is_a_loop_only_in_some_dialects() {
    let mut bound = session("new");
    bound.loop_state = Some(LoopState { pane: Some("%5".to_owned()), ..LoopState::default() });
    assert_eq!(decided(&found(bound.clone()), &[prior("old")]).reason, Reason::Resumed);
    let foreign = decide(&found(bound), &[prior("old")], &claim(), &FOREIGN, now());
    assert_eq!(foreign.reason, Reason::CurrentLoopPresent);
}

#[test]
fn foreign_loop_names_its_owner_and_keeps_its_times() {
    let decision = decide(&found(session("new")), &[prior("old")], &claim(), &FOREIGN, now());
    let target = state(&decision.changed[1]);
    assert_eq!(target.extra.get("owner_theirs"), Some(&json!("new")));
    assert_eq!(target.updated_at, Some(ago(HOUR)));
    let mut own = session("new");
    own.agent = agent(Some("a"), None);
    own.loop_state = active(HOUR);
    let decision = decide(&found(own), &[], &claim(), &FOREIGN, now());
    assert!(decision.updated_current_owner);
    assert_eq!(state(&decision.changed[0]).extra.get("owner_theirs"), Some(&json!("new")));
}

#[test]
fn nothing_is_done_without_session_or_agent() {
    let unknown = Claim { agent: AgentIdentity::default(), ..claim() };
    let reason =
        |current: &Current| decide(current, &[prior("old")], &unknown, &Dialect::SEXTON, now()).reason;
    assert_eq!(reason(&found(session("new"))), Reason::AgentIdentityMissing);
    assert_eq!(reason(&Current::Missing), Reason::CurrentSessionMissing);
    assert_eq!(reason(&Current::Unreadable("new".parse().unwrap())), Reason::CurrentLoopUnreadable);
}

fn any_agent() -> impl Strategy<Value = Option<Agent>> {
    let id = || prop_oneof![Just(None), Just(Some("a")), Just(Some("b")), Just(Some("")), Just(Some("t"))];
    (id(), id()).prop_map(|(session_id, thread_id)| agent(session_id, thread_id))
}

fn any_loop() -> impl Strategy<Value = Option<LoopState>> {
    let phase = prop_oneof![Just(None), Just(Some("executing")), Just(Some("Complete")), Just(Some("odd"))];
    let hours = || proptest::option::of(0_u32..60);
    let loops = (any::<bool>(), phase, hours(), hours(), hours(), any::<bool>());
    let state = loops.prop_map(|(active, phase, updated, turn, pane, more)| {
        let at = |hours: Option<u32>| hours.map(|hours| ago(HOUR * hours));
        let extra = if more { json!({"kept": [1, {"deep": null}], "stop_reason": "old"}) } else { json!({}) };
        LoopState {
            active,
            phase: phase.map(str::to_owned),
            updated_at: at(updated),
            last_turn_at: at(turn),
            pane_set_at: at(pane),
            extra: extra.as_object().unwrap().clone(),
            ..LoopState::default()
        }
    });
    proptest::option::weighted(0.9, state)
}

fn any_session(id: String) -> impl Strategy<Value = Session> {
    (any_agent(), any_loop(), proptest::sample::select(&Status::ALL[..])).prop_map(
        move |(agent, loop_state, status)| {
            let finished_at = status.is_finished().then(|| ago(HOUR));
            Session { agent, loop_state, status, finished_at, ..session(&id) }
        },
    )
}

fn any_prior(id: String) -> impl Strategy<Value = Prior> {
    let standing = prop_oneof![
        Just(Standing::Gone),
        Just(Standing::Dying),
        Just(Standing::Running("it runs".to_owned())),
        Just(Standing::Unclear("cannot tell".to_owned())),
    ];
    (any_session(id), standing, any::<bool>()).prop_map(|(session, standing, known)| Prior {
        fallback: known.then_some(Activity { at: ago(DAY * 3), source: "mtime" }),
        standing: if session.status.is_finished() { Standing::Ended } else { standing },
        session,
    })
}

fn any_current() -> impl Strategy<Value = Current> {
    let found = any_session("new".to_owned()).prop_map(|session| Current::Found(Box::new(session), None));
    let blank = Just(found_blank());
    prop_oneof![
        1 => Just(Current::Missing),
        1 => Just(Current::Unreadable("new".parse().unwrap())),
        4 => found,
        8 => blank,
    ]
}

fn found_blank() -> Current {
    found(session("new"))
}

fn any_claim() -> impl Strategy<Value = Claim> {
    let id = || prop_oneof![Just(None), Just(Some("a")), Just(Some("t"))];
    (id(), id(), any::<bool>(), any::<bool>()).prop_map(|(session, thread, pane, turn)| Claim {
        agent: AgentIdentity::new(session, thread),
        pane: pane.then(|| "%7".to_owned()),
        turn,
        ..claim()
    })
}

fn any_priors() -> impl Strategy<Value = Vec<Prior>> {
    (0_usize..5).prop_flat_map(|count| {
        (0..count).map(|number| any_prior(format!("old-{number}"))).collect::<Vec<_>>()
    })
}

fn drives(session: &Session) -> bool {
    session.loop_state.as_ref().is_some_and(|state| state.active)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn loop_never_has_two_owners_and_unknown_changes_nothing(
        current in any_current(), priors in any_priors(), claim in any_claim(), foreign in any::<bool>(),
    ) {
        let dialect = if foreign { &FOREIGN } else { &Dialect::SEXTON };
        let decision = decide(&current, &priors, &claim, dialect, now());
        let mut before: Vec<Session> = priors.iter().map(|prior| prior.session.clone()).collect();
        if let Current::Found(session, _) = &current {
            before.push(session.as_ref().clone());
        }
        // Only observed records change, once each, at the observed revision, by allowed transitions.
        let mut after = before.clone();
        for changed in &decision.changed {
            let old = before.iter().find(|session| session.id == changed.id).unwrap();
            prop_assert_eq!(changed.revision, old.revision);
            prop_assert!(old.status.can_become(changed.status));
            prop_assert!(changed != old, "an unchanged record was written");
            prop_assert_eq!(decision.changed.iter().filter(|other| other.id == changed.id).count(), 1);
            *after.iter_mut().find(|session| session.id == changed.id).unwrap() = changed.clone();
            let kept = |session: &Session| session.loop_state.as_ref().and_then(|state| state.extra.get("kept").cloned());
            let from = decision.source.as_ref().and_then(|id| before.iter().find(|session| session.id == *id));
            let origin = if decision.reason == Reason::Resumed && Some(&changed.id) == decision.target.as_ref() { from.unwrap() } else { old };
            prop_assert_eq!(kept(changed), kept(origin), "an unknown key was lost");
        }
        // A session starts to drive a loop only by taking it from the previous driver.
        let count = |sessions: &[Session]| sessions.iter().filter(|session| drives(session)).count();
        prop_assert!(count(&after) <= count(&before));
        match decision.reason {
            Reason::Resumed => {
                let find = |id: &Option<SessionId>| after.iter().find(|session| Some(&session.id) == id.as_ref()).unwrap();
                prop_assert!(drives(find(&decision.target)) && !drives(find(&decision.source)));
                let mine = after.iter().filter(|session| session.id.as_str() != "new" && claim.fits(session)).count();
                prop_assert_eq!(mine, 0, "another session still drives a loop of this agent");
            }
            Reason::CurrentLoopActive | Reason::CurrentLoopAbandonedStale => {
                prop_assert!(decision.changed.iter().all(|changed| changed.id.as_str() == "new"));
            }
            Reason::MatchingPriorLoopAbandonedStale => {
                prop_assert!(!decision.changed.is_empty() && decision.changed.iter().all(|changed| !drives(changed)));
            }
            _ => prop_assert_eq!(&decision.changed, &[], "{:?} changed something", decision.reason),
        }
        // Another session never changes one that may run.
        for prior in priors.iter().filter(|prior| prior.standing.may_run() && dialect.spares_the_living) {
            prop_assert!(after.contains(&prior.session));
        }
        // A second request finds the loop in its new session.
        if decision.reason == Reason::Resumed {
            let target = decision.changed.iter().find(|changed| changed.id.as_str() == "new").unwrap();
            let again = decide(&found(target.clone()), &priors, &Claim { turn: false, ..claim }, dialect, now());
            if again.reason == Reason::CurrentLoopActive {
                prop_assert_eq!(again.changed, []);
            } else {
                // Another tool's times stay unchanged, so the loop may be stale.
                prop_assert!(foreign && again.reason == Reason::CurrentLoopAbandonedStale);
            }
        }
    }
}
