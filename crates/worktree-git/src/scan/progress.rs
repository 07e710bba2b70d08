//! Whether git was in the middle of something in a worktree.

use std::io;
use std::path::Path;

use sexton_durable::find;

/// What git leaves in a worktree's own directory while it waits for its user.
const SIGNS: [&str; 9] = [
    "MERGE_HEAD",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "BISECT_LOG",
    "SQUASH_MSG",
    "rebase-merge",
    "rebase-apply",
    "sequencer",
];

/// Whether a merge, a rebase or the like was not finished.
pub(crate) fn is_unfinished(admin: &Path) -> io::Result<bool> {
    for sign in SIGNS {
        if find(admin.join(sign).symlink_metadata())?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
