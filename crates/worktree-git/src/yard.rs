//! The yard: the directory that holds worktrees, held open, so that nothing reached through it can lie
//! outside of it.
//!
//! Architecture invariant: a path is resolved once, when the yard is opened, and without a symlink.
//! Everything after that goes through the descriptor, one name deep, never through a symlink or a mount.
//!
//! Beside the worktrees it has two directories of its own: `.trash`, where worktrees are built and where
//! they go, and `.locks`. What is in the trash is named `<session>.<random>`, or `.<random>` where it is
//! nobody's any more. `<session>.<random>.unsaved` is a worktree that nobody can reach and that is not rescued
//! yet: whatever becomes of its entry, it is never deleted under that name.

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

/// Where worktrees are built, and where they go.
const TRASH: &str = ".trash";
/// Where the locks are.
const LOCKS: &str = ".locks";
/// How many locks there are: enough that two sessions seldom wait for each other, and bounded.
const LOCK_COUNT: u64 = 64;

/// How directories below the root are opened.
const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
/// Nothing below the root is reached any other way.
const CONFINED: ResolveFlags = ResolveFlags::BENEATH
    .union(ResolveFlags::NO_SYMLINKS)
    .union(ResolveFlags::NO_MAGICLINKS)
    .union(ResolveFlags::NO_XDEV);

/// An open yard.
#[derive(Debug)]
pub(crate) struct Yard {
    root: PathBuf,
    dir: OwnedFd,
}

/// What lies under a name.
pub(crate) enum Lies {
    /// Nothing.
    Nothing,
    /// A directory, now held open.
    Directory(OwnedFd),
    /// Something else, and what it is.
    Other(&'static str),
}

impl Yard {
    /// Opens the yard at `root`; `None` where there is none.
    pub(crate) fn find(root: &Path) -> Result<Option<Yard>, WorktreeError> {
        // Not NO_XDEV: where the yard itself is mounted is its user's choice.
        let resolve = ResolveFlags::NO_SYMLINKS | ResolveFlags::NO_MAGICLINKS;
        // Without NOFOLLOW, which would hide that a symlink is what stands in the way.
        match rustix::fs::openat2(CWD, root, DIRECTORY - OFlags::NOFOLLOW, Mode::empty(), resolve) {
            Ok(dir) => Ok(Some(Yard { root: root.to_owned(), dir })),
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::LOOP) => {
                Err(failed("opening the yard", root, "a symlink leads to it, and that could be changed"))
            }
            Err(error) => Err(failed("opening the yard", root, error)),
        }
    }

    /// Opens the yard at `root`, and makes it where there is none.
    pub(crate) fn open(root: &Path) -> Result<Yard, WorktreeError> {
        create_private_dir(root).map_err(|error| failed("making the yard", root, error))?;
        Yard::find(root)?.ok_or_else(|| failed("opening the yard", root, Errno::NOENT))
    }

    /// Waits until nobody else works on `session` in the yard at `root`. Where there is no yard, there is
    /// nothing to work on.
    pub(crate) fn lock_in(root: &Path, session: &SessionId) -> Result<Option<FileLock>, WorktreeError> {
        Yard::find(root)?.map(|yard| yard.lock(session)).transpose()
    }

    /// Where it is.
    pub(crate) fn root(&self) -> &Path {
        &self.root
    }

    /// Waits until nobody else works on `session`, and keeps it so until the lock is dropped.
    pub(crate) fn lock(&self, session: &SessionId) -> Result<FileLock, WorktreeError> {
        let file = format!("{:02}", fingerprint(session.as_str()) % LOCK_COUNT);
        let locks = self.open_own(LOCKS)?;
        let lock = FileLock::acquire(&anchor(locks.as_fd()).join(&file));
        lock.map_err(|error| failed("locking", &self.root.join(LOCKS).join(file), error))
    }

    /// The trash, made where it is missing.
    pub(crate) fn trash(&self) -> Result<Trash, WorktreeError> {
        Ok(Trash { path: self.root.join(TRASH), dir: self.open_own(TRASH)? })
    }

    /// The trash; `None` where there is none.
    pub(crate) fn find_trash(&self) -> Result<Option<Trash>, WorktreeError> {
        let path = self.root.join(TRASH);
        match look(self.dir.as_fd(), TRASH.as_ref()).map_err(|error| failed("opening", &path, error))? {
            Lies::Nothing => Ok(None),
            Lies::Directory(dir) => Ok(Some(Trash { path, dir })),
            Lies::Other(what) => Err(failed("opening", &path, format!("it is {what}"))),
        }
    }

    /// What lies directly in the yard under `name`.
    pub(crate) fn look(&self, name: &OsStr) -> Result<Lies, WorktreeError> {
        look(self.dir.as_fd(), name).map_err(|error| failed("opening", &self.root.join(name), error))
    }

    /// The names of what lies directly in the yard, without its own directories.
    pub(crate) fn names(&self) -> Result<Vec<OsString>, WorktreeError> {
        let mut names = names(self.dir.as_fd()).map_err(|error| failed("listing", &self.root, error))?;
        names.retain(|name| !name.as_bytes().starts_with(b"."));
        Ok(names)
    }

    /// Moves what lies under `name` into the trash. Fails where that has something of the new name.
    pub(crate) fn discard(&self, name: &OsStr, trash: &Trash, into: &OsStr) -> rustix::io::Result<()> {
        rustix::fs::renameat_with(&self.dir, name, &trash.dir, into, RenameFlags::NOREPLACE)
    }

    /// Moves something out of the trash, to `name`. Fails where the yard has something of that name.
    pub(crate) fn bring_back(&self, trash: &Trash, from: &OsStr, name: &OsStr) -> rustix::io::Result<()> {
        rustix::fs::renameat_with(&trash.dir, from, &self.dir, name, RenameFlags::NOREPLACE)
    }

    /// Makes what was moved into or out of the yard durable.
    pub(crate) fn sync(&self) -> Result<(), WorktreeError> {
        rustix::fs::fsync(&self.dir).map_err(|error| failed("syncing", &self.root, error))
    }

    /// One of the yard's own directories, made where it is missing.
    fn open_own(&self, name: &str) -> Result<OwnedFd, WorktreeError> {
        let path = self.root.join(name);
        match rustix::fs::mkdirat(&self.dir, name, Mode::RWXU) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(failed("making", &path, error)),
        }
        open_below(self.dir.as_fd(), name.as_ref()).map_err(|error| failed("opening", &path, error))
    }
}

/// The yard's trash, held open.
#[derive(Debug)]
pub(crate) struct Trash {
    path: PathBuf,
    dir: OwnedFd,
}

impl Trash {
    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its directory.
    pub(crate) fn dir(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }

    /// What lies in it under `name`.
    pub(crate) fn look(&self, name: &OsStr) -> Result<Lies, WorktreeError> {
        look(self.dir.as_fd(), name).map_err(|error| failed("opening", &self.path.join(name), error))
    }

    /// The names of what lies in it.
    pub(crate) fn names(&self) -> Result<Vec<OsString>, WorktreeError> {
        names(self.dir.as_fd()).map_err(|error| failed("listing", &self.path, error))
    }

    /// The names of what lies in it and is, or was, `session`'s.
    pub(crate) fn names_of(&self, session: &SessionId) -> Result<Vec<OsString>, WorktreeError> {
        let mut names = self.names()?;
        names.retain(|name| find_owner(name).as_ref() == Some(session));
        Ok(names)
    }

    /// Makes what was renamed in it durable.
    pub(crate) fn sync(&self) -> Result<(), WorktreeError> {
        rustix::fs::fsync(&self.dir).map_err(|error| failed("syncing", &self.path, error))
    }

    /// The name of what lies in it, is `session`'s and is not saved.
    pub(crate) fn find_unsaved(&self, session: &SessionId) -> Result<Option<OsString>, WorktreeError> {
        Ok(self.names_of(session)?.into_iter().find(|name| is_unsaved(name)))
    }

    /// Says of what lies under `name` that it is saved.
    pub(crate) fn mark_saved(&self, name: &OsStr) -> Result<(), WorktreeError> {
        let Some(saved) = name.as_bytes().strip_suffix(UNSAVED.as_bytes()) else { return Ok(()) };
        let saved = OsStr::from_bytes(saved);
        rustix::fs::renameat_with(&self.dir, name, &self.dir, saved, RenameFlags::NOREPLACE)
            .map_err(|error| failed("renaming", &self.path.join(name), error))
    }

    /// Gives what lies under `name` to nobody: the next sweep deletes it.
    pub(crate) fn disown(&self, name: &OsStr) -> Result<(), WorktreeError> {
        match rustix::fs::renameat_with(&self.dir, name, &self.dir, nobodys_name(), RenameFlags::NOREPLACE) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(failed("renaming", &self.path.join(name), error)),
        }
    }

    /// Makes an empty directory for what `session` builds, and returns its name.
    pub(crate) fn make(&self, session: &SessionId) -> Result<(OsString, OwnedFd), WorktreeError> {
        let name = name_of(session);
        let path = self.path.join(&name);
        // The worktree itself, so with the modes that git would give it.
        rustix::fs::mkdirat(&self.dir, &name, Mode::from_raw_mode(0o777))
            .and_then(|()| open_below(self.dir.as_fd(), &name))
            .map(|dir| (name, dir))
            .map_err(|error| failed("making", &path, error))
    }
}

/// A new name in the trash for something of `session`'s.
pub(crate) fn name_of(session: &SessionId) -> OsString {
    format!("{session}.{}", SessionId::random()).into()
}

/// What a name ends with in the trash where the worktree is not saved.
const UNSAVED: &str = ".unsaved";

/// A new name in the trash for a worktree of `session`'s that is not saved.
pub(crate) fn unsaved_name_of(session: &SessionId) -> OsString {
    let mut name = name_of(session);
    name.push(UNSAVED);
    name
}

/// Whether a name in the trash says that what lies there is not saved.
pub(crate) fn is_unsaved(name: &OsStr) -> bool {
    name.as_bytes().ends_with(UNSAVED.as_bytes())
}

/// A new name in the trash for something of nobody's.
pub(crate) fn nobodys_name() -> OsString {
    format!(".{}", SessionId::random()).into()
}

/// Whose a name in the trash is; `None` where it is nobody's. An id has no dot.
pub(crate) fn find_owner(name: &OsStr) -> Option<SessionId> {
    name.to_str()?.split_once('.')?.0.parse().ok()
}

/// The path of what a descriptor holds, which no rename and no symlink can change.
pub(crate) fn anchor(dir: BorrowedFd<'_>) -> PathBuf {
    format!("/proc/self/fd/{}", dir.as_raw_fd()).into()
}

/// Opens the directory `name` in `dir`, and nothing that only looks like it.
pub(crate) fn open_below(dir: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    loop {
        let mounts = sexton_mutant::is("no_mount_check");
        let confined = if mounts { CONFINED - ResolveFlags::NO_XDEV } else { CONFINED };
        match rustix::fs::openat2(dir, name, DIRECTORY, Mode::empty(), confined) {
            // The kernel says so where a rename elsewhere kept it from being sure.
            Err(Errno::AGAIN) => {}
            outcome => return outcome,
        }
    }
}

fn look(dir: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<Lies> {
    match open_below(dir, name) {
        Ok(dir) => Ok(Lies::Directory(dir)),
        Err(Errno::NOENT) => Ok(Lies::Nothing),
        Err(Errno::XDEV) => Ok(Lies::Other("a mount point")),
        Err(Errno::LOOP | Errno::NOTDIR) => {
            let found = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
            let symlink = FileType::from_raw_mode(found.st_mode) == FileType::Symlink;
            Ok(Lies::Other(if symlink { "a symlink" } else { "not a directory" }))
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

/// FNV-1a: the same in every version and on every machine that shares a yard.
fn fingerprint(text: &str) -> u64 {
    text.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}
