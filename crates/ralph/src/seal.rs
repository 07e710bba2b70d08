//! Sealing: commits what a successful agent left in its worktree to its branch.

use std::path::Path;

use sexton_core::config::Uncommitted;

use crate::base_branch::{BaseBranch, named};
use crate::git::{Git, GitError, error_text};
use crate::schedule::Sealed;
use crate::ticket::Ticket;

/// Commits and returns the work in the worktree at `place`. The inner error says what the agent left unfinished; then
/// the attempt failed, whatever its exit status.
pub(crate) fn seal(
    place: &Path,
    ticket: &Ticket,
    base_branch: &BaseBranch,
    uncommitted: Uncommitted,
) -> Result<Result<Sealed, String>, GitError> {
    let git = Git::at(place);
    let unmerged = git.output(&["diff", "--name-only", "--diff-filter=U", "-z"])?;
    let unmerged: Vec<_> = unmerged.split('\0').filter(|path| !path.is_empty()).collect();
    if !unmerged.is_empty() {
        return Ok(Err(format!("it left unresolved merge conflicts: {}", named(&unmerged))));
    }
    if uncommitted == Uncommitted::Commit
        && let Some(why) = commit_rest(&git, ticket)?
    {
        return Ok(Err(why));
    }
    let Some(head) = git.find_commit("HEAD")? else {
        return Ok(Err("its worktree has no commit".to_owned()));
    };
    let branch = format!("refs/heads/{}", ticket.branch());
    // The agent may have checked out another branch, but HEAD must contain the commits of its branch.
    if let Some(tip) = git.find_commit(&branch)?
        && !git.contains(&head, &tip)?
    {
        return Ok(Err(format!("HEAD of its worktree does not contain its branch `{}`", ticket.branch())));
    }
    Ok(Ok(if base_branch.contains(&head)? { Sealed::Nothing } else { Sealed::Work { tip: head } }))
}

/// Commits uncommitted changes. Returns why that is not possible.
fn commit_rest(git: &Git, ticket: &Ticket) -> Result<Option<String>, GitError> {
    if git.output(&["status", "--porcelain", "--untracked-files=normal"])?.is_empty() {
        return Ok(None);
    }
    let added = git.run(&["add", "--all"])?;
    if !added.status.success() {
        return Ok(Some(format!("cannot commit its uncommitted changes: {}", error_text(&added))));
    }
    // For example, if only line endings differ, there is nothing to commit.
    if git.test(&["diff", "--cached", "--quiet"])? {
        return Ok(None);
    }
    let message = format!("{ticket}: changes that the agent did not commit");
    git.output_with_identity(&["commit", "--quiet", "--no-verify", "--message", &message])?;
    Ok(None)
}
