//! The errors of this crate, each with the words that its callers share.

use std::error::Error;
use std::path::Path;

use sexton_core::WorktreeError;
use sexton_core::worktree::Plot;

/// `action` on `path` failed in the operating system or in git.
pub(crate) fn failed(
    action: &'static str,
    path: &Path,
    source: impl Into<Box<dyn Error + Send + Sync>>,
) -> WorktreeError {
    WorktreeError::Backend { action, path: path.to_owned(), source: source.into() }
}

/// What is at the plot is not the session's worktree.
pub(crate) fn not_ours(plot: &Plot, why: impl Into<String>) -> WorktreeError {
    WorktreeError::NotOurs {
        path: plot.path.clone(),
        root: plot.root.clone(),
        session: plot.session.clone(),
        why: why.into(),
    }
}

/// No worktree can be made at the plot.
pub(crate) fn cannot_create(plot: &Plot, why: impl Into<String>) -> WorktreeError {
    WorktreeError::CannotCreate { path: plot.path.clone(), why: why.into() }
}

/// `path` is no repository that can be used.
pub(crate) fn no_repository(path: &Path, why: impl Into<String>) -> WorktreeError {
    WorktreeError::NoRepository { path: path.to_owned(), why: why.into() }
}
