//! Tests of what a record keeps when it is read and written, and of what is refused.

use serde_json::json;

use super::*;

fn minimal() -> Value {
    json!({
        "schema": 1, "id": "abcd1234abcd1234", "status": "running",
        "host": {"machine_id": "m", "hostname": "h"}, "created_at": "2026-01-02T03:04:05Z",
    })
}

#[test]
fn record_with_only_required_fields_is_read() {
    let session = Session::from_json(&minimal().to_string()).unwrap();
    assert_eq!(session.status, Status::Running);
    assert_eq!(session.on_owner_death, OnOwnerDeath::End);
}

#[test]
fn unknown_fields_survive_at_every_level() {
    let mut document = minimal();
    document["invented"] = json!({"deep": [1, 2.5, null]});
    document["process"] = json!({"pid": 7, "colour": "red"});
    document["worktree"] = json!({"path": "/w", "sparse": true});
    document["loop"] = json!({"active": true, "mood": "good"});
    document["exit"] = json!({"code": 1, "reason": "exited", "core_dumped": false});
    let written: Value =
        serde_json::from_str(&Session::from_json(&document.to_string()).unwrap().to_json()).unwrap();
    for pointer in
        ["/invented/deep/1", "/process/colour", "/worktree/sparse", "/loop/mood", "/exit/core_dumped"]
    {
        assert_eq!(written.pointer(pointer), document.pointer(pointer), "{pointer}");
    }
}

#[test]
fn unknown_number_survives_repeated_round_trips() {
    for number in ["9.705777777777779e78", "9705777777777777777777777777777777777777777.7", "5e-324", "0.1"] {
        let text = minimal().to_string().replacen('{', &format!("{{\"invented\":{number},"), 1);
        let session = Session::from_json(&text).unwrap();
        assert_eq!(Session::from_json(&session.to_json()).unwrap(), session, "{number}");
        assert_eq!(session.extra["invented"].as_f64(), number.parse().ok(), "{number}");
    }
}

#[test]
fn null_fields_are_written() {
    let now = "2026-01-02T03:04:05Z".parse().unwrap();
    let host = Host::new("m", "h");
    let session = Session::new("abcd1234abcd1234".parse().unwrap(), host, now);
    insta::assert_snapshot!(serde_json::to_string_pretty(&session).unwrap());
}

#[test]
fn newer_schema_is_refused_even_if_fields_changed_meaning() {
    let mut document = minimal();
    document["schema"] = json!(2);
    document["status"] = json!("hibernating");
    let error = Session::from_json(&document.to_string()).unwrap_err();
    assert!(matches!(error, RecordError::NewerSchema { found: 2 }), "{error}");
    document["status"] = json!("running");
    let error = Session::from_json(&document.to_string()).unwrap_err();
    assert!(matches!(error, RecordError::NewerSchema { found: 2 }), "{error}");
}

#[test]
fn status_of_newer_version_is_not_damage() {
    let mut document = minimal();
    document["status"] = json!("hibernating");
    let error = Session::from_json(&document.to_string()).unwrap_err();
    assert!(matches!(&error, RecordError::NewerStatus { found } if found == "hibernating"), "{error}");
    assert!(error.is_newer());
    document["status"] = json!(7);
    let error = Session::from_json(&document.to_string()).unwrap_err();
    assert!(!error.is_newer(), "{error}");
}

#[test]
fn first_recorded_end_is_kept() {
    let now: Time = "2026-01-02T03:04:05Z".parse().unwrap();
    let mut session = Session::from_json(&minimal().to_string()).unwrap();
    session.finish(Exit::exited(0), now);
    session.finish(Exit::signalled(9), now);
    assert_eq!(session.status, Status::Completed);
    assert_eq!(session.exit.unwrap().code, Some(0));
}

#[test]
fn status_follows_from_exit() {
    assert_eq!(Exit::exited(0).status(), Status::Completed);
    assert_eq!(Exit::exited(3).status(), Status::Failed);
    assert_eq!(Exit::signalled(15).status(), Status::Failed);
    let exit = |reason| Exit { code: None, signal: None, reason, extra: Map::new() };
    assert_eq!(exit(ExitReason::Timeout).status(), Status::TimedOut);
    assert_eq!(exit(ExitReason::Stopped).status(), Status::Stopped);
    assert_eq!(exit(ExitReason::OwnerDead).status(), Status::Orphaned);
    assert_eq!(exit(ExitReason::NeverStarted).status(), Status::Failed);
}
