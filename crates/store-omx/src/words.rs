//! The words of their tool: the keys of a state file, the phases a loop ends in, the reasons it stopped for,
//! and what each of them means here.

use sexton_core::Status;

use crate::document::Document;

/// Whether the loop goes on.
pub(crate) const ACTIVE: &str = "active";
/// Where it is.
pub(crate) const PHASE: &str = "current_phase";
/// How many times it went round.
pub(crate) const ITERATION: &str = "iteration";
/// How many times it may.
pub(crate) const MAX_ITERATIONS: &str = "max_iterations";
/// Its tmux pane.
pub(crate) const PANE: &str = "tmux_pane_id";
/// Since when.
pub(crate) const PANE_SET_AT: &str = "tmux_pane_set_at";
/// When it last changed.
pub(crate) const UPDATED_AT: &str = "updated_at";
/// When its agent last took a turn.
pub(crate) const LAST_TURN_AT: &str = "last_turn_at";
/// The conversation of Codex that drives it.
pub(crate) const AGENT_SESSION: &str = "owner_codex_session_id";
/// The thread of Codex that drives it.
pub(crate) const AGENT_THREAD: &str = "owner_codex_thread_id";
/// When it began.
pub(crate) const STARTED_AT: &str = "started_at";
/// When it ended.
pub(crate) const COMPLETED_AT: &str = "completed_at";
/// Why it stopped.
pub(crate) const STOP_REASON: &str = "stop_reason";

/// The reason of a loop that goes on in another session.
pub(crate) const TRANSFERRED: &str = "ownership_transferred";
/// The reason of a loop that nobody had driven for too long.
pub(crate) const STALE: &str = "stale_active_state";

const COMPLETE: &str = "complete";
const FAILED: &str = "failed";
const CANCELLED: &str = "cancelled";

/// The phases that a loop does not leave any more.
const TERMINAL_PHASES: [&str; 5] = ["blocked_on_user", COMPLETE, FAILED, CANCELLED, "interrupted"];

/// The keys that have a field of their own in a record; every other one is in `loop.extra`.
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

/// Whether `key` can be in `loop.extra`. Besides the mapped ones, three keys cannot, because the record's own
/// fields are called so; in the file they are kept like everything else.
pub(crate) fn is_extra(key: &str) -> bool {
    !MAPPED.contains(&key) && !["phase", "pane", "pane_set_at"].contains(&key)
}

/// Whether the loop is over, whatever `active` says.
pub(crate) fn is_terminal(phase: &str) -> bool {
    TERMINAL_PHASES.contains(&phase.trim().to_lowercase().as_str())
}

/// The text of `key` without blanks around it, where there is any.
pub(crate) fn find_text(document: &Document, key: &str) -> Option<String> {
    let value = document.find(key)?;
    value.as_str().map(str::trim).filter(|text| !text.is_empty()).map(str::to_owned)
}

/// The statuses that their words can say.
pub(crate) const STATUSES: [Status; 6] = [
    Status::Running,
    Status::Completed,
    Status::Failed,
    Status::Stopped,
    Status::Abandoned,
    Status::Transferred,
];

/// The status that a state file speaks of. A loop that is active and in no terminal phase runs; any other
/// has ended, and why it stopped says more than the phase: their tool calls every transferred and every
/// stale loop `cancelled`.
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

/// Says `status` in their words, where the document does not say it already. One that they have no word for
/// is said as the nearest they have.
pub(crate) fn say_status(document: &mut Document, status: Status) {
    let nearest = match status {
        Status::Starting => Status::Running,
        Status::TimedOut => Status::Failed,
        Status::Orphaned | Status::CleanupFailed => Status::Abandoned,
        said => said,
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
        // A terminal phase would contradict a loop that runs.
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
    fn the_status_is_what_the_words_mean() {
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
    fn a_status_is_said_so_that_it_is_read_again() {
        let documents = [
            json!({}),
            json!({"active": true, "current_phase": "verifying", "stop_reason": "none"}),
            json!({"active": false, "current_phase": "cancelled", "stop_reason": "ownership_transferred"}),
        ];
        for text in documents {
            for status in STATUSES {
                let mut said = document(&text);
                say_status(&mut said, status);
                assert_eq!(status_of(&said), status, "{text} → {status}: {}", said.render());
            }
        }
    }

    #[test]
    fn a_status_that_is_said_already_changes_nothing() {
        let text = json!({"active": false, "current_phase": "Interrupted "});
        let mut said = document(&text);
        let before = said.render();
        say_status(&mut said, Status::Stopped);
        assert_eq!(said.render(), before);
    }
}
