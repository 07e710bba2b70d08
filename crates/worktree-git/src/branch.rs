//! The branch of a session: made with its worktree, and deleted with it where that loses nothing.

use std::fs;
use std::path::Path;

use git2::{Branch, ErrorCode, Oid, Repository};
use sexton_core::WorktreeError;

use crate::entry;
use crate::fault::failed;
use crate::scan::commits::own_commits;

/// Says why there cannot be a new branch called `name`.
pub(crate) fn require_free(repo: &Repository, name: &str) -> Result<(), String> {
    if !Branch::name_is_valid(name).unwrap_or(false) {
        return Err(format!("`{}` is no name for a branch", name.escape_debug()));
    }
    match repo.find_reference(&reference(name)) {
        Ok(_) => Err(format!("there is a branch `{name}` already")),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(()),
        Err(error) => Err(format!("branch `{name}`: {}", error.message())),
    }
}

/// Makes the branch `name` at `commit`, where it is not there yet. One that is elsewhere is somebody's.
pub(crate) fn ensure(repo: &Repository, name: &str, commit: Oid) -> Result<(), String> {
    match repo.reference(&reference(name), commit, false, "branch: made with its worktree") {
        Ok(_) => Ok(()),
        Err(error) if error.code() == ErrorCode::Exists => match repo.refname_to_id(&reference(name)) {
            Ok(found) if found == commit => Ok(()),
            _ => Err(format!("there is a branch `{name}` already")),
        },
        Err(error) => Err(format!("branch `{name}` cannot be made: {}", error.message())),
    }
}

/// Deletes the branch `name` where everything on it is on another branch, tag or remote-tracking branch too,
/// and no worktree has it checked out. With `only_at` one that is elsewhere is not ours.
pub(crate) fn delete_if_safe(common: &Path, name: &str, only_at: Option<&str>) -> Result<(), WorktreeError> {
    let full = reference(name);
    let unreadable = |error: git2::Error| failed("looking for the branch of a session in", common, error);
    let repo = Repository::open(common).map_err(unreadable)?;
    let mut branch = match repo.find_reference(&full) {
        Ok(branch) => branch,
        Err(error) if error.code() == ErrorCode::NotFound => return Ok(()),
        Err(error) => return Err(unreadable(error)),
    };
    let Some(tip) = branch.target() else { return Ok(()) };
    if only_at.is_some_and(|commit| commit != tip.to_string()) {
        return Ok(());
    }
    if is_checked_out(common, &full)? || !own_commits(&repo, &[tip], Some(full.as_bytes())).map_err(unreadable)?.is_empty() {
        return Ok(());
    }
    match branch.delete() {
        // Moved or deleted since it was read: whoever did that knows why.
        Err(error) if !matches!(error.code(), ErrorCode::Modified | ErrorCode::NotFound) => {
            Err(failed("deleting a branch of", common, error))
        }
        _ => Ok(()),
    }
}

fn reference(name: &str) -> String {
    format!("refs/heads/{name}")
}

/// Whether any worktree has the branch checked out, or is in the middle of rebasing it.
pub(crate) fn is_checked_out(common: &Path, full: &str) -> Result<bool, WorktreeError> {
    let mut git_dirs = entry::list(common)?;
    git_dirs.push(common.to_owned());
    let says = |file: &Path, line: &str| fs::read_to_string(file).is_ok_and(|text| text.trim() == line);
    Ok(git_dirs.iter().any(|dir| {
        says(&dir.join("HEAD"), &format!("ref: {full}"))
            || says(&dir.join("rebase-merge/head-name"), full)
            || says(&dir.join("rebase-apply/head-name"), full)
    }))
}
