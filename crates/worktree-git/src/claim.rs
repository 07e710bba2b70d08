//! Puts a session's mark on a worktree that another program made in the worktree root.

use std::os::fd::AsFd;

use sexton_core::worktree::WorktreeLocation;
use sexton_core::{Host, Time, WorktreeError};

use crate::fault::{failed, not_ours};
use crate::mark::{self, Mark, Reading};
use crate::own_worktree;
use crate::worktree_root::{Lookup, WorktreeRoot};

/// Marks the worktree at `location` if it has no mark. A repeated call changes nothing.
pub(crate) fn claim(
    location: &WorktreeLocation,
    host: Option<&Host>,
    now: Time,
) -> Result<(), WorktreeError> {
    let name = own_worktree::require_name(location)?;
    let nothing = || not_ours(location, "there is no worktree");
    let worktree_root = WorktreeRoot::find(&location.root)?.ok_or_else(nothing)?;
    let _lock = worktree_root.lock(&location.session)?;
    let dir = match worktree_root.lookup(name)? {
        Lookup::Directory(dir) => dir,
        Lookup::Nothing => return Err(nothing()),
        Lookup::Other(what) => return Err(not_ours(location, format!("it is {what}"))),
    };
    let admin =
        own_worktree::find_registration(location, dir.as_fd())?.map_err(|why| not_ours(location, why))?;
    match mark::load(&admin)? {
        Reading::Mark(mark) => mark.require(location).map_err(|why| not_ours(location, why)),
        Reading::Unreadable(why) => Err(not_ours(location, why)),
        Reading::None => {
            // A killed claim may have left one, and a claim of version 0.1.0 an empty mark.
            mark::remove_leftovers(&admin).map_err(|error| failed("marking", &admin, error))?;
            let mark = Mark::of_claimed(location, now).on(host);
            mark.write_new(&admin).map_err(|error| failed("marking", &admin, error))
        }
    }
}
