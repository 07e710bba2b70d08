//! The branch of a session: created with its worktree, and deleted with it if nothing is lost.

use std::io::ErrorKind;
use std::path::Path;

use git2::{Branch, ErrorCode, Oid, Repository};
use sexton_core::WorktreeError;
use sexton_durable::{SMALL_FILE, read_regular};

use crate::entry;
use crate::every_ref;
use crate::fault::failed;
use crate::refs::Refs;
use crate::rescue::publish;
use crate::scan::commits::own_commits;

/// Fails with the reason if a branch `name` cannot be created.
pub(crate) fn require_free(repo: &Repository, name: &str) -> Result<(), String> {
    if !Branch::name_is_valid(name).unwrap_or(false) {
        return Err(format!("`{}` is not a valid branch name", name.escape_debug()));
    }
    if find(repo, name)?.is_some() {
        return Err(format!("a branch `{name}` already exists"));
    }
    // A branch is a file, so it cannot also be a directory that contains other branches.
    let above = name.match_indices('/').map(|(at, _)| &name[..at]);
    for folder in above {
        if find(repo, folder)?.is_some() {
            return Err(format!("a branch `{folder}` exists, so `{name}` cannot be created"));
        }
    }
    let below = repo.references_glob(&format!("{}/*", reference(name)));
    let mut below = below.map_err(|error| error.message().to_owned())?;
    match below.names().next() {
        None => Ok(()),
        Some(_) => Err(format!("branches below `{name}/` exist, so `{name}` cannot be created")),
    }
}

/// Creates the branch `name` at `commit` on behalf of the entry `owner`, if it does not exist. Fails if it
/// exists at another commit: it then has another owner.
pub(crate) fn ensure(repo: &Repository, owner: &str, name: &str, commit: Oid) -> Result<(), String> {
    let refs = Refs::new(repo.commondir(), owner);
    let cannot_make = |error: std::io::Error| format!("cannot create branch `{name}`: {error}");
    refs.recover(&reference(name)).map_err(cannot_make)?;
    let lock = refs.lock(&reference(name), &commit.to_string()).map_err(cannot_make)?;
    match find(repo, name)? {
        None => lock.commit().map_err(cannot_make),
        Some(found) if found == Some(commit) => Ok(()),
        Some(_) => Err(format!("a branch `{name}` already exists")),
    }
}

/// Deletes the branch `name` on behalf of the entry `owner` if everything on it is also on another branch,
/// tag or remote-tracking branch and no worktree has it checked out. With `only_at`, a branch at another
/// commit is kept, because it is not ours.
pub(crate) fn delete_if_safe(
    common: &Path,
    owner: &str,
    name: &str,
    only_at: Option<&str>,
) -> Result<(), WorktreeError> {
    let (refs, full) = (Refs::new(common, owner), reference(name));
    let undeletable = |error: std::io::Error| failed("deleting a branch of", common, error);
    let unreadable = |error: git2::Error| failed("reading the branch of a session in", common, error);
    refs.recover(&full).map_err(undeletable)?;
    // One at a time: otherwise two branches at one commit could each justify deleting the other.
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
    // If it has moved since it was read, it is kept.
    let found = find(&repo, name).map_err(|why| failed("reading", common, why))?.flatten();
    if found == Some(tip) {
        refs.delete(&full, lock).map_err(undeletable)?;
    }
    Ok(())
}

/// Returns the commit of the branch `name`; `None` if there is no such branch.
pub(crate) fn find_tip(repo: &Repository, name: &str) -> Result<Option<Oid>, String> {
    match find(repo, name)? {
        Some(None) => Err(format!("the branch `{name}` is a symbolic ref to another branch")),
        found => Ok(found.flatten()),
    }
}

fn reference(name: &str) -> String {
    format!("refs/heads/{name}")
}

/// Returns the commit of the branch `name`: `None` if there is no such branch, `Some(None)` if it is a
/// symbolic ref.
fn find(repo: &Repository, name: &str) -> Result<Option<Option<Oid>>, String> {
    match repo.find_reference(&reference(name)) {
        Ok(branch) => Ok(Some(branch.target())),
        Err(error) if error.code() == ErrorCode::NotFound => {
            // If an unreadable branch were treated as absent, it would be created again at another commit.
            match every_ref::find_one(repo.commondir(), reference(name).as_bytes()) {
                Ok(None) => Ok(None),
                Ok(Some(_)) => Err(format!("cannot read branch `{name}`: {}", error.message())),
                Err(error) => Err(format!("cannot read branch `{name}`: {error}")),
            }
        }
        Err(error) => Err(format!("cannot read branch `{name}`: {}", error.message())),
    }
}

/// Returns whether any worktree has the branch checked out or is rebasing it.
pub(crate) fn is_checked_out(common: &Path, full: &str) -> Result<bool, WorktreeError> {
    let mut git_dirs = entry::list(common)?;
    git_dirs.push(common.to_owned());
    let head = format!("ref: {full}");
    for dir in &git_dirs {
        for (file, line) in
            [("HEAD", &*head), ("rebase-merge/head-name", full), ("rebase-apply/head-name", full)]
        {
            if contains_only(&dir.join(file), line)? {
                return Ok(true);
            }
        }
    }
    Ok(false)
}

/// Returns whether a file contains exactly `line`. Fails if it cannot be read, because it might.
fn contains_only(file: &Path, line: &str) -> Result<bool, WorktreeError> {
    match read_regular(file, SMALL_FILE) {
        Ok(text) => Ok(text.trim_ascii() == line.as_bytes()),
        Err(error) if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => Ok(false),
        Err(error) => Err(failed("reading", file, error)),
    }
}
