//! Restores a rescue: a new worktree, registered with its repository, with files, index and git's state as
//! they were. It has no mark: it belongs to the user, and recovery does not touch it.
//!
//! The entry becomes visible to the repository last. A restore that fails before that deletes what it wrote;
//! one that is killed leaves only files in the new directory.

mod files;
mod head;
mod register;

use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};

use git2::Repository;
use rustix::fs::{Mode, OFlags};
use sexton_core::worktree::RestoredWork;
use sexton_core::{SessionId, WorktreeError};

use crate::checkout::{self, Blank};
use crate::fault::failed;
use crate::repository;
use crate::rescues::{self, Stored};

/// A rescue that is being restored.
pub(crate) struct Restoration<'a> {
    pub(crate) repository: &'a Repository,
    pub(crate) common: &'a Path,
    pub(crate) stored: &'a Stored,
    /// The target directory.
    pub(crate) into: &'a Path,
}

/// Restores the rescue of a session into an empty or new directory.
pub(crate) fn restore(repo: &Path, session: &SessionId, into: &Path) -> Result<RestoredWork, WorktreeError> {
    let repository = repository::open(repo)?;
    let common = repository::canonical_common(&repository)?;
    let stored = rescues::require(&repository, repo, session)?;
    let made = Directory::make(into)?;
    let restoration =
        Restoration { repository: &repository, common: &common, stored: &stored, into: &made.path };
    match restoration.run() {
        Ok(branch) => Ok(RestoredWork { path: made.path.clone(), files: stored.manifest.changed, branch }),
        Err(error) => {
            made.clear();
            Err(error)
        }
    }
}

/// Applies a rescue to a new worktree that has the files and the index of the rescue's commit: its files,
/// staged and unstaged as they were. `path` is the current path of its directory, `admin` its entry. An
/// unfinished git operation is not continued: HEAD is on the new worktree's branch.
pub(crate) fn apply_to_worktree(
    repository: &Repository,
    common: &Path,
    stored: &Stored,
    path: &Path,
    dir: BorrowedFd<'_>,
    admin: &Path,
) -> Result<(), WorktreeError> {
    let restoration = Restoration { repository, common, stored, into: path };
    files::apply(&restoration, dir, admin).map_err(|error| failed("restoring into", path, error))?;
    register::write_index(&restoration, admin).map_err(|error| failed("writing the index in", admin, error))
}

impl Restoration<'_> {
    fn run(&self) -> Result<Option<String>, WorktreeError> {
        let head = head::choose(self)?;
        let draft = register::Draft::write(self, &head)?;
        self.fill(draft.path())?;
        head.make_branch(self)?;
        draft.publish(self)?;
        Ok(head.short_branch())
    }

    /// Writes the files: HEAD's by a checkout, then the differences byte for byte.
    fn fill(&self, admin: &Path) -> Result<(), WorktreeError> {
        let in_git = |error: git2::Error| failed("reading the rescue for", self.into, error);
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let dir = rustix::fs::open(self.into, flags, Mode::empty())
            .map_err(|error| failed("opening", self.into, error))?;
        let dir = dir.as_fd();
        if self.stored.manifest.head.is_some() {
            let commit = self.repository.find_commit(self.stored.base).map_err(in_git)?;
            // A checkout ends an unfinished merge and writes an index, so it gets a separate entry.
            let temporary = register::Draft::for_checkout(self, admin)?;
            let blank = Blank { dir, path: self.into, admin: temporary.path(), common: self.common };
            checkout::fill(&blank, self.repository, &commit)?;
        }
        files::apply(self, dir, admin).map_err(|error| failed("restoring into", self.into, error))
    }
}

/// The directory that a rescue is restored into.
struct Directory {
    path: PathBuf,
    /// Whether it did not exist before.
    is_new: bool,
}

impl Directory {
    fn make(into: &Path) -> Result<Directory, WorktreeError> {
        let cannot = |why: &str| WorktreeError::CannotRestore { path: into.to_owned(), why: why.to_owned() };
        let path = std::path::absolute(into).map_err(|error| failed("resolving", into, error))?;
        let is_new = match fs::read_dir(&path) {
            Ok(mut entries) => {
                if entries.next().is_some() {
                    return Err(cannot("it is not empty"));
                }
                false
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                fs::create_dir_all(&path).map_err(|error| failed("creating", &path, error))?;
                true
            }
            Err(error) if error.kind() == io::ErrorKind::NotADirectory => {
                return Err(cannot("it is not a directory"));
            }
            Err(error) => return Err(failed("listing", &path, error)),
        };
        // Git and the entry must use the same path, whatever symlinks it contains.
        let path = path.canonicalize().map_err(|error| failed("resolving", &path, error))?;
        Ok(Directory { path, is_new })
    }

    /// Deletes what was written. Everything in the directory is ours, because it was empty. Failures are
    /// ignored: the error that caused the cleanup is reported.
    fn clear(&self) {
        if self.is_new {
            let _ = fs::remove_dir_all(&self.path);
            return;
        }
        for entry in fs::read_dir(&self.path).into_iter().flatten().flatten() {
            let path = entry.path();
            let _ = if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                fs::remove_dir_all(path)
            } else {
                fs::remove_file(path)
            };
        }
    }
}
