//! Where a session is in its life. Every question about that is asked of [`Status`] itself.

use std::fmt;
use std::str::FromStr;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// The state of a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Status {
    /// Recorded, and its worktree is being made; no command has run yet.
    Starting,
    /// Its command was executed, and no end is recorded.
    Running,
    /// Its command ended with exit code 0.
    Completed,
    /// Its command ended otherwise, or could not be executed.
    Failed,
    /// It was ended on request.
    Stopped,
    /// It was ended because its time was up.
    TimedOut,
    /// It was found dead, or ended because nobody owned it any more.
    Orphaned,
    /// It was found dead after so long that nothing more can be learned.
    Abandoned,
    /// Its loop goes on in another session, and its process is gone.
    Transferred,
    /// Recovery could not finish with it; the next one tries again.
    CleanupFailed,
}

/// A word that is no status.
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

    /// The status as records spell it.
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

    /// Whether a process of the session may be alive: these are what `ps` shows and what holds a name.
    pub fn is_active(self) -> bool {
        matches!(self, Status::Starting | Status::Running)
    }

    /// Whether nothing remains to be done for the session. A `cleanup_failed` one is neither active nor
    /// finished: its processes are gone, and recovery still owes it something.
    pub fn is_finished(self) -> bool {
        !self.is_active() && self != Status::CleanupFailed
    }

    /// Whether a record may go from this status to `next`. Staying is always allowed: most changes of a
    /// record leave its status alone. A finished session only ever becomes `transferred`.
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
    fn the_spelling_is_the_same_in_json_and_on_the_command_line() {
        for status in Status::ALL {
            assert_eq!(serde_json::to_string(&status).unwrap(), format!("\"{status}\""));
            assert_eq!(status.as_str().parse(), Ok(status));
        }
    }

    #[test]
    fn an_unknown_status_lists_the_known_ones() {
        let message = "runing".parse::<Status>().unwrap_err().to_string();
        assert!(message.contains("`runing`") && message.contains("cleanup_failed"), "{message}");
    }

    #[test]
    fn the_dead_do_not_rise() {
        for from in Status::ALL.into_iter().filter(|status| !status.is_active()) {
            assert!(!from.can_become(Status::Running), "{from} → running");
            assert!(!from.can_become(Status::Starting), "{from} → starting");
        }
        assert!(!Status::Running.can_become(Status::Starting));
    }

    #[test]
    fn a_recorded_outcome_is_not_replaced_by_another() {
        for from in [Status::Completed, Status::Failed, Status::Stopped, Status::TimedOut, Status::Orphaned] {
            for next in
                [Status::Completed, Status::Failed, Status::Stopped, Status::TimedOut, Status::Orphaned]
            {
                assert_eq!(from.can_become(next), from == next, "{from} → {next}");
            }
        }
    }

    #[test]
    fn what_recovery_still_owes_is_not_finished() {
        assert!(!Status::CleanupFailed.is_active());
        assert!(!Status::CleanupFailed.is_finished());
        assert!(Status::CleanupFailed.can_become(Status::Orphaned));
    }
}
