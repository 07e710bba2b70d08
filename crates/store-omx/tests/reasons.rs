//! Every reason in the table of oh-my-codex, in its terms, with the resulting content of the files.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::time::Duration;

use pollster::block_on;
use serde_json::{Value, json};
use sexton_core::resume::{Claim, Reason, find_current};

mod support;
use support::{DAY, TestEnv, agent, driving, id};

/// Returns the name that oh-my-codex gives to the reason.
fn word(test_env: &TestEnv, reason: Reason) -> &'static str {
    test_env.reader().dialect().word(reason)
}

/// Resumes, and asserts that the reason is `expected` and that no file changed.
fn require_untouched(test_env: &TestEnv, current: &str, claim: &Claim, expected: &str) {
    let before = test_env.files();
    let resumption = test_env.resume(current, claim);
    assert_eq!(word(test_env, resumption.reason), expected);
    assert!(!resumption.resumed && !resumption.updated_current_owner);
    assert_eq!(test_env.files(), before, "{expected}: something was changed");
}

#[test]
fn current_omx_session_missing() {
    let test_env = TestEnv::new();
    test_env.write("old", &driving("c"));
    require_untouched(&test_env, "nowhere", &agent(Some("c"), None), "current_omx_session_missing");
}

#[test]
fn current_ralph_active_updates_the_owner() {
    let test_env = TestEnv::new();
    test_env.write(
        "now",
        &json!({"active": true, "owner_codex_thread_id": "t", "updated_at": "2026-01-10T00:59:00Z"}),
    );
    let claim = Claim { pane: Some("%9".to_owned()), ..agent(Some("c"), Some("t")) };
    let resumption = test_env.resume("now", &claim);
    assert_eq!(word(&test_env, resumption.reason), "current_ralph_active");
    assert!(resumption.updated_current_owner && !resumption.resumed);
    let expected = json!({
        "active": true, "updated_at": "2026-01-10T00:59:00Z", "owner_codex_session_id": "c",
        "tmux_pane_id": "%9", "tmux_pane_set_at": "2026-01-10T01:00:00Z", "owner_omx_session_id": "now",
    });
    assert_eq!(test_env.state("now"), Some(expected));
    require_untouched(&test_env, "now", &claim, "current_ralph_active");
}

#[test]
fn current_ralph_abandoned_stale() {
    let test_env = TestEnv::new();
    test_env.write("now", &json!({"active": true, "updated_at": "2026-01-08T00:00:00", "mode": "ralph"}));
    let resumption = test_env.resume("now", &agent(Some("c"), None));
    assert_eq!(word(&test_env, resumption.reason), "current_ralph_abandoned_stale");
    let expected = json!({
        "active": false, "updated_at": "2026-01-08T00:00:00", "mode": "ralph", "current_phase": "cancelled",
        "completed_at": "2026-01-10T01:00:00Z", "stop_reason": "stale_active_state",
        "abandoned_at": "2026-01-10T01:00:00Z", "stale_resume_age_ms": 176_400_000,
        "stale_resume_threshold_ms": 86_400_000, "stale_resume_timestamp_source": "updated_at",
    });
    assert_eq!(test_env.state("now"), Some(expected));
    require_untouched(&test_env, "now", &agent(Some("c"), None), "current_ralph_present");
}

#[test]
fn current_ralph_present() {
    let test_env = TestEnv::new();
    test_env.write("old", &driving("c"));
    for state in [json!({"active": false}), json!({}), json!({"active": "yes"})] {
        test_env.write("now", &state);
        require_untouched(&test_env, "now", &agent(Some("c"), None), "current_ralph_present");
    }
}

#[test]
fn current_ralph_unreadable_changes_nothing() {
    for text in [&b"{\"active\": true,"[..], b"", b"null", b"[]", b"\xff\xfe", b"{\"a\": \"\\ud800\"}"] {
        let test_env = TestEnv::new();
        test_env.write("old", &driving("c"));
        test_env.enter("now");
        fs::write(test_env.state_file("now"), text).unwrap();
        require_untouched(&test_env, "now", &agent(Some("c"), None), "current_ralph_unreadable");
    }
}

#[test]
fn payload_codex_identity_missing() {
    let test_env = TestEnv::new();
    test_env.write("old", &driving("c"));
    test_env.enter("now");
    require_untouched(&test_env, "now", &agent(None, None), "payload_codex_identity_missing");
}

#[test]
fn no_matching_prior_ralph() {
    let test_env = TestEnv::new();
    let (mut over, mut thread) = (driving("c"), driving("other"));
    over["current_phase"] = json!(" Blocked_On_User ");
    // If a session id is recorded, the thread id is not compared.
    thread["owner_codex_thread_id"] = json!("t");
    test_env.write("over", &over);
    test_env.write("thread", &thread);
    test_env.write("ended", &json!({"active": false, "owner_codex_session_id": "c"}));
    test_env.enter("now");
    require_untouched(&test_env, "now", &agent(Some("c"), Some("t")), "no_matching_prior_ralph");
}

#[test]
fn matching_prior_ralph_abandoned_stale() {
    let test_env = TestEnv::new();
    let mut stale = driving("c");
    stale["updated_at"] = json!("2026-01-09T00:59:59Z");
    test_env.write("old", &stale);
    test_env.enter("now");
    let resumption = test_env.resume("now", &agent(Some("c"), None));
    assert_eq!(word(&test_env, resumption.reason), "matching_prior_ralph_abandoned_stale");
    let state = test_env.state("old").unwrap();
    assert_eq!((&state["active"], &state["stop_reason"]), (&json!(false), &json!("stale_active_state")));
    assert_eq!(test_env.state("now"), None);
}

#[test]
fn multiple_matching_prior_ralphs() {
    let test_env = TestEnv::new();
    test_env.write("one", &driving("c"));
    test_env.write("two", &driving("c"));
    test_env.enter("now");
    require_untouched(&test_env, "now", &agent(Some("c"), None), "multiple_matching_prior_ralphs");
}

#[test]
fn resumed_same_codex_session() {
    let test_env = TestEnv::new();
    let mut old = driving("c");
    old["stop_reason"] = json!("paused");
    old["owner_codex_thread_id"] = json!("t");
    test_env.write("old", &old);
    test_env.write("other", &driving("another conversation"));
    test_env.enter("now");
    let claim = Claim { pane: Some("%2".to_owned()), ..agent(Some("c"), Some("t2")) };
    let resumption = test_env.resume("now", &claim);
    assert_eq!(word(&test_env, resumption.reason), "resumed_same_codex_session");
    assert_eq!((resumption.source, resumption.target), (Some(id("old")), Some(id("now"))));
    assert_eq!(test_env.drivers(), ["now", "other"]);
    let mut source = old.clone();
    source["active"] = json!(false);
    source["current_phase"] = json!("cancelled");
    source["completed_at"] = json!("2026-01-10T01:00:00Z");
    source["stop_reason"] = json!("ownership_transferred");
    assert_eq!(test_env.state("old"), Some(source));
    let mut target = driving("c");
    target["owner_omx_session_id"] = json!("now");
    target["tmux_pane_id"] = json!("%2");
    target["tmux_pane_set_at"] = json!("2026-01-10T01:00:00Z");
    assert_eq!(test_env.state("now"), Some(target));
}

#[test]
fn a_thread_id_matches_without_a_session_id_and_is_then_removed() {
    let test_env = TestEnv::new();
    let mut old = driving("");
    old["owner_codex_thread_id"] = json!(" t ");
    test_env.write("old", &old);
    test_env.enter("now");
    assert_eq!(test_env.resume("now", &agent(Some("c"), Some("t"))).reason, Reason::Resumed);
    let state = test_env.state("now").unwrap();
    assert_eq!(state["owner_codex_session_id"], json!("c"));
    assert_eq!(state.get("owner_codex_thread_id"), None);
}

#[test]
fn resume_lock_timeout() {
    let test_env = TestEnv::new();
    test_env.write("old", &driving("c"));
    test_env.enter("now");
    let store = test_env.writer();
    fs::create_dir(test_env.path().join(".lock.ralph-session-resume")).unwrap();
    fs::write(test_env.path().join(".lock.ralph-session-resume/owner"), "4242.1768000000000.abc").unwrap();
    let before = test_env.files();
    let wait = Duration::from_millis(200);
    let resumption = support::resume_in(store.as_ref(), "now", &agent(Some("c"), None), wait).unwrap();
    assert_eq!(word(&test_env, resumption.reason), "resume_lock_timeout");
    assert_eq!(test_env.files(), before);
}

#[test]
fn without_recorded_times_the_modification_time_decides() {
    let test_env = TestEnv::new();
    let mut old = driving("c");
    old.as_object_mut().unwrap().remove("updated_at");
    test_env.write("old", &old);
    test_env.enter("now");
    let file = fs::File::options().write(true).open(test_env.state_file("old")).unwrap();
    let now: std::time::SystemTime = support::now().timestamp().into();
    file.set_modified(now - DAY - Duration::from_secs(1)).unwrap();
    let resumption = test_env.resume("now", &agent(Some("c"), None));
    assert_eq!(word(&test_env, resumption.reason), "matching_prior_ralph_abandoned_stale");
    assert_eq!(test_env.state("old").unwrap()["stale_resume_timestamp_source"], json!("mtime"));
}

#[test]
fn a_session_named_by_session_json_needs_no_directory_to_resume() {
    let test_env = TestEnv::new();
    test_env.write("old", &driving("c"));
    fs::write(test_env.path().join("session.json"), r#"{"session_id": " now "}"#).unwrap();
    assert_eq!(block_on(find_current(test_env.reader().as_ref(), |_| None)).unwrap(), Some(id("now")));
    assert_eq!(test_env.resume("now", &agent(Some("c"), None)).reason, Reason::Resumed);
    assert_eq!(test_env.drivers(), ["now"]);
}

/// Returns the current session, given these variables.
fn current(test_env: &TestEnv, variables: &[(&str, &str)]) -> Option<String> {
    let find =
        |name: &str| variables.iter().find(|(known, _)| *known == name).map(|(_, value)| (*value).to_owned());
    block_on(find_current(test_env.reader().as_ref(), find)).unwrap().map(|id| id.to_string())
}

#[test]
fn the_first_variable_that_names_a_directory_is_the_current_session() {
    let test_env = TestEnv::new();
    ["a", "b"].into_iter().for_each(|session| test_env.enter(session));
    assert_eq!(current(&test_env, &[]), None);
    assert_eq!(current(&test_env, &[("SESSION_ID", "b"), ("CODEX_SESSION_ID", "a")]).as_deref(), Some("a"));
    let passed_over = [("OMX_SESSION_ID", "../a"), ("CODEX_SESSION_ID", "gone"), ("SESSION_ID", " b ")];
    assert_eq!(current(&test_env, &passed_over).as_deref(), Some("b"));
    assert_eq!(current(&test_env, &[("SEXTON_SESSION_ID", "a")]), None);
}

#[test]
fn session_json_counts_only_while_its_process_is_running() {
    let test_env = TestEnv::new();
    let names = |pointer: &Value| {
        fs::write(test_env.path().join("session.json"), pointer.to_string()).unwrap();
        current(&test_env, &[])
    };
    let me = std::process::id();
    let stat = fs::read_to_string("/proc/self/stat").unwrap();
    let ticks: u64 = stat.rsplit_once(')').unwrap().1.split_whitespace().nth(19).unwrap().parse().unwrap();
    let named = Some("a".to_owned());
    assert_eq!(names(&json!({"session_id": "a", "pid": me, "pid_start_ticks": ticks})), named);
    assert_eq!(names(&json!({"session_id": "a", "pid": me})), named);
    assert_eq!(names(&json!({"session_id": "a", "pid": null})), named);
    for wrong in [
        json!({"session_id": "a", "pid": me, "pid_start_ticks": ticks + 1}),
        json!({"session_id": "a", "pid": me, "pid_start_ticks": "soon"}),
        json!({"session_id": "a", "pid": u32::MAX}),
        json!({"session_id": "a", "pid": -1}),
        json!({"session_id": "a/b"}),
        json!({"session_id": 5}),
        json!(["a"]),
    ] {
        assert_eq!(names(&wrong), None, "{wrong}");
    }
}
