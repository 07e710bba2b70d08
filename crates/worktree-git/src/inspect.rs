//! Reports what is at a worktree location, for a caller that decides what to do. Changes nothing.

use sexton_core::WorktreeError;
use sexton_core::worktree::{Inspection, WorktreeLocation};

use crate::fault::failed;
use crate::own_worktree::{self, Found, OwnWorktree};
use crate::scan::commits::own_commits;
use crate::scan::{Subject, is_dirty};

/// How often to retry if another process removes the worktree during the inspection.
const ATTEMPTS: usize = 5;

/// Inspects a worktree location, as far as needed to decide whether anything in it exists nowhere else. It
/// takes no lock, so that it writes nothing; if another process moves the worktree meanwhile, it tries again.
pub(crate) fn inspect(
    location: &WorktreeLocation,
    rescue_ignored: bool,
) -> Result<Inspection, WorktreeError> {
    with_retries(|| describe(own_worktree::find(location)?, rescue_ignored))
}

/// Inspects a worktree location as if a worktree that another program made there had been claimed.
pub(crate) fn survey(location: &WorktreeLocation, rescue_ignored: bool) -> Result<Inspection, WorktreeError> {
    with_retries(|| describe(own_worktree::find_claimable(location)?, rescue_ignored))
}

fn with_retries(
    attempt_once: impl Fn() -> Result<Inspection, WorktreeError>,
) -> Result<Inspection, WorktreeError> {
    let mut attempt = 1;
    loop {
        match attempt_once() {
            Err(WorktreeError::Backend { .. } | WorktreeError::NoRepository { .. }) if attempt < ATTEMPTS => {
                attempt += 1;
            }
            outcome => return outcome,
        }
    }
}

fn describe(found: Found, rescue_ignored: bool) -> Result<Inspection, WorktreeError> {
    match found {
        Found::Absent => Ok(Inspection::Absent),
        Found::Foreign(why) => Ok(Inspection::Foreign(why)),
        Found::Ours(worktree) => Ok(Inspection::Present {
            dirty: is_dirty(&worktree, rescue_ignored)?,
            own_commits: count_own_commits(&worktree)?,
        }),
    }
}

fn count_own_commits(worktree: &OwnWorktree) -> Result<usize, WorktreeError> {
    let subject = Subject::open(worktree)?;
    let Some((commit, _)) = subject.head.commit else { return Ok(0) };
    own_commits(&subject.repository, &[commit], subject.head.branch.as_deref())
        .map(|commits| commits.len())
        .map_err(|error| failed("counting the commits of", &worktree.location.path, error))
}
