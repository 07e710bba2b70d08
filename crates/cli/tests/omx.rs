//! The program on a state directory of oh-my-codex: what it shows, what it leaves alone, what it refuses.

#![cfg(feature = "store-omx")]
#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use std::fs;
use std::time::{Duration, SystemTime};

use serde_json::{Value, json};
use support::Yard;
use support::loops::bytes_below;

const DAY: Duration = Duration::from_secs(86_400);

/// A yard on a state directory with a loop that goes on, one that ended long ago, and one that is damaged.
fn yard() -> Yard {
    let yard = Yard::on("omx");
    yard.ok(&["ps"]);
    let states = [
        (
            "going",
            r#"{"active": true, "current_phase": "executing", "owner_codex_session_id": "c", "kept": [1.50]}"#,
        ),
        ("over", r#"{"active": false, "current_phase": "complete", "completed_at": "2020-01-01T00:00:00Z"}"#),
        ("broken", r#"{"active": tru"#),
    ];
    for (session, state) in states {
        let directory = yard.store_path().join("sessions").join(session);
        fs::create_dir_all(&directory).unwrap();
        fs::write(directory.join("ralph-state.json"), state).unwrap();
        let file = fs::File::options().write(true).open(directory.join("ralph-state.json")).unwrap();
        file.set_modified(SystemTime::now() - DAY * 400).unwrap();
    }
    yard
}

#[test]
fn recovery_ends_nothing_marks_nothing_and_lets_nothing_go() {
    let yard = yard();
    let sessions = yard.store_path().join("sessions");
    let before = bytes_below(&sessions);
    for _ in 0..2 {
        let report: Value = serde_json::from_str(&yard.ok(&["recover", "--json"])).unwrap();
        assert_eq!((&report["left_alone"], &report["orphans"]), (&json!(1), &json!(0)), "{report}");
        assert_eq!(report["sessions"][0]["evidence"], "nothing says which process it is");
        assert_eq!((&report["pruned"]["expired"], &report["backup"]), (&json!(0), &json!(null)));
    }
    assert_eq!(bytes_below(&sessions), before);
    // What its user says is something else.
    yard.ok(&["prune"]);
    assert!(!sessions.join("over").exists() && sessions.join("going").exists());
}

#[test]
fn a_damaged_file_is_told_of_and_stops_nothing() {
    let yard = yard();
    let listed = yard.sexton(&["ps", "-a", "--json"]);
    assert_eq!(listed.code, 0, "{}", listed.stderr);
    let ids: Vec<Value> = serde_json::from_str(&listed.stdout).unwrap();
    assert_eq!(
        ids.iter().map(|session| session["id"].as_str().unwrap()).collect::<Vec<_>>(),
        ["over", "going"]
    );
    assert!(listed.stderr.contains("session broken: it is not a JSON object"), "{}", listed.stderr);
    assert_eq!(yard.sexton(&["show", "broken"]).code, 5);
    yard.ok(&["loop", "set", "going", "iteration=4"]);
    let going = fs::read_to_string(yard.store_path().join("sessions/going/ralph-state.json")).unwrap();
    assert!(going.contains("\"iteration\": 4") && going.contains("[1.50]"), "{going}");
    yard.ok(&["doctor", "--repair"]);
    assert!(!yard.store_path().join("sessions/broken").exists());
    assert_eq!(yard.sexton(&["ps"]).stderr, "");
}

#[test]
fn no_session_is_started_where_none_could_be_recorded() {
    let yard = yard();
    let before = bytes_below(&yard.store_path().join("sessions"));
    let refused = yard.sexton(&["run", "-d", "--", "touch", "ran"]);
    assert_eq!(refused.code, 125, "{}", refused.stderr);
    assert!(refused.stderr.contains("an omx store cannot keep"), "{}", refused.stderr);
    assert!(!yard.work_dir().join("ran").exists(), "i1: it ran unrecorded");
    assert_eq!(bytes_below(&yard.store_path().join("sessions")), before);
}

#[test]
fn their_variables_name_the_session_and_the_limit() {
    let yard = yard();
    fs::create_dir(yard.store_path().join("sessions/now")).unwrap();
    let resume = |limit: &str| {
        let mut command = yard.command(&["resume", "--json", "--agent-session", "c"]);
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
