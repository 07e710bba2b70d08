//! Documents: records, exit files, payloads of hooks, and the files of other tools.
//!
//! The first letter selects the format: `r` a record, `e` an exit file, `h` a payload, `t` a
//! dispatch-sessions.json, `o` a ralph-state.json, `i` an intent without its checksum.
#![no_main]

use libfuzzer_sys::fuzz_target;
use serde_json::Value;
use sexton_core::resume::{AgentIdentity, Payload};
use sexton_core::{Session, SessionId, Time};
use sexton_fuzz::split_kind;
use sexton_store_omx::fuzzing as omx;
use sexton_supervise::ExitFile;

fuzz_target!(|input: &[u8]| {
    let Some((kind, input)) = split_kind(input) else { return };
    match kind {
        b'e' => read_exit(input),
        b'h' => read_payload(input),
        b't' => sexton_store_tf::fuzzing::document(input, now()),
        b'o' => omx::state(input, now()),
        b'i' => omx::intent(omx::seal(&String::from_utf8_lossy(input)).as_bytes()),
        _ => read_record(input),
    }
});

/// A record that can be read is written so that it reads the same, with every field that it had.
fn read_record(input: &[u8]) {
    let Ok(text) = str::from_utf8(input) else { return };
    let Ok(session) = Session::from_json(text) else { return };
    require_safe(&session.id);
    let _ = (session.is_settled(), session.finished_before(now()));
    let written = session.to_json();
    assert!(!written.contains('\n'), "a record is one line");
    let again = Session::from_json(&written).unwrap_or_else(|error| panic!("{error}: {written}"));
    assert_eq!(again, session);
    let before = serde_json::from_str(text).expect("valid JSON");
    require_kept(&before, &serde_json::from_str(&written).expect("valid JSON"), "");
}

/// Requires that every value of the first document is in the second.
fn require_kept(before: &Value, after: &Value, place: &str) {
    match (before, after) {
        (Value::Object(fields), Value::Object(kept)) => {
            for (name, value) in fields {
                let kept = kept.get(name).unwrap_or_else(|| panic!("{place}/{name} is lost"));
                require_kept(value, kept, &format!("{place}/{name}"));
            }
        }
        (Value::Array(values), Value::Array(kept)) => {
            assert_eq!(values.len(), kept.len(), "{place}");
            values.iter().zip(kept).for_each(|(value, kept)| require_kept(value, kept, place));
        }
        _ => assert!(is_same(before, after), "{place}: {before} became {after}"),
    }
}

/// A time can be written in several ways, and so can text: as bytes, or plain.
fn is_same(before: &Value, after: &Value) -> bool {
    let time = |value: &Value| value.as_str().and_then(|text| text.parse::<Time>().ok());
    let is_text = |value: &Value| value.is_string() || value.get("bytes").is_some_and(Value::is_string);
    before == after
        || before.is_null() && after == &Value::String("end".to_owned())
        || time(before).is_some() && time(before) == time(after)
        || is_text(before) && is_text(after) && before.is_object()
}

fn read_exit(input: &[u8]) {
    let Ok(exit) = serde_json::from_slice::<ExitFile>(input) else { return };
    require_safe(&exit.session);
    let written = serde_json::to_vec(&exit).expect("an exit has a JSON form");
    assert_eq!(serde_json::from_slice::<ExitFile>(&written).expect("it was written"), exit);
    let host = sexton_core::Host::unnamed();
    let mut session = Session::new(exit.session.clone(), host, now());
    session.status = sexton_core::Status::Running;
    assert!(exit.apply(&mut session), "an exit is recorded");
    let ended = session.clone();
    assert!(!exit.apply(&mut session) && session == ended, "an exit is recorded only once");
}

/// Of an agent's own data, only what can be an id is kept.
fn read_payload(input: &[u8]) {
    let Ok(payload) = Payload::read(input) else { return };
    for id in [&payload.session, &payload.thread].into_iter().flatten() {
        assert!(!id.is_empty() && id.trim() == id, "{id:?}");
    }
    let agent = AgentIdentity::new(payload.session.as_deref(), payload.thread.as_deref());
    for id in [agent.session_id(), agent.thread_id()].into_iter().flatten() {
        require_safe(&id.parse().expect("what is kept is an id"));
    }
}

fn require_safe(id: &SessionId) {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"_-".contains(&byte);
    assert!(
        (1..=64).contains(&id.as_str().len()) && id.as_str().bytes().all(plain),
        "{id:?} is not a file name"
    );
}

fn now() -> Time {
    "2026-11-16T03:15:00Z".parse().expect("a time")
}
