//! The files of a restored worktree that a checkout of HEAD does not give: what differed, written raw; what
//! was gone, taken away; permission bits and empty directories.

use std::collections::{BTreeMap, HashSet};
use std::ffi::OsStr;
use std::fs::{self, OpenOptions, Permissions};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt, symlink};
use std::path::{Path, PathBuf};

use git2::Odb;

use super::Restoration;
use crate::rescue::manifest::PathBits;
use crate::scan::index::{GITLINK, Index};
use crate::tree::{self, Item, SYMLINK};

/// Makes the directory, which has HEAD's files, what it was.
pub(super) fn apply(restoration: &Restoration<'_>, admin: &Path) -> io::Result<()> {
    let (stored, into) = (restoration.stored, restoration.into);
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
    // All that goes, goes first: a file may have become a directory.
    for path in changed.keys() {
        remove(into, path)?;
    }
    for path in find_skipped(restoration, admin)? {
        if !changed.contains_key(&path) {
            remove(into, &path)?;
        }
    }
    for (path, item) in &changed {
        if let Some(item) = item {
            write(&odb, into, path, *item, raw.get(&path[..]).copied().flatten())?;
        }
    }
    for directory in &stored.manifest.empty_directories {
        fs::create_dir_all(into.join(directory.as_path()))?;
    }
    set_modes(restoration)
}

fn set_modes(restoration: &Restoration<'_>) -> io::Result<()> {
    let modes = restoration.stored.manifest.modes.iter();
    let paths = modes.filter_map(|PathBits { path, mode }| {
        let path = restoration.into.join(path.as_path());
        let is_dir = path.symlink_metadata().ok()?.is_dir();
        Some((is_dir, path, (*mode)?))
    });
    let (directories, files): (Vec<_>, Vec<_>) = paths.partition(|(is_dir, ..)| *is_dir);
    // Directories last, and the deepest first: one without its bits lets nobody in any more.
    for (_, path, mode) in files.into_iter().chain(directories.into_iter().rev()) {
        fs::set_permissions(path, Permissions::from_mode(mode))?;
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

/// Removes what is at a path, and the directories that it leaves empty.
fn remove(into: &Path, path: &[u8]) -> io::Result<()> {
    let full = into.join(OsStr::from_bytes(path));
    let removed = match full.symlink_metadata() {
        // A submodule's empty directory.
        Ok(metadata) if metadata.is_dir() => fs::remove_dir(&full),
        Ok(_) => fs::remove_file(&full),
        Err(error) => Err(error),
    };
    match removed {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {}
        removed => removed?,
    }
    let mut parent = full.parent();
    while let Some(directory) = parent.filter(|directory| *directory != into) {
        if fs::remove_dir(directory).is_err() {
            break;
        }
        parent = directory.parent();
    }
    Ok(())
}

fn write(odb: &Odb<'_>, into: &Path, path: &[u8], item: Item, mode: Option<u32>) -> io::Result<()> {
    let full: PathBuf = into.join(OsStr::from_bytes(path));
    if let Some(parent) = full.parent() {
        fs::create_dir_all(parent)?;
    }
    if item.mode == GITLINK {
        return fs::create_dir(&full);
    }
    let content = odb.read(item.oid).map_err(io::Error::other)?;
    if item.mode == SYMLINK {
        return symlink(OsStr::from_bytes(content.data()), &full);
    }
    // Never readable by more people than it was, not even for a moment.
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&full)?;
    file.write_all(content.data())?;
    let mode = mode.unwrap_or(item.mode & 0o777);
    file.set_permissions(Permissions::from_mode(mode))
}
