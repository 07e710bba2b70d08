//! Finds a repository and its common directory, which all its worktrees share.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use git2::{ErrorCode, Repository};
use sexton_core::WorktreeError;

use crate::fault::{failed, no_repository};

/// Returns the repository that contains `directory`, in the form that records use.
pub(crate) fn find(directory: &Path) -> Result<PathBuf, WorktreeError> {
    let unusable = |error: git2::Error| no_repository(directory, describe(&error));
    let here = Repository::discover(directory).map_err(unusable)?;
    // The common directory alone determines the main worktree, from whichever worktree the search started.
    let main = Repository::open(here.commondir()).map_err(unusable)?;
    let place = main.workdir().unwrap_or(main.path());
    place.canonicalize().map_err(|error| failed("resolving", place, error))
}

/// Returns the commit that `name` resolves to in the worktree around `directory`; `None` if there is none.
pub(crate) fn find_commit(directory: &Path, name: &str) -> Result<Option<String>, WorktreeError> {
    let here = Repository::discover(directory).map_err(|error| no_repository(directory, describe(&error)))?;
    let commit = here.revparse_single(name).and_then(|object| object.peel_to_commit());
    Ok(commit.ok().map(|commit| commit.id().to_string()))
}

/// Opens a repository that a record names.
pub(crate) fn open(repo: &Path) -> Result<Repository, WorktreeError> {
    Repository::open(repo).map_err(|error| no_repository(repo, describe(&error)))
}

/// Returns the common directory of a repository that a record names; `None` if the repository no longer
/// exists.
pub(crate) fn find_common(repo: &Path) -> Result<Option<PathBuf>, WorktreeError> {
    let first = Repository::open(repo);
    let opened = match first {
        Err(error) if error.code() == ErrorCode::NotFound => {
            require_readable(repo)?;
            Repository::open(repo)
        }
        opened => opened,
    };
    match opened {
        Ok(repository) => canonical_common(&repository).map(Some),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(no_repository(repo, describe(&error))),
    }
}

/// Fails if it cannot be determined what is at `repo`. libgit2 does not distinguish that from a missing
/// repository, and a repository found missing is never checked again.
fn require_readable(repo: &Path) -> Result<(), WorktreeError> {
    let parts = ["", "HEAD", "objects", "refs"];
    let signs =
        parts.map(|part| repo.join(".git").join(part)).into_iter().chain(parts.map(|part| repo.join(part)));
    for sign in signs {
        match sign.symlink_metadata() {
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Err(failed("checking", &sign, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the canonical path of a repository's common directory.
pub(crate) fn canonical_common(repo: &Repository) -> Result<PathBuf, WorktreeError> {
    let common = repo.commondir();
    common.canonicalize().map_err(|error| failed("resolving", common, error))
}

/// Describes a libgit2 error for users.
fn describe(error: &git2::Error) -> String {
    match error.code() {
        ErrorCode::NotFound => "it is not in a git repository".to_owned(),
        ErrorCode::Owner => "the repository belongs to another user".to_owned(),
        _ => error.message().to_owned(),
    }
}
