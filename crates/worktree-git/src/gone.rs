//! The rescue of a worktree that no longer exists: what an earlier run saved.

use sexton_core::WorktreeError;
use sexton_core::worktree::{Rescued, WorktreeLocation};

use crate::fault::failed;
use crate::repository;
use crate::rescue::publish;
use crate::rescues::Stored;

/// Returns what was saved of `location`, if anything was.
pub(crate) fn find_earlier(location: &WorktreeLocation) -> Result<Rescued, WorktreeError> {
    // If the repository is gone too, no rescue can exist and nothing is left to save.
    if repository::find_common(&location.repo)?.is_none() {
        return Ok(Rescued { saved: None });
    }
    let repo = repository::open(&location.repo)?;
    let commit = publish::find(&repo, &location.session)
        .map_err(|error| failed("reading the rescues of", &location.repo, error))?;
    let stored = commit.map(|commit| Stored::load(&repo, commit)).transpose();
    let stored = stored.map_err(|why| failed("reading the rescues of", &location.repo, why))?;
    Ok(Rescued { saved: stored.map(|stored| stored.shown()) })
}
