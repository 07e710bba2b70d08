//! Removing a worktree that was rescued and that nobody is in.
//!
//! Its files go into the trash by one rename, so that its name is free at once and nobody can enter by it
//! any more; then one looks again who is inside, and whether its rescue still has all of it; then its admin
//! entry is taken down. The files themselves are deleted by a sweep.

use std::ffi::OsStr;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use rustix::io::Errno;
use sexton_core::probe::Occupants;
use sexton_core::worktree::{Plot, Removal, Rescue, Rescued, WorktreeOptions};
use sexton_core::{ProcessProbe, WorktreeError};

use crate::demolish;
use crate::entry;
use crate::fault::failed;
use crate::mounts::Mounts;
use crate::repository;
use crate::rescue;
use crate::site::{self, Site, Workdir};
use crate::yard::{self, Lies, Trash, Yard};

/// Removes the worktree of `plot`, or what is left of it.
pub(crate) async fn remove(
    plot: &Plot,
    rescued: &Rescued,
    probe: &dyn ProcessProbe,
    options: WorktreeOptions,
) -> Result<Removal, WorktreeError> {
    let name = site::require_name(plot)?;
    let yard = Yard::find(&plot.root)?;
    let _lock = yard.as_ref().map(|yard| yard.lock(&plot.session)).transpose()?;
    let Some(site) = site::find_ours(plot)? else {
        if let Some(common) = repository::find_common(&plot.repo)? {
            demolish::finish(plot, &common)?;
        }
        return Ok(Removal::AlreadyGone);
    };
    if let Some(why) = find_objection(&site, rescued)? {
        return Ok(Removal::Kept(why));
    }
    if let (Some(yard), Some(workdir)) = (&yard, &site.workdir) {
        let moving = Moving { plot, yard, trash: yard.trash()?, name, workdir, probe };
        if let Some(stays) = moving.discard(&site, rescued, options).await? {
            return Ok(stays);
        }
    }
    demolish::take_down(plot, &site.common, &site.admin)?;
    Ok(Removal::Removed)
}

/// Why a worktree stays, whoever may be in it.
fn find_objection(site: &Site, rescued: &Rescued) -> Result<Option<String>, WorktreeError> {
    if let Some(reason) = entry::find_lock(&site.admin)?.filter(|_| site.complete) {
        let reason = if reason.is_empty() { String::new() } else { format!(": {reason}") };
        return Ok(Some(format!("it is locked{reason}")));
    }
    let Some(rescue) = &rescued.saved else { return Ok(None) };
    let held = is_held(&site.common, rescue)?;
    Ok((!held).then(|| format!("its rescue {} is not there any more", rescue.reference)))
}

/// Whether the ref of a rescue still holds it. Mostly it is the file that was written a moment ago; only where
/// it is not, libgit2 looks where else a ref can be.
fn is_held(common: &Path, rescue: &Rescue) -> Result<bool, WorktreeError> {
    let written = std::fs::read_to_string(common.join(&rescue.reference));
    if written.is_ok_and(|written| written.trim_end() == rescue.commit) {
        return Ok(true);
    }
    let held = repository::open(common)?.refname_to_id(&rescue.reference);
    Ok(held.is_ok_and(|found| found.to_string() == rescue.commit))
}

/// A worktree on its way into the trash.
struct Moving<'a> {
    plot: &'a Plot,
    yard: &'a Yard,
    trash: Trash,
    name: &'a OsStr,
    workdir: &'a Workdir,
    probe: &'a dyn ProcessProbe,
}

impl Moving<'_> {
    /// Puts the worktree into the trash, or says how it stays.
    async fn discard(
        &self,
        site: &Site,
        rescued: &Rescued,
        options: WorktreeOptions,
    ) -> Result<Option<Removal>, WorktreeError> {
        if let Some(mount) = Mounts::load()?.find_inside(&self.workdir.path) {
            return Ok(Some(Removal::Kept(format!("something is mounted at {}", mount.display()))));
        }
        // In the trash already: a removal was cut off before it looked again, or a creation.
        let discarded = match &self.workdir.trashed {
            Some(discarded) => discarded.clone(),
            None => {
                if let Some(why) = find_occupants(self.probe, &self.workdir.path).await? {
                    return Ok(Some(Removal::Kept(why)));
                }
                let discarded = yard::name_of(&self.plot.session);
                self.yard
                    .discard(self.name, &self.trash, &discarded)
                    .map_err(|error| failed("moving into the trash", &self.plot.path, error))?;
                discarded
            }
        };
        if let Some(why) = self.find_second_thoughts(&discarded).await? {
            return self.bring_back(&discarded, why).map(|why| Some(Removal::Kept(why)));
        }
        match self.is_as_rescued(site, &discarded, rescued, options) {
            Ok(true) => {}
            Ok(false) => {
                self.bring_back(&discarded, String::new())?;
                return Ok(Some(Removal::Changed));
            }
            Err(error) => {
                self.bring_back(&discarded, String::new())?;
                return Err(error);
            }
        }
        self.sync_before(site)?;
        Ok(None)
    }

    /// Whether everything in it is in its rescue. Somebody outside may have written into it since; from now
    /// on nobody can who does not hold a file of it open.
    fn is_as_rescued(
        &self,
        site: &Site,
        discarded: &OsStr,
        rescued: &Rescued,
        options: WorktreeOptions,
    ) -> Result<bool, WorktreeError> {
        let path = self.trash.path().join(discarded);
        let dir = self.workdir.dir.try_clone().map_err(|error| failed("holding", &path, error))?;
        let moved = Workdir { path, trashed: Some(discarded.to_owned()), dir };
        rescue::holds_all(&site.with_workdir(moved), options, rescued)
    }

    /// Why what was moved should not have been.
    async fn find_second_thoughts(&self, discarded: &OsStr) -> Result<Option<String>, WorktreeError> {
        let same = match self.trash.look(discarded)? {
            Lies::Directory(moved) => is_same(moved.as_fd(), self.workdir.dir.as_fd()),
            Lies::Nothing | Lies::Other(_) => Ok(false),
        };
        if !same.map_err(|error| failed("looking at", &self.trash.path().join(discarded), error))? {
            return Ok(Some("something else was put in its place just now".to_owned()));
        }
        find_occupants(self.probe, &self.trash.path().join(discarded)).await
    }

    /// Undoes the move. Where the name is taken by now, the worktree stays in the trash, and registered: no
    /// sweep touches it.
    fn bring_back(&self, discarded: &OsStr, why: String) -> Result<String, WorktreeError> {
        let place = self.trash.path().join(discarded);
        match self.yard.bring_back(&self.trash, discarded, self.name) {
            Ok(()) => Ok(why),
            Err(Errno::EXIST) => Ok(format!("{why}; its place is taken, so it is at {}", place.display())),
            Err(error) => Err(failed("moving back", &place, error)),
        }
    }

    /// On one file system the kernel keeps the order of the two renames. On two, after a power cut, the
    /// entry could be gone and the worktree in its place, and nothing would say whose it is.
    fn sync_before(&self, site: &Site) -> Result<(), WorktreeError> {
        let looking = |error: Errno| failed("looking at", &site.admin, error);
        let theirs = rustix::fs::stat(&site.admin).map_err(looking)?.st_dev;
        let ours = rustix::fs::fstat(&self.workdir.dir).map_err(looking)?.st_dev;
        if theirs == ours { Ok(()) } else { self.yard.sync() }
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
