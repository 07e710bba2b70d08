//! Conversion of a state file to a record, and of a record to changes of a state file.
//!
//! Architecture invariant: a member of the file is written only if the record differs from what the file
//! contained when it was read. A time keeps its offset, a number its digits, and a member with the wrong type
//! for its field stays unchanged and is ignored.

use serde_json::{Map, Value};
use sexton_core::session::{Agent, LoopState};
use sexton_core::store::Fitted;
use sexton_core::{Host, Session, SessionId, Status, Time};

use crate::document::Document;
use crate::words::{
    ACTIVE, AGENT_SESSION, AGENT_THREAD, COMPLETED_AT, ITERATION, LAST_TURN_AT, MAX_ITERATIONS, PANE,
    PANE_SET_AT, PHASE, STARTED_AT, UPDATED_AT, find_text, is_extra, status_of, write_status,
};

/// The only agent that drives loops of oh-my-codex.
const AGENT: &str = "codex";

/// Decodes the record of the state file `document`, last written at `modified`.
pub(crate) fn decode(id: &SessionId, document: &Document, modified: Time) -> Session {
    let number = |key| document.find(key).and_then(|value| value.as_u64());
    let mut state = LoopState {
        active: document.find(ACTIVE) == Some(true.into()),
        phase: find_text(document, PHASE),
        iteration: number(ITERATION),
        max_iterations: number(MAX_ITERATIONS),
        pane: find_text(document, PANE),
        pane_set_at: find_time(document, PANE_SET_AT),
        updated_at: find_time(document, UPDATED_AT),
        last_turn_at: find_time(document, LAST_TURN_AT),
        extra: Map::new(),
    };
    for key in document.keys().into_iter().filter(|key| is_extra(key)) {
        if let Some(value) = document.find(key) {
            state.extra.insert(key.to_owned(), value);
        }
    }
    let started_at = find_time(document, STARTED_AT);
    let mut session = Session::new(id.clone(), Host::unnamed(), started_at.unwrap_or(modified));
    session.status = status_of(document);
    session.started_at = started_at;
    session.finished_at = session.status.is_finished().then(|| {
        let newest = [state.updated_at, state.last_turn_at, state.pane_set_at].into_iter().flatten().max();
        find_time(document, COMPLETED_AT).or(newest).unwrap_or(modified)
    });
    session.agent = find_agent(document);
    session.loop_state = Some(state);
    session
}

/// Returns the record of a session without a loop.
pub(crate) fn without_loop(id: &SessionId, since: Time) -> Session {
    Session::new(id.clone(), Host::unnamed(), since)
}

fn find_agent(document: &Document) -> Option<Agent> {
    let (session_id, thread_id) = (find_text(document, AGENT_SESSION), find_text(document, AGENT_THREAD));
    (session_id.is_some() || thread_id.is_some()).then(|| Agent {
        kind: Some(AGENT.to_owned()),
        session_id,
        thread_id,
        extra: Map::new(),
    })
}

fn find_time(document: &Document, key: &str) -> Option<Time> {
    find_text(document, key)?.parse().ok()
}

/// Writes a new record into an empty document.
pub(crate) fn insert(session: &Session) -> Document {
    let mut document = Document::default();
    change_loop(&mut document, None, session);
    write_status(&mut document, session.status);
    if let Some(finished_at) = session.finished_at {
        write_time(&mut document, COMPLETED_AT, finished_at);
    }
    // oh-my-codex records when a loop started, and listings here sort by it.
    if find_time(&document, STARTED_AT).is_none() {
        write_time(&mut document, STARTED_AT, session.created_at);
    }
    document
}

/// Writes into `document` the differences between `after` and `before`, the record that was read from it.
///
/// Status and times follow from the loop; if only the loop was changed, they are not written.
pub(crate) fn change(document: &mut Document, before: &Session, after: &Session) {
    change_loop(document, before.loop_state.as_ref().map(|_| before), after);
    if after.status != before.status {
        write_status(document, after.status);
    }
    if let Some(finished_at) = after.finished_at.filter(|_| after.finished_at != before.finished_at) {
        write_time(document, COMPLETED_AT, finished_at);
    }
    if let Some(started_at) = after.started_at.filter(|_| after.started_at != before.started_at) {
        write_time(document, STARTED_AT, started_at);
    }
}

/// Creates a new state file for `after`, whose loop is that of `source`: a copy of the source's `document`
/// with the differences, so that all other members are kept.
pub(crate) fn carry_over(document: &Document, source: &Session, after: &Session) -> Document {
    let Session { status, started_at, finished_at, .. } = after.clone();
    let source = Session { status, started_at, finished_at, ..source.clone() };
    let mut document = document.clone();
    change(&mut document, &source, after);
    document
}

fn write_time(document: &mut Document, key: &str, time: Time) {
    if find_time(document, key) != Some(time) {
        document.set(key, &time.to_string().into());
    }
}

fn change_loop(document: &mut Document, before: Option<&Session>, after: &Session) {
    let was = before.and_then(|session| session.loop_state.clone()).unwrap_or_default();
    let is = after.loop_state.clone().unwrap_or_default();
    let mut change = |key: &str, was: Option<Value>, is: Option<Value>| match is {
        Some(value) if was.as_ref() != Some(&value) => document.set(key, &value),
        None if was.is_some() => document.remove(key),
        _ => {}
    };
    let text = |text: &Option<String>| text.clone().map(Value::from);
    let time = |time: Option<Time>| time.map(|time| Value::from(time.to_string()));
    change(ACTIVE, before.map(|_| was.active.into()), Some(is.active.into()));
    change(PHASE, text(&was.phase), text(&is.phase));
    change(ITERATION, was.iteration.map(Value::from), is.iteration.map(Value::from));
    change(MAX_ITERATIONS, was.max_iterations.map(Value::from), is.max_iterations.map(Value::from));
    let agent = |session: &Session| session.agent.clone().unwrap_or_default();
    let (had, has) = (before.map(agent).unwrap_or_default(), agent(after));
    change(AGENT_SESSION, text(&had.session_id), text(&has.session_id));
    change(AGENT_THREAD, text(&had.thread_id), text(&has.thread_id));
    change(PANE, text(&was.pane), text(&is.pane));
    change(PANE_SET_AT, time(was.pane_set_at), time(is.pane_set_at));
    change(UPDATED_AT, time(was.updated_at), time(is.updated_at));
    change(LAST_TURN_AT, time(was.last_turn_at), time(is.last_turn_at));
    for key in was.extra.keys().filter(|key| !is.extra.contains_key(*key)) {
        change(key, Some(Value::Null), None);
    }
    for (key, value) in is.extra.iter().filter(|(key, _)| is_extra(key)) {
        change(key, was.extra.get(key).cloned(), Some(value.clone()));
    }
}

/// Returns what a new record becomes in a file of its own, and the fields that cannot be represented.
pub(crate) fn fit_new(session: &Session) -> Fitted {
    let document = insert(session);
    Fitted::compare(session, decode(&session.id, &document, session.created_at))
}

/// Returns the result of a change from `before` to `after`. Values that follow from the loop are not lost if
/// the caller did not change them.
pub(crate) fn fit_change(document: &Document, before: &Session, after: &Session, modified: Time) -> Fitted {
    let kept = decode(&after.id, document, modified);
    let mut asked = after.clone();
    follow(&mut asked.status, &before.status, &kept.status);
    // If the file does not record it, this is the modification time, which a write is about to change.
    asked.created_at = kept.created_at;
    follow(&mut asked.started_at, &before.started_at, &kept.started_at);
    follow(&mut asked.finished_at, &before.finished_at, &kept.finished_at);
    Fitted::compare(&asked, kept)
}

fn follow<T: Clone + PartialEq>(asked: &mut T, before: &T, kept: &T) {
    if asked == before {
        asked.clone_from(kept);
    }
}

/// Returns whether the session of a state file drives its loop.
pub(crate) fn is_driving(text: &str) -> bool {
    Document::parse(text.as_bytes()).is_ok_and(|document| status_of(&document) == Status::Running)
}
