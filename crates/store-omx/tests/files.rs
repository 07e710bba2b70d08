//! What is read of their directory, what is left alone, and what a file is after it was changed.

use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

use pollster::block_on;
use serde_json::json;
use sexton_core::session::LoopState;
use sexton_core::store::{Access, Damage, update_session};
use sexton_core::{Batch, Host, Query, Session, Status, StoreError};

mod support;
use support::{Yard, agent, driving, id, now};

fn ids(yard: &Yard) -> Vec<String> {
    yard.list().sessions.into_iter().map(|session| session.id.to_string()).collect()
}

#[test]
fn a_fixture_with_unknown_fields_is_read() {
    let yard = Yard::fixture();
    let listing = yard.list();
    assert_eq!(listing.damage, Vec::<Damage>::new());
    // Without a word of theirs, a loop began when its file was written.
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
    // A member of another type than its field says nothing, and is no damage.
    assert_eq!((completed.id.as_str(), completed.status), ("omx-1768000500000-b2", Status::Completed));
    let state = completed.loop_state.as_ref().unwrap();
    assert_eq!((state.iteration, state.updated_at), (None, None));
    assert_eq!(completed.finished_at, Some("2026-01-09T12:00:00Z".parse().unwrap()));
}

#[test]
fn a_record_with_every_field_of_a_file_is_shown_and_read_as_a_record() {
    for session in Yard::fixture().list().sessions {
        assert_eq!(Session::from_json(&session.to_json()).unwrap(), session);
    }
}

/// The lines that went and the lines that came.
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
fn a_transfer_changes_what_was_meant_to_change_and_nothing_else() {
    let yard = Yard::fixture();
    let before = yard.files();
    let claim = agent(Some("019bd3b0-1111-7c30-9e0a-0d3c2b1f6a55"), None);
    assert!(yard.resume("omx-1768001000000-c3", &claim).resumed);
    let after = yard.files();
    let source = "sessions/omx-1768000000000-a1/ralph-state.json";
    let text = |files: &std::collections::BTreeMap<String, Vec<u8>>, path: &str| {
        String::from_utf8(files.get(path).cloned().unwrap_or_default()).unwrap()
    };
    let mut report = String::new();
    for path in after.keys().filter(|path| after.get(*path) != before.get(*path)) {
        // The new file is the old one's, and is compared with that.
        report += &format!("{path}, against {source}\n{}", diff(&text(&before, source), &text(&after, path)));
    }
    assert!(before.keys().all(|path| after.contains_key(path)), "a file is gone");
    insta::assert_snapshot!(report);
}

#[test]
fn a_change_of_one_member_changes_no_other_byte() {
    let yard = Yard::fixture();
    let path = yard.state_file("omx-1768000000000-a1");
    let before = fs::read_to_string(&path).unwrap();
    let change = |session: &mut Session| {
        session.loop_state.as_mut().unwrap().iteration = Some(8);
        true
    };
    block_on(update_session(yard.writer().as_ref(), &id("omx-1768000000000-a1"), change)).unwrap();
    assert_eq!(fs::read_to_string(&path).unwrap(), before.replace("\"iteration\": 7", "\"iteration\": 8"));
    let nothing = |session: &mut Session| {
        session.loop_state.as_mut().unwrap().active = false;
        true
    };
    let compact = yard.state_file("omx-1768000500000-b2");
    let before = fs::read(&compact).unwrap();
    block_on(update_session(yard.writer().as_ref(), &id("omx-1768000500000-b2"), nothing)).unwrap();
    assert_eq!(fs::read(&compact).unwrap(), before, "it said so already");
}

#[test]
fn a_file_keeps_its_permissions_and_a_new_one_is_private() {
    let yard = Yard::new();
    yard.write("old", &driving("c"));
    yard.enter("now");
    fs::set_permissions(yard.state_file("old"), fs::Permissions::from_mode(0o644)).unwrap();
    assert!(yard.resume("now", &agent(Some("c"), None)).resumed);
    let mode = |session| fs::metadata(yard.state_file(session)).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode("old"), mode("now")), (0o644, 0o600));
}

#[test]
fn other_names_are_no_sessions() {
    let yard = Yard::new();
    yard.write("good", &driving("c"));
    let too_long = "x".repeat(65);
    for name in ["with blank", ".hidden", "dots.in", "ünïcode", "-", too_long.as_str()] {
        yard.write(name, &driving("c"));
    }
    fs::write(yard.path().join("sessions/file"), "not a directory").unwrap();
    let mut found = ids(&yard);
    found.sort();
    assert_eq!(found, ["-", "good"]);
    assert_eq!(yard.list().damage, Vec::<Damage>::new());
    yard.enter("now");
    let before = yard.files();
    fs::remove_file(yard.state_file("-")).unwrap();
    assert!(yard.resume("now", &agent(Some("c"), None)).resumed, "only one has the name of a session");
    for name in ["with blank", ".hidden", "dots.in", "ünïcode"] {
        let path = format!("sessions/{name}/ralph-state.json");
        assert_eq!(yard.files().get(&path), before.get(&path), "{name}");
    }
}

#[test]
fn i5_no_link_leads_out_of_the_directory() {
    let yard = Yard::new();
    yard.write("good", &driving("c"));
    let outside = yard.elsewhere("outside");
    fs::create_dir(&outside).unwrap();
    fs::write(outside.join("ralph-state.json"), driving("c").to_string()).unwrap();
    symlink(&outside, yard.path().join("sessions/folder")).unwrap();
    yard.enter("file");
    symlink(outside.join("ralph-state.json"), yard.state_file("file")).unwrap();
    yard.enter("dangling");
    symlink(yard.elsewhere("nothing"), yard.state_file("dangling")).unwrap();
    let store = yard.writer();
    assert_eq!(ids(&yard), ["good"]);
    assert_eq!(yard.list().damage.len(), 3, "{:?}", yard.list().damage);
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
    assert!(!yard.elsewhere("nothing").exists());
    assert!(yard.path().join("sessions/folder").is_symlink() && yard.state_file("file").is_symlink());
}

#[test]
fn i5_a_directory_of_sessions_that_is_a_link_is_refused() {
    let yard = Yard::new();
    fs::remove_dir(yard.path().join("sessions")).unwrap();
    fs::create_dir(yard.elsewhere("outside")).unwrap();
    symlink(yard.elsewhere("outside"), yard.path().join("sessions")).unwrap();
    for access in [Access::Read, Access::Write] {
        let error = yard.open(access).err().unwrap();
        assert!(matches!(error, StoreError::NotAStore { .. }), "{error:?}");
    }
    assert_eq!(fs::read_dir(yard.elsewhere("outside")).unwrap().count(), 0);
}

#[test]
fn i6_a_file_that_cannot_be_parsed_concerns_nobody_else() {
    let yard = Yard::new();
    yard.write("old", &driving("c"));
    yard.enter("now");
    yard.enter("broken");
    fs::write(yard.state_file("broken"), "{\"active\": tru").unwrap();
    let store = yard.writer();
    let damage = store.damage();
    assert!(damage.len() == 1 && damage[0].harmless, "{damage:?}");
    assert_eq!(damage[0].place, "session broken");
    assert!(yard.resume("now", &agent(Some("c"), None)).resumed);
    assert_eq!(fs::read_to_string(yard.state_file("broken")).unwrap(), "{\"active\": tru");
    let listing = block_on(store.list(&Query::active())).unwrap();
    assert_eq!((listing.sessions.len(), listing.damage.len()), (1, 1));
}

#[test]
fn a_session_without_a_loop_is_there_and_not_listed() {
    let yard = Yard::new();
    yard.enter("quiet");
    let session = block_on(yard.reader().load(&id("quiet"))).unwrap().unwrap();
    assert_eq!((session.loop_state, session.status), (None, Status::Starting));
    assert_eq!(block_on(yard.reader().load(&id("nobody"))).unwrap(), None);
    assert_eq!(ids(&yard), [""; 0]);
}

#[test]
fn what_has_no_place_is_refused_and_nothing_is_written() {
    let yard = Yard::new();
    yard.write("old", &driving("c"));
    let before = yard.files();
    let store = yard.writer();
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
    assert_eq!(yard.files(), before);
}
