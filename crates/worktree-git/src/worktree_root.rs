//! The worktree root: the directory that contains worktrees. It is held open, so that nothing reached through
//! it can be outside of it.
//!
//! Architecture invariant: the root's path is resolved once, when it is opened, and without following
//! symlinks. After that, everything is opened through the descriptor, one name at a time, never through a
//! symlink or a mount.
//!
//! The root also contains two directories of its own: `.locks`, and `.trash`, where worktrees are built and
//! moved for deletion. An entry of the trash is named `<session>.<random>`, or `.<random>` if no session owns
//! it. `<session>.<random>.unsaved` is a worktree that was moved there and is not rescued yet: it is never
//! deleted under that name, whatever happens to its admin entry.

use std::ffi::{OsStr, OsString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, RenameFlags, ResolveFlags};
use rustix::io::Errno;
use sexton_core::{SessionId, WorktreeError};
use sexton_durable::{FileLock, create_private_dir};

use crate::fault::failed;

/// The directory where worktrees are built, and moved for deletion.
const TRASH: &str = ".trash";
/// The directory of the lock files.
const LOCKS: &str = ".locks";
/// The number of locks: bounded, and large enough that two sessions seldom wait for each other.
const LOCK_COUNT: u64 = 64;

/// The flags for opening directories below the root.
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// The resolve flags for everything below the root.
const CONFINED: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// An open worktree root.
#[derive(Debug)]
pub(crate) struct WorktreeRoot {
    root: PathBuf,
    dir: OwnedFd,
}

/// What exists under a name.
pub(crate) enum Lookup {
    /// Nothing.
    Nothing,
    /// A directory, now held open.
    Directory(OwnedFd),
    /// Something else, with a description.
    Other(&'static str),
}

impl WorktreeRoot {
    /// Opens the worktree root at `root`; `None` if it does not exist.
    pub(crate) fn find(root: &Path) -> Result<Option<WorktreeRoot>, WorktreeError> {
        // No NO_XDEV: the user decides where the worktree root itself is mounted.
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        // No NOFOLLOW: it would hide that the obstacle is a symlink.
        match rustix::fs::openat2(CWD, root, DIRECTORY - OFlags::NOFOLLOW, Mode::empty(), resolve) {
            Ok(dir) => Ok(Some(WorktreeRoot { root: root.to_owned(), dir })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP) => Err(failed(
                "opening the worktree root",
                root,
                "its path contains a symlink, which could be changed",
            )),
            Err(error) => Err(failed("opening the worktree root", root, error)),
        }
    }

    /// Opens the worktree root at `root` and creates it if it does not exist.
    pub(crate) fn open(root: &Path) -> Result<WorktreeRoot, WorktreeError> {
        create_private_dir(root).map_err(|error| failed("creating the worktree root", root, error))?;
        WorktreeRoot::find(root)?.ok_or_else(|| failed("opening the worktree root", root, Errno::NOENT))
    }

    /// Waits until no other process works on `session` in the worktree root at `root`. Without a worktree
    /// root there is nothing to lock.
    pub(crate) fn lock_in(root: &Path, session: &SessionId) -> Result<Option<FileLock>, WorktreeError> {
        WorktreeRoot::find(root)?.map(|worktree_root| worktree_root.lock(session)).transpose()
    }

    /// Returns its path.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Waits until no other process works on `session`, and excludes others until the lock is dropped.
    pub(crate) fn lock(&self, session: &SessionId) -> Result<FileLock, WorktreeError> {
        let file = format!("{:02}", fingerprint(session.as_str()) % LOCK_COUNT);
        let locks = self.open_own(LOCKS)?;
        let lock = FileLock::acquire(&fd_path(locks.as_fd()).join(&file));
        lock.map_err(|error| failed("locking", &self.root.join(LOCKS).join(file), error))
    }

    /// Opens the trash and creates it if it does not exist.
    pub(crate) fn trash(&self) -> Result<Trash, WorktreeError> {
        Ok(Trash { path: self.root.join(TRASH), dir: self.open_own(TRASH)? })
    }

    /// Opens the trash; `None` if it does not exist.
    pub(crate) fn find_trash(&self) -> Result<Option<Trash>, WorktreeError> {
        let path = self.root.join(TRASH);
        match lookup(self.dir.as_fd(), TRASH.as_ref()).map_err(|error| failed("opening", &path, error))? {
            Lookup::Nothing => Ok(None),
            Lookup::Directory(dir) => Ok(Some(Trash { path, dir })),
            Lookup::Other(what) => Err(failed("opening", &path, format!("it is {what}"))),
        }
    }

    /// Returns what exists directly in the worktree root under `name`.
    pub(crate) fn lookup(&self, name: &OsStr) -> Result<Lookup, WorktreeError> {
        lookup(self.dir.as_fd(), name).map_err(|error| failed("opening", &self.root.join(name), error))
    }

    /// Returns the names directly in the worktree root, without its own directories.
    pub(crate) fn names(&self) -> Result<Vec<OsString>, WorktreeError> {
        let mut names = names(self.dir.as_fd()).map_err(|error| failed("listing", &self.root, error))?;
        names.retain(|name| !name.as_bytes().starts_with(b"."));
        Ok(names)
    }

    /// Moves `name` into the trash. Fails if the trash already has an entry with the new name.
    pub(crate) fn discard(&self, name: &OsStr, trash: &Trash, into: &OsStr) -> rustix::io::Result<()> {
        rustix::fs::renameat_with(&self.dir, name, &trash.dir, into, RenameFlags::NOREPLACE)
    }

    /// Moves an entry out of the trash to `name`. Fails if the worktree root already has an entry with that
    /// name.
    pub(crate) fn move_back(&self, trash: &Trash, from: &OsStr, name: &OsStr) -> rustix::io::Result<()> {
        rustix::fs::renameat_with(&trash.dir, from, &self.dir, name, RenameFlags::NOREPLACE)
    }

    /// Makes moves into and out of the worktree root durable.
    pub(crate) fn sync(&self) -> Result<(), WorktreeError> {
        rustix::fs::fsync(&self.dir).map_err(|error| failed("syncing", &self.root, error))
    }

    /// Opens one of the worktree root's own directories and creates it if it does not exist.
    fn open_own(&self, name: &str) -> Result<OwnedFd, WorktreeError> {
        let path = self.root.join(name);
        match rustix::fs::mkdirat(&self.dir, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed("creating", &path, error)),
        }
        open_below(self.dir.as_fd(), name.as_ref()).map_err(|error| failed("opening", &path, error))
    }
}

/// The worktree root's trash, held open.
#[derive(Debug)]
pub(crate) struct Trash {
    path: PathBuf,
    dir: OwnedFd,
}

impl Trash {
    /// Returns its path.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    pub(crate) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// Returns what exists in it under `name`.
    pub(crate) fn lookup(&self, name: &OsStr) -> Result<Lookup, WorktreeError> {
        lookup(self.dir.as_fd(), name).map_err(|error| failed("opening", &self.path.join(name), error))
    }

    /// Returns the names in it.
    pub(crate) fn names(&self) -> Result<Vec<OsString>, WorktreeError> {
        names(self.dir.as_fd()).map_err(|error| failed("listing", &self.path, error))
    }

    /// Returns the names in it that belong, or belonged, to `session`.
    pub(crate) fn names_of(&self, session: &SessionId) -> Result<Vec<OsString>, WorktreeError> {
        let mut names = self.names()?;
        names.retain(|name| find_owner(name).as_ref() == Some(session));
        Ok(names)
    }

    /// Makes renames in it durable.
    pub(crate) fn sync(&self) -> Result<(), WorktreeError> {
        rustix::fs::fsync(&self.dir).map_err(|error| failed("syncing", &self.path, error))
    }

    /// Returns the name of an unsaved worktree of `session` in it.
    pub(crate) fn find_unsaved(&self, session: &SessionId) -> Result<Option<OsString>, WorktreeError> {
        Ok(self.names_of(session)?.into_iter().find(|name| is_unsaved(name)))
    }

    /// Renames the entry `name` to show that it is saved.
    pub(crate) fn mark_saved(&self, name: &OsStr) -> Result<(), WorktreeError> {
        let Some(saved) = name.as_bytes().strip_suffix(UNSAVED.as_bytes()) else { return Ok(()) };
        let saved = OsStr::from_bytes(saved);
        rustix::fs::renameat_with(&self.dir, name, &self.dir, saved, RenameFlags::NOREPLACE)
            .map_err(|error| failed("renaming", &self.path.join(name), error))
    }

    /// Renames the entry `name` so that no session owns it; the next sweep deletes it.
    pub(crate) fn disown(&self, name: &OsStr) -> Result<(), WorktreeError> {
        match rustix::fs::renameat_with(&self.dir, name, &self.dir, unowned_name(), RenameFlags::NOREPLACE) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(failed("renaming", &self.path.join(name), error)),
        }
    }

    /// Creates an empty directory for `session` and returns its name.
    pub(crate) fn make(&self, session: &SessionId) -> Result<(OsString, OwnedFd), WorktreeError> {
        let name = name_of(session);
        let path = self.path.join(&name);
        // This becomes the worktree itself, so it gets the mode that git would give it.
        rustix::fs::mkdirat(&self.dir, &name, Mode::from_raw_mode(0o777))
            .and_then(|()| open_below(self.dir.as_fd(), &name))
            .map(|dir| (name, dir))
            .map_err(|error| failed("creating", &path, error))
    }
}

/// Returns a new name in the trash for an entry of `session`.
pub(crate) fn name_of(session: &SessionId) -> OsString {
    format!("{session}.{}", SessionId::random()).into()
}

/// The suffix of a name in the trash whose worktree is not saved.
const UNSAVED: &str = ".unsaved";

/// Returns a new name in the trash for an unsaved worktree of `session`.
pub(crate) fn unsaved_name_of(session: &SessionId) -> OsString {
    let mut name = name_of(session);
    name.push(UNSAVED);
    name
}

/// Returns whether a name in the trash is that of an unsaved worktree.
pub(crate) fn is_unsaved(name: &OsStr) -> bool {
    name.as_bytes().ends_with(UNSAVED.as_bytes())
}

/// Returns a new name in the trash for an entry that no session owns.
pub(crate) fn unowned_name() -> OsString {
    format!(".{}", SessionId::random()).into()
}

/// Returns the session that owns a name in the trash; `None` if there is none. A session id contains no dot.
pub(crate) fn find_owner(name: &OsStr) -> Option<SessionId> {
    name.to_str()?.split_once('.')?.0.parse().ok()
}

/// Returns a path to an open directory that no rename and no symlink can redirect.
pub(crate) fn fd_path(dir: BorrowedFd<'_>) -> PathBuf {
    format!("/proc/self/fd/{}", dir.as_raw_fd()).into()
}

/// Opens the directory `name` in `dir`, without following a symlink or crossing a mount.
pub(crate) fn open_below(dir: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    loop {
        let mounts = sexton_mutant::is("no_mount_check");
        let confined = if mounts { CONFINED - ResolveFlags::NO_XDEV } else { CONFINED };
        match rustix::fs::openat2(dir, name, DIRECTORY, Mode::empty(), confined) {
            // The kernel returns this if a concurrent rename kept it from verifying the path.
            Err(Errno::AGAIN) => {}
            outcome => return outcome,
        }
    }
}

fn lookup(dir: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<Lookup> {
    match open_below(dir, name) {
        Ok(dir) => Ok(Lookup::Directory(dir)),
        Err(Errno::NOENT) => Ok(Lookup::Nothing),
        Err(Errno::XDEV) => Ok(Lookup::Other("a mount point")),
        Err(Errno::LOOP | Errno::NOTDIR) => {
            let found = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let symlink = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
            Ok(Lookup::Other(if symlink { "a symlink" } else { "not a directory" }))
        }
        Err(error) => Err(error),
    }
}

fn names(dir: BorrowedFd<'_>) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(dir)? {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name != b"." && name != b".." {
            names.push(OsStr::from_bytes(name).to_owned());
        }
    }
    names.sort();
    Ok(names)
}

/// FNV-1a: the same in every version and on every host that shares a worktree root.
fn fingerprint(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
