//! Removes a worktree: moves it to the trash, rescues it, then deletes its entry.
//!
//! One rename moves the files into the trash. The name is free at once, and no process can enter through it
//! any more; then a second check looks for processes inside. Only then is the worktree rescued: it cannot
//! change any more, so it has to be read only once. Until the rescue is durable, its name in the trash marks
//! it as unsaved, and no sweep deletes it. Then its admin entry is removed. A sweep deletes the files.
//!
//! If anything prevents the removal, the worktree is rescued in place and stays there.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::io::Errno;
use sexton_core::probe::Occupants;
use sexton_core::worktree::{Cleared, Removal, WorktreeLocation, WorktreeOptions};
use sexton_core::{ProcessProbe, Time, WorktreeError};

use crate::entry;
use crate::fault::{failed, moved};
use crate::gone;
use crate::mounts::Mounts;
use crate::own_worktree::{self, OwnWorktree, Workdir};
use crate::remove_entry;
use crate::repository;
use crate::rescue;
use crate::worktree_root::{self, Lookup, Trash, WorktreeRoot};

/// Saves what is at `location`, and removes it or what is left of it.
pub(crate) async fn clear(
    location: &WorktreeLocation,
    probe: &dyn ProcessProbe,
    options: &WorktreeOptions,
    now: Time,
) -> Result<Cleared, WorktreeError> {
    if sexton_mutant::is("follow_links") {
        delete_unchecked(location);
    }
    let name = own_worktree::require_name(location)?;
    let worktree_root = WorktreeRoot::find(&location.root)?;
    let _lock =
        worktree_root.as_ref().map(|worktree_root| worktree_root.lock(&location.session)).transpose()?;
    let Some(mut worktree) = find_own_worktree(location, worktree_root.as_ref(), name)? else {
        if let Some(common) = repository::find_common(&location.repo)? {
            remove_entry::finish(location, &common)?;
        }
        return Ok(Cleared { rescued: gone::find_earlier(location)?, removal: Ok(Removal::AlreadyGone) });
    };
    let Some(worktree_root) = worktree_root.filter(|_| worktree.workdir.is_some()) else {
        return clear_entry(location, &worktree, options, now);
    };
    let context = RemovalContext { location, trash: worktree_root.trash()?, worktree_root, name, probe };
    let stays = context.isolate(&mut worktree).await?;
    let rescued = match rescue::rescue(&worktree, options, now) {
        Ok(rescued) => rescued,
        Err(error) => {
            let then = worktree.workdir.as_ref().map(|workdir| workdir.path.clone());
            context.move_back(&mut worktree, String::new())?;
            let now = worktree.workdir.as_ref().map(|workdir| workdir.path.clone());
            return Err(match then.zip(now) {
                Some((then, now)) => moved(error, &then, &now),
                None => error,
            });
        }
    };
    let removal = match stays {
        Some(why) => Ok(Removal::Kept(why)),
        None => context.finish_removal(&mut worktree).map(|()| Removal::Removed),
    };
    Ok(Cleared { rescued, removal })
}

/// Deletes without checks, like a cleaner that trusts a path. Only the mutant that the fault campaign must
/// detect calls it.
fn delete_unchecked(location: &WorktreeLocation) {
    if let Ok(place) = location.path.canonicalize() {
        let _ = std::fs::remove_dir_all(place);
    }
}

/// Returns the session's worktree, wherever its files are.
fn find_own_worktree(
    location: &WorktreeLocation,
    worktree_root: Option<&WorktreeRoot>,
    name: &OsStr,
) -> Result<Option<OwnWorktree>, WorktreeError> {
    if let Some(worktree) = own_worktree::find_ours(location)? {
        return Ok(Some(worktree));
    }
    // The entry of an unsaved worktree in the trash was pruned after its removal was interrupted. Its files
    // are moved back, where the user can find them; without an entry, Sexton can neither save nor remove
    // them.
    let Some(worktree_root) = worktree_root else { return Ok(None) };
    let Some(trash) = worktree_root.find_trash()? else { return Ok(None) };
    let Some(unsaved) = trash.find_unsaved(&location.session)? else { return Ok(None) };
    worktree_root
        .move_back(&trash, &unsaved, name)
        .map_err(|error| failed("moving back", &trash.path().join(&unsaved), error))?;
    own_worktree::find_ours(location)
}

/// Clears what is left of a worktree whose directory is missing.
fn clear_entry(
    location: &WorktreeLocation,
    worktree: &OwnWorktree,
    options: &WorktreeOptions,
    now: Time,
) -> Result<Cleared, WorktreeError> {
    let rescued = rescue::rescue(worktree, options, now)?;
    let removal = match find_lock(worktree)? {
        Some(why) => Ok(Removal::Kept(why)),
        None => remove_entry::remove(location, &worktree.common, &worktree.admin).map(|()| Removal::Removed),
    };
    Ok(Cleared { rescued, removal })
}

/// Returns the reason to keep a worktree that its user has locked.
fn find_lock(worktree: &OwnWorktree) -> Result<Option<String>, WorktreeError> {
    let reason = entry::find_lock(&worktree.admin)?.filter(|_| worktree.complete);
    Ok(reason.map(|reason| match &*reason {
        "" => "it is locked".to_owned(),
        reason => format!("it is locked: {reason}"),
    }))
}

/// What is needed to move a worktree into the trash and back.
struct RemovalContext<'a> {
    location: &'a WorktreeLocation,
    worktree_root: WorktreeRoot,
    trash: Trash,
    name: &'a OsStr,
    probe: &'a dyn ProcessProbe,
}

impl RemovalContext<'_> {
    /// Moves the worktree to where no process can write into it, or returns why it stays in place.
    async fn isolate(&self, worktree: &mut OwnWorktree) -> Result<Option<String>, WorktreeError> {
        let mut stays = find_lock(worktree)?;
        let Some(workdir) = &mut worktree.workdir else { return Ok(stays) };
        if stays.is_none() {
            let mounts = Mounts::load()?;
            let mount = mounts.find_inside(&workdir.path);
            stays = mount.map(|mount| format!("something is mounted at {}", mount.display()));
        }
        // Already in the trash: a removal was interrupted before its second check, or a creation was
        // interrupted.
        if stays.is_none() && workdir.trashed.is_none() {
            stays = find_occupants(self.probe, &workdir.path).await;
            if stays.is_none() {
                self.discard(workdir)?;
            }
        }
        if stays.is_none() {
            stays = match self.find_late_obstacle(workdir).await {
                Ok(stays) => stays,
                Err(error) => {
                    self.move_back(worktree, String::new())?;
                    return Err(error);
                }
            };
        }
        stays.map(|why| self.move_back(worktree, why)).transpose()
    }

    fn discard(&self, workdir: &mut Workdir) -> Result<(), WorktreeError> {
        let unsaved = worktree_root::unsaved_name_of(&self.location.session);
        self.worktree_root
            .discard(self.name, &self.trash, &unsaved)
            .map_err(|error| failed("moving into the trash", &self.location.path, error))?;
        workdir.path = self.trash.path().join(&unsaved);
        workdir.trashed = Some(unsaved);
        Ok(())
    }

    /// Returns why the worktree should not have been moved.
    async fn find_late_obstacle(&self, workdir: &Workdir) -> Result<Option<String>, WorktreeError> {
        let found = workdir.trashed.as_ref().map_or(Ok(Lookup::Nothing), |name| self.trash.lookup(name))?;
        let same = match found {
            Lookup::Directory(moved) => is_same(moved.as_fd(), workdir.dir.as_fd()),
            Lookup::Nothing | Lookup::Other(_) => Ok(false),
        };
        if !same.map_err(|error| failed("checking", &workdir.path, error))? {
            return Ok(Some("something else has just been put in its place".to_owned()));
        }
        Ok(find_occupants(self.probe, &workdir.path).await)
    }

    /// Undoes the move, if there was one. If the name is taken by now, the worktree stays in the trash and
    /// registered, so that no sweep deletes it.
    fn move_back(&self, worktree: &mut OwnWorktree, why: String) -> Result<String, WorktreeError> {
        let Some(workdir) = &mut worktree.workdir else { return Ok(why) };
        let Some(trashed) = &workdir.trashed else { return Ok(why) };
        match self.worktree_root.move_back(&self.trash, trashed, self.name) {
            Ok(()) => {
                (workdir.path, workdir.trashed) = (self.location.path.clone(), None);
                Ok(why)
            }
            Err(Errno::EXIST) => {
                Ok(format!("{why}; its path is taken, so it is at {}", workdir.path.display()))
            }
            Err(error) => Err(failed("moving back", &workdir.path, error)),
        }
    }

    /// Completes the removal of a saved worktree: leaves its files to the next sweep and removes its entry.
    fn finish_removal(&self, worktree: &mut OwnWorktree) -> Result<(), WorktreeError> {
        if let Some(Workdir { trashed: Some(name), .. }) = &worktree.workdir {
            self.trash.mark_saved(name)?;
        }
        self.sync_before(worktree)?;
        remove_entry::remove(self.location, &worktree.common, &worktree.admin)
    }

    /// Syncs the renames if the worktree and its entry are on different file systems. On one file system the
    /// kernel keeps the order of renames. On two, after a power failure, the entry could be gone while the
    /// worktree is in its place or still named unsaved, and its owner would be unknown.
    fn sync_before(&self, worktree: &OwnWorktree) -> Result<(), WorktreeError> {
        let Some(workdir) = &worktree.workdir else { return Ok(()) };
        let unreadable = |error: Errno| failed("checking", &worktree.admin, error);
        let theirs = rustix::fs::stat(&worktree.admin).map_err(unreadable)?.st_dev;
        let ours = rustix::fs::fstat(&workdir.dir).map_err(unreadable)?.st_dev;
        if theirs == ours {
            return Ok(());
        }
        self.worktree_root.sync()?;
        self.trash.sync()
    }
}

fn is_same(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    let (one, other) = (rustix::fs::fstat(one)?, rustix::fs::fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

/// Describes the processes inside a directory. A probe that fails is a reason to keep it too.
pub(crate) async fn find_occupants(probe: &dyn ProcessProbe, directory: &Path) -> Option<String> {
    if sexton_mutant::is("no_occupants_check") {
        return None;
    }
    match probe.occupants(directory).await {
        Ok(occupants) if occupants.is_empty() => None,
        Ok(occupants) => Some(describe(&occupants)),
        Err(error) => Some(format!("cannot determine which processes are inside: {error}")),
    }
}

fn describe(occupants: &Occupants) -> String {
    if let Some(process) = occupants.processes.first() {
        let others = occupants.processes.len() - 1;
        let exe = process.exe.as_ref().map_or_else(String::new, |exe| format!(" ({})", exe.display()));
        let others = if others == 0 { String::new() } else { format!(", and {others} more") };
        return format!("process {}{exe} is inside{others}", process.pid);
    }
    let pids: Vec<String> = occupants.unreadable.iter().map(u32::to_string).collect();
    format!("cannot determine whether process {} is inside", pids.join(", "))
}
