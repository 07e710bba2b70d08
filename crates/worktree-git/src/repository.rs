//! Finding a repository, and its common directory: what all its worktrees share.

use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use git2::{ErrorCode, Repository};
use sexton_core::WorktreeError;

use crate::fault::{failed, no_repository};

/// The repository that `directory` lies in, as records name it.
pub(crate) fn find(directory: &Path) -> Result<PathBuf, WorktreeError> {
    let unusable = |error: git2::Error| no_repository(directory, describe(&error));
    let here = Repository::discover(directory).map_err(unusable)?;
    // The main worktree is what the common directory alone says, wherever one came from.
    let main = Repository::open(here.commondir()).map_err(unusable)?;
    let place = main.workdir().unwrap_or(main.path());
    place.canonicalize().map_err(|error| failed("resolving", place, error))
}

/// The commit that `name` means in the worktree around `directory`; `None` where it means none.
pub(crate) fn find_commit(directory: &Path, name: &str) -> Result<Option<String>, WorktreeError> {
    let here = Repository::discover(directory).map_err(|error| no_repository(directory, describe(&error)))?;
    let commit = here.revparse_single(name).and_then(|object| object.peel_to_commit());
    Ok(commit.ok().map(|commit| commit.id().to_string()))
}

/// Opens a repository that a record names.
pub(crate) fn open(repo: &Path) -> Result<Repository, WorktreeError> {
    Repository::open(repo).map_err(|error| no_repository(repo, describe(&error)))
}

/// The common directory of a repository that a record names; `None` where there is no repository any more.
pub(crate) fn find_common(repo: &Path) -> Result<Option<PathBuf>, WorktreeError> {
    let first = Repository::open(repo);
    let opened = match first {
        Err(error) if error.code() == ErrorCode::NotFound => {
            require_sight(repo)?;
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

/// Fails where it cannot be seen what is at `repo`. libgit2 does not tell that from a repository that is gone, and
/// one that is gone is never asked for again.
fn require_sight(repo: &Path) -> Result<(), WorktreeError> {
    let parts = ["", "HEAD", "objects", "refs"];
    let signs =
        parts.map(|part| repo.join(".git").join(part)).into_iter().chain(parts.map(|part| repo.join(part)));
    for sign in signs {
        match sign.symlink_metadata() {
            Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
                return Err(failed("looking at", &sign, error));
            }
            _ => {}
        }
    }
    Ok(())
}

/// The common directory of a repository, by its one true name.
pub(crate) fn canonical_common(repo: &Repository) -> Result<PathBuf, WorktreeError> {
    let common = repo.commondir();
    common.canonicalize().map_err(|error| failed("resolving", common, error))
}

/// What libgit2 said, for people.
fn describe(error: &git2::Error) -> String {
    match error.code() {
        ErrorCode::NotFound => "it is not in a git repository".to_owned(),
        ErrorCode::Owner => "the repository belongs to another user".to_owned(),
        _ => error.message().to_owned(),
    }
}
