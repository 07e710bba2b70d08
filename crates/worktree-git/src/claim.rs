//! Putting a session's mark on a worktree that something else made in the yard.

use std::os::fd::AsFd;

use sexton_core::worktree::Plot;
use sexton_core::{Time, WorktreeError};
use sexton_durable::sync_parent;

use crate::fault::{failed, not_ours};
use crate::mark::{self, Mark, Reading};
use crate::site;
use crate::yard::{Lies, Yard};

/// Marks the worktree at `plot`, where nobody has. Again is the same.
pub(crate) fn claim(plot: &Plot, now: Time) -> Result<(), WorktreeError> {
    let name = site::require_name(plot)?;
    let nothing = || not_ours(plot, "there is no worktree");
    let yard = Yard::find(&plot.root)?.ok_or_else(nothing)?;
    let _lock = yard.lock(&plot.session)?;
    let dir = match yard.look(name)? {
        Lies::Directory(dir) => dir,
        Lies::Nothing => return Err(nothing()),
        Lies::Other(what) => return Err(not_ours(plot, format!("it is {what}"))),
    };
    let admin = site::find_registration(plot, dir.as_fd())?.map_err(|why| not_ours(plot, why))?;
    match mark::load(&admin)? {
        Reading::Mark(mark) => mark.require(plot).map_err(|why| not_ours(plot, why)),
        Reading::Unreadable(why) => Err(not_ours(plot, why)),
        Reading::None => {
            let file = admin.join(mark::FILE);
            let written = Mark::of_claimed(plot, now).write_new(&admin).and_then(|()| sync_parent(&file));
            written.map_err(|error| failed("marking", &admin, error))
        }
    }
}
