//! The program on a state directory of oh-my-codex: what it shows, what it does not change, what it refuses.

#![cfg(feature = "store-omx")]
#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use support::TestEnv;
use support::loops::bytes_below;

const DAY: Duration = Duration::from_secs(86_400);

/// Creates a test environment on a state directory with an active loop, one that ended long ago, and a damaged one.
fn test_env() -> TestEnv {
    let test_env = TestEnv::on("omx");
    test_env.ok(&["ps"]);
    let states = [
        (
            "going",
            r#"{"active": true, "current_phase": "executing", "owner_codex_session_id": "c", "kept": [1.50]}"#,
        ),
        ("over", r#"{"active": false, "current_phase": "complete", "completed_at": "2020-01-01T00:00:00Z"}"#),
        ("broken", r#"{"active": tru"#),
    ];
    for (session, state) in states {
        let directory = test_env.store_path().join("sessions").join(session);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("ralph-state.json"), state).unwrap();
        let file = fs::File::options().write(true).open(directory.join("ralph-state.json")).unwrap();
        file.set_modified(SystemTime::now() - DAY * 400).unwrap();
    }
    test_env
}

#[test]
fn recovery_stops_marks_and_deletes_nothing() {
    let test_env = test_env();
    let sessions = test_env.store_path().join("sessions");
    let before = bytes_below(&sessions);
    for _ in 0..2 {
        let report: Value = serde_json::from_str(&test_env.ok(&["recover", "--json"])).unwrap();
        assert_eq!((&report["left_alone"], &report["orphans"]), (&json!(1), &json!(0)), "{report}");
        assert_eq!(report["sessions"][0]["evidence"], "its record does not identify a process");
        assert_eq!((&report["pruned"]["expired"], &report["backup"]), (&json!(0), &json!(null)));
    }
    assert_eq!(bytes_below(&sessions), before);
    // An explicit `prune` deletes the ended loop.
    test_env.ok(&["prune"]);
    assert!(!sessions.join("over").exists() && sessions.join("going").exists());
}

#[test]
fn a_damaged_file_is_reported_and_stops_no_command() {
    let test_env = test_env();
    let listed = test_env.sexton(&["ps", "-a", "--json"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let ids: Vec<Value> = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(
        ids.iter().map(|session| session["id"].as_str().unwrap()).collect::<Vec<_>>(),
        ["over", "going"]
    );
    assert!(listed.stderr.contains("session broken: it is not a JSON object"), "{}", listed.stderr);
    assert_eq!(test_env.sexton(&["show", "broken"]).code, 5);
    test_env.ok(&["loop", "set", "going", "iteration=4"]);
    let going = fs::read_to_string(test_env.store_path().join("sessions/going/ralph-state.json")).unwrap();
    assert!(going.contains("\"iteration\": 4") && going.contains("[1.50]"), "{going}");
    test_env.ok(&["doctor", "--repair"]);
    assert!(!test_env.store_path().join("sessions/broken").exists());
    assert_eq!(test_env.sexton(&["ps"]).stderr, "");
}

#[test]
fn a_session_that_cannot_be_recorded_is_not_started() {
    let test_env = test_env();
    let before = bytes_below(&test_env.store_path().join("sessions"));
    let refused = test_env.sexton(&["run", "-d", "--", "touch", "ran"]);
    assert_eq!(refused.code, 125, "{}", refused.stderr);
    assert!(refused.stderr.contains("an omx store cannot keep"), "{}", refused.stderr);
    assert!(!test_env.work_dir().join("ran").exists(), "i1: it ran unrecorded");
    assert_eq!(bytes_below(&test_env.store_path().join("sessions")), before);
}

#[test]
fn the_variables_of_oh_my_codex_set_the_session_and_the_limit() {
    let test_env = test_env();
    fs::create_dir(test_env.store_path().join("sessions/now")).unwrap();
    let resume = |limit: &str| {
        let mut command = test_env.command(&["resume", "--json", "--agent-session", "c"]);
        command.env("OMX_SESSION_ID", "../now").env("CODEX_SESSION_ID", "now");
        let output = command.env("OMX_RALPH_RESUME_STALE_MS", limit).output().unwrap();
        let document: Value = serde_json::from_slice(&output.stdout).unwrap();
        assert_eq!(document["current_session"], "now");
        document["reason"].clone()
    };
    let years = (DAY * 1000).as_millis().to_string();
    assert_eq!(resume(&years), "resumed_same_codex_session");
    assert_eq!(resume(&years), "current_ralph_active");
}
