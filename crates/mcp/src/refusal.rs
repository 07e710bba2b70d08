//! What an agent hears when something was not done: what failed, and what it could do instead.

use sexton_core::StoreError;
use sexton_core::session::FindError;
use sexton_embed::{HouseError, chain};
use sexton_supervise::{StartError, StopError};

/// Something that was not done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// What failed, on what, and why.
    pub error: String,
    /// What could be done about it.
    pub suggestion: String,
}

impl Refusal {
    /// A refusal with both its parts.
    pub fn new(error: impl Into<String>, suggestion: impl Into<String>) -> Refusal {
        Refusal { error: error.into(), suggestion: suggestion.into() }
    }

    /// The same refusal, with something else that could be done.
    #[must_use]
    pub(crate) fn or(mut self, other: &str) -> Refusal {
        self.suggestion = format!("{}, or {other}", self.suggestion);
        self
    }

    /// An argument that makes no sense.
    pub(crate) fn of_argument(error: impl Into<String>) -> Refusal {
        Refusal::new(error, "look at the tool's input schema and call it again")
    }

    /// A server that is going away.
    pub(crate) fn of_closing() -> Refusal {
        Refusal::new("this server is shutting down", "start another one")
    }

    /// A failure of the server itself.
    pub(crate) fn internal(error: impl Into<String>) -> Refusal {
        Refusal::new(error, "try again; if it stays, tell the user to run `sexton doctor`")
    }
}

impl From<HouseError> for Refusal {
    fn from(error: HouseError) -> Refusal {
        let suggestion = match &error {
            HouseError::Find(FindError::NoSuchSession(_)) => "`list_sessions` shows every session",
            HouseError::Find(FindError::Ambiguous { .. }) => "give more of the id",
            HouseError::Store(error)
            | HouseError::Find(FindError::Store(error))
            | HouseError::Start(StartError::Store(error))
            | HouseError::Stop(StopError::Store(error)) => about_store(error),
            HouseError::Start(StartError::NotExecuted { .. }) => {
                "check the program's name and that it can be executed"
            }
            HouseError::BadRequest(_) => "look at the tool's input schema and call it again",
            HouseError::Directory { .. } => "give `cwd` a directory that exists",
            HouseError::NoOutput(_) => "read the other stream",
            HouseError::Worktree(_) | HouseError::NoCleaner => {
                "a worktree needs a git repository; start it without one, or with `cwd` inside of one"
            }
            HouseError::UnsafeStateDir { cure, .. } => return Refusal::new(chain(&error), cure),
            _ => "try again; if it stays, tell the user to run `sexton doctor`",
        };
        Refusal::new(chain(&error), suggestion)
    }
}

fn about_store(error: &StoreError) -> &'static str {
    match error {
        StoreError::NameTaken { .. } => "choose another name, or stop the session that has it",
        StoreError::LockTimeout { .. } => "try again in a moment",
        StoreError::Damaged { .. } | StoreError::DamagedRecord { .. } => {
            "tell the user to run `sexton doctor`; reading still works"
        }
        _ => "try again; if it stays, tell the user to run `sexton doctor`",
    }
}
