//! Errors of the loop.

use std::io;
use std::path::PathBuf;

use sexton_core::{SessionId, StoreError};
use sexton_service::ServiceError;

use crate::git::GitError;
use crate::settings::SettingsError;

/// Why a loop cannot start or continue.
#[derive(Debug, thiserror::Error)]
pub enum RalphError {
    /// A service operation failed.
    #[error(transparent)]
    Service(#[from] ServiceError),
    /// A store operation failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A git command failed.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The settings are invalid.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Another loop already runs in the repository.
    #[error("a loop already runs in {}{}", .repo.display(), named(.by.as_ref()))]
    AlreadyRunning {
        /// The repository.
        repo: PathBuf,
        /// Its session and process.
        by: Option<(SessionId, u32)>,
    },
    /// A thread of the loop panicked.
    #[error("a thread of the loop panicked")]
    Lost,
    /// It is unknown whether another loop still runs.
    #[error("cannot determine whether the loop of session {session} still runs: {why}")]
    CannotTell {
        /// Its session.
        session: SessionId,
        /// The cause.
        why: String,
    },
    /// The store belongs to another tool and cannot hold all fields.
    #[error("a {0} store cannot keep the record of a loop and its sessions")]
    CannotKeep(&'static str),
    /// HEAD is not a branch.
    #[error("{}: no branch is checked out to merge work into", .0.display())]
    NoBranch(PathBuf),
    /// The branch does not exist, or has no commit.
    #[error("{}: the branch `{}` has no commit", .repo.display(), .base.escape_debug())]
    NoCommit {
        /// The repository.
        repo: PathBuf,
        /// The branch.
        base: String,
    },
    /// A required program was not found.
    #[error("`{program}` is not installed: {what}")]
    NotInstalled {
        /// The program.
        program: String,
        /// What it is needed for.
        what: &'static str,
    },
    /// The query failed.
    #[error("the ticket query failed: {why}")]
    QueryFailed {
        /// The cause.
        why: String,
    },
    /// Git is too old.
    #[error("git {found} cannot merge without a worktree; git 2.38 or newer is required")]
    OldGit {
        /// Its version.
        found: String,
    },
    /// A system call failed.
    #[error("{action}: {source}")]
    Io {
        /// The operation.
        action: String,
        /// The cause.
        source: io::Error,
    },
}

fn named(by: Option<&(SessionId, u32)>) -> String {
    by.map(|(session, pid)| format!(": session {session}, process {pid}")).unwrap_or_default()
}

impl RalphError {
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> RalphError {
        let action = action.into();
        move |source| RalphError::Io { action, source }
    }
}
