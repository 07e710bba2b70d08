//! The worktrees of a yard that carry the mark of a store.

use std::collections::BTreeSet;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use sexton_core::WorktreeError;
use sexton_core::worktree::Marked;

use crate::entry;
use crate::mark::{self, Mark, Reading};
use crate::site;
use crate::yard::{Lies, Yard};

/// Every worktree in the yard at `root` with the mark of `store`, by path. Those whose directory is gone are
/// found through the repositories of the others.
pub(crate) fn list(root: &Path, store: &str) -> Result<Vec<Marked>, WorktreeError> {
    let Some(yard) = Yard::find(root)? else { return Ok(Vec::new()) };
    let mut entries = find_entries(&yard)?;
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
            marked.push(Marked { plot: mark.plot(), made_at: mark.made_at });
        }
    }
    marked.sort_by(|one, other| one.plot.path.cmp(&other.plot.path));
    marked.dedup_by(|one, other| one.plot == other.plot);
    Ok(marked)
}

/// The entries that the directories in the yard and in its trash name.
fn find_entries(yard: &Yard) -> Result<BTreeSet<PathBuf>, WorktreeError> {
    let mut entries = BTreeSet::new();
    for name in yard.names()? {
        if let Lies::Directory(dir) = yard.look(&name)? {
            entries.extend(site::find_named_entry(dir.as_fd(), yard.root(), &yard.root().join(name))?);
        }
    }
    if let Some(trash) = yard.find_trash()? {
        for name in trash.names()? {
            if let Lies::Directory(dir) = trash.look(&name)? {
                entries.extend(site::find_named_entry(dir.as_fd(), yard.root(), &trash.path().join(name))?);
            }
        }
    }
    Ok(entries)
}

fn find_mark(admin: &Path, root: &Path, store: &str) -> Result<Option<Mark>, WorktreeError> {
    match mark::load(admin)? {
        Reading::Mark(mark) if mark.store == store && mark.root() == root => Ok(Some(mark)),
        _ => Ok(None),
    }
}
