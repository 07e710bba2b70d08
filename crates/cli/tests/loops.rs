//! `sexton loop`: what a session's loop is told, and what it says.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod support;

use serde_json::{Value, json};
use support::loops::{Loops, ended};
use support::{Ran, stores};

#[test]
fn what_is_set_is_shown_and_what_is_not_stays() {
    for store in stores() {
        let loops = Loops::on(store);
        loops.insert([ended("abcd")]);
        let yard = &loops.yard;
        assert_eq!(yard.json(&["loop", "show", "abcd"]), Value::Null);
        yard.ok(&[
            "loop",
            "set",
            "abcd",
            "active=true",
            "phase=executing",
            "iteration=3",
            "note=half way",
            "deep={\"a\":[1]}",
        ]);
        let state = yard.json(&["loop", "show", "abcd"]);
        assert_eq!((&state["active"], &state["iteration"]), (&json!(true), &json!(3)));
        assert_eq!((&state["note"], &state["deep"]), (&json!("half way"), &json!({"a": [1]})));
        assert!(state["updated_at"].is_string());
        let after = yard.json(&[
            "loop",
            "set",
            "abcd",
            "note=null",
            "max_iterations=9",
            "updated_at=2026-01-02T05:04:05+02:00",
        ]);
        assert_eq!(after, yard.json(&["loop", "show", "abcd"]));
        assert_eq!((after.get("note"), &after["phase"]), (None, &json!("executing")));
        assert_eq!(after["updated_at"], "2026-01-02T03:04:05Z");
        yard.ok(&["loop", "set", "abcd", "pane=%3", "last_turn_at=2026-01-02T03:04:05"]);
        let state = loops.state("abcd");
        assert!(state.pane_set_at.is_some() && state.last_turn_at.is_some());
        let shown = yard.ok(&["loop", "show", "abcd"]);
        assert!(shown.contains("phase  executing") && shown.contains("deep  {\"a\":[1]}"), "{shown}");
    }
}

#[test]
fn a_value_that_makes_no_sense_changes_nothing() {
    let loops = Loops::on(stores()[0]);
    loops.insert([ended("abcd")]);
    let before = loops.records();
    let refused = |arguments: &[&str]| -> Ran { loops.yard.sexton(&[&["loop", "set"], arguments].concat()) };
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
    assert_eq!(refused(&["nobody", "iteration=1"]).code, 4);
    assert_eq!(loops.yard.sexton(&["loop", "show", "nobody"]).code, 4);
    assert_eq!(loops.records(), before);
}

#[test]
fn inside_a_session_its_own_loop_is_meant() {
    let loops = Loops::on(stores()[0]);
    loops.insert([ended("abcd"), ended("efgh")]);
    let inside = |arguments: &[&str]| {
        let mut command = loops.yard.command(arguments);
        Ran::of(&command.env("SEXTON_SESSION_ID", "abcd").output().unwrap())
    };
    assert_eq!(inside(&["loop", "set", "iteration=1"]).code, 0);
    assert_eq!(inside(&["loop", "set", "efgh", "iteration=2"]).code, 0);
    assert_eq!(loops.state("abcd").iteration, Some(1));
    assert_eq!(loops.state("efgh").iteration, Some(2));
    assert!(inside(&["loop", "show"]).stdout.contains("iteration  1"));
}

#[test]
fn an_active_loop_that_is_over_is_remarked_upon() {
    let loops = Loops::on(stores()[0]);
    loops.insert([ended("abcd")]);
    let ran = loops.yard.sexton(&["loop", "set", "abcd", "active=true", "phase=complete"]);
    assert_eq!(ran.code, 0);
    assert!(ran.stderr.contains("means that it does not go on"), "{}", ran.stderr);
}
