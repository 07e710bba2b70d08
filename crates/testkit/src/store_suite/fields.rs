//! A store does not lose or change any field of a record.

use serde_json::{Value, json};

use super::Subject;
use super::needs::{COMMANDS, EVERY_FIELD, UNKNOWN_FIELDS};
use super::samples::{everything, id, raw, running};
use super::test_env::TestEnv;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("fields":
    known_and_unknown_fields_are_kept: [EVERY_FIELD],
    unknown_fields_survive_an_update: [UNKNOWN_FIELDS],
    non_utf8_arguments_are_kept_byte_for_byte: [COMMANDS],
    large_record_is_kept_unchanged: [UNKNOWN_FIELDS],
    ids_of_other_tools_are_kept_unchanged,
);

fn known_and_unknown_fields_are_kept(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let stored = test_env.writer().insert(everything());
    let loaded = test_env.reader().require(&stored.id);
    assert_eq!(loaded, stored);
    // Also compares the serialized forms, because equal values could hide a field that is not written.
    assert_eq!(loaded.to_json(), stored.to_json());
    let document: Value = serde_json::from_str(&loaded.to_json()).expect("a record is JSON");
    let levels = [
        "",
        "/process",
        "/supervisor",
        "/owner",
        "/cgroup",
        "/ending",
        "/agent",
        "/worktree",
        "/loop",
        "/exit",
        "/recovery",
        "/log",
    ];
    for level in levels {
        assert!(document.pointer(&format!("{level}/from_tomorrow")).is_some(), "lost at `{level}`");
    }
}

fn unknown_fields_survive_an_update(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let before = test_env.writer().insert(everything());
    let store = test_env.writer();
    let changed = store.update(&before.id, |session| {
        store.mark(session, "T-2");
        true
    });
    let after = test_env.reader().require(&before.id);
    assert_eq!(after, changed);
    assert_eq!(after.extra.get("from_tomorrow"), before.extra.get("from_tomorrow"));
    assert!(after.extra.contains_key("from_tomorrow"));
    assert_eq!(after.process, before.process);
    assert_eq!(after.loop_state.map(|state| state.extra), before.loop_state.map(|state| state.extra));
}

fn non_utf8_arguments_are_kept_byte_for_byte(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let mut session = running("a");
    let every_byte: Vec<u8> = (1..=255).collect();
    session.command = vec![raw(b"agent"), raw(&every_byte), raw(b""), raw(b"\xff\n\r\0")];
    session.cwd = Some(raw(b"/tmp/\xc3\x28"));
    let stored = test_env.writer().insert(session);
    assert_eq!(test_env.reader().require(&id("a")), stored);
}

fn large_record_is_kept_unchanged(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let mut session = running("large");
    session.extra.insert("text".to_owned(), json!("x\n\"\\ä".repeat(400_000)));
    let stored = test_env.writer().insert(session);
    assert_eq!(test_env.reader().require(&id("large")), stored);
}

fn ids_of_other_tools_are_kept_unchanged(subject: &Subject) {
    let longest = "x".repeat(64);
    let ids = ["-", "_", "A", "a", "omx-1730000000000-x7", longest.as_str()];
    let test_env = TestEnv::with(subject, ids.map(running));
    let store = test_env.reader();
    for text in ids {
        assert_eq!(store.require(&id(text)).id.as_str(), text);
    }
    assert_eq!(store.all().len(), ids.len());
}
