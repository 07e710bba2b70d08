//! The files of a restored worktree that a checkout of HEAD does not give: what differed, written raw; what
//! was gone, taken away; permission bits and empty directories.
//!
//! Architecture invariant: nothing is written or removed through a symlink: HEAD may have one where the
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
use crate::yard::anchor;

/// Makes the directory, which has HEAD's files, what it was.
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
    // Bytes that git took for HEAD's may still have been others on disk: line ends, for one.
    for path in raw.keys().filter(|path| !changed.contains_key(**path)).copied().collect::<Vec<_>>() {
        changed.insert(path.to_vec(), find_item(restoration, &odb, path)?);
    }
    // All that goes, goes first: a file may have become a directory, and a directory a file.
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

/// Files first, then directories, the deepest first: one without its bits lets nobody in any more.
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
                fs::set_permissions(anchor(found.as_fd()), Permissions::from_mode(mode))?;
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

/// Paths that were not meant to be on disk: a sparse checkout leaves them out.
fn find_skipped(restoration: &Restoration<'_>, admin: &Path) -> io::Result<HashSet<Vec<u8>>> {
    let Some(blob) = restoration.stored.index else { return Ok(HashSet::new()) };
    let blob = restoration.repository.find_blob(blob).map_err(io::Error::other)?;
    Index::find_skipped(blob.content(), admin)
}

/// Removes what is at a path, and the directories that it leaves empty. A symlink on the way means that
/// there is nothing at the path itself.
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

/// A path's directory, empty for the top, and its name.
fn split(path: &[u8]) -> (&[u8], &OsStr) {
    match path.iter().rposition(|byte| *byte == b'/') {
        Some(slash) => (&path[..slash], OsStr::from_bytes(&path[slash + 1..])),
        None => (b"", OsStr::from_bytes(path)),
    }
}

/// Opens a directory, which is made with those above it.
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
    // Never readable by more people than it was, not even for a moment.
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let mut file = File::from(openat(&parent, name, flags, Mode::from_raw_mode(0o600))?);
    let (size, _) = odb.read_header(item.oid).map_err(io::Error::other)?;
    if size as u64 <= SMALL || !program::write_blob(restoration.common, item.oid, size as u64, &mut file)? {
        file.write_all(odb.read(item.oid).map_err(io::Error::other)?.data())?;
    }
    let mode = mode.unwrap_or(item.mode & 0o777);
    file.set_permissions(Permissions::from_mode(mode))
}
