//! The vocabulary of oh-my-codex: the keys of a state file, the phases in which a loop ends, the stop
//! reasons, and their meaning here.

use sexton_core::Status;

use crate::document::Document;

/// Whether the loop is active.
pub(crate) const ACTIVE: &str = "active";
/// The current phase.
pub(crate) const PHASE: &str = "current_phase";
/// The number of iterations.
pub(crate) const ITERATION: &str = "iteration";
/// The maximum number of iterations.
pub(crate) const MAX_ITERATIONS: &str = "max_iterations";
/// The tmux pane.
pub(crate) const PANE: &str = "tmux_pane_id";
/// When the pane was set.
pub(crate) const PANE_SET_AT: &str = "tmux_pane_set_at";
/// The time of the last change.
pub(crate) const UPDATED_AT: &str = "updated_at";
/// The time of the agent's last turn.
pub(crate) const LAST_TURN_AT: &str = "last_turn_at";
/// The Codex conversation that drives the loop.
pub(crate) const AGENT_SESSION: &str = "owner_codex_session_id";
/// The Codex thread that drives the loop.
pub(crate) const AGENT_THREAD: &str = "owner_codex_thread_id";
/// The start time.
pub(crate) const STARTED_AT: &str = "started_at";
/// The end time.
pub(crate) const COMPLETED_AT: &str = "completed_at";
/// The stop reason.
pub(crate) const STOP_REASON: &str = "stop_reason";

/// The reason of a loop that continues in another session.
pub(crate) const TRANSFERRED: &str = "ownership_transferred";
/// The reason of a loop without activity for too long.
pub(crate) const STALE: &str = "stale_active_state";

const COMPLETE: &str = "complete";
const FAILED: &str = "failed";
const CANCELLED: &str = "cancelled";

/// The phases in which a loop has ended.
const TERMINAL_PHASES: [&str; 5] = ["blocked_on_user", COMPLETE, FAILED, CANCELLED, "interrupted"];

/// The keys with their own field in a record; all others are in `loop.extra`.
pub(crate) const MAPPED: [&str; 10] = [
    ACTIVE,
    PHASE,
    ITERATION,
    MAX_ITERATIONS,
    PANE,
    PANE_SET_AT,
    UPDATED_AT,
    LAST_TURN_AT,
    AGENT_SESSION,
    AGENT_THREAD,
];

/// Returns whether `key` can be in `loop.extra`. Besides the mapped keys, three keys cannot, because the
/// record's own fields have these names; in the file they are kept like all others.
pub(crate) fn is_extra(key: &str) -> bool {
    !MAPPED.contains(&key) && !["phase", "pane", "pane_set_at"].contains(&key)
}

/// Returns whether the loop has ended, whatever `active` says.
pub(crate) fn is_terminal(phase: &str) -> bool {
    TERMINAL_PHASES.contains(&phase.trim().to_lowercase().as_str())
}

/// Returns the trimmed text of `key`, if it is not empty.
pub(crate) fn find_text(document: &Document, key: &str) -> Option<String> {
    let value = document.find(key)?;
    value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The statuses that a state file can represent.
pub(crate) const STATUSES: [Status; 6] = [
    Status::Running,
    Status::Completed,
    Status::Failed,
    Status::Stopped,
    Status::Abandoned,
    Status::Transferred,
];

/// Returns the status of a state file. A loop that is active and in no terminal phase is running; any other
/// has ended, and its stop reason decides before the phase: oh-my-codex sets the phase of every transferred
/// and every stale loop to `cancelled`.
pub(crate) fn status_of(document: &Document) -> Status {
    let phase = find_text(document, PHASE).unwrap_or_default().to_lowercase();
    let active = document.find(ACTIVE) == Some(true.into());
    if active && !is_terminal(&phase) {
        return Status::Running;
    }
    match (find_text(document, STOP_REASON).as_deref(), phase.as_str()) {
        (Some(TRANSFERRED), _) => Status::Transferred,
        (Some(STALE), _) => Status::Abandoned,
        (_, COMPLETE | "completed") => Status::Completed,
        (_, FAILED) => Status::Failed,
        _ => Status::Stopped,
    }
}

/// Writes `status` into the document, unless it has that status already. A status that cannot be represented
/// is written as the nearest one.
pub(crate) fn write_status(document: &mut Document, status: Status) {
    let nearest = match status {
        Status::Starting => Status::Running,
        Status::TimedOut => Status::Failed,
        Status::Orphaned | Status::CleanupFailed => Status::Abandoned,
        other => other,
    };
    if status_of(document) == nearest {
        return;
    }
    document.set(ACTIVE, &(nearest == Status::Running).into());
    let (phase, reason) = match nearest {
        Status::Completed => (Some(COMPLETE), None),
        Status::Failed => (Some(FAILED), None),
        Status::Abandoned => (Some(CANCELLED), Some(STALE)),
        Status::Transferred => (Some(CANCELLED), Some(TRANSFERRED)),
        Status::Stopped => (Some(CANCELLED), None),
        _ => (None, None),
    };
    match phase {
        Some(phase) => document.set(PHASE, &phase.into()),
        // A terminal phase would contradict a running loop.
        None if find_text(document, PHASE).is_some_and(|phase| is_terminal(&phase)) => document.remove(PHASE),
        None => {}
    }
    match (reason, find_text(document, STOP_REASON).as_deref()) {
        (Some(reason), _) => document.set(STOP_REASON, &reason.into()),
        (None, Some(TRANSFERRED | STALE)) => document.remove(STOP_REASON),
        (None, _) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn document(text: &serde_json::Value) -> Document {
        Document::parse(text.to_string().as_bytes()).unwrap()
    }

    #[test]
    fn the_status_follows_from_active_phase_and_stop_reason() {
        let cases = [
            (json!({"active": true, "current_phase": "executing"}), Status::Running),
            (json!({"active": true}), Status::Running),
            (json!({"active": true, "current_phase": " Complete "}), Status::Completed),
            (json!({"active": "true"}), Status::Stopped),
            (json!({"active": false, "current_phase": "complete"}), Status::Completed),
            (json!({"active": false, "current_phase": "completed"}), Status::Completed),
            (json!({"active": false, "current_phase": "failed"}), Status::Failed),
            (json!({"active": false, "current_phase": "interrupted"}), Status::Stopped),
            (json!({"active": false, "current_phase": "blocked_on_user"}), Status::Stopped),
            (json!({"active": false, "current_phase": "executing"}), Status::Stopped),
            (
                json!({"current_phase": "cancelled", "stop_reason": "ownership_transferred"}),
                Status::Transferred,
            ),
            (json!({"active": false, "stop_reason": "stale_active_state"}), Status::Abandoned),
            (json!({"active": false, "stop_reason": 7, "current_phase": ["x"]}), Status::Stopped),
            (json!({}), Status::Stopped),
        ];
        for (text, status) in cases {
            assert_eq!(status_of(&document(&text)), status, "{text}");
        }
    }

    #[test]
    fn a_written_status_is_read_back() {
        let documents = [
            json!({}),
            json!({"active": true, "current_phase": "verifying", "stop_reason": "none"}),
            json!({"active": false, "current_phase": "cancelled", "stop_reason": "ownership_transferred"}),
        ];
        for text in documents {
            for status in STATUSES {
                let mut written = document(&text);
                write_status(&mut written, status);
                assert_eq!(status_of(&written), status, "{text} → {status}: {}", written.render());
            }
        }
    }

    #[test]
    fn writing_the_present_status_changes_nothing() {
        let text = json!({"active": false, "current_phase": "Interrupted "});
        let mut written = document(&text);
        let before = written.render();
        write_status(&mut written, Status::Stopped);
        assert_eq!(written.render(), before);
    }
}
