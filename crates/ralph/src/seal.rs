//! Sealing: what a successful agent left in its worktree becomes a commit on its branch.

use std::path::Path;

use sexton_core::config::Uncommitted;

use crate::git::{Git, GitError, complaint};
use crate::mainline::{Mainline, named};
use crate::schedule::Sealed;
use crate::ticket::Ticket;

/// What the agent left in the worktree at `place`. The inner error says what it left undone: then it did not
/// succeed, whatever it said.
pub(crate) fn seal(
    place: &Path,
    ticket: &Ticket,
    mainline: &Mainline,
    uncommitted: Uncommitted,
) -> Result<Result<Sealed, String>, GitError> {
    let git = Git::at(place);
    let unmerged = git.say(&["diff", "--name-only", "--diff-filter=U", "-z"])?;
    let unmerged: Vec<_> = unmerged.split('\0').filter(|path| !path.is_empty()).collect();
    if !unmerged.is_empty() {
        return Ok(Err(format!("it left a merge unfinished: {}", named(&unmerged))));
    }
    if uncommitted == Uncommitted::Commit
        && let Some(why) = commit_rest(&git, ticket)?
    {
        return Ok(Err(why));
    }
    let Some(head) = git.find_commit("HEAD")? else {
        return Ok(Err("it left its worktree without a commit".to_owned()));
    };
    let branch = format!("refs/heads/{}", ticket.branch());
    // It may have gone on elsewhere, but not leave behind what it did here.
    if let Some(tip) = git.find_commit(&branch)?
        && !git.contains(&head, &tip)?
    {
        return Ok(Err(format!("it left its branch `{}` for another commit", ticket.branch())));
    }
    Ok(Ok(if mainline.contains(&head)? { Sealed::Nothing } else { Sealed::Work { tip: head } }))
}

/// Commits what the agent did not. Says why that cannot be done.
fn commit_rest(git: &Git, ticket: &Ticket) -> Result<Option<String>, GitError> {
    if git.say(&["status", "--porcelain", "--untracked-files=normal"])?.is_empty() {
        return Ok(None);
    }
    let added = git.run(&["add", "--all"])?;
    if !added.status.success() {
        return Ok(Some(format!("what it left cannot be committed: {}", complaint(&added))));
    }
    // Line ends alone, for one, are nothing to commit.
    if git.asks(&["diff", "--cached", "--quiet"])? {
        return Ok(None);
    }
    let message = format!("{ticket}: what its agent left uncommitted");
    git.sign(&["commit", "--quiet", "--no-verify", "--message", &message])?;
    Ok(None)
}
