//! Empties the trash: deletes entries that no session owns, unless a process is inside or something is
//! mounted there.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::Path;

use sexton_core::worktree::{Leftover, Spare, Swept};
use sexton_core::{ProcessProbe, WorktreeError};

use crate::clear;
use crate::delete;
use crate::entry;
use crate::fault::with_sources;
use crate::mounts::Mounts;
use crate::own_worktree;
use crate::worktree_root::{self, Lookup, Trash, WorktreeRoot};

/// Deletes the entries in the trash of the worktree root at `root`, except those of sessions that `spare`
/// reports as another host's.
pub(crate) async fn sweep(
    root: &Path,
    probe: &dyn ProcessProbe,
    spare: &Spare<'_>,
) -> Result<Swept, WorktreeError> {
    let nothing = Swept::default();
    let Some(worktree_root) = WorktreeRoot::find(root)? else { return Ok(nothing) };
    let Some(trash) = worktree_root.find_trash()? else { return Ok(nothing) };
    let mut sweeping = Sweeping { trash: &trash, names: Vec::new(), left: BTreeMap::new() };
    for name in trash.names()? {
        if worktree_root::find_owner(&name).is_some_and(|session| spare(&session)) {
            continue;
        }
        match is_unowned(&worktree_root, &trash, &name) {
            Ok(true) => sweeping.names.push(name),
            Ok(false) => {}
            Err(error) => sweeping.keep(name, with_sources(&error)),
        }
    }
    if !sweeping.names.is_empty() {
        sweeping.keep_mounted()?;
        sweeping.keep_occupied(probe).await;
        Ok(sweeping.delete())
    } else {
        Ok(Swept { deleted: 0, left: sweeping.leftovers() })
    }
}

/// The entries to delete, and those to keep.
struct Sweeping<'a> {
    trash: &'a Trash,
    names: Vec<OsString>,
    /// Why an entry is kept, by its name.
    left: BTreeMap<OsString, String>,
}

impl Sweeping<'_> {
    fn keep(&mut self, name: OsString, why: String) {
        self.left.insert(name, why);
    }

    /// Keeps the entries that contain a mount point.
    fn keep_mounted(&mut self) -> Result<(), WorktreeError> {
        let mounts = Mounts::load()?;
        for name in std::mem::take(&mut self.names) {
            match mounts.find_inside(&self.trash.path().join(&name)) {
                None => self.names.push(name),
                Some(mount) => {
                    let (path, mount) = (self.trash.path().join(&name), mount.display());
                    let why = format!("cannot delete {}: something is mounted at {mount}", path.display());
                    self.keep(name, why);
                }
            }
        }
        Ok(())
    }

    /// Keeps the entries that a process is in, or may be in.
    async fn keep_occupied(&mut self, probe: &dyn ProcessProbe) {
        // Usually no process is in any of them, and one query is enough.
        if probe.occupants(self.trash.path()).await.is_ok_and(|occupants| occupants.is_empty()) {
            return;
        }
        for name in std::mem::take(&mut self.names) {
            let path = self.trash.path().join(&name);
            match clear::find_occupants(probe, &path).await {
                None => self.names.push(name),
                Some(why) => self.keep(name, format!("cannot delete {}: {why}", path.display())),
            }
        }
    }

    fn delete(mut self) -> Swept {
        let deleted = delete::delete(self.trash.dir(), self.trash.path(), &self.names);
        for (name, undeleted) in deleted.left {
            self.keep(name, undeleted.to_string());
        }
        Swept { deleted: deleted.gone, left: self.leftovers() }
    }

    fn leftovers(self) -> Vec<Leftover> {
        if sexton_mutant::is("removal_always_done") {
            return Vec::new();
        }
        let leftover = |(name, why): (OsString, String)| Leftover {
            session: worktree_root::find_owner(&name),
            path: self.trash.path().join(&name),
            why,
        };
        self.left.into_iter().map(leftover).collect()
    }
}

/// Returns whether the entry `name` belongs to no session: it is neither being built nor being removed.
fn is_unowned(worktree_root: &WorktreeRoot, trash: &Trash, name: &OsString) -> Result<bool, WorktreeError> {
    if worktree_root::is_unsaved(name) {
        return Ok(false);
    }
    let Some(session) = worktree_root::find_owner(name) else { return Ok(true) };
    // A process that works on the session may have just created the entry and not yet written its `.git`
    // file.
    let _lock = worktree_root.lock(&session)?;
    let Lookup::Directory(dir) = trash.lookup(name)? else { return Ok(true) };
    let path = trash.path().join(name);
    let Some(admin) = own_worktree::find_named_entry(dir.as_fd(), worktree_root.root(), &path)? else {
        return Ok(true);
    };
    // While it is registered, an interrupted removal can still be undone or has to be finished.
    let registered = entry::load_worktree(&admin)?;
    Ok(registered.is_none_or(|worktree| worktree.parent() != Some(worktree_root.root())))
}
