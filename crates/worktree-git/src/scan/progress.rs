//! Detects an unfinished git operation in a worktree.

use std::io;
use std::path::Path;

use sexton_durable::find;

/// The files that git keeps in a worktree's git directory while an operation is unfinished.
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

/// Returns whether a merge, a rebase or a similar operation is unfinished.
pub(crate) fn is_unfinished(admin: &Path) -> io::Result<bool> {
    for sign in SIGNS {
        if find(admin.join(sign).symlink_metadata())?.is_some() {
            return Ok(true);
        }
    }
    Ok(false)
}
