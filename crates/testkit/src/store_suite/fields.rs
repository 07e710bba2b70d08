//! Nothing of a record is lost or changed on its way through a store.

use serde_json::{Value, json};

use super::Subject;
use super::needs::{COMMANDS, EVERY_FIELD, UNKNOWN_FIELDS};
use super::samples::{everything, id, raw, running};
use super::site::Site;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("fields":
    every_field_survives_and_so_do_those_of_tomorrow: [EVERY_FIELD],
    unknown_fields_survive_a_change_by_somebody_who_does_not_know_them: [UNKNOWN_FIELDS],
    arguments_that_are_not_utf8_come_back_byte_for_byte: [COMMANDS],
    a_large_record_is_kept_whole: [UNKNOWN_FIELDS],
    ids_of_others_are_kept_as_they_are,
);

fn every_field_survives_and_so_do_those_of_tomorrow(subject: &Subject) {
    let site = Site::new(subject);
    let stored = site.writer().insert(everything());
    let loaded = site.reader().require(&stored.id);
    assert_eq!(loaded, stored);
    // The written forms are compared as well: equal values could hide a field that is not written.
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

fn unknown_fields_survive_a_change_by_somebody_who_does_not_know_them(subject: &Subject) {
    let site = Site::new(subject);
    let before = site.writer().insert(everything());
    let store = site.writer();
    let changed = store.update(&before.id, |session| {
        store.mark(session, "T-2");
        true
    });
    let after = site.reader().require(&before.id);
    assert_eq!(after, changed);
    assert_eq!(after.extra.get("from_tomorrow"), before.extra.get("from_tomorrow"));
    assert!(after.extra.contains_key("from_tomorrow"));
    assert_eq!(after.process, before.process);
    assert_eq!(after.loop_state.map(|state| state.extra), before.loop_state.map(|state| state.extra));
}

fn arguments_that_are_not_utf8_come_back_byte_for_byte(subject: &Subject) {
    let site = Site::new(subject);
    let mut session = running("a");
    let every_byte: Vec<u8> = (1..=255).collect();
    session.command = vec![raw(b"agent"), raw(&every_byte), raw(b""), raw(b"\xff\n\r\0")];
    session.cwd = Some(raw(b"/tmp/\xc3\x28"));
    let stored = site.writer().insert(session);
    assert_eq!(site.reader().require(&id("a")), stored);
}

fn a_large_record_is_kept_whole(subject: &Subject) {
    let site = Site::new(subject);
    let mut session = running("large");
    session.extra.insert("text".to_owned(), json!("x\n\"\\ä".repeat(400_000)));
    let stored = site.writer().insert(session);
    assert_eq!(site.reader().require(&id("large")), stored);
}

fn ids_of_others_are_kept_as_they_are(subject: &Subject) {
    let longest = "x".repeat(64);
    let ids = ["-", "_", "A", "a", "omx-1730000000000-x7", longest.as_str()];
    let site = Site::with(subject, ids.map(running));
    let store = site.reader();
    for text in ids {
        assert_eq!(store.require(&id(text)).id.as_str(), text);
    }
    assert_eq!(store.all().len(), ids.len());
}
