//! Creates the worktree of a session that is already recorded.
//!
//! The order makes it safe to kill: first the admin entry appears, complete with its mark; then the branch;
//! then the files, in the trash; then one rename moves all files to their final name; last, the entry is
//! marked complete. What a killed run left is found by its mark. The next call finishes it, or a removal
//! deletes it.

use std::ffi::OsStr;
use std::fs::File;
use std::io::Write;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use git2::{Commit, Oid, Repository};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sexton_core::worktree::{Begun, CreatedWorktree, StartPoint, WorktreeLocation};
use sexton_core::{Host, Time, WorktreeError};

use crate::branch;
use crate::checkout::{self, Blank};
use crate::entry;
use crate::entry_plan::{self, EntryPlan, Links};
use crate::fault::{cannot_create, failed};
use crate::mark::Mark;
use crate::own_worktree::{self, Found, OwnWorktree, Workdir};
use crate::remove_entry;
use crate::repository;
use crate::rescues::{self, Stored};
use crate::restore;
use crate::worktree_root::{self, Trash, WorktreeRoot};

/// Creates the worktree of `location`, or the missing parts of it.
pub(crate) fn create(
    location: &WorktreeLocation,
    from: &StartPoint,
    host: Option<&Host>,
    now: Time,
) -> Result<CreatedWorktree, WorktreeError> {
    let name = own_worktree::require_name(location)?;
    let repo = repository::open(&location.repo)?;
    let common = repository::canonical_common(&repo)?;
    let worktree_root = WorktreeRoot::open(&location.root)?;
    let _lock = worktree_root.lock(&location.session)?;
    let worktree = match own_worktree::find(location)? {
        Found::Foreign(why) => return Err(cannot_create(location, why)),
        Found::Ours(worktree) => *worktree,
        Found::Absent => {
            let plan = Beginning { location, from, host, now };
            begin(&plan, &repo, &common, &worktree_root)?
        }
    };
    let base = require_same(&worktree, from)?;
    if !worktree.complete {
        let making = Making {
            worktree: &worktree,
            repo: &repo,
            worktree_root: &worktree_root,
            name,
            begun: &from.begun,
        };
        if let Err(error) = making.finish(&base) {
            // A worktree that cannot be completed is not left in part. If the cleanup fails too, the original
            // error is reported.
            let _ = making.undo();
            return Err(error);
        }
    } else if worktree.workdir.as_ref().is_none_or(|workdir| workdir.trashed.is_some()) {
        return Err(cannot_create(
            location,
            "the session had a worktree there, and its directory is gone: remove what is left of it first",
        ));
    }
    Ok(CreatedWorktree { base })
}

/// What to create where nothing exists yet.
struct Beginning<'a> {
    location: &'a WorktreeLocation,
    from: &'a StartPoint,
    host: Option<&'a Host>,
    now: Time,
}

/// Creates the admin entry for a worktree location that has none.
fn begin(
    &Beginning { location, from, host, now }: &Beginning<'_>,
    repo: &Repository,
    common: &Path,
    worktree_root: &WorktreeRoot,
) -> Result<OwnWorktree, WorktreeError> {
    remove_entry::finish(location, common)?;
    disown_trash(location, worktree_root)?;
    let base = find_start(location, from, repo, common)?.to_string();
    let mark = Mark::of_new(location, now, &from.branch, &base).on(host);
    let links =
        Links::of(repo).map_err(|error| failed("reading the configuration of", &location.repo, error))?;
    let admin = entry_plan::build(&EntryPlan { location, common, mark: &mark, links, repo, now })?;
    Ok(OwnWorktree {
        location: location.clone(),
        workdir: None,
        admin,
        common: common.to_owned(),
        mark,
        complete: false,
    })
}

/// Without an admin entry, nothing in the trash belongs to this session any more; a new entry must not find
/// it.
fn disown_trash(location: &WorktreeLocation, worktree_root: &WorktreeRoot) -> Result<(), WorktreeError> {
    let Some(trash) = worktree_root.find_trash()? else { return Ok(()) };
    if let Some(unsaved) = trash.find_unsaved(&location.session)? {
        let place = trash.path().join(unsaved);
        return Err(cannot_create(
            location,
            format!("an earlier worktree of the session is still at {}, unsaved", place.display()),
        ));
    }
    trash.names_of(&location.session)?.iter().try_for_each(|name| trash.disown(name))
}

/// Returns the commit that a new worktree starts at: where an earlier session stopped, or the base.
fn find_start(
    location: &WorktreeLocation,
    from: &StartPoint,
    repo: &Repository,
    common: &Path,
) -> Result<Oid, WorktreeError> {
    let refused = |why: String| cannot_create(location, why);
    let begun = match &from.begun {
        Begun::Nothing => None,
        Begun::Branch => branch::find_tip(repo, &from.branch).map_err(refused)?,
        Begun::Rescue(session) => {
            let stored = rescues::require(repo, &location.repo, session)?;
            Some(find_rescued_head(&stored, &from.branch).map_err(refused)?)
        }
    };
    let Some(commit) = begun else {
        let base = find_base(location, from, repo)?.id();
        branch::require_free(repo, &from.branch).map_err(refused)?;
        return Ok(base);
    };
    match branch::find_tip(repo, &from.branch).map_err(refused)? {
        None => branch::require_free(repo, &from.branch).map_err(refused)?,
        Some(tip) if tip != commit => {
            return Err(refused(format!("the branch `{}` has moved since", from.branch)));
        }
        Some(_) if branch::is_checked_out(common, &format!("refs/heads/{}", from.branch))? => {
            return Err(refused(format!("the branch `{}` is checked out in another worktree", from.branch)));
        }
        Some(_) => {}
    }
    Ok(commit)
}

/// Returns HEAD of a rescue, which must have been on `branch`: otherwise the new worktree cannot continue it.
fn find_rescued_head(stored: &Stored, branch: &str) -> Result<Oid, String> {
    let session = &stored.manifest.session;
    let on = stored.manifest.branch.as_ref().and_then(|name| name.as_os_str().to_str());
    if stored.manifest.head.is_none() || on != Some(&format!("refs/heads/{branch}")) {
        return Err(format!(
            "the rescue of session {session} is not based on a commit of the branch `{branch}`"
        ));
    }
    Ok(stored.base)
}

fn find_base<'a>(
    location: &WorktreeLocation,
    from: &StartPoint,
    repo: &'a Repository,
) -> Result<Commit<'a>, WorktreeError> {
    let spec = from.base.as_deref().unwrap_or("HEAD");
    if from.base.is_none() && repo.head().is_err_and(|error| error.code() == git2::ErrorCode::UnbornBranch) {
        return Err(cannot_create(location, "the repository has no commit yet"));
    }
    repo.revparse_single(spec)
        .and_then(|object| object.peel_to_commit())
        .map_err(|error| cannot_create(location, format!("`{spec}` is not a commit: {}", error.message())))
}

/// Returns the commit that the worktree starts at. Fails if the worktree was created with another branch.
fn require_same(worktree: &OwnWorktree, from: &StartPoint) -> Result<String, WorktreeError> {
    match (&worktree.mark.branch, &worktree.mark.base) {
        (Some(branch), Some(base)) if *branch == from.branch => Ok(base.clone()),
        (Some(branch), _) => Err(cannot_create(
            &worktree.location,
            format!("the session already has one, on branch `{branch}`"),
        )),
        (None, _) => {
            Err(cannot_create(&worktree.location, "the session already has one, made by another program"))
        }
    }
}

/// A worktree whose admin entry is not complete.
struct Making<'a> {
    worktree: &'a OwnWorktree,
    repo: &'a Repository,
    worktree_root: &'a WorktreeRoot,
    name: &'a OsStr,
    begun: &'a Begun,
}

impl Making<'_> {
    fn finish(&self, base: &str) -> Result<(), WorktreeError> {
        let location = &self.worktree.location;
        let lost = |error: git2::Error| failed("finding the first commit of", &location.path, error);
        let commit = Oid::from_str(base).and_then(|oid| self.repo.find_commit(oid)).map_err(lost)?;
        let name = self.worktree.mark.branch.as_deref().unwrap_or_default();
        branch::ensure(self.repo, &entry::name_of(location), name, commit.id())
            .map_err(|why| cannot_create(location, why))?;
        match &self.worktree.workdir {
            // The directory gets its final name only after all files are written.
            Some(Workdir { trashed: None, .. }) => {}
            // All files were written, and an interrupted removal had moved them to the trash.
            Some(Workdir { trashed: Some(whole), .. }) if worktree_root::is_unsaved(whole) => {
                self.put_in_place(&self.worktree_root.trash()?, whole)?;
            }
            Some(Workdir { trashed: Some(half), .. }) => {
                self.worktree_root.trash()?.disown(half)?;
                self.fill(&commit)?;
            }
            None => self.fill(&commit)?,
        }
        entry::complete(&self.worktree.admin)
            .map_err(|error| failed("completing", &self.worktree.admin, error))
    }

    /// Builds the worktree's directory in the trash and moves it to its final path.
    fn fill(&self, commit: &Commit<'_>) -> Result<(), WorktreeError> {
        let trash = self.worktree_root.trash()?;
        let (half, dir) = trash.make(&self.worktree.location.session)?;
        let path = trash.path().join(&half);
        self.link(dir.as_fd(), &path)?;
        // The index of an earlier attempt describes files that no longer exist.
        entry_plan::clear_index(&self.worktree.admin)?;
        let (admin, common) = (&self.worktree.admin, &self.worktree.common);
        checkout::fill(&Blank { dir: dir.as_fd(), path: &path, admin, common }, self.repo, commit)?;
        let location = &self.worktree.location;
        if let Begun::Rescue(session) = self.begun {
            let stored = rescues::require(self.repo, &location.repo, session)?;
            restore::apply_to_worktree(self.repo, common, &stored, &path, dir.as_fd(), admin)?;
        }
        self.put_in_place(&trash, &half)
    }

    fn put_in_place(&self, trash: &Trash, whole: &OsStr) -> Result<(), WorktreeError> {
        let location = &self.worktree.location;
        match self.worktree_root.move_back(trash, whole, self.name) {
            Ok(()) => Ok(()),
            Err(Errno::EXIST) => Err(cannot_create(location, "something else has just been created there")),
            Err(error) => Err(failed("renaming", &location.path, error)),
        }
    }

    /// Writes the `.git` file for the worktree's final path.
    fn link(&self, dir: BorrowedFd<'_>, path: &Path) -> Result<(), WorktreeError> {
        let links = Links::of(self.repo)
            .map_err(|error| failed("reading the configuration of", &self.worktree.location.repo, error))?;
        let target: PathBuf = links.write(&self.worktree.location.path, &self.worktree.admin);
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        rustix::fs::openat(dir, ".git", flags, Mode::from_raw_mode(0o666))
            .map_err(std::io::Error::from)
            .and_then(|file| File::from(file).write_all(&entry::line("gitdir: ", &target)))
            .map_err(|error| failed("writing", &path.join(".git"), error))
    }

    /// Removes what was created so far.
    fn undo(&self) -> Result<(), WorktreeError> {
        remove_entry::remove(&self.worktree.location, &self.worktree.common, &self.worktree.admin)?;
        disown_trash(&self.worktree.location, self.worktree_root)
    }
}
