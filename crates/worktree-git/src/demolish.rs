//! Taking down the admin entry of a worktree whose files are out of the way, and its branch with it.
//!
//! One rename hides the entry from git. What follows needs its mark, so the mark goes last; where it is cut
//! off, [`finish`] goes on. Other entries are never looked at: a blanket prune unregisters bystanders.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use sexton_core::WorktreeError;
use sexton_core::worktree::Plot;

use crate::branch;
use crate::entry;
use crate::fault::failed;
use crate::mark::{self, Reading};

/// Takes down the entry `admin` of `plot`.
pub(crate) fn take_down(plot: &Plot, common: &Path, admin: &Path) -> Result<(), WorktreeError> {
    finish(plot, common)?;
    let down = fallen(plot, common);
    match entry::inside(&entry::workshop(common), || fs::rename(admin, &down)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound && !admin.exists() => {}
        outcome => outcome.map_err(|error| failed("taking down", admin, error))?,
    }
    finish(plot, common)
}

/// Finishes what an earlier call began, and clears away an entry that was never finished building.
pub(crate) fn finish(plot: &Plot, common: &Path) -> Result<(), WorktreeError> {
    let down = fallen(plot, common);
    if let Reading::Mark(mark) = mark::load(&down)?
        && let Some(branch) = &mark.branch
    {
        // No command ran in one that is not complete: a branch that moved is somebody else's.
        let making = entry::find_lock(&down)?.is_some_and(|reason| entry::is_making(&reason));
        branch::delete_if_safe(
            common,
            &entry::name_of(plot),
            branch,
            mark.base.as_deref().filter(|_| making),
        )?;
    }
    let unfinished = entry::workshop(common).join(format!("{}.new", entry::name_of(plot)));
    for leftover in [&down, &unfinished] {
        match fs::remove_dir_all(leftover) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                return Err(failed("deleting", leftover, error));
            }
            _ => {}
        }
    }
    // Only where it is empty, as git does it.
    let _ = fs::remove_dir(entry::all(common));
    Ok(())
}

fn fallen(plot: &Plot, common: &Path) -> PathBuf {
    entry::workshop(common).join(format!("{}.old", entry::name_of(plot)))
}
