//! HEAD of a restored worktree: its branch if that is unchanged and free, otherwise the commit (detached).

use git2::{ErrorCode, Oid};
use sexton_core::WorktreeError;

use super::Restoration;
use crate::branch;
use crate::fault::failed;

/// HEAD of a restored worktree.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Head {
    /// A branch by its full name; it is created at `make_at` if that is given.
    Branch { name: String, make_at: Option<Oid> },
    /// A commit.
    Detached(Oid),
}

/// Chooses HEAD for a restored worktree.
pub(super) fn choose(restoration: &Restoration<'_>) -> Result<Head, WorktreeError> {
    let manifest = &restoration.stored.manifest;
    let commit = manifest.head.as_ref().map(|_| restoration.stored.base);
    let branch = manifest.branch.as_ref().and_then(|branch| branch.as_os_str().to_str());
    match (branch, commit) {
        (Some(name), _) if is_free(restoration, name)? => {
            let there = find(restoration, name)?;
            Ok(match (there, commit) {
                (Some(tip), Some(commit)) if tip != commit => Head::Detached(commit),
                (Some(_), None) => unborn(restoration),
                (Some(_), Some(_)) => Head::Branch { name: name.to_owned(), make_at: None },
                (None, make_at) => Head::Branch { name: name.to_owned(), make_at },
            })
        }
        (_, Some(commit)) => Ok(Head::Detached(commit)),
        (_, None) => Ok(unborn(restoration)),
    }
}

/// A branch of its own for work that was on none yet: HEAD cannot be a commit where there is none.
fn unborn(restoration: &Restoration<'_>) -> Head {
    let name = format!("refs/heads/restored/{}", restoration.stored.manifest.session);
    Head::Branch { name, make_at: None }
}

fn is_free(restoration: &Restoration<'_>, name: &str) -> Result<bool, WorktreeError> {
    Ok(!branch::is_checked_out(restoration.common, name)?)
}

fn find(restoration: &Restoration<'_>, name: &str) -> Result<Option<Oid>, WorktreeError> {
    match restoration.repository.refname_to_id(name) {
        Ok(tip) => Ok(Some(tip)),
        Err(error) if error.code() == ErrorCode::NotFound => Ok(None),
        Err(error) => Err(failed("reading the branches of", restoration.common, error)),
    }
}

impl Head {
    /// The content of the file HEAD.
    pub(super) fn text(&self) -> String {
        match self {
            Head::Branch { name, .. } => format!("ref: {name}\n"),
            Head::Detached(commit) => format!("{commit}\n"),
        }
    }

    /// Creates the branch if it is missing. Fails if another process has created it since: HEAD would then
    /// point to something else.
    pub(super) fn make_branch(&self, restoration: &Restoration<'_>) -> Result<(), WorktreeError> {
        let Head::Branch { name, make_at: Some(commit) } = self else { return Ok(()) };
        restoration
            .repository
            .reference(name, *commit, false, "branch: restored with its worktree")
            .map(drop)
            .map_err(|error| failed("recreating the branch in", restoration.common, error))
    }

    /// Returns the branch's short name.
    pub(super) fn short_branch(&self) -> Option<String> {
        match self {
            Head::Branch { name, .. } => Some(name.strip_prefix("refs/heads/").unwrap_or(name).to_owned()),
            Head::Detached(_) => None,
        }
    }
}
