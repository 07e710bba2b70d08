//! Why a loop does not begin, or does not go on.

use std::io;
use std::path::PathBuf;

use sexton_core::{SessionId, StoreError};
use sexton_embed::HouseError;

use crate::git::GitError;
use crate::settings::SettingsError;

/// Why a loop does not begin, or does not go on.
#[derive(Debug, thiserror::Error)]
pub enum RalphError {
    /// The house.
    #[error(transparent)]
    House(#[from] HouseError),
    /// The store.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// Git.
    #[error(transparent)]
    Git(#[from] GitError),
    /// The settings.
    #[error(transparent)]
    Settings(#[from] SettingsError),
    /// Another loop works here.
    #[error("a loop works in {} already{}", .repo.display(), named(.by.as_ref()))]
    AlreadyRunning {
        /// The repository.
        repo: PathBuf,
        /// Its session and process.
        by: Option<(SessionId, u32)>,
    },
    /// A part of the loop has failed in a way that it does not know of itself.
    #[error("a part of the loop broke off")]
    Lost,
    /// Nobody can tell whether another loop works here.
    #[error("nobody can tell whether the loop of session {session} still works: {why}")]
    CannotTell {
        /// Its session.
        session: SessionId,
        /// Why not.
        why: String,
    },
    /// The store is another tool's.
    #[error("a {0} store cannot keep the record of a loop and the sessions that it starts")]
    CannotKeep(&'static str),
    /// HEAD is no branch.
    #[error("{}: no branch is checked out there that work could be merged into", .0.display())]
    NoBranch(PathBuf),
    /// The branch does not exist, or has no commit.
    #[error("{}: the branch `{}` has no commit", .repo.display(), .base.escape_debug())]
    NoCommit {
        /// The repository.
        repo: PathBuf,
        /// The branch.
        base: String,
    },
    /// A program that is needed is not there.
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
        /// How.
        why: String,
    },
    /// Git is too old.
    #[error("git {found} cannot merge without a worktree; 2.38 or newer is needed")]
    OldGit {
        /// Its version.
        found: String,
    },
    /// A file or a process could not be worked with.
    #[error("{action}: {source}")]
    Io {
        /// What was tried.
        action: String,
        /// Why it failed.
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
