//! `sexton loop`: setting and showing the loop of a session.

#![allow(clippy::unwrap_used, reason = "a failed unwrap fails the test")]

mod support;

use serde_json::{Value, json};
use support::loops::{Loops, ended};
use support::{Ran, stores};

#[test]
fn loop_set_changes_only_the_given_fields() {
    for store in stores() {
        let loops = Loops::on(store);
        loops.insert([ended("abcd")]);
        let test_env = &loops.test_env;
        assert_eq!(test_env.json(&["loop", "show", "abcd"]), Value::Null);
        test_env.ok(&[
            "loop",
            "set",
            "abcd",
            "active=true",
            "phase=executing",
            "iteration=3",
            "note=half way",
            "deep={\"a\":[1]}",
        ]);
        let state = test_env.json(&["loop", "show", "abcd"]);
        assert_eq!((&state["active"], &state["iteration"]), (&json!(true), &json!(3)));
        assert_eq!((&state["note"], &state["deep"]), (&json!("half way"), &json!({"a": [1]})));
        assert!(state["updated_at"].is_string());
        let after = test_env.json(&[
            "loop",
            "set",
            "abcd",
            "note=null",
            "max_iterations=9",
            "updated_at=2026-01-02T05:04:05+02:00",
        ]);
        assert_eq!(after, test_env.json(&["loop", "show", "abcd"]));
        assert_eq!((after.get("note"), &after["phase"]), (None, &json!("executing")));
        assert_eq!(after["updated_at"], "2026-01-02T03:04:05Z");
        test_env.ok(&["loop", "set", "abcd", "pane=%3", "last_turn_at=2026-01-02T03:04:05"]);
        let state = loops.state("abcd");
        assert!(state.pane_set_at.is_some() && state.last_turn_at.is_some());
        let shown = test_env.ok(&["loop", "show", "abcd"]);
        assert!(shown.contains("phase  executing") && shown.contains("deep  {\"a\":[1]}"), "{shown}");
    }
}

#[test]
fn an_invalid_value_changes_nothing() {
    let loops = Loops::on(stores()[0]);
    loops.insert([ended("abcd")]);
    let before = loops.records();
    let refused =
        |arguments: &[&str]| -> Ran { loops.test_env.sexton(&[&["loop", "set"], arguments].concat()) };
    for arguments in [
        ["abcd", "phase=x", "iteration=many"].as_slice(),
        &["abcd", "active=1"],
        &["abcd", "updated_at=yesterday"],
        &["abcd", "a/b=1"],
        &["abcd", "plain"],
        &["abcd"],
        &["iteration=1"],
        &[],
    ] {
        let ran = refused(arguments);
        assert_eq!(ran.code, 2, "{arguments:?}: {}", ran.stderr);
    }
    assert_eq!(refused(&["missing", "iteration=1"]).code, 4);
    assert_eq!(loops.test_env.sexton(&["loop", "show", "missing"]).code, 4);
    assert_eq!(loops.records(), before);
}

#[test]
fn inside_a_session_its_own_loop_is_the_default() {
    let loops = Loops::on(stores()[0]);
    loops.insert([ended("abcd"), ended("efgh")]);
    let inside = |arguments: &[&str]| {
        let mut command = loops.test_env.command(arguments);
        Ran::of(&command.env("SEXTON_SESSION_ID", "abcd").output().unwrap())
    };
    assert_eq!(inside(&["loop", "set", "iteration=1"]).code, 0);
    assert_eq!(inside(&["loop", "set", "efgh", "iteration=2"]).code, 0);
    assert_eq!(loops.state("abcd").iteration, Some(1));
    assert_eq!(loops.state("efgh").iteration, Some(2));
    assert!(inside(&["loop", "show"]).stdout.contains("iteration  1"));
}

#[test]
fn an_active_loop_with_a_final_phase_is_a_warning() {
    let loops = Loops::on(stores()[0]);
    loops.insert([ended("abcd")]);
    let ran = loops.test_env.sexton(&["loop", "set", "abcd", "active=true", "phase=complete"]);
    assert_eq!(ran.code, 0);
    assert!(ran.stderr.contains("means that it has ended"), "{}", ran.stderr);
}
