//! Taking a worktree away: out of everybody's reach, then saved, then gone.
//!
//! Its files go into the trash by one rename, so that its name is free at once and nobody can come in by it any
//! more; then one looks again who is inside. Only now it is rescued: what nobody can reach does not change any
//! more, and needs to be read once. Until that is durable its name in the trash says that it is unsaved, and no
//! sweep touches it. Then its admin entry is taken down. The files themselves are deleted by a sweep.
//!
//! Where anything speaks against it, it is rescued where it stands, and stays there.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::io::Errno;
use sexton_core::probe::Occupants;
use sexton_core::worktree::{Cleared, Plot, Removal, WorktreeOptions};
use sexton_core::{ProcessProbe, Time, WorktreeError};

use crate::demolish;
use crate::entry;
use crate::fault::failed;
use crate::gone;
use crate::mounts::Mounts;
use crate::repository;
use crate::rescue;
use crate::site::{self, Site, Workdir};
use crate::yard::{self, Lies, Trash, Yard};

/// Saves what is at `plot`, and removes it or what is left of it.
pub(crate) async fn clear(
    plot: &Plot,
    probe: &dyn ProcessProbe,
    options: WorktreeOptions,
    now: Time,
) -> Result<Cleared, WorktreeError> {
    if sexton_mutant::is("follow_links") {
        delete_carelessly(plot);
    }
    let name = site::require_name(plot)?;
    let yard = Yard::find(&plot.root)?;
    let _lock = yard.as_ref().map(|yard| yard.lock(&plot.session)).transpose()?;
    let Some(mut site) = find_site(plot, yard.as_ref(), name)? else {
        if let Some(common) = repository::find_common(&plot.repo)? {
            demolish::finish(plot, &common)?;
        }
        return Ok(Cleared { rescued: gone::find_earlier(plot)?, removal: Ok(Removal::AlreadyGone) });
    };
    let Some(yard) = yard.filter(|_| site.workdir.is_some()) else {
        return clear_entry(plot, &site, options, now);
    };
    let ground = Ground { plot, trash: yard.trash()?, yard, name, probe };
    let stays = ground.put_out_of_reach(&mut site).await?;
    let rescued = match rescue::rescue(&site, options, now) {
        Ok(rescued) => rescued,
        Err(error) => {
            ground.bring_back(&mut site, String::new())?;
            return Err(error);
        }
    };
    let removal = match stays {
        Some(why) => Ok(Removal::Kept(why)),
        None => ground.give_up(&mut site).map(|()| Removal::Removed),
    };
    Ok(Cleared { rescued, removal })
}

/// What cleaners do that trust a path. Only the program that the fault campaign must catch calls it.
fn delete_carelessly(plot: &Plot) {
    if let Ok(place) = plot.path.canonicalize() {
        let _ = std::fs::remove_dir_all(place);
    }
}

/// The session's worktree, wherever its files are.
fn find_site(plot: &Plot, yard: Option<&Yard>, name: &OsStr) -> Result<Option<Site>, WorktreeError> {
    if let Some(site) = site::find_ours(plot)? {
        return Ok(Some(site));
    }
    // Somebody pruned the entry of one that was out of reach when its removal was cut off. Its files are back
    // in their place, where a person finds them; without an entry they are nobody's to save or to remove.
    let Some(yard) = yard else { return Ok(None) };
    let Some(trash) = yard.find_trash()? else { return Ok(None) };
    let Some(unsaved) = trash.find_unsaved(&plot.session)? else { return Ok(None) };
    yard.bring_back(&trash, &unsaved, name)
        .map_err(|error| failed("moving back", &trash.path().join(&unsaved), error))?;
    site::find_ours(plot)
}

/// Clears what is left of a worktree whose directory is gone.
fn clear_entry(
    plot: &Plot,
    site: &Site,
    options: WorktreeOptions,
    now: Time,
) -> Result<Cleared, WorktreeError> {
    let rescued = rescue::rescue(site, options, now)?;
    let removal = match find_lock(site)? {
        Some(why) => Ok(Removal::Kept(why)),
        None => demolish::take_down(plot, &site.common, &site.admin).map(|()| Removal::Removed),
    };
    Ok(Cleared { rescued, removal })
}

/// Why a worktree stays that its user has locked.
fn find_lock(site: &Site) -> Result<Option<String>, WorktreeError> {
    let reason = entry::find_lock(&site.admin)?.filter(|_| site.complete);
    Ok(reason.map(|reason| match &*reason {
        "" => "it is locked".to_owned(),
        reason => format!("it is locked: {reason}"),
    }))
}

/// What a worktree is moved between.
struct Ground<'a> {
    plot: &'a Plot,
    yard: Yard,
    trash: Trash,
    name: &'a OsStr,
    probe: &'a dyn ProcessProbe,
}

impl Ground<'_> {
    /// Puts the worktree where nobody can write into it, or says why it stays in its place.
    async fn put_out_of_reach(&self, site: &mut Site) -> Result<Option<String>, WorktreeError> {
        let mut stays = find_lock(site)?;
        let Some(workdir) = &mut site.workdir else { return Ok(stays) };
        if stays.is_none() {
            let mounts = Mounts::load()?;
            let mount = mounts.find_inside(&workdir.path);
            stays = mount.map(|mount| format!("something is mounted at {}", mount.display()));
        }
        // In the trash already: a removal was cut off before it looked again, or a creation.
        if stays.is_none() && workdir.trashed.is_none() {
            stays = find_occupants(self.probe, &workdir.path).await?;
            if stays.is_none() {
                self.discard(workdir)?;
            }
        }
        if stays.is_none() {
            stays = match self.find_second_thoughts(workdir).await {
                Ok(stays) => stays,
                Err(error) => {
                    self.bring_back(site, String::new())?;
                    return Err(error);
                }
            };
        }
        stays.map(|why| self.bring_back(site, why)).transpose()
    }

    fn discard(&self, workdir: &mut Workdir) -> Result<(), WorktreeError> {
        let unsaved = yard::unsaved_name_of(&self.plot.session);
        self.yard
            .discard(self.name, &self.trash, &unsaved)
            .map_err(|error| failed("moving into the trash", &self.plot.path, error))?;
        workdir.path = self.trash.path().join(&unsaved);
        workdir.trashed = Some(unsaved);
        Ok(())
    }

    /// Why what was moved should not have been.
    async fn find_second_thoughts(&self, workdir: &Workdir) -> Result<Option<String>, WorktreeError> {
        let lies = workdir.trashed.as_ref().map_or(Ok(Lies::Nothing), |name| self.trash.look(name))?;
        let same = match lies {
            Lies::Directory(moved) => is_same(moved.as_fd(), workdir.dir.as_fd()),
            Lies::Nothing | Lies::Other(_) => Ok(false),
        };
        if !same.map_err(|error| failed("looking at", &workdir.path, error))? {
            return Ok(Some("something else was put in its place just now".to_owned()));
        }
        find_occupants(self.probe, &workdir.path).await
    }

    /// Undoes the move, where there was one. Where the name is taken by now, the worktree stays in the trash,
    /// and registered: no sweep touches it.
    fn bring_back(&self, site: &mut Site, why: String) -> Result<String, WorktreeError> {
        let Some(workdir) = &mut site.workdir else { return Ok(why) };
        let Some(trashed) = &workdir.trashed else { return Ok(why) };
        match self.yard.bring_back(&self.trash, trashed, self.name) {
            Ok(()) => {
                (workdir.path, workdir.trashed) = (self.plot.path.clone(), None);
                Ok(why)
            }
            Err(Errno::EXIST) => {
                Ok(format!("{why}; its place is taken, so it is at {}", workdir.path.display()))
            }
            Err(error) => Err(failed("moving back", &workdir.path, error)),
        }
    }

    /// Gives up what is saved: its files to the next sweep, and its entry.
    fn give_up(&self, site: &mut Site) -> Result<(), WorktreeError> {
        if let Some(Workdir { trashed: Some(name), .. }) = &site.workdir {
            self.trash.mark_saved(name)?;
        }
        self.sync_before(site)?;
        demolish::take_down(self.plot, &site.common, &site.admin)
    }

    /// On one file system the kernel keeps the order of the renames. On two, after a power cut, the entry could
    /// be gone and the worktree in its place, or said to be unsaved, and nothing would say whose it is.
    fn sync_before(&self, site: &Site) -> Result<(), WorktreeError> {
        let Some(workdir) = &site.workdir else { return Ok(()) };
        let looking = |error: Errno| failed("looking at", &site.admin, error);
        let theirs = rustix::fs::stat(&site.admin).map_err(looking)?.st_dev;
        let ours = rustix::fs::fstat(&workdir.dir).map_err(looking)?.st_dev;
        if theirs == ours {
            return Ok(());
        }
        self.yard.sync()?;
        self.trash.sync()
    }
}

fn is_same(one: BorrowedFd<'_>, other: BorrowedFd<'_>) -> rustix::io::Result<bool> {
    let (one, other) = (rustix::fs::fstat(one)?, rustix::fs::fstat(other)?);
    Ok((one.st_dev, one.st_ino) == (other.st_dev, other.st_ino))
}

/// Who is inside, in words. A probe that cannot tell is a reason too.
async fn find_occupants(probe: &dyn ProcessProbe, directory: &Path) -> Result<Option<String>, WorktreeError> {
    if sexton_mutant::is("no_occupants_check") {
        return Ok(None);
    }
    match probe.occupants(directory).await {
        Ok(occupants) if occupants.is_empty() => Ok(None),
        Ok(occupants) => Ok(Some(describe(&occupants))),
        Err(error) => Ok(Some(format!("nobody can tell who is inside: {error}"))),
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
    format!("where process {} is cannot be seen", pids.join(", "))
}
