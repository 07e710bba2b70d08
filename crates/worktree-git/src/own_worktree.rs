//! What is at a worktree location: the worktree's directory, its admin entry, and the mark that names its
//! owner.
//!
//! Only reads. Everything that this crate does to a worktree starts here, so that no step can skip the checks
//! of the mark, the worktree root and symlinks.

use std::ffi::OsStr;
use std::io::Read;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sexton_core::worktree::WorktreeLocation;
use sexton_core::{Time, WorktreeError};

use crate::entry;
use crate::fault::{failed, not_ours};
use crate::mark::{self, Mark, Reading};
use crate::repository;
use crate::worktree_root::{Lookup, WorktreeRoot};

/// A worktree of Sexton.
#[derive(Debug)]
pub(crate) struct OwnWorktree {
    /// Its worktree location.
    pub(crate) location: WorktreeLocation,
    /// Its files; `None` if the directory is missing.
    pub(crate) workdir: Option<Workdir>,
    /// Its admin entry: the per-worktree git directory, with HEAD and index.
    pub(crate) admin: PathBuf,
    /// The repository's common directory.
    pub(crate) common: PathBuf,
    /// Its mark.
    pub(crate) mark: Mark,
    /// Whether its creation finished. If not, no command ever ran in it.
    pub(crate) complete: bool,
}

/// The directory that holds a worktree's files.
#[derive(Debug)]
pub(crate) struct Workdir {
    /// Its current path: at the worktree location, or in the trash after an interrupted creation or removal.
    pub(crate) path: PathBuf,
    /// Its name in the trash, if it is there.
    pub(crate) trashed: Option<std::ffi::OsString>,
    /// The open directory, which stays valid when its path changes.
    pub(crate) dir: OwnedFd,
}

/// What is at a worktree location.
#[derive(Debug)]
pub(crate) enum Found {
    /// Nothing.
    Absent,
    /// The session's worktree.
    Ours(Box<OwnWorktree>),
    /// Something that cannot be proved to be the session's worktree, and why.
    Foreign(String),
}

/// Finds what is at a worktree location.
pub(crate) fn find(location: &WorktreeLocation) -> Result<Found, WorktreeError> {
    lookup(location, None)
}

/// Finds what is at a worktree location, and treats a worktree without a mark as claimed.
pub(crate) fn find_claimable(location: &WorktreeLocation) -> Result<Found, WorktreeError> {
    // A claim writes the time into the mark; this mark is not written.
    lookup(location, Some(Mark::of_claimed(location, Time::since_1970(Duration::ZERO))))
}

fn lookup(location: &WorktreeLocation, instead: Option<Mark>) -> Result<Found, WorktreeError> {
    let name = require_name(location)?;
    let worktree_root = WorktreeRoot::find(&location.root)?;
    let found =
        worktree_root.as_ref().map_or(Ok(Lookup::Nothing), |worktree_root| worktree_root.lookup(name))?;
    match found {
        Lookup::Directory(dir) => judge_directory(location, dir, instead),
        Lookup::Other(what) => Ok(Found::Foreign(format!("it is {what}"))),
        Lookup::Nothing => find_without_directory(location, worktree_root.as_ref()),
    }
}

/// Returns the session's worktree; `None` if there is none. Fails if something else is there.
pub(crate) fn find_ours(location: &WorktreeLocation) -> Result<Option<OwnWorktree>, WorktreeError> {
    match find(location)? {
        Found::Absent => Ok(None),
        Found::Ours(worktree) => Ok(Some(*worktree)),
        Found::Foreign(why) => Err(not_ours(location, why)),
    }
}

/// Returns the name of the worktree in its worktree root. Fails unless its path is directly inside, without
/// `..`.
pub(crate) fn require_name(location: &WorktreeLocation) -> Result<&OsStr, WorktreeError> {
    let name = location.path.file_name().filter(|_| location.path.parent() == Some(&*location.root));
    let name = name.ok_or_else(|| not_ours(location, "it is not directly inside the worktree root"))?;
    if name.as_encoded_bytes().starts_with(b".") || !location.root.is_absolute() {
        return Err(not_ours(
            location,
            "a worktree has an absolute path and a name that does not begin with a dot",
        ));
    }
    Ok(name)
}

/// Determines the owner of an existing directory from its `.git` file and the mark.
fn judge_directory(
    location: &WorktreeLocation,
    dir: OwnedFd,
    instead: Option<Mark>,
) -> Result<Found, WorktreeError> {
    let admin = match find_registration(location, dir.as_fd())? {
        Ok(admin) => admin,
        Err(why) => return Ok(Found::Foreign(why)),
    };
    let workdir = Workdir { path: location.path.clone(), trashed: None, dir };
    judge_entry(location, admin, Some(workdir), instead)
}

/// Returns the admin entry of the directory at a worktree location, or why there is none.
pub(crate) fn find_registration(
    location: &WorktreeLocation,
    dir: BorrowedFd<'_>,
) -> Result<Result<PathBuf, String>, WorktreeError> {
    let dot_git =
        match load_dot_git(dir).map_err(|error| failed("reading", &location.path.join(".git"), error))? {
            DotGit::File(content) => content,
            DotGit::Missing => return Ok(Err("it has no .git file, so its owner is unknown".to_owned())),
            DotGit::Directory => return Ok(Err("it is a repository of its own".to_owned())),
        };
    let Some(admin) = entry::named_by(&dot_git, &location.path) else {
        return Ok(Err("its .git file does not name a repository".to_owned()));
    };
    let Some(common) = repository::find_common(&location.repo)? else {
        return Ok(Err(format!("its repository {} is gone, or was moved", location.repo.display())));
    };
    let is_there =
        sexton_durable::find(admin.metadata()).map_err(|error| failed("checking", &admin, error))?;
    let (admin, theirs) = if is_there.is_some_and(|metadata| metadata.is_dir()) {
        let theirs = entry::load_common(&admin)?;
        (admin, theirs)
    } else {
        // The repository was moved, and the record has its new path.
        match find_entry(location, &common)? {
            Some(admin) => (admin, Some(common.clone())),
            None => return Ok(Err("its admin entry is gone, and the mark with it".to_owned())),
        }
    };
    if theirs.as_ref() != Some(&common) {
        return Ok(Err(format!("it is a worktree of another repository ({})", admin.display())));
    }
    if entry::load_worktree(&admin)?.as_deref() != Some(&location.path) {
        return Ok(Err("its admin entry is for a worktree at another path".to_owned()));
    }
    Ok(Ok(admin))
}

/// Handles a missing directory. The admin entry may still exist, and the files may be in the trash.
fn find_without_directory(
    location: &WorktreeLocation,
    worktree_root: Option<&WorktreeRoot>,
) -> Result<Found, WorktreeError> {
    let Some(common) = repository::find_common(&location.repo)? else { return Ok(Found::Absent) };
    let Some(admin) = find_entry(location, &common)? else { return Ok(Found::Absent) };
    match entry::load_worktree(&admin)? {
        Some(place) if place != location.path => {
            return Ok(Found::Foreign(format!("it was moved to {}", place.display())));
        }
        _ => {}
    }
    let workdir =
        worktree_root.map_or(Ok(None), |worktree_root| find_in_trash(location, worktree_root, &admin))?;
    judge_entry(location, admin, workdir, None)
}

/// Checks the mark of an entry; `instead` is used if it has none.
fn judge_entry(
    location: &WorktreeLocation,
    admin: PathBuf,
    workdir: Option<Workdir>,
    instead: Option<Mark>,
) -> Result<Found, WorktreeError> {
    let mark = match (mark::load(&admin)?, instead) {
        (Reading::Mark(mark), _) => *mark,
        (Reading::None, Some(mark)) => mark,
        (Reading::None, None) => return Ok(Found::Foreign("it has no mark".to_owned())),
        (Reading::Unreadable(why), _) => return Ok(Found::Foreign(why)),
    };
    if let Err(why) = mark.require(location) {
        return Ok(Found::Foreign(why));
    }
    let Some(common) = entry::load_common(&admin)? else {
        return Ok(Found::Foreign("its admin entry does not say which repository it belongs to".to_owned()));
    };
    let complete = !entry::find_lock(&admin)?.is_some_and(|reason| entry::is_making(&reason));
    let worktree = OwnWorktree { location: location.clone(), workdir, admin, common, mark, complete };
    Ok(Found::Ours(Box::new(worktree)))
}

/// Returns the entry with the mark of `location`. The name that Sexton would have given it is tried first; a
/// claimed entry can have any name.
pub(crate) fn find_entry(
    location: &WorktreeLocation,
    common: &Path,
) -> Result<Option<PathBuf>, WorktreeError> {
    let ours = |admin: &Path| -> Result<bool, WorktreeError> {
        Ok(matches!(mark::load(admin)?, Reading::Mark(mark) if mark.require(location).is_ok()))
    };
    let expected = entry::all(common).join(entry::name_of(location));
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

/// Returns the worktree's files in the trash, after an interrupted creation or removal.
fn find_in_trash(
    location: &WorktreeLocation,
    worktree_root: &WorktreeRoot,
    admin: &Path,
) -> Result<Option<Workdir>, WorktreeError> {
    let Some(trash) = worktree_root.find_trash()? else { return Ok(None) };
    for name in trash.names_of(&location.session)? {
        let Lookup::Directory(dir) = trash.lookup(&name)? else { continue };
        let path = trash.path().join(&name);
        let named = find_named_entry(dir.as_fd(), &location.root, &path)?;
        if named.is_some_and(|named| is_same_path(&named, admin)) {
            return Ok(Some(Workdir { path, trashed: Some(name), dir }));
        }
    }
    Ok(None)
}

/// Returns whether two paths name the same file. A repository may have been moved, with a link in its old place.
fn is_same_path(one: &Path, other: &Path) -> bool {
    let resolved = |path: &Path| path.canonicalize().ok();
    one == other || resolved(one).is_some_and(|one| resolved(other) == Some(one))
}

/// Returns the entry that the `.git` file in `dir` names. A relative path was written for a directory
/// directly inside the worktree root; `dir` itself may be elsewhere.
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

/// What a directory contains under the name `.git`.
pub(crate) enum DotGit {
    File(Vec<u8>),
    Directory,
    Missing,
}

/// Longer than any path.
const MAX_LINK: u64 = 64 * 1024;

/// Reads `.git` in `dir`.
pub(crate) fn load_dot_git(dir: BorrowedFd<'_>) -> std::io::Result<DotGit> {
    // NONBLOCK: an agent may have put a FIFO there.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(dir, ".git", flags, Mode::empty()) {
        Ok(file) => std::fs::File::from(file),
        // A symlink or a socket: git would write neither.
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
    file.take(MAX_LINK).read_to_end(&mut content)?;
    Ok(DotGit::File(content))
}
