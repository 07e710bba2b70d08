//! The store conformance suite for a state directory.

use std::path::Path;
use std::process::ExitCode;

use sexton_core::{Session, SessionId, Status};
use sexton_proc_linux as _;
use sexton_testkit::store_suite::{Subject, run};

fn main() -> ExitCode {
    run(&Subject {
        name: "omx",
        open: sexton_store_omx::open,
        file_name: "state",
        make_newer,
        damage_one_record,
        capabilities: sexton_store_omx::CAPABILITIES,
        dress,
        stranger: b"{\"session_id\": \"sess-1\"}",
        contended_commits: 60,
    })
}

/// Sets a newer format in Sexton's own file.
fn make_newer(path: &Path) {
    let path = path.join(".sexton/store.json");
    let text = std::fs::read_to_string(&path).expect("the store has an identity");
    let newer = text.replace("\"format\":1", "\"format\":2");
    assert_ne!(newer, text, "the format is written there");
    std::fs::write(path, newer).expect("it can be written");
}

/// Cuts the state file of `id` in half.
fn damage_one_record(path: &Path, id: &SessionId) {
    let path = path.join("sessions").join(id.as_str()).join("ralph-state.json");
    let text = std::fs::read(&path).expect("the record has a file");
    std::fs::write(path, &text[..text.len() / 2]).expect("it can be written");
}

/// Gives every record a loop that matches its status, and a status that the files can represent.
fn dress(mut session: Session) -> Session {
    session.status = match session.status {
        Status::Starting | Status::CleanupFailed => Status::Running,
        Status::TimedOut => Status::Failed,
        Status::Orphaned => Status::Abandoned,
        other => other,
    };
    let (phase, reason) = match session.status {
        Status::Completed => ("complete", None),
        Status::Failed => ("failed", None),
        Status::Abandoned => ("cancelled", Some("stale_active_state")),
        Status::Transferred => ("cancelled", Some("ownership_transferred")),
        Status::Stopped => ("cancelled", None),
        _ => ("executing", None),
    };
    let finished_at = session.finished_at.or(Some(session.created_at));
    session.finished_at = finished_at.filter(|_| session.status.is_finished());
    let state = session.loop_state.get_or_insert_default();
    state.active = session.status == Status::Running;
    state.phase = Some(phase.to_owned());
    // As oh-my-codex does; it also makes the text of each session distinct.
    state.extra.insert("owner_omx_session_id".to_owned(), session.id.as_str().into());
    match reason {
        Some(reason) => _ = state.extra.insert("stop_reason".to_owned(), reason.into()),
        None => _ = state.extra.remove("stop_reason"),
    }
    session
}
