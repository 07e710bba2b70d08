//! The status of a session. All questions about it are methods of [`Status`].

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Recorded, and its worktree is being created; no command has run yet.
    Starting,
    /// Its command was executed, and no end is recorded.
    Running,
    /// Its command exited with code 0.
    Completed,
    /// Its command failed, or could not be executed.
    Failed,
    /// It was ended on request.
    Stopped,
    /// It was ended because its time limit expired.
    TimedOut,
    /// It was found dead, or was ended because its owner died.
    Orphaned,
    /// It was found dead after more than the stale age.
    Abandoned,
    /// Its loop continues in another session, and its process is gone.
    Transferred,
    /// Recovery could not clean it up completely; the next one tries again.
    CleanupFailed,
}

/// A word that is not a status.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{0}` is not a status; one of: {known}", known = Status::ALL.map(Status::as_str).join(", "))]
pub struct UnknownStatus(pub String);

impl Status {
    /// Every status, in the order of a session's life.
    pub const ALL: [Status; 10] = [
        Status::Starting,
        Status::Running,
        Status::Completed,
        Status::Failed,
        Status::Stopped,
        Status::TimedOut,
        Status::Orphaned,
        Status::Abandoned,
        Status::Transferred,
        Status::CleanupFailed,
    ];

    /// Returns the status as it is written in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Status::Starting => "starting",
            Status::Running => "running",
            Status::Completed => "completed",
            Status::Failed => "failed",
            Status::Stopped => "stopped",
            Status::TimedOut => "timed_out",
            Status::Orphaned => "orphaned",
            Status::Abandoned => "abandoned",
            Status::Transferred => "transferred",
            Status::CleanupFailed => "cleanup_failed",
        }
    }

    /// Returns whether a process of the session may be alive: such sessions are listed by `ps` and hold a name.
    pub fn is_active(self) -> bool {
        matches!(self, Status::Starting | Status::Running)
    }

    /// Returns whether nothing remains to be done for the session. A `cleanup_failed` session is neither active
    /// nor finished: its processes are gone, but recovery has not finished with it.
    pub fn is_finished(self) -> bool {
        !self.is_active() && self != Status::CleanupFailed
    }

    /// Returns whether a record may change from this status to `next`. Keeping the status is always allowed:
    /// most changes of a record do. A finished session can only become `transferred` or `cleanup_failed`.
    pub fn can_become(self, next: Status) -> bool {
        match self {
            _ if self == next => true,
            Status::Starting => true,
            Status::Running => next != Status::Starting,
            Status::CleanupFailed => !next.is_active(),
            Status::Transferred => false,
            _ => matches!(next, Status::Transferred | Status::CleanupFailed),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl FromStr for Status {
    type Err = UnknownStatus;

    fn from_str(text: &str) -> Result<Self, UnknownStatus> {
        let found = Status::ALL.into_iter().find(|status| status.as_str() == text);
        found.ok_or_else(|| UnknownStatus(text.to_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn json_and_command_line_use_same_spelling() {
        for status in Status::ALL {
            assert_eq!(serde_json::to_string(&status).unwrap(), format!("\"{status}\""));
            assert_eq!(status.as_str().parse(), Ok(status));
        }
    }

    #[test]
    fn unknown_status_error_lists_known_ones() {
        let message = "runing".parse::<Status>().unwrap_err().to_string();
        assert!(message.contains("`runing`") && message.contains("cleanup_failed"), "{message}");
    }

    #[test]
    fn finished_session_cannot_become_active() {
        for from in Status::ALL.into_iter().filter(|status| !status.is_active()) {
            assert!(!from.can_become(Status::Running), "{from} → running");
            assert!(!from.can_become(Status::Starting), "{from} → starting");
        }
        assert!(!Status::Running.can_become(Status::Starting));
    }

    #[test]
    fn recorded_outcome_cannot_change() {
        for from in [Status::Completed, Status::Failed, Status::Stopped, Status::TimedOut, Status::Orphaned] {
            for next in
                [Status::Completed, Status::Failed, Status::Stopped, Status::TimedOut, Status::Orphaned]
            {
                assert_eq!(from.can_become(next), from == next, "{from} → {next}");
            }
        }
    }

    #[test]
    fn cleanup_failed_is_neither_active_nor_finished() {
        assert!(!Status::CleanupFailed.is_active());
        assert!(!Status::CleanupFailed.is_finished());
        assert!(Status::CleanupFailed.can_become(Status::Orphaned));
    }
}
