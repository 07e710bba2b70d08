//! The branch of a session: made with its worktree, and deleted with it where that loses nothing.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use git2::{Branch, ErrorCode, Oid, Repository};
use sexton_core::WorktreeError;

use crate::entry;
use crate::every_ref;
use crate::fault::failed;
use crate::refs::Refs;
use crate::rescue::publish;
use crate::scan::commits::own_commits;

/// Says why there cannot be a new branch called `name`.
pub(crate) fn require_free(repo: &Repository, name: &str) -> Result<(), String> {
    if !Branch::name_is_valid(name).unwrap_or(false) {
        return Err(format!("`{}` is no name for a branch", name.escape_debug()));
    }
    if find(repo, name)?.is_some() {
        return Err(format!("there is a branch `{name}` already"));
    }
    // A branch is a file, and so cannot be a folder of others as well.
    let above = name.match_indices('/').map(|(at, _)| &name[..at]);
    for folder in above {
        if find(repo, folder)?.is_some() {
            return Err(format!("there is a branch `{folder}`, so there cannot be one called `{name}`"));
        }
    }
    let below = repo.references_glob(&format!("{}/*", reference(name)));
    let mut below = below.map_err(|error| error.message().to_owned())?;
    match below.names().next() {
        None => Ok(()),
        Some(_) => Err(format!("there are branches below `{name}/`, so there cannot be one called `{name}`")),
    }
}

/// Makes the branch `name` at `commit` on behalf of the entry `owner`, where it is not there yet. One that is
/// elsewhere is somebody's.
pub(crate) fn ensure(repo: &Repository, owner: &str, name: &str, commit: Oid) -> Result<(), String> {
    let refs = Refs::new(repo.commondir(), owner);
    let unmakable = |error: std::io::Error| format!("branch `{name}` cannot be made: {error}");
    refs.recover(&reference(name)).map_err(unmakable)?;
    let lock = refs.lock(&reference(name), &commit.to_string()).map_err(unmakable)?;
    match find(repo, name)? {
        None => lock.commit().map_err(unmakable),
        Some(found) if found == Some(commit) => Ok(()),
        Some(_) => Err(format!("there is a branch `{name}` already")),
    }
}

/// Deletes the branch `name` on behalf of the entry `owner`, where everything on it is on another branch, tag
/// or remote-tracking branch too, and no worktree has it checked out. With `only_at` one that is elsewhere is
/// not ours.
pub(crate) fn delete_if_safe(
    common: &Path,
    owner: &str,
    name: &str,
    only_at: Option<&str>,
) -> Result<(), WorktreeError> {
    let (refs, full) = (Refs::new(common, owner), reference(name));
    let undeletable = |error: std::io::Error| failed("deleting a branch of", common, error);
    let unreadable = |error: git2::Error| failed("looking for the branch of a session in", common, error);
    refs.recover(&full).map_err(undeletable)?;
    // One at a time: two branches at one commit would each be the other's reason to go.
    let _lock = publish::lock(common)?;
    let repo = Repository::open(common).map_err(unreadable)?;
    let Some(tip) = find(&repo, name).map_err(|why| failed("reading", common, why))?.flatten() else {
        return Ok(());
    };
    if only_at.is_some_and(|commit| commit != tip.to_string()) || is_checked_out(common, &full)? {
        return Ok(());
    }
    if !own_commits(&repo, &[tip], Some(full.as_bytes())).map_err(unreadable)?.is_empty() {
        return Ok(());
    }
    let lock = refs.lock(&full, &tip.to_string()).map_err(undeletable)?;
    // Moved since it was read: whoever did that knows why.
    let found = find(&repo, name).map_err(|why| failed("reading", common, why))?.flatten();
    if found == Some(tip) {
        refs.delete(&full, lock).map_err(undeletable)?;
    }
    Ok(())
}

/// The commit of the branch `name`; `None` where there is no such branch.
pub(crate) fn find_tip(repo: &Repository, name: &str) -> Result<Option<Oid>, String> {
    match find(repo, name)? {
        Some(None) => Err(format!("the branch `{name}` is only another name of some other branch")),
        found => Ok(found.flatten()),
    }
}

fn reference(name: &str) -> String {
    format!("refs/heads/{name}")
}

/// The commit of the branch `name`: `None` where there is no such branch, `Some(None)` where it is one of
/// another name.
fn find(repo: &Repository, name: &str) -> Result<Option<Option<Oid>>, String> {
    match repo.find_reference(&reference(name)) {
        Ok(branch) => Ok(Some(branch.target())),
        Err(error) if error.code() == ErrorCode::NotFound => {
            // Taken for none, it would be made anew somewhere else.
            match every_ref::find_one(repo.commondir(), reference(name).as_bytes()) {
                Ok(None) => Ok(None),
                Ok(Some(_)) => Err(format!("branch `{name}` cannot be read: {}", error.message())),
                Err(error) => Err(format!("branch `{name}` cannot be read: {error}")),
            }
        }
        Err(error) => Err(format!("branch `{name}` cannot be read: {}", error.message())),
    }
}

/// Whether any worktree has the branch checked out, or is in the middle of rebasing it.
pub(crate) fn is_checked_out(common: &Path, full: &str) -> Result<bool, WorktreeError> {
    let mut git_dirs = entry::list(common)?;
    git_dirs.push(common.to_owned());
    let head = format!("ref: {full}");
    for dir in &git_dirs {
        for (file, line) in
            [("HEAD", &*head), ("rebase-merge/head-name", full), ("rebase-apply/head-name", full)]
        {
            if says(&dir.join(file), line)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Whether `line` is all that a file says. One that cannot be read may say it.
fn says(file: &Path, line: &str) -> Result<bool, WorktreeError> {
    match fs::read(file) {
        Ok(text) => Ok(text.trim_ascii() == line.as_bytes()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(failed("reading", file, error)),
    }
}
