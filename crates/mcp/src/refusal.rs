//! Why a tool call failed, and what the client can do about it.

use sexton_core::StoreError;
use sexton_core::session::FindError;
use sexton_service::{ServiceError, chain};
use sexton_supervise::{StartError, StopError};

/// A failed tool call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The operation that failed, its object, and the cause.
    pub error: String,
    /// What the client can do about it.
    pub suggestion: String,
}

impl Refusal {
    /// Creates a refusal.
    pub fn new(error: impl Into<String>, suggestion: impl Into<String>) -> Refusal {
        Refusal { error: error.into(), suggestion: suggestion.into() }
    }

    /// Adds an alternative to the suggestion.
    #[must_use]
    pub(crate) fn or(mut self, other: &str) -> Refusal {
        self.suggestion = format!("{}, or {other}", self.suggestion);
        self
    }

    /// Creates a refusal because of an invalid argument.
    pub(crate) fn of_argument(error: impl Into<String>) -> Refusal {
        Refusal::new(error, "check the arguments against the tool's input schema")
    }

    /// Creates a refusal because the server is shutting down.
    pub(crate) fn of_closing() -> Refusal {
        Refusal::new("this server is shutting down", "start another one")
    }

    /// Creates a refusal because of an internal error.
    pub(crate) fn internal(error: impl Into<String>) -> Refusal {
        Refusal::new(error, "try again; if it still fails, ask the user to run `sexton doctor`")
    }
}

impl From<ServiceError> for Refusal {
    fn from(error: ServiceError) -> Refusal {
        let suggestion = match &error {
            ServiceError::Find(FindError::NoSuchSession(_)) => "`list_sessions` shows every session",
            ServiceError::Find(FindError::Ambiguous { .. }) => "use more characters of the id",
            ServiceError::Store(error)
            | ServiceError::Find(FindError::Store(error))
            | ServiceError::Start(StartError::Store(error))
            | ServiceError::Stop(StopError::Store(error)) => about_store(error),
            ServiceError::Start(StartError::NotExecuted { .. }) => {
                "check that the program exists and is executable"
            }
            ServiceError::BadRequest(_) => "check the arguments against the tool's input schema",
            ServiceError::Directory { .. } => "set `cwd` to a directory that exists",
            ServiceError::NoOutput(_) => "read the other stream",
            ServiceError::Worktree(_) | ServiceError::NoCleaner => {
                "a worktree needs a git repository: start without one, or set `cwd` to a directory in a repository"
            }
            ServiceError::UnsafeStateDir { fix, .. } => return Refusal::new(chain(&error), fix),
            _ => "try again; if it still fails, ask the user to run `sexton doctor`",
        };
        Refusal::new(chain(&error), suggestion)
    }
}

fn about_store(error: &StoreError) -> &'static str {
    match error {
        StoreError::NameTaken { .. } => "use another name, or stop the session that has it",
        StoreError::LockTimeout { .. } => "try again in a moment",
        StoreError::Damaged { .. } | StoreError::DamagedRecord { .. } => {
            "ask the user to run `sexton doctor`; reading still works"
        }
        _ => "try again; if it still fails, ask the user to run `sexton doctor`",
    }
}
