//! Constructors for the errors of this crate.

use std::error::Error;
use std::path::Path;

use sexton_core::WorktreeError;
use sexton_core::worktree::WorktreeLocation;

/// Returns the error for a failure of `action` on `path` in the operating system or in git.
pub(crate) fn failed(
    action: &'static str,
    path: &Path,
    source: impl Into<Box<dyn Error + Send + Sync>>,
) -> WorktreeError {
    WorktreeError::Backend { action, path: path.to_owned(), source: source.into() }
}

/// Returns the error for a worktree location that contains something other than the session's worktree.
pub(crate) fn not_ours(location: &WorktreeLocation, why: impl Into<String>) -> WorktreeError {
    WorktreeError::NotOurs {
        path: location.path.clone(),
        root: location.root.clone(),
        session: location.session.clone(),
        why: why.into(),
    }
}

/// Returns the error for a worktree that cannot be created at `location`.
pub(crate) fn cannot_create(location: &WorktreeLocation, why: impl Into<String>) -> WorktreeError {
    WorktreeError::CannotCreate { path: location.path.clone(), why: why.into() }
}

/// Returns the error for a `path` that is not a usable repository.
pub(crate) fn no_repository(path: &Path, why: impl Into<String>) -> WorktreeError {
    WorktreeError::NoRepository { path: path.to_owned(), why: why.into() }
}

/// Returns an error and all its sources, on one line.
pub(crate) fn with_sources(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Returns the same error for a worktree that was moved from `then` back to `now`.
pub(crate) fn moved(error: WorktreeError, then: &Path, now: &Path) -> WorktreeError {
    let path_now = |path: std::path::PathBuf| match path.strip_prefix(then) {
        Ok(rest) if rest.as_os_str().is_empty() => now.to_owned(),
        Ok(rest) => now.join(rest),
        Err(_) => path,
    };
    let text_now = |text: &str| text.replace(&*then.to_string_lossy(), &now.to_string_lossy());
    match error {
        WorktreeError::CannotRescue { path, why } => {
            WorktreeError::CannotRescue { path: path_now(path), why: text_now(&why) }
        }
        WorktreeError::Backend { action, path, source } => {
            let text = with_sources(&*source);
            let source = if text_now(&text) == text { source } else { text_now(&text).into() };
            WorktreeError::Backend { action, path: path_now(path), source }
        }
        other => other,
    }
}
