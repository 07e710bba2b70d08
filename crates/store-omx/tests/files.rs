//! Reading of the state directory, what is left unchanged, and the effect of a change on a file.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use pollster::block_on;
use serde_json::json;
use sexton_core::session::LoopState;
use sexton_core::store::{Access, Damage, update_session};
use sexton_core::{Batch, Host, Query, Session, Status, StoreError};

mod support;
use support::{TestEnv, agent, driving, id, now};

fn ids(test_env: &TestEnv) -> Vec<String> {
    test_env.list().sessions.into_iter().map(|session| session.id.to_string()).collect()
}

#[test]
fn a_fixture_with_unknown_fields_is_read() {
    let test_env = TestEnv::fixture();
    let listing = test_env.list();
    assert_eq!(listing.damage, Vec::<Damage>::new());
    // If the file does not record it, the start time of a loop is the modification time.
    let [completed, running] = &listing.sessions[..] else { panic!("{listing:?}") };
    assert_eq!((running.id.as_str(), running.status), ("omx-1768000000000-a1", Status::Running));
    let agent = running.agent.as_ref().unwrap();
    assert_eq!(agent.session_id.as_deref(), Some("019bd3b0-1111-7c30-9e0a-0d3c2b1f6a55"));
    assert_eq!((agent.thread_id.as_deref(), agent.kind.as_deref()), (Some("thread-1"), Some("codex")));
    let state = running.loop_state.as_ref().unwrap();
    assert_eq!(
        (state.iteration, state.max_iterations, state.pane.as_deref()),
        (Some(7), Some(50), Some("%3"))
    );
    // With an offset, and without one.
    assert_eq!(state.updated_at, Some("2026-01-10T00:30:00Z".parse().unwrap()));
    assert_eq!(state.last_turn_at, Some("2026-01-10T00:31:00Z".parse().unwrap()));
    assert_eq!((state.phase.as_deref(), &state.extra["ratio"]), (Some("executing"), &json!(1.5)));
    assert_eq!(running.created_at, "2026-01-10T00:00:00Z".parse().unwrap());
    // A member with the wrong type for its field is ignored and is not damage.
    assert_eq!((completed.id.as_str(), completed.status), ("omx-1768000500000-b2", Status::Completed));
    let state = completed.loop_state.as_ref().unwrap();
    assert_eq!((state.iteration, state.updated_at), (None, None));
    assert_eq!(completed.finished_at, Some("2026-01-09T12:00:00Z".parse().unwrap()));
}

#[test]
fn records_from_files_round_trip_as_json() {
    for session in TestEnv::fixture().list().sessions {
        assert_eq!(Session::from_json(&session.to_json()).unwrap(), session);
    }
}

/// Returns the removed lines and the added lines.
fn diff(before: &str, after: &str) -> String {
    let (mut before, mut after): (Vec<_>, Vec<_>) = (before.lines().collect(), after.lines().collect());
    for line in before.clone() {
        if let Some(at) = after.iter().position(|other| *other == line) {
            after.remove(at);
            before.retain(|other| *other != line);
        }
    }
    let gone = before.iter().map(|line| format!("- {line}\n"));
    gone.chain(after.iter().map(|line| format!("+ {line}\n"))).collect()
}

#[test]
fn a_transfer_changes_only_the_expected_members() {
    let test_env = TestEnv::fixture();
    let before = test_env.files();
    let claim = agent(Some("019bd3b0-1111-7c30-9e0a-0d3c2b1f6a55"), None);
    assert!(test_env.resume("omx-1768001000000-c3", &claim).resumed);
    let after = test_env.files();
    let source = "sessions/omx-1768000000000-a1/ralph-state.json";
    let text = |files: &std::collections::BTreeMap<String, Vec<u8>>, path: &str| {
        String::from_utf8(files.get(path).cloned().unwrap_or_default()).unwrap()
    };
    let mut report = String::new();
    for path in after.keys().filter(|path| after.get(*path) != before.get(*path)) {
        // The new file is a copy of the old one and is compared with it.
        report += &format!("{path}, against {source}\n{}", diff(&text(&before, source), &text(&after, path)));
    }
    assert!(before.keys().all(|path| after.contains_key(path)), "a file was deleted");
    insta::assert_snapshot!(report);
}

#[test]
fn changing_one_member_changes_no_other_byte() {
    let test_env = TestEnv::fixture();
    let path = test_env.state_file("omx-1768000000000-a1");
    let before = fs::read_to_string(&path).unwrap();
    let change = |session: &mut Session| {
        session.loop_state.as_mut().unwrap().iteration = Some(8);
        true
    };
    block_on(update_session(test_env.writer().as_ref(), &id("omx-1768000000000-a1"), change)).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), before.replace("\"iteration\": 7", "\"iteration\": 8"));
    let nothing = |session: &mut Session| {
        session.loop_state.as_mut().unwrap().active = false;
        true
    };
    let compact = test_env.state_file("omx-1768000500000-b2");
    let before = fs::read(&compact).unwrap();
    block_on(update_session(test_env.writer().as_ref(), &id("omx-1768000500000-b2"), nothing)).unwrap();
    assert_eq!(fs::read(&compact).unwrap(), before, "it was inactive already");
}

#[test]
fn a_file_keeps_its_permissions_and_a_new_one_is_private() {
    let test_env = TestEnv::new();
    test_env.write("old", &driving("c"));
    test_env.enter("now");
    fs::set_permissions(test_env.state_file("old"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(test_env.resume("now", &agent(Some("c"), None)).resumed);
    let mode = |session| fs::metadata(test_env.state_file(session)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("old"), mode("now")), (0o644, 0o600));
}

#[test]
fn directories_with_invalid_ids_are_ignored() {
    let test_env = TestEnv::new();
    test_env.write("good", &driving("c"));
    let too_long = "x".repeat(65);
    for name in ["with blank", ".hidden", "dots.in", "ünïcode", "-", too_long.as_str()] {
        test_env.write(name, &driving("c"));
    }
    fs::write(test_env.path().join("sessions/file"), "not a directory").unwrap();
    let mut found = ids(&test_env);
    found.sort();
    assert_eq!(found, ["-", "good"]);
    assert_eq!(test_env.list().damage, Vec::<Damage>::new());
    test_env.enter("now");
    let before = test_env.files();
    fs::remove_file(test_env.state_file("-")).unwrap();
    assert!(test_env.resume("now", &agent(Some("c"), None)).resumed, "only one has the name of a session");
    for name in ["with blank", ".hidden", "dots.in", "ünïcode"] {
        let path = format!("sessions/{name}/ralph-state.json");
        assert_eq!(test_env.files().get(&path), before.get(&path), "{name}");
    }
}

#[test]
fn i5_symlinks_are_not_followed() {
    let test_env = TestEnv::new();
    test_env.write("good", &driving("c"));
    let outside = test_env.elsewhere("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("ralph-state.json"), driving("c").to_string()).unwrap();
    symlink(&outside, test_env.path().join("sessions/folder")).unwrap();
    test_env.enter("file");
    symlink(outside.join("ralph-state.json"), test_env.state_file("file")).unwrap();
    test_env.enter("dangling");
    symlink(test_env.elsewhere("nothing"), test_env.state_file("dangling")).unwrap();
    let store = test_env.writer();
    assert_eq!(ids(&test_env), ["good"]);
    assert_eq!(test_env.list().damage.len(), 3, "{:?}", test_env.list().damage);
    for linked in ["folder", "file", "dangling"] {
        let error = block_on(store.load(&id(linked))).unwrap_err();
        assert!(matches!(error, StoreError::DamagedRecord { .. }), "{error:?}");
        let mut session = Session::new(id(linked), Host::unnamed(), now());
        session.status = Status::Running;
        session.loop_state = Some(LoopState { active: true, ..LoopState::default() });
        for batch in [Batch::new().insert(session.clone()), Batch::new().remove(&session)] {
            let error = block_on(store.commit(batch)).unwrap_err();
            assert!(matches!(error, StoreError::DamagedRecord { .. }), "{error:?}");
        }
    }
    _ = block_on(store.repair(now())).unwrap();
    assert_eq!(fs::read_to_string(outside.join("ralph-state.json")).unwrap(), driving("c").to_string());
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
    assert!(!test_env.elsewhere("nothing").exists());
    assert!(test_env.path().join("sessions/folder").is_symlink() && test_env.state_file("file").is_symlink());
}

#[test]
fn i5_a_sessions_directory_that_is_a_symlink_is_rejected() {
    let test_env = TestEnv::new();
    fs::remove_dir(test_env.path().join("sessions")).unwrap();
    fs::create_dir(test_env.elsewhere("outside")).unwrap();
    symlink(test_env.elsewhere("outside"), test_env.path().join("sessions")).unwrap();
    for access in [Access::Read, Access::Write] {
        let error = test_env.open(access).err().unwrap();
        assert!(matches!(error, StoreError::NotAStore { .. }), "{error:?}");
    }
    assert_eq!(fs::read_dir(test_env.elsewhere("outside")).unwrap().count(), 0);
}

#[test]
fn i6_an_unparsable_file_does_not_affect_other_sessions() {
    let test_env = TestEnv::new();
    test_env.write("old", &driving("c"));
    test_env.enter("now");
    test_env.enter("broken");
    fs::write(test_env.state_file("broken"), "{\"active\": tru").unwrap();
    let store = test_env.writer();
    let damage = store.damage();
    assert!(damage.len() == 1 && damage[0].harmless, "{damage:?}");
    assert_eq!(damage[0].place, "session broken");
    assert!(test_env.resume("now", &agent(Some("c"), None)).resumed);
    assert_eq!(fs::read_to_string(test_env.state_file("broken")).unwrap(), "{\"active\": tru");
    let listing = block_on(store.list(&Query::active())).unwrap();
    assert_eq!((listing.sessions.len(), listing.damage.len()), (1, 1));
}

#[test]
fn a_session_without_a_loop_can_be_loaded_but_is_not_listed() {
    let test_env = TestEnv::new();
    test_env.enter("quiet");
    let session = block_on(test_env.reader().load(&id("quiet"))).unwrap().unwrap();
    assert_eq!((session.loop_state, session.status), (None, Status::Starting));
    assert_eq!(block_on(test_env.reader().load(&id("missing"))).unwrap(), None);
    assert_eq!(ids(&test_env), [""; 0]);
}

#[test]
fn unsupported_fields_are_rejected_and_nothing_is_written() {
    let test_env = TestEnv::new();
    test_env.write("old", &driving("c"));
    let before = test_env.files();
    let store = test_env.writer();
    let old = block_on(store.load(&id("old"))).unwrap().unwrap();
    let named = Session { name: Some("red".to_owned()), ..old.clone() };
    let bare = Session { loop_state: None, ..old.clone() };
    let late = Session { status: Status::TimedOut, ..old };
    let refusals = [named, bare, late]
        .map(|session| block_on(store.commit(Batch::new().replace(session))).unwrap_err().to_string());
    insta::assert_snapshot!(refusals.join("\n"), @r"
    an omx store cannot keep `name` of session old
    an omx store cannot keep session old without its loop
    an omx store cannot keep the status `timed_out` of session old
    ");
    assert_eq!(test_env.files(), before);
}
