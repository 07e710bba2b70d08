//! Every reason of `sexton resume`, on every store.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::time::Duration;

use serde_json::{Value, json};
use sexton_core::resume::{LOCK, Reason};
use sexton_core::session::{Agent, LoopState};
use sexton_core::store::LockName;
use sexton_core::{Session, Status};
use support::Bystander;
use support::loops::{AGENT, Loops, ago, bytes_below, damage, driven, ended};
use support::records::edit_record;

const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(86_400);

/// One test for each reason, on one store.
macro_rules! on_store {
    ($store:ident, $feature:literal) => {
        #[cfg(feature = $feature)]
        mod $store {
            on_store!(@rows $store:
                without_a_current_session_nothing_changes,
                an_active_loop_of_the_current_session_is_updated,
                a_stale_loop_of_the_current_session_is_marked_abandoned,
                an_inactive_loop_is_unchanged,
                an_unreadable_record_is_not_changed_by_a_byte,
                without_an_agent_identity_nothing_changes,
                without_a_matching_prior_session_nothing_changes,
                stale_matches_are_marked_abandoned,
                two_matches_change_nothing,
                a_loop_is_taken_over,
                the_thread_id_matches_when_no_conversation_was_recorded,
                a_held_lock_times_out_after_five_seconds,
                a_running_session_keeps_its_loop,
            );
        }
    };
    (@rows $store:ident: $($row:ident,)*) => {
        $(
            #[test]
            fn $row() {
                super::$row(&super::Loops::on(stringify!($store)));
            }
        )*
    };
}

on_store!(sqlite, "store-sqlite");
on_store!(json, "store-json");
on_store!(omx, "store-omx");

const MINE: [&str; 2] = ["--agent-session", AGENT];

fn in_new(more: &[&'static str]) -> Vec<&'static str> {
    [&["--session", "new"], more].concat()
}

fn without_a_current_session_nothing_changes(loops: &Loops) {
    loops.insert([driven("old", HOUR)]);
    let document = loops.resume_without_change(Reason::CurrentSessionMissing, &MINE);
    let expected = json!({
        "current_session": null, "resumed": false, "updated_current_owner": false,
        "reason": loops.dialect().word(Reason::CurrentSessionMissing), "source": null, "target": null,
    });
    assert_eq!(document, expected);
    for cookie in ["missing", "../../../etc", "", "a b", &"x".repeat(65)] {
        let output = loops.resume_command(cookie, &MINE).output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document, expected, "{cookie:?}");
    }
    let unknown = loops.test_env.sexton(&["resume", "--session", "missing", "--agent-session", AGENT]);
    assert_eq!(unknown.code, 4, "{}", unknown.stderr);
    assert_eq!(loops.drivers(), ["old"]);
}

fn an_active_loop_of_the_current_session_is_updated(loops: &Loops) {
    let mut current = driven("new", HOUR);
    current.agent = Some(Agent { thread_id: Some("thread-9".to_owned()), ..Agent::default() });
    loops.insert([current, driven("old", HOUR)]);
    let before = loops.record("old");
    let mut command = loops.test_env.command(&[&["resume", "--json"], in_new(&MINE).as_slice()].concat());
    let output = command.env("TMUX_PANE", "%7").output().unwrap();
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    let word = loops.dialect().word(Reason::CurrentLoopActive);
    assert_eq!((&document["reason"], &document["updated_current_owner"]), (&json!(word), &json!(true)));
    assert_eq!((&document["resumed"], &document["target"]), (&json!(false), &json!("new")));
    let record = loops.record("new");
    let agent = record.agent.unwrap();
    assert_eq!((agent.session_id.as_deref(), agent.thread_id), (Some(AGENT), None));
    let state = record.loop_state.unwrap();
    assert!(state.active && state.pane.as_deref() == Some("%7") && state.pane_set_at.is_some());
    assert_eq!((state.iteration, &state.extra["mood"]), (Some(3), &json!("good")));
    assert_eq!(loops.record("old"), before);
    let again = loops.resume_without_change(Reason::CurrentLoopActive, &in_new(&MINE));
    assert_eq!(again["updated_current_owner"], false);
}

fn a_stale_loop_of_the_current_session_is_marked_abandoned(loops: &Loops) {
    loops.insert([driven("new", DAY + HOUR), driven("old", HOUR)]);
    let document = loops.resume(Reason::CurrentLoopAbandonedStale, &in_new(&MINE));
    assert_eq!(document["target"], "new");
    assert_abandoned(&loops.state("new"), DAY);
    assert_eq!(loops.drivers(), ["old"]);
    loops.resume_without_change(Reason::CurrentLoopPresent, &in_new(&MINE));
}

fn assert_abandoned(state: &LoopState, threshold: Duration) {
    assert!(!state.active);
    assert_eq!(state.phase.as_deref(), Some("cancelled"));
    assert_eq!(state.extra["stop_reason"], "stale_active_state");
    assert_eq!(
        state.extra["stale_resume_threshold_ms"],
        json!(u64::try_from(threshold.as_millis()).unwrap())
    );
    assert!(state.extra["stale_resume_age_ms"].as_u64().unwrap() > 3_600_000);
    assert_eq!(state.extra["stale_resume_timestamp_source"], "updated_at");
    assert!(state.extra["abandoned_at"].is_string());
    assert_eq!(state.extra["mood"], "good");
}

fn an_inactive_loop_is_unchanged(loops: &Loops) {
    let mut current = driven("new", HOUR);
    current.loop_state.as_mut().unwrap().active = false;
    loops.insert([current, driven("old", HOUR)]);
    let document = loops.resume_without_change(Reason::CurrentLoopPresent, &in_new(&MINE));
    assert_eq!(document["target"], "new");
}

fn an_unreadable_record_is_not_changed_by_a_byte(loops: &Loops) {
    let mut current = driven("new", HOUR);
    current.loop_state.as_mut().unwrap().phase = Some("phase-to-be-damaged".to_owned());
    loops.insert([driven("old", HOUR), current]);
    damage(&loops.test_env, "phase-to-be-damaged");
    let before = bytes_below(&loops.test_env.state_dir());
    let (document, code) = loops.try_resume(&in_new(&MINE));
    assert_eq!(document["reason"], loops.dialect().word(Reason::CurrentLoopUnreadable));
    assert_eq!((&document["target"], code), (&json!("new"), 5));
    let mut hook = loops.resume_command("new", &["--hook", "codex", r#"{"session_id":"conversation-1"}"#]);
    let output = hook.output().unwrap();
    assert!(output.status.success(), "a hook must not fail its agent's turn");
    let document: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(document["reason"], loops.dialect().word(Reason::CurrentLoopUnreadable));
    let after = bytes_below(&loops.test_env.state_dir());
    for (path, bytes) in before {
        assert!(after.get(&path) == Some(&bytes), "{} was changed", path.display());
    }
}

fn without_an_agent_identity_nothing_changes(loops: &Loops) {
    loops.insert([driven("old", HOUR), ended("new")]);
    loops.resume_without_change(Reason::AgentIdentityMissing, &in_new(&[]));
    loops.resume_without_change(
        Reason::AgentIdentityMissing,
        &in_new(&["--agent-session", "", "--thread", " "]),
    );
    let refused = loops.test_env.sexton(&["resume", "--session", "new", "--agent-session", "../../etc"]);
    assert_eq!(refused.code, 2, "{}", refused.stderr);
    assert!(refused.stderr.contains("an agent id is 1 to 64"), "{}", refused.stderr);
}

fn without_a_matching_prior_session_nothing_changes(loops: &Loops) {
    let mut other = driven("other", HOUR);
    other.agent.as_mut().unwrap().session_id = Some("conversation-2".to_owned());
    let mut over = driven("over", HOUR);
    over.loop_state.as_mut().unwrap().phase = Some(" Complete ".to_owned());
    let mut inactive = driven("inactive", HOUR);
    inactive.loop_state.as_mut().unwrap().active = false;
    loops.insert([other, over, inactive, ended("none"), ended("new")]);
    let document = loops.resume_without_change(Reason::NoMatchingPriorLoop, &in_new(&MINE));
    assert_eq!((&document["current_session"], &document["target"]), (&json!("new"), &json!(null)));
}

fn stale_matches_are_marked_abandoned(loops: &Loops) {
    loops.insert([driven("one", DAY * 2), driven("two", DAY * 3), ended("new")]);
    loops.resume(Reason::MatchingPriorLoopAbandonedStale, &in_new(&MINE));
    assert_abandoned(&loops.state("one"), DAY);
    assert_abandoned(&loops.state("two"), DAY);
    loops.resume_without_change(Reason::NoMatchingPriorLoop, &in_new(&MINE));
    // `--stale` sets the threshold.
    loops.insert([driven("three", HOUR * 2)]);
    loops.resume(
        Reason::MatchingPriorLoopAbandonedStale,
        &in_new(&["--agent-session", AGENT, "--stale", "1h"]),
    );
    assert_abandoned(&loops.state("three"), HOUR);
    loops.insert([driven("four", DAY * 2)]);
    loops.resume(Reason::Resumed, &in_new(&["--agent-session", AGENT, "--stale", "3d"]));
}

fn two_matches_change_nothing(loops: &Loops) {
    loops.insert([driven("one", HOUR), driven("two", HOUR), driven("three", DAY * 2), ended("new")]);
    loops.resume_without_change(Reason::MultipleMatchingPriorLoops, &in_new(&MINE));
    assert_eq!(loops.drivers(), ["one", "three", "two"]);
}

fn a_loop_is_taken_over(loops: &Loops) {
    let mut old = driven("old", HOUR);
    let extra = &mut old.loop_state.as_mut().unwrap().extra;
    extra.insert("completed_at".to_owned(), json!("2026-01-02T03:04:05Z"));
    extra.insert("stop_reason".to_owned(), json!("earlier"));
    loops.insert([old, ended("new"), driven("long-ago", DAY * 2)]);
    let document = loops.resume(Reason::Resumed, &in_new(&MINE));
    assert_eq!((&document["resumed"], &document["current_session"]), (&json!(true), &json!("new")));
    assert_eq!((&document["source"], &document["target"]), (&json!("old"), &json!("new")));
    let record = loops.record("new");
    assert_eq!(record.agent.unwrap().session_id.as_deref(), Some(AGENT));
    let state = record.loop_state.unwrap();
    assert!(state.active);
    assert_eq!(
        (state.phase.as_deref(), state.iteration, state.max_iterations),
        (Some("executing"), Some(3), Some(10))
    );
    assert_eq!(state.extra.get("mood"), Some(&json!("good")));
    assert_eq!((state.extra.get("completed_at"), state.extra.get("stop_reason")), (None, None));
    let old = loops.state("old");
    assert_eq!((old.active, old.phase.as_deref()), (false, Some("cancelled")));
    assert_eq!(old.extra["stop_reason"], "ownership_transferred");
    assert_abandoned(&loops.state("long-ago"), DAY);
    assert_eq!(loops.drivers(), ["new"]);
    if loops.dialect().spares_the_living {
        assert_eq!(loops.record("old").status, Status::Transferred);
    }
    loops.resume_without_change(Reason::CurrentLoopActive, &in_new(&MINE));
}

fn the_thread_id_matches_when_no_conversation_was_recorded(loops: &Loops) {
    let by_thread = |id: &str, session_id: Option<&str>| Session {
        agent: Some(Agent {
            session_id: session_id.map(str::to_owned),
            thread_id: Some("thread-1".to_owned()),
            ..Agent::default()
        }),
        ..driven(id, HOUR)
    };
    loops.insert([by_thread("known", Some("conversation-2")), by_thread("old", None), ended("new")]);
    let document =
        loops.resume(Reason::Resumed, &in_new(&["--thread", "thread-1", "--agent-session", AGENT]));
    assert_eq!(document["source"], "old");
    let agent = loops.record("new").agent.unwrap();
    assert_eq!((agent.session_id.as_deref(), agent.thread_id), (Some(AGENT), None));
    loops.insert([ended("newer")]);
    loops.resume_without_change(Reason::NoMatchingPriorLoop, &["--session", "newer", "--thread", "thread-1"]);
}

fn a_held_lock_times_out_after_five_seconds(loops: &Loops) {
    loops.insert([driven("old", HOUR), ended("new")]);
    let store = loops.store();
    // The test itself holds the lock and is alive, so the lock is not stale.
    let held = pollster::block_on(store.lock(&LockName::new(LOCK).unwrap(), HOUR)).unwrap();
    let begun = std::time::Instant::now();
    let document = loops.resume_without_change(Reason::LockTimeout, &in_new(&MINE));
    assert!(begun.elapsed() >= Duration::from_secs(5), "it did not wait");
    assert_eq!(document["current_session"], Value::Null);
    let (_, code) = loops.try_resume(&in_new(&["--agent-session", AGENT, "--strict"]));
    assert_eq!(code, 1);
    drop(held);
    loops.resume(Reason::Resumed, &in_new(&MINE));
}

fn a_running_session_keeps_its_loop(loops: &Loops) {
    if !loops.dialect().spares_the_living {
        // The files of this store contain no processes that could be probed.
        loops.insert([driven("old", HOUR), ended("new")]);
        loops.resume(Reason::Resumed, &in_new(&MINE));
        return;
    }
    let test_env = &loops.test_env;
    let mut agent = Bystander::start();
    let old = test_env.ok(&["register", "--pid", &agent.pid(), "--agent-session", AGENT]);
    test_env.ok(&["loop", "set", &old, "active=true", "phase=executing"]);
    loops.insert([ended("new")]);
    let document = loops.resume_without_change(Reason::PriorSessionRunning, &in_new(&MINE));
    assert_eq!((&document["source"], &document["resumed"]), (&json!(old), &json!(false)));
    assert_eq!(loops.try_resume(&in_new(&["--agent-session", AGENT, "--strict"])).1, 1);
    // Also if its loop was not updated for days.
    let long_ago = ago(DAY * 2);
    edit_record(test_env, &old, |session| session.loop_state.as_mut().unwrap().updated_at = Some(long_ago));
    loops.resume_without_change(Reason::PriorSessionRunning, &in_new(&MINE));
    edit_record(test_env, &old, |session| session.loop_state.as_mut().unwrap().updated_at = Some(ago(HOUR)));
    agent.end();
    loops.resume(Reason::Resumed, &in_new(&MINE));
    assert_eq!(loops.record(&old).status, Status::Transferred);
    // A session on another host may be running, until the user forgets it.
    let mut far = driven("far", HOUR);
    (far.status, far.finished_at, far.exit) = (Status::Running, None, None);
    far.agent.as_mut().unwrap().session_id = Some("conversation-3".to_owned());
    loops.insert([far, ended("newer")]);
    let claim = ["--session", "newer", "--agent-session", "conversation-3"];
    loops.resume_without_change(Reason::PriorSessionRunning, &claim);
    test_env.ok(&["forget", "far"]);
    loops.resume(Reason::Resumed, &claim);
}
