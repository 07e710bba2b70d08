//! Effects on the other tool's file: bytes, layouts, locks, and every kind of damage.

#![allow(clippy::unwrap_used, reason = "a test may panic")]

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use pollster::block_on;
use serde_json::{Value, json};
use sexton_core::plugin::StoreOptions;
use sexton_core::session::Exit;
use sexton_core::store::{Access, Durability};
use sexton_core::{Batch, Query, Session, Status, Store, StoreError, Time};
use sexton_durable::FileLock;
use tempfile::TempDir;

struct Place {
    directory: TempDir,
}

impl Place {
    fn with(text: impl AsRef<[u8]>) -> Place {
        let place = Place { directory: tempfile::tempdir().unwrap() };
        fs::write(place.path(), text).unwrap();
        place
    }

    fn path(&self) -> PathBuf {
        self.directory.path().join("dispatch-sessions.json")
    }

    fn open(&self, access: Access) -> Result<Box<dyn Store>, StoreError> {
        let options = StoreOptions::new(self.path(), access, Durability::Process);
        sexton_store_tf::open(&options)
    }

    fn store(&self) -> Box<dyn Store> {
        self.open(Access::Write).unwrap()
    }

    fn text(&self) -> String {
        fs::read_to_string(self.path()).unwrap()
    }

    fn load(&self, id: &str) -> Session {
        block_on(self.store().load(&id.parse().unwrap())).unwrap().unwrap()
    }

    /// Records that a session exited.
    fn finish(&self, id: &str, exit: Exit) {
        let mut session = self.load(id);
        session.finish(exit, now());
        block_on(self.store().commit(Batch::new().replace(session))).unwrap();
    }
}

fn now() -> Time {
    "2026-02-03T04:05:06.789Z".parse().unwrap()
}

fn entry(id: &str, more: &str) -> String {
    format!(
        "{{\"session_id\": \"{id}\", \"pid\": 77, \"status\": \"running\", \
         \"started_at\": \"2026-01-02T03:04:05Z\"{more}}}"
    )
}

fn file(entries: &[String]) -> String {
    format!("{{\"version\": 1, \"sessions\": [{}]}}", entries.join(", "))
}

/// Returns the text without the value of `last_updated`, which is the time of the test.
fn stable(text: &str) -> String {
    let (before, after) = text.split_once("\"last_updated\": \"").unwrap();
    format!("{before}\"last_updated\": \"NOW{}", &after[after.find('"').unwrap()..])
}

#[test]
fn changing_one_entry_keeps_all_other_bytes() {
    let odd = "{\"session_id\":\"b\",  \"x\": 1.50e2, \"status\":\"failed\",\n\"started_at\":\"2026-01-02\\u005403:04:05\"}";
    let place = Place::with(format!(
        "{{\n    \"zeta\": [1,  2],\n    \"version\": 1,\n    \"sessions\": [\n        {},\n        {odd}\n    ],\n    \"alpha\": null\n}}",
        entry("a", ", \"big\": 18446744073709551616, \"lone\": \"\\ud800\"")
    ));
    place.finish("a", Exit::exited(7));
    let expected = format!(
        "{{\n    \"zeta\": [1,  2],\n    \"version\": 1,\n    \"sessions\": [\n        {{\n            \
         \"session_id\": \"a\",\n            \"pid\": 77,\n            \"status\": \"failed\",\n            \
         \"started_at\": \"2026-01-02T03:04:05Z\",\n            \"big\": 18446744073709551616,\n            \
         \"lone\": \"\\ud800\",\n            \"completed_at\": \"2026-02-03T04:05:06.789000+00:00\",\n            \
         \"return_code\": 7\n        }},\n        {odd}\n    ],\n    \"alpha\": null,\n    \"last_updated\": \"NOW\"\n}}\n"
    );
    assert_eq!(stable(&place.text()), expected);
}

#[test]
fn the_layout_and_the_byte_order_mark_are_kept() {
    let place = Place::with(format!("\u{feff}{}", file(&[entry("a", "")])));
    place.finish("a", Exit::signalled(9));
    let text = place.text();
    assert!(text.starts_with("\u{feff}{\"version\": 1, \"sessions\": [{\"session_id\": \"a\""), "{text}");
    assert!(text.contains("\"return_code\": -9") && !text.contains('\n'), "{text}");
    assert_eq!(place.load("a").exit.unwrap().signal, Some(9));
}

#[test]
fn a_new_file_has_the_layout_of_the_other_tool() {
    let place = Place { directory: tempfile::tempdir().unwrap() };
    let donor = Place::with(file(&[entry("a", ", \"ticket_id\": \"T-1\"")]));
    let session = donor.load("a");
    let session = place.store().fit(&session).unwrap().session;
    block_on(place.store().commit(Batch::new().insert(session))).unwrap();
    assert_eq!(
        stable(&place.text()),
        "{\n  \"version\": 1,\n  \"sessions\": [\n    {\n      \"session_id\": \"a\",\n      \"ticket_id\": \"T-1\",\n      \
         \"pid\": 77,\n      \"process_start_time\": null,\n      \"started_at\": \"2026-01-02T03:04:05.000000+00:00\",\n      \
         \"worktree_path\": null,\n      \"status\": \"running\",\n      \"completed_at\": null,\n      \
         \"return_code\": null\n    }\n  ],\n  \"last_updated\": \"NOW\"\n}\n"
    );
}

#[test]
fn a_commit_without_changes_writes_nothing() {
    let place = Place::with(file(&[entry("a", "")]));
    let before = (place.text(), fs::metadata(place.path()).unwrap().modified().unwrap());
    let mut session = place.load("a");
    session.status = Status::CleanupFailed;
    session.exit = Some(Exit::exited(1));
    session.finished_at = Some(now());
    block_on(place.store().commit(Batch::new().replace(session))).unwrap();
    assert_eq!((place.text(), fs::metadata(place.path()).unwrap().modified().unwrap()), before);
    assert_eq!(place.load("a").status, Status::Running);
}

#[test]
fn all_time_notations_are_read_and_naive_times_are_utc() {
    for (text, utc) in [
        ("2026-01-02T03:04:05+02:00", "2026-01-02T01:04:05Z"),
        ("2026-01-02T03:04:05.123456", "2026-01-02T03:04:05.123456Z"),
        ("2026-01-02 03:04:05", "2026-01-02T03:04:05Z"),
        ("2026-01-02T03:04:05-11:30", "2026-01-02T14:34:05Z"),
    ] {
        let place = Place::with(file(&[entry("a", "").replace("2026-01-02T03:04:05Z", text)]));
        assert_eq!(place.load("a").started_at, Some(utc.parse().unwrap()), "{text}");
        place.finish("a", Exit::exited(0));
        assert!(place.text().contains(&format!("\"started_at\": \"{text}\"")), "{}", place.text());
    }
}

/// Asserts that a file is readable around its damage and rejects every write without changing a byte.
fn require_damaged(text: &[u8], readable: &[&str], what: &str) {
    let place = Place::with(text);
    let store = place.store();
    assert!(store.damage().iter().any(|damage| !damage.harmless), "{what}: {:?}", store.damage());
    let listing = block_on(store.list(&Query::all())).unwrap();
    let mut ids: Vec<_> = listing.sessions.iter().map(|session| session.id.to_string()).collect();
    ids.sort();
    assert_eq!(ids, readable, "{what}");
    assert!(!listing.damage.is_empty(), "{what}");
    assert!(
        !matches!(block_on(store.load(&"lost".parse().unwrap())), Ok(None)),
        "{what}: unknown is not absent"
    );
    let donor = Place::with(file(&[entry("new", "")])).load("new");
    let error = block_on(store.commit(Batch::new().insert(donor))).unwrap_err();
    assert!(matches!(error, StoreError::Damaged { .. }), "{what}: {error:?}");
    assert_eq!(fs::read(place.path()).unwrap(), text, "{what}");
    let report = block_on(store.repair(now())).unwrap();
    assert_eq!(report.kept, readable.len() as u64, "{what}");
    assert_eq!(fs::read(report.quarantine.unwrap()).unwrap(), text, "{what}: the damaged file is not kept");
    let store = place.store();
    assert_eq!(
        (store.damage().len(), block_on(store.list(&Query::all())).unwrap().sessions.len()),
        (0, readable.len())
    );
}

#[test]
fn i6_an_incomplete_file_gives_its_intact_entries_and_is_not_changed() {
    let whole = file(&[entry("a", ""), entry("b", ""), entry("c", "")]);
    let second = whole.find("\"b\"").unwrap();
    let third = whole.find("\"c\"").unwrap();
    require_damaged(&whole.as_bytes()[..third + 1], &["a", "b"], "cut off in the third entry");
    require_damaged(&whole.as_bytes()[..second + 1], &["a"], "cut off in the second entry");
    require_damaged(&whole.as_bytes()[..whole.len() - 1], &["a", "b", "c"], "without its last byte");
    require_damaged(b"", &[], "nothing at all");
    require_damaged(b"\n", &[], "a line break");
    let longer = format!("{whole}{}", &whole[second..]);
    require_damaged(longer.as_bytes(), &["a", "b", "c"], "a shorter file written over a longer one");
    let mut bytes = whole.clone().into_bytes();
    bytes[second + 1] = 0xff;
    require_damaged(&bytes, &["a"], "bytes that are no text");
}

#[test]
fn i6_invalid_entries_are_damage_and_the_others_stay_readable() {
    let bad = [
        ("null", "not an object"),
        ("{\"session_id\": 7}", "an id that is a number"),
        (&entry("lost", "").replace("running", "paused"), "an unknown status"),
        (&entry("lost", "").replace("77", "0"), "the pid of a group"),
        (&entry("lost", "").replace("77", "-1"), "the pid of all processes"),
        (&entry("lost", "").replace("77", "\"77\""), "a pid that is a text"),
        (&entry("lost", "").replace("2026-01-02T03:04:05Z", "yesterday"), "an invalid time"),
        (&entry("lost", ", \"pid\": 78"), "a field twice"),
    ];
    for (bad, what) in bad {
        require_damaged(
            file(&[entry("a", ""), bad.to_owned(), entry("b", "")]).as_bytes(),
            &["a", "b"],
            what,
        );
    }
    let duplicates =
        file(&[entry("lost", ""), entry("a", ""), entry("lost", ", \"x\": 1"), entry("lost", "")]);
    require_damaged(duplicates.as_bytes(), &["a"], "three entries of one session");
    require_damaged(b"{\"version\": 1}", &[], "no sessions");
    require_damaged(b"{\"version\": \"1\", \"sessions\": []}", &[], "a version that is a text");
}

#[test]
fn an_unusable_entry_is_left_unchanged_and_the_file_can_be_written() {
    let strange = [
        entry("of/another\\u0000kind", ""),
        entry(&"x".repeat(65), ""),
        entry("no-pid", "").replace("77", "null"),
        entry("no-path", ", \"worktree_path\": \"\\ud800\""),
    ];
    for strange in strange {
        let place = Place::with(file(&[strange.clone(), entry("a", "")]));
        let damage = place.store().damage();
        assert!(damage.len() == 1 && damage[0].harmless, "{damage:?}");
        place.finish("a", Exit::exited(0));
        assert!(place.text().contains(&strange), "{}", place.text());
        assert_eq!(block_on(place.store().repair(now())).unwrap().quarantine, None);
    }
}

#[test]
fn a_file_that_is_too_large_is_not_read_and_not_written() {
    let place = Place::with("{");
    fs::OpenOptions::new().write(true).open(place.path()).unwrap().set_len(1 << 40).unwrap();
    let store = place.store();
    assert!(store.damage()[0].what.contains("more than the limit"), "{:?}", store.damage());
    assert!(block_on(store.repair(now())).is_err());
    assert_eq!(fs::metadata(place.path()).unwrap().len(), 1 << 40);
}

#[test]
fn a_write_waits_for_the_other_tools_lock_and_reads_its_changes() {
    let place = Place::with(file(&[entry("a", "")]));
    let lock = FileLock::acquire(&place.path().with_extension("lock")).unwrap();
    std::thread::scope(|scope| {
        let store = place.store();
        let session = place.load("a");
        let writer = scope.spawn(move || block_on(store.commit(Batch::new().remove(&session))));
        // The other tool holds the lock and writes another entry, in place.
        fs::write(place.path(), file(&[entry("a", ""), entry("b", "")])).unwrap();
        std::thread::sleep(Duration::from_millis(50));
        assert!(!writer.is_finished(), "it did not wait for the lock");
        drop(lock);
        writer.join().unwrap().unwrap();
    });
    let left = block_on(place.store().list(&Query::all())).unwrap().sessions;
    assert_eq!(left.iter().map(|session| session.id.as_str()).collect::<Vec<_>>(), ["b"]);
}

#[test]
fn a_reader_of_an_incomplete_file_waits_for_the_writer() {
    let whole = file(&[entry("a", ""), entry("b", "")]);
    let place = Place::with(&whole[..whole.len() / 2]);
    let lock = FileLock::acquire(&place.path().with_extension("lock")).unwrap();
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| place.open(Access::Read).map(|store| store.damage().len()));
        std::thread::sleep(Duration::from_millis(50));
        fs::write(place.path(), &whole).unwrap();
        drop(lock);
        assert_eq!(reader.join().unwrap().unwrap(), 0, "an incomplete write was reported as damage");
    });
}

#[test]
fn a_change_by_the_other_tool_after_the_read_is_a_conflict() {
    let place = Place::with(file(&[entry("a", ""), entry("b", "")]));
    let store = place.store();
    let (a, b) = (place.load("a"), place.load("b"));
    fs::write(place.path(), file(&[entry("a", ", \"attempt\": 2"), entry("b", "").replace(", ", ",\n")]))
        .unwrap();
    let error = block_on(store.commit(Batch::new().remove(&a))).unwrap_err();
    assert!(matches!(error, StoreError::Conflict { .. }), "{error:?}");
    // Different spacing is the same content.
    block_on(store.commit(Batch::new().remove(&b))).unwrap();
}

#[test]
fn the_file_keeps_its_permissions_and_a_symlink_stays_a_symlink() {
    let place = Place::with(file(&[entry("a", "")]));
    fs::set_permissions(place.path(), fs::Permissions::from_mode(0o664)).unwrap();
    let link = place.directory.path().join("link.json");
    std::os::unix::fs::symlink(place.path(), &link).unwrap();
    let options = StoreOptions::new(link.clone(), Access::Write, Durability::Power);
    let store = sexton_store_tf::open(&options).unwrap();
    let session = place.load("a");
    block_on(store.commit(Batch::new().remove(&session))).unwrap();
    assert!(link.is_symlink());
    assert_eq!(fs::metadata(place.path()).unwrap().permissions().mode() & 0o777, 0o664);
    let names: Vec<_> =
        fs::read_dir(place.directory.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert_eq!(names.len(), 3, "{names:?}");
}

#[test]
fn i6_a_symlink_that_cannot_be_resolved_is_an_error_and_is_kept() {
    let directory = tempfile::tempdir().unwrap();
    let link = directory.path().join("link.json");
    std::os::unix::fs::symlink(&link, &link).unwrap();
    let options = StoreOptions::new(link.clone(), Access::Write, Durability::Power);
    assert!(sexton_store_tf::open(&options).is_err());
    assert!(link.is_symlink());
}

#[test]
fn unknown_fields_with_names_of_record_fields_round_trip() {
    let place =
        Place::with(file(&[entry("a", ", \"name\": \"x\", \"host\": [1], \"tf:name\": 2, \"schema\": 9")]));
    let session = place.load("a");
    assert_eq!((session.name.as_deref(), session.extra["tf:name"].as_str()), (None, Some("x")));
    let copy = Session::from_json(&session.to_json()).unwrap();
    let again = Place::with(file(&[]));
    let fitted = again.store().fit(&copy).unwrap();
    block_on(again.store().commit(Batch::new().insert(fitted.session))).unwrap();
    let written: Value = serde_json::from_str(&again.text()).unwrap();
    let entry = &written["sessions"][0];
    assert_eq!((&entry["name"], &entry["host"]), (&json!("x"), &json!([1])));
    assert_eq!((&entry["tf:name"], &entry["schema"]), (&json!(2), &json!(9)));
}

#[test]
fn opening_a_directory_is_an_error_with_its_path() {
    let directory = tempfile::tempdir().unwrap();
    for access in [Access::Read, Access::Write] {
        let options = StoreOptions::new(directory.path().to_owned(), access, Durability::Power);
        let error = sexton_store_tf::open(&options).err().unwrap();
        assert!(error.to_string().contains(&Path::display(directory.path()).to_string()), "{error}");
    }
}

#[test]
fn an_entry_with_inconsistent_fields_keeps_its_bytes_if_unchanged() {
    let text = r#"{"version": 1, "sessions": [{"session_id": "d-1", "pid": 7, "status": "running",
        "started_at": "2026-01-02T03:04:05+00:00", "completed_at": "2027-01-02T03:14:05+00:00", "return_code": 0}]}"#;
    let place = Place::with(text);
    let session = place.load("d-1");
    block_on(place.store().commit(Batch::new().replace(session))).unwrap();
    assert_eq!(place.text(), text);
}
