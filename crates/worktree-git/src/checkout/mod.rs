//! Fills a new worktree: the files of a commit, and an index that marks them as clean.
//!
//! If no conversion applies, several threads write the files as they are stored. Otherwise (a filter, line
//! ends, a sparse checkout) git itself does it, because only git's result is correct by definition.
//!
//! Architecture invariant: it writes only below the given directory, which is new and empty, and only through
//! names that it created itself.

mod conversion;
mod index_file;
mod objects;
mod packs;
mod plan;
pub(crate) mod program;
mod write;

use std::os::fd::BorrowedFd;
use std::path::Path;

use git2::{Commit, Repository};
use sexton_core::WorktreeError;

use crate::fault::failed;

#[cfg(fuzzing)]
pub use packs::fuzzing;

/// A worktree that has no files yet.
pub(crate) struct Blank<'a> {
    /// Its directory, held open.
    pub(crate) dir: BorrowedFd<'a>,
    /// Its current path.
    pub(crate) path: &'a Path,
    /// Its admin entry, where the index goes.
    pub(crate) admin: &'a Path,
    /// The repository's common directory.
    pub(crate) common: &'a Path,
}

/// Writes the files of `commit` and their index.
pub(crate) fn fill(blank: &Blank<'_>, repo: &Repository, commit: &Commit<'_>) -> Result<(), WorktreeError> {
    let unreadable = |error: git2::Error| failed("reading the files to check out of", blank.common, error);
    if program::has_sparse_patterns(blank.admin) || conversion::is_configured(repo).map_err(unreadable)? {
        return program::check_out(blank);
    }
    let plan = plan::plan(repo, &commit.tree().map_err(unreadable)?).map_err(unreadable)?;
    if conversion::is_required_by_tree(repo, &plan).map_err(unreadable)? {
        return program::check_out(blank);
    }
    let stats = write::write(&plan, blank).map_err(|error| failed("checking out into", blank.path, error))?;
    let index = blank.admin.join("index");
    index_file::write(&index, &plan, &stats).map_err(|error| failed("writing", &index, error))
}
