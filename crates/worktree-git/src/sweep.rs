//! Emptying the trash: what is nobody's any more is deleted, unless somebody is in it or something is
//! mounted there.

use std::ffi::OsString;
use std::os::fd::AsFd;
use std::path::Path;

use sexton_core::{ProcessProbe, WorktreeError};

use crate::delete;
use crate::entry;
use crate::mounts::Mounts;
use crate::site;
use crate::yard::{self, Lies, Trash, Yard};

/// Empties the trash of the yard at `root`, and says how many worktrees were in it.
pub(crate) async fn sweep(root: &Path, probe: &dyn ProcessProbe) -> Result<usize, WorktreeError> {
    let Some(yard) = Yard::find(root)? else { return Ok(0) };
    let Some(trash) = yard.find_trash()? else { return Ok(0) };
    let mut names = Vec::new();
    for name in trash.names()? {
        if is_over(&yard, &trash, &name)? {
            names.push(name);
        }
    }
    if names.is_empty() {
        return Ok(0);
    }
    let mounts = Mounts::load()?;
    names.retain(|name| mounts.find_inside(&trash.path().join(name)).is_none());
    let names = leave_occupied(names, &trash, probe).await;
    delete::delete(trash.dir(), trash.path(), &names)
}

/// Whether what lies under `name` is nobody's: neither being built nor on its way out.
fn is_over(yard: &Yard, trash: &Trash, name: &OsString) -> Result<bool, WorktreeError> {
    if yard::is_unsaved(name) {
        return Ok(false);
    }
    let Some(session) = yard::find_owner(name) else { return Ok(true) };
    // Whoever works on the session may have made it just now and not yet said whose it is.
    let _lock = yard.lock(&session)?;
    let Lies::Directory(dir) = trash.look(name)? else { return Ok(true) };
    let path = trash.path().join(name);
    let Some(admin) = site::find_named_entry(dir.as_fd(), yard.root(), &path)? else { return Ok(true) };
    // While it is registered, a removal that was cut off can still be undone, or must be finished.
    let registered = entry::load_worktree(&admin)?;
    Ok(registered.is_none_or(|worktree| worktree.parent() != Some(yard.root())))
}

/// Without those that somebody is in, or may be in.
async fn leave_occupied(names: Vec<OsString>, trash: &Trash, probe: &dyn ProcessProbe) -> Vec<OsString> {
    // Mostly nobody is in any of them, and to look once is enough.
    if probe.occupants(trash.path()).await.is_ok_and(|occupants| occupants.is_empty()) {
        return names;
    }
    let mut empty = Vec::new();
    for name in names {
        if probe.occupants(&trash.path().join(&name)).await.is_ok_and(|occupants| occupants.is_empty()) {
            empty.push(name);
        }
    }
    empty
}
