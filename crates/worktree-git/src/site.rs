//! What is at a plot: the worktree's directory, its admin entry, and the mark that says whose it is.
//!
//! Only looks. Everything that this crate does to a worktree begins here, so that no step can forget the
//! mark, the yard or a symlink.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sexton_core::worktree::Plot;
use sexton_core::{Time, WorktreeError};

use crate::entry;
use crate::fault::{failed, not_ours};
use crate::mark::{self, Mark, Reading};
use crate::repository;
use crate::yard::{Lies, Yard};

/// A worktree of ours.
#[derive(Debug)]
pub(crate) struct Site {
    /// Its plot.
    pub(crate) plot: Plot,
    /// Its files; `None` where the directory is gone.
    pub(crate) workdir: Option<Workdir>,
    /// Its admin entry: the per-worktree git directory, with HEAD and index.
    pub(crate) admin: PathBuf,
    /// The repository's common directory.
    pub(crate) common: PathBuf,
    /// Its mark.
    pub(crate) mark: Mark,
    /// Whether its creation came to an end. Where not, no command ever ran in it.
    pub(crate) complete: bool,
}

/// The directory that holds a worktree's files.
#[derive(Debug)]
pub(crate) struct Workdir {
    /// Where it is now: at the plot, or in the trash after a creation or a removal that was cut off.
    pub(crate) path: PathBuf,
    /// Its name in the trash, where it is there.
    pub(crate) trashed: Option<std::ffi::OsString>,
    /// The directory itself, which stays the same whatever happens to its name.
    pub(crate) dir: OwnedFd,
}

/// What is at a plot.
#[derive(Debug)]
pub(crate) enum Found {
    /// Nothing.
    Absent,
    /// The session's worktree.
    Ours(Box<Site>),
    /// Something that cannot be shown to be the session's worktree, and why.
    Foreign(String),
}

/// Looks at a plot.
pub(crate) fn find(plot: &Plot) -> Result<Found, WorktreeError> {
    look(plot, None)
}

/// Looks at a plot, and takes a worktree without any mark for one that was claimed.
pub(crate) fn find_claimable(plot: &Plot) -> Result<Found, WorktreeError> {
    // The time is in the mark that a claim writes; this one is not written.
    look(plot, Some(Mark::of_claimed(plot, Time::since_1970(Duration::ZERO))))
}

fn look(plot: &Plot, instead: Option<Mark>) -> Result<Found, WorktreeError> {
    let name = require_name(plot)?;
    let yard = Yard::find(&plot.root)?;
    let lies = yard.as_ref().map_or(Ok(Lies::Nothing), |yard| yard.look(name))?;
    match lies {
        Lies::Directory(dir) => judge_directory(plot, dir, instead),
        Lies::Other(what) => Ok(Found::Foreign(format!("it is {what}"))),
        Lies::Nothing => find_without_directory(plot, yard.as_ref()),
    }
}

/// The session's worktree; `None` where there is none, an error where something else is there.
pub(crate) fn find_ours(plot: &Plot) -> Result<Option<Site>, WorktreeError> {
    match find(plot)? {
        Found::Absent => Ok(None),
        Found::Ours(site) => Ok(Some(*site)),
        Found::Foreign(why) => Err(not_ours(plot, why)),
    }
}

/// The name of the worktree in its yard: it lies directly inside, and not by what a `..` makes of it.
pub(crate) fn require_name(plot: &Plot) -> Result<&OsStr, WorktreeError> {
    let name = plot.path.file_name().filter(|_| plot.path.parent() == Some(&*plot.root));
    let name = name.ok_or_else(|| not_ours(plot, "it does not lie directly inside the yard"))?;
    if name.as_encoded_bytes().starts_with(b".") || !plot.root.is_absolute() {
        return Err(not_ours(
            plot,
            "a worktree has an absolute path and a name that does not begin with a dot",
        ));
    }
    Ok(name)
}

/// There is a directory: whose its `.git` file and the mark say it is.
fn judge_directory(plot: &Plot, dir: OwnedFd, instead: Option<Mark>) -> Result<Found, WorktreeError> {
    let admin = match find_registration(plot, dir.as_fd())? {
        Ok(admin) => admin,
        Err(why) => return Ok(Found::Foreign(why)),
    };
    let workdir = Workdir { path: plot.path.clone(), trashed: None, dir };
    judge_entry(plot, admin, Some(workdir), instead)
}

/// The admin entry of the directory at a plot, or why there is none.
pub(crate) fn find_registration(
    plot: &Plot,
    dir: BorrowedFd<'_>,
) -> Result<Result<PathBuf, String>, WorktreeError> {
    let dot_git =
        match load_dot_git(dir).map_err(|error| failed("reading", &plot.path.join(".git"), error))? {
            DotGit::File(content) => content,
            DotGit::Missing => return Ok(Err("it has no .git file, so nothing says whose it is".to_owned())),
            DotGit::Directory => return Ok(Err("it is a repository of its own".to_owned())),
        };
    let Some(admin) = entry::named_by(&dot_git, &plot.path) else {
        return Ok(Err("its .git file does not name a repository".to_owned()));
    };
    let Some(common) = repository::find_common(&plot.repo)? else {
        return Ok(Err(format!("its repository {} is gone, or was moved", plot.repo.display())));
    };
    let is_there =
        sexton_durable::find(admin.metadata()).map_err(|error| failed("looking at", &admin, error))?;
    let (admin, theirs) = if is_there.is_some_and(|metadata| metadata.is_dir()) {
        let theirs = entry::load_common(&admin)?;
        (admin, theirs)
    } else {
        // The repository was moved, and the record knows where to.
        match find_entry(plot, &common)? {
            Some(admin) => (admin, Some(common.clone())),
            None => return Ok(Err("its admin entry is gone, and the mark with it".to_owned())),
        }
    };
    if theirs.as_ref() != Some(&common) {
        return Ok(Err(format!("it is a worktree of another repository ({})", admin.display())));
    }
    if entry::load_worktree(&admin)?.as_deref() != Some(&plot.path) {
        return Ok(Err("its admin entry is for a worktree at another place".to_owned()));
    }
    Ok(Ok(admin))
}

/// There is no directory at the plot. Its admin entry may still be there, and its files in the trash.
fn find_without_directory(plot: &Plot, yard: Option<&Yard>) -> Result<Found, WorktreeError> {
    let Some(common) = repository::find_common(&plot.repo)? else { return Ok(Found::Absent) };
    let Some(admin) = find_entry(plot, &common)? else { return Ok(Found::Absent) };
    match entry::load_worktree(&admin)? {
        Some(place) if place != plot.path => {
            return Ok(Found::Foreign(format!("it was moved to {}", place.display())));
        }
        _ => {}
    }
    let workdir = yard.map_or(Ok(None), |yard| find_in_trash(plot, yard, &admin))?;
    judge_entry(plot, admin, workdir, None)
}

/// What the mark of an entry says; `instead` is taken where it has none.
fn judge_entry(
    plot: &Plot,
    admin: PathBuf,
    workdir: Option<Workdir>,
    instead: Option<Mark>,
) -> Result<Found, WorktreeError> {
    let mark = match (mark::load(&admin)?, instead) {
        (Reading::Mark(mark), _) | (Reading::None, Some(mark)) => mark,
        (Reading::None, None) => return Ok(Found::Foreign("it has no mark".to_owned())),
        (Reading::Unreadable(why), _) => return Ok(Found::Foreign(why)),
    };
    if let Err(why) = mark.require(plot) {
        return Ok(Found::Foreign(why));
    }
    let Some(common) = entry::load_common(&admin)? else {
        return Ok(Found::Foreign("its admin entry does not say which repository it belongs to".to_owned()));
    };
    let complete = !entry::find_lock(&admin)?.is_some_and(|reason| entry::is_making(&reason));
    let site = Site { plot: plot.clone(), workdir, admin, common, mark, complete };
    Ok(Found::Ours(Box::new(site)))
}

/// The entry with the mark of `plot`. The one that Sexton would have made is looked at first; a claimed one
/// can have any name.
pub(crate) fn find_entry(plot: &Plot, common: &Path) -> Result<Option<PathBuf>, WorktreeError> {
    let ours = |admin: &Path| -> Result<bool, WorktreeError> {
        Ok(matches!(mark::load(admin)?, Reading::Mark(mark) if mark.require(plot).is_ok()))
    };
    let expected = entry::all(common).join(entry::name_of(plot));
    if ours(&expected)? {
        return Ok(Some(expected));
    }
    for admin in entry::list(common)? {
        if ours(&admin)? {
            return Ok(Some(admin));
        }
    }
    Ok(None)
}

/// The worktree's files in the trash, where a creation or a removal was cut off.
fn find_in_trash(plot: &Plot, yard: &Yard, admin: &Path) -> Result<Option<Workdir>, WorktreeError> {
    let Some(trash) = yard.find_trash()? else { return Ok(None) };
    for name in trash.names_of(&plot.session)? {
        let Lies::Directory(dir) = trash.look(&name)? else { continue };
        let path = trash.path().join(&name);
        if find_named_entry(dir.as_fd(), &plot.root, &path)?.as_deref() == Some(admin) {
            return Ok(Some(Workdir { path, trashed: Some(name), dir }));
        }
    }
    Ok(None)
}

/// The entry that the `.git` file in `dir` names. A relative one was written for a place directly inside the
/// yard, where `dir` itself need not be.
pub(crate) fn find_named_entry(
    dir: BorrowedFd<'_>,
    root: &Path,
    path: &Path,
) -> Result<Option<PathBuf>, WorktreeError> {
    match load_dot_git(dir).map_err(|error| failed("reading", &path.join(".git"), error))? {
        DotGit::File(content) => Ok(entry::named_by(&content, &root.join("any"))),
        DotGit::Missing | DotGit::Directory => Ok(None),
    }
}

/// What a directory has under the name `.git`.
pub(crate) enum DotGit {
    File(Vec<u8>),
    Directory,
    Missing,
}

/// Longer than any path.
const LONGEST_LINK: u64 = 64 * 1024;

/// Reads it.
pub(crate) fn load_dot_git(dir: BorrowedFd<'_>) -> std::io::Result<DotGit> {
    // NONBLOCK: an agent may have put a FIFO there.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(dir, ".git", flags, Mode::empty()) {
        Ok(file) => std::fs::File::from(file),
        // A symlink, or a socket: nothing that git would write.
        Err(Errno::NOENT | Errno::LOOP | Errno::NXIO) => return Ok(DotGit::Missing),
        Err(error) => return Err(error.into()),
    };
    let kind = file.metadata()?.file_type();
    if kind.is_dir() {
        return Ok(DotGit::Directory);
    }
    if !kind.is_file() {
        return Ok(DotGit::Missing);
    }
    let mut content = Vec::new();
    file.take(LONGEST_LINK).read_to_end(&mut content)?;
    Ok(DotGit::File(content))
}
