//! The files of a restored worktree that differ from a checkout of HEAD: writes changed files raw, deletes
//! deleted ones, and restores permission bits and empty directories.
//!
//! Architecture invariant: nothing is written or deleted through a symlink: HEAD may have a symlink where the
//! rescue has a directory.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, File, Permissions};
use std::io::{self, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::Path;

use git2::Odb;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, fstat, mkdirat, openat, symlinkat, unlinkat};
use rustix::io::Errno;

use super::Restoration;
use crate::checkout::program;
use crate::pack::SMALL;
use crate::rescue::manifest::PathBits;
use crate::scan::index::{GITLINK, Index};
use crate::scan::open_below;
use crate::tree::{self, Item, SYMLINK};
use crate::worktree_root::fd_path;

/// Changes the directory, which contains HEAD's files, to the rescued state.
pub(super) fn apply(restoration: &Restoration<'_>, dir: BorrowedFd<'_>, admin: &Path) -> io::Result<()> {
    let stored = restoration.stored;
    let odb = restoration.repository.odb().map_err(io::Error::other)?;
    let mut raw: BTreeMap<&[u8], Option<u32>> = BTreeMap::new();
    for PathBits { path, mode } in &stored.manifest.raw {
        raw.insert(path.as_os_str().as_bytes(), *mode);
    }
    let mut changed: BTreeMap<Vec<u8>, Option<Item>> =
        tree::differences(&odb, Some(stored.base_tree), Some(stored.tree))
            .map_err(io::Error::other)?
            .into_iter()
            .map(|(path, _, after)| (path, after))
            .collect();
    // A file whose git content equals HEAD's may still have had other bytes on disk, for example other line
    // ends.
    for path in raw.keys().filter(|path| !changed.contains_key(**path)).copied().collect::<Vec<_>>() {
        changed.insert(path.to_vec(), find_item(restoration, &odb, path)?);
    }
    // Deletions first: a file may have become a directory, and a directory a file.
    let skipped = find_skipped(restoration, admin)?;
    for path in changed.keys().rev().chain(skipped.iter().filter(|path| !changed.contains_key(*path))) {
        remove(dir, path)?;
    }
    for (path, item) in &changed {
        if let Some(item) = item {
            let mode = raw.get(&path[..]).copied().flatten();
            write(restoration, &odb, dir, path, *item, mode)?;
        }
    }
    for directory in &stored.manifest.empty_directories {
        make_directory(dir, directory.as_os_str().as_bytes())?;
    }
    set_modes(restoration, dir)
}

/// Sets permission bits: files first, then directories, the deepest first, because a directory without its
/// bits can no longer be entered.
fn set_modes(restoration: &Restoration<'_>, dir: BorrowedFd<'_>) -> io::Result<()> {
    for wanted in [FileType::RegularFile, FileType::Directory] {
        for PathBits { path, mode } in restoration.stored.manifest.modes.iter().rev() {
            let Some(mode) = *mode else { continue };
            let found = match open_below(dir, path.as_os_str().as_bytes(), OFlags::PATH) {
                Ok(found) => found,
                Err(Errno::NOENT | Errno::NOTDIR) => continue,
                Err(errno) => return Err(errno.into()),
            };
            if FileType::from_raw_mode(fstat(&found)?.st_mode) == wanted {
                fs::set_permissions(fd_path(found.as_fd()), Permissions::from_mode(mode))?;
            }
        }
    }
    Ok(())
}

fn find_item(restoration: &Restoration<'_>, odb: &Odb<'_>, path: &[u8]) -> io::Result<Option<Item>> {
    let mut tree = restoration.stored.tree;
    let mut names = path.split(|byte| *byte == b'/').peekable();
    while let Some(name) = names.next() {
        let Some(item) = tree::load(odb, tree).map_err(io::Error::other)?.remove(name) else {
            return Ok(None);
        };
        if names.peek().is_none() {
            return Ok(Some(item));
        }
        tree = item.oid;
    }
    Ok(None)
}

/// Returns the paths that were not meant to be on disk, because of a sparse checkout.
fn find_skipped(restoration: &Restoration<'_>, admin: &Path) -> io::Result<HashSet<Vec<u8>>> {
    let Some(blob) = restoration.stored.index else { return Ok(HashSet::new()) };
    let blob = restoration.repository.find_blob(blob).map_err(io::Error::other)?;
    Index::find_skipped(blob.content(), admin)
}

/// Deletes what is at a path, and the directories that become empty. If a symlink is on the way, there is
/// nothing at the path itself.
fn remove(dir: BorrowedFd<'_>, path: &[u8]) -> io::Result<()> {
    let mut path = path;
    loop {
        let (parent, name) = split(path);
        match open_below(dir, parent, OFlags::PATH | OFlags::DIRECTORY) {
            Ok(parent) => match unlinkat(&parent, name, AtFlags::empty()) {
                Err(Errno::ISDIR) => match unlinkat(&parent, name, AtFlags::REMOVEDIR) {
                    Err(Errno::NOTEMPTY | Errno::EXIST) => return Ok(()),
                    removed => removed?,
                },
                Err(Errno::NOENT) => {}
                removed => removed?,
            },
            Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP) => return Ok(()),
            Err(errno) => return Err(errno.into()),
        }
        if parent.is_empty() {
            return Ok(());
        }
        path = parent;
    }
}

/// Splits a path into its directory, empty for the top, and its name.
fn split(path: &[u8]) -> (&[u8], &OsStr) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], OsStr::from_bytes(&path[slash + 1..])),
        None => (b"", OsStr::from_bytes(path)),
    }
}

/// Opens a directory and creates it, and those above it, if missing.
fn make_directory(dir: BorrowedFd<'_>, path: &[u8]) -> io::Result<OwnedFd> {
    let flags = OFlags::PATH | OFlags::DIRECTORY;
    match open_below(dir, path, flags) {
        Err(Errno::NOENT) => {
            let (above, name) = split(path);
            let above = make_directory(dir, above)?;
            mkdirat(above, name, Mode::from_raw_mode(0o777))?;
            Ok(open_below(dir, path, flags)?)
        }
        opened => Ok(opened?),
    }
}

fn write(
    restoration: &Restoration<'_>,
    odb: &Odb<'_>,
    dir: BorrowedFd<'_>,
    path: &[u8],
    item: Item,
    mode: Option<u32>,
) -> io::Result<()> {
    let (parent, name) = split(path);
    let parent = make_directory(dir, parent)?;
    if item.mode == GITLINK {
        return Ok(mkdirat(&parent, name, Mode::from_raw_mode(0o777))?);
    }
    if item.mode == SYMLINK {
        let content = odb.read(item.oid).map_err(io::Error::other)?;
        return Ok(symlinkat(OsStr::from_bytes(content.data()), &parent, name)?);
    }
    // The file is never readable by more users than it was, not even for a moment.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(&parent, name, flags, Mode::from_raw_mode(0o600))?);
    let (size, _) = odb.read_header(item.oid).map_err(io::Error::other)?;
    if size as u64 <= SMALL || !program::write_blob(restoration.common, item.oid, size as u64, &mut file)? {
        file.write_all(odb.read(item.oid).map_err(io::Error::other)?.data())?;
    }
    let mode = mode.unwrap_or(item.mode & 0o777);
    file.set_permissions(Permissions::from_mode(mode))
}
