//! What is at a plot, for a caller that decides what to do. Changes nothing.

use sexton_core::WorktreeError;
use sexton_core::worktree::{Inspection, Plot};

use crate::fault::failed;
use crate::scan::commits::own_commits;
use crate::scan::{Subject, is_dirty};
use crate::site::{self, Found, Site};

/// How often to look again at a worktree that somebody takes away meanwhile.
const ATTEMPTS: usize = 5;

/// Looks at a plot, as far as it must to tell whether anything in it exists nowhere else. It takes no lock, so
/// that looking writes nothing; what somebody else moves under its eyes is looked at again.
pub(crate) fn inspect(plot: &Plot, rescue_ignored: bool) -> Result<Inspection, WorktreeError> {
    patiently(|| describe(site::find(plot)?, rescue_ignored))
}

/// Looks at a plot as if what something else made there had been claimed.
pub(crate) fn survey(plot: &Plot, rescue_ignored: bool) -> Result<Inspection, WorktreeError> {
    patiently(|| describe(site::find_claimable(plot)?, rescue_ignored))
}

fn patiently(look: impl Fn() -> Result<Inspection, WorktreeError>) -> Result<Inspection, WorktreeError> {
    let mut attempt = 1;
    loop {
        match look() {
            Err(WorktreeError::Backend { .. } | WorktreeError::NoRepository { .. }) if attempt < ATTEMPTS => {
                attempt += 1;
            }
            looked => return looked,
        }
    }
}

fn describe(found: Found, rescue_ignored: bool) -> Result<Inspection, WorktreeError> {
    match found {
        Found::Absent => Ok(Inspection::Absent),
        Found::Foreign(why) => Ok(Inspection::Foreign(why)),
        Found::Ours(site) => Ok(Inspection::Present {
            dirty: is_dirty(&site, rescue_ignored)?,
            own_commits: count_own_commits(&site)?,
        }),
    }
}

fn count_own_commits(site: &Site) -> Result<usize, WorktreeError> {
    let subject = Subject::open(site)?;
    let Some((commit, _)) = subject.head.commit else { return Ok(0) };
    own_commits(&subject.repository, &[commit], subject.head.branch.as_deref())
        .map(|commits| commits.len())
        .map_err(|error| failed("counting the commits of", &site.plot.path, error))
}
