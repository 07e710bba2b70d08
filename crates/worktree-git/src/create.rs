//! Making a worktree of a session that is already recorded.
//!
//! The order is what makes it safe to kill: the admin entry appears first, whole and marked; then the
//! branch; then the files, in the trash; then all of them under their name at once; and the entry is
//! complete last. Whatever a killed one left is found by its mark, and made whole by the next call or taken
//! away by a removal.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use git2::{Commit, Oid, Repository};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sexton_core::worktree::{Begun, CreatedWorktree, Plot, StartPoint};
use sexton_core::{Time, WorktreeError};

use crate::blueprint::{self, Blueprint, Links};
use crate::branch;
use crate::checkout::{self, Blank};
use crate::demolish;
use crate::entry;
use crate::fault::{cannot_create, failed};
use crate::mark::Mark;
use crate::repository;
use crate::rescues::{self, Stored};
use crate::restore;
use crate::site::{self, Found, Site, Workdir};
use crate::yard::{self, Trash, Yard};

/// Makes the worktree of `plot`, or what is missing of it.
pub(crate) fn create(plot: &Plot, from: &StartPoint, now: Time) -> Result<CreatedWorktree, WorktreeError> {
    let name = site::require_name(plot)?;
    let repo = repository::open(&plot.repo)?;
    let common = repository::canonical_common(&repo)?;
    let yard = Yard::open(&plot.root)?;
    let _lock = yard.lock(&plot.session)?;
    let site = match site::find(plot)? {
        Found::Foreign(why) => return Err(cannot_create(plot, why)),
        Found::Ours(site) => *site,
        Found::Absent => begin(plot, from, now, &repo, &common, &yard)?,
    };
    let base = require_same(&site, from)?;
    if !site.complete {
        let making = Making { site: &site, repo: &repo, yard: &yard, name, begun: &from.begun };
        if let Err(error) = making.finish(&base) {
            // What cannot be made is not left half made. That this fails too changes nothing of the reason.
            let _ = making.undo();
            return Err(error);
        }
    } else if site.workdir.as_ref().is_none_or(|workdir| workdir.trashed.is_some()) {
        return Err(cannot_create(
            plot,
            "there was one, and its directory is gone: remove what is left of it first",
        ));
    }
    Ok(CreatedWorktree { base })
}

/// Makes the admin entry of a plot that has nothing yet.
fn begin(
    plot: &Plot,
    from: &StartPoint,
    now: Time,
    repo: &Repository,
    common: &Path,
    yard: &Yard,
) -> Result<Site, WorktreeError> {
    demolish::finish(plot, common)?;
    disown_trash(plot, yard)?;
    let base = find_start(plot, from, repo, common)?.to_string();
    let mark = Mark::of_new(plot, now, &from.branch, &base);
    let links = Links::of(repo).map_err(|error| failed("reading the configuration of", &plot.repo, error))?;
    let admin = blueprint::build(&Blueprint { plot, common, mark: &mark, links, repo, now })?;
    Ok(Site { plot: plot.clone(), workdir: None, admin, common: common.to_owned(), mark, complete: false })
}

/// Without an admin entry nothing in the trash is this session's any more; a new entry must not find it.
fn disown_trash(plot: &Plot, yard: &Yard) -> Result<(), WorktreeError> {
    let Some(trash) = yard.find_trash()? else { return Ok(()) };
    if let Some(unsaved) = trash.find_unsaved(&plot.session)? {
        let place = trash.path().join(unsaved);
        return Err(cannot_create(plot, format!("what an earlier one held is still at {}", place.display())));
    }
    trash.names_of(&plot.session)?.iter().try_for_each(|name| trash.disown(name))
}

/// The commit that a new worktree begins at: where an earlier session left off, or the base.
fn find_start(
    plot: &Plot,
    from: &StartPoint,
    repo: &Repository,
    common: &Path,
) -> Result<Oid, WorktreeError> {
    let refused = |why: String| cannot_create(plot, why);
    let begun = match &from.begun {
        Begun::Nothing => None,
        Begun::Branch => branch::find_tip(repo, &from.branch).map_err(refused)?,
        Begun::Rescue(session) => {
            let stored = rescues::require(repo, &plot.repo, session)?;
            Some(find_rescued_head(&stored, &from.branch).map_err(refused)?)
        }
    };
    let Some(commit) = begun else {
        let base = find_base(plot, from, repo)?.id();
        branch::require_free(repo, &from.branch).map_err(refused)?;
        return Ok(base);
    };
    match branch::find_tip(repo, &from.branch).map_err(refused)? {
        None => branch::require_free(repo, &from.branch).map_err(refused)?,
        Some(tip) if tip != commit => {
            return Err(refused(format!("the branch `{}` has moved on since", from.branch)));
        }
        Some(_) if branch::is_checked_out(common, &format!("refs/heads/{}", from.branch))? => {
            return Err(refused(format!("the branch `{}` is checked out in another worktree", from.branch)));
        }
        Some(_) => {}
    }
    Ok(commit)
}

/// HEAD of a rescue that was on `branch`. One that was elsewhere cannot go on there.
fn find_rescued_head(stored: &Stored, branch: &str) -> Result<Oid, String> {
    let session = &stored.manifest.session;
    let on = stored.manifest.branch.as_ref().and_then(|name| name.as_os_str().to_str());
    if stored.manifest.head.is_none() || on != Some(&format!("refs/heads/{branch}")) {
        return Err(format!("the rescue of session {session} is not of a commit on the branch `{branch}`"));
    }
    Ok(stored.base)
}

fn find_base<'a>(plot: &Plot, from: &StartPoint, repo: &'a Repository) -> Result<Commit<'a>, WorktreeError> {
    let spec = from.base.as_deref().unwrap_or("HEAD");
    if from.base.is_none() && repo.head().is_err_and(|error| error.code() == git2::ErrorCode::UnbornBranch) {
        return Err(cannot_create(plot, "the repository has no commit yet"));
    }
    repo.revparse_single(spec)
        .and_then(|object| object.peel_to_commit())
        .map_err(|error| cannot_create(plot, format!("`{spec}` names no commit: {}", error.message())))
}

/// The commit that the worktree begins at. One that was begun otherwise is not what is asked for.
fn require_same(site: &Site, from: &StartPoint) -> Result<String, WorktreeError> {
    match (&site.mark.branch, &site.mark.base) {
        (Some(branch), Some(base)) if *branch == from.branch => Ok(base.clone()),
        (Some(branch), _) => {
            Err(cannot_create(&site.plot, format!("the session has one already, on branch `{branch}`")))
        }
        (None, _) => Err(cannot_create(&site.plot, "the session has one already, which something else made")),
    }
}

/// A worktree with an admin entry that is not complete.
struct Making<'a> {
    site: &'a Site,
    repo: &'a Repository,
    yard: &'a Yard,
    name: &'a OsStr,
    begun: &'a Begun,
}

impl Making<'_> {
    fn finish(&self, base: &str) -> Result<(), WorktreeError> {
        let plot = &self.site.plot;
        let lost = |error: git2::Error| failed("finding the first commit of", &plot.path, error);
        let commit = Oid::from_str(base).and_then(|oid| self.repo.find_commit(oid)).map_err(lost)?;
        let name = self.site.mark.branch.as_deref().unwrap_or_default();
        branch::ensure(self.repo, &entry::name_of(plot), name, commit.id())
            .map_err(|why| cannot_create(plot, why))?;
        match &self.site.workdir {
            // The files come under their name only when all of them are there.
            Some(Workdir { trashed: None, .. }) => {}
            // All of them were there, and a removal was cut off that had put them out of reach.
            Some(Workdir { trashed: Some(whole), .. }) if yard::is_unsaved(whole) => {
                self.put_in_place(&self.yard.trash()?, whole)?;
            }
            Some(Workdir { trashed: Some(half), .. }) => {
                self.yard.trash()?.disown(half)?;
                self.fill(&commit)?;
            }
            None => self.fill(&commit)?,
        }
        entry::complete(&self.site.admin).map_err(|error| failed("completing", &self.site.admin, error))
    }

    /// Builds the worktree's directory out of sight, and puts it in its place.
    fn fill(&self, commit: &Commit<'_>) -> Result<(), WorktreeError> {
        let trash = self.yard.trash()?;
        let (half, dir) = trash.make(&self.site.plot.session)?;
        let path = trash.path().join(&half);
        self.link(dir.as_fd(), &path)?;
        // An index of an earlier attempt is about files that are gone.
        blueprint::clear_index(&self.site.admin)?;
        let (admin, common) = (&self.site.admin, &self.site.common);
        checkout::fill(&Blank { dir: dir.as_fd(), path: &path, admin, common }, self.repo, commit)?;
        let plot = &self.site.plot;
        if let Begun::Rescue(session) = self.begun {
            let stored = rescues::require(self.repo, &plot.repo, session)?;
            restore::lay_over(self.repo, common, &stored, &path, dir.as_fd(), admin)?;
        }
        self.put_in_place(&trash, &half)
    }

    fn put_in_place(&self, trash: &Trash, whole: &OsStr) -> Result<(), WorktreeError> {
        let plot = &self.site.plot;
        match self.yard.bring_back(trash, whole, self.name) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => Err(cannot_create(plot, "something else has just appeared there")),
            Err(error) => Err(failed("renaming", &plot.path, error)),
        }
    }

    /// Writes the `.git` file, as it is right at the worktree's final place.
    fn link(&self, dir: BorrowedFd<'_>, path: &Path) -> Result<(), WorktreeError> {
        let links = Links::of(self.repo)
            .map_err(|error| failed("reading the configuration of", &self.site.plot.repo, error))?;
        let target: PathBuf = links.write(&self.site.plot.path, &self.site.admin);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(dir, ".git", flags, Mode::from_raw_mode(0o666))
            .map_err(std::io::Error::from)
            .and_then(|file| File::from(file).write_all(&entry::line("gitdir: ", &target)))
            .map_err(|error| failed("writing", &path.join(".git"), error))
    }

    /// Takes away what was begun.
    fn undo(&self) -> Result<(), WorktreeError> {
        demolish::take_down(&self.site.plot, &self.site.common, &self.site.admin)?;
        disown_trash(&self.site.plot, self.yard)
    }
}
