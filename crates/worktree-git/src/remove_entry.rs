//! Removes the admin entry of a worktree whose files have been moved away, and its branch.
//!
//! One rename hides the entry from git. The following steps need its mark, so the mark is deleted last;
//! [`finish`] continues an interrupted removal. Other entries are never touched: a general prune would
//! unregister unrelated worktrees.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sexton_core::WorktreeError;
use sexton_core::worktree::WorktreeLocation;

use crate::branch;
use crate::entry;
use crate::fault::failed;
use crate::mark::{self, Reading};

/// Removes the entry `admin` of `location`.
pub(crate) fn remove(location: &WorktreeLocation, common: &Path, admin: &Path) -> Result<(), WorktreeError> {
    finish(location, common)?;
    let removing = removal_path(location, common);
    match entry::inside(&entry::staging(common), || fs::rename(admin, &removing)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !admin.exists() => {}
        outcome => outcome.map_err(|error| failed("removing", admin, error))?,
    }
    finish(location, common)
}

/// Finishes an interrupted removal, and deletes an entry that was never completely built.
pub(crate) fn finish(location: &WorktreeLocation, common: &Path) -> Result<(), WorktreeError> {
    let removing = removal_path(location, common);
    if let Reading::Mark(mark) = mark::load(&removing)?
        && let Some(branch) = &mark.branch
    {
        // No command ran in an incomplete worktree, so if its branch moved, something else moved it.
        let making = entry::find_lock(&removing)?.is_some_and(|reason| entry::is_making(&reason));
        branch::delete_if_safe(
            common,
            &entry::name_of(location),
            branch,
            mark.base.as_deref().filter(|_| making),
        )?;
    }
    let unfinished = entry::staging(common).join(format!("{}.new", entry::name_of(location)));
    for leftover in [&removing, &unfinished] {
        match fs::remove_dir_all(leftover) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("deleting", leftover, error));
            }
            _ => {}
        }
    }
    // Succeeds only if it is empty; git does the same.
    let _ = fs::remove_dir(entry::all(common));
    Ok(())
}

fn removal_path(location: &WorktreeLocation, common: &Path) -> PathBuf {
    entry::staging(common).join(format!("{}.old", entry::name_of(location)))
}
