//! The rescue of a worktree that is gone: what an earlier one saved.

use sexton_core::WorktreeError;
use sexton_core::worktree::{Plot, Rescued};

use crate::fault::failed;
use crate::repository;
use crate::rescue::publish;
use crate::rescues::Stored;

/// What was saved of `plot`, if anything was.
pub(crate) fn find_earlier(plot: &Plot) -> Result<Rescued, WorktreeError> {
    // Where the repository is gone as well, there is nobody left to ask and nothing left to save.
    if repository::find_common(&plot.repo)?.is_none() {
        return Ok(Rescued { saved: None });
    }
    let repo = repository::open(&plot.repo)?;
    let commit = publish::find(&repo, &plot.session)
        .map_err(|error| failed("reading the rescues of", &plot.repo, error))?;
    let stored = commit.map(|commit| Stored::load(&repo, commit)).transpose();
    let stored = stored.map_err(|why| failed("reading the rescues of", &plot.repo, why))?;
    Ok(Rescued { saved: stored.map(|stored| stored.shown()) })
}
