//! Lists the worktrees in a worktree root that have the mark of a store.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use sexton_core::WorktreeError;
use sexton_core::worktree::Marked;

use crate::entry;
use crate::mark::{self, Mark, Reading};
use crate::own_worktree;
use crate::worktree_root::{Lookup, WorktreeRoot};

/// Returns every worktree in the worktree root at `root` with the mark of `store`, sorted by path. Those
/// without a directory are found through the repositories of the others.
pub(crate) fn list(root: &Path, store: &str) -> Result<Vec<Marked>, WorktreeError> {
    let Some(worktree_root) = WorktreeRoot::find(root)? else { return Ok(Vec::new()) };
    let mut entries = find_entries(&worktree_root)?;
    let mut repositories = BTreeSet::new();
    for admin in &entries {
        repositories.extend(entry::load_common(admin)?);
    }
    for common in repositories {
        entries.extend(entry::list(&common)?);
    }
    let mut marked = Vec::new();
    for admin in entries {
        if let Some(mark) = find_mark(&admin, root, store)? {
            marked.push(Marked { location: mark.location(), made_at: mark.made_at, host: mark.host });
        }
    }
    marked.sort_by(|one, other| one.location.path.cmp(&other.location.path));
    marked.dedup_by(|one, other| one.location == other.location);
    Ok(marked)
}

/// Returns the entries that the directories in the worktree root and in its trash refer to.
fn find_entries(worktree_root: &WorktreeRoot) -> Result<BTreeSet<PathBuf>, WorktreeError> {
    let mut entries = BTreeSet::new();
    for name in worktree_root.names()? {
        if let Lookup::Directory(dir) = worktree_root.lookup(&name)? {
            entries.extend(own_worktree::find_named_entry(
                dir.as_fd(),
                worktree_root.root(),
                &worktree_root.root().join(name),
            )?);
        }
    }
    if let Some(trash) = worktree_root.find_trash()? {
        for name in trash.names()? {
            if let Lookup::Directory(dir) = trash.lookup(&name)? {
                entries.extend(own_worktree::find_named_entry(
                    dir.as_fd(),
                    worktree_root.root(),
                    &trash.path().join(name),
                )?);
            }
        }
    }
    Ok(entries)
}

fn find_mark(admin: &Path, root: &Path, store: &str) -> Result<Option<Mark>, WorktreeError> {
    match mark::load(admin)? {
        Reading::Mark(mark) if mark.store == store && mark.root() == root => Ok(Some(*mark)),
        _ => Ok(None),
    }
}
