//! Checks whether an object is really absent. libgit2 also reports "not found" for an object that it could
//! not search for, and a rescue would then leave that object out.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use git2::{ErrorCode, Oid, Repository};
use sexton_durable::{SMALL_FILE, find, open_regular, read_regular};

/// How many levels of alternates are followed; the same as git.
const MAX_DEPTH: usize = 5;

/// Returns the commit that `oid` is or points to; `None` if it is not a commit or is absent.
pub(crate) fn find_commit(repository: &Repository, oid: Oid) -> Result<Option<Oid>, git2::Error> {
    match repository.find_object(oid, None).and_then(|object| object.peel_to_commit()) {
        Ok(commit) => Ok(Some(commit.id())),
        // For example a tag of a blob.
        Err(error) if matches!(error.code(), ErrorCode::Peel | ErrorCode::InvalidSpec) => Ok(None),
        Err(error) if error.code() == ErrorCode::NotFound => require_absent(repository, oid).map(|()| None),
        Err(error) => Err(error),
    }
}

/// Fails if `oid`, which libgit2 did not find, may still exist.
pub(crate) fn require_absent(repository: &Repository, oid: Oid) -> Result<(), git2::Error> {
    let unverified =
        |why: String| git2::Error::from_str(&format!("cannot check whether object {oid} exists: {why}"));
    let objects = repository.commondir().join("objects");
    match find_in(&objects, oid, 0) {
        Ok(None) => Ok(()),
        Ok(Some(file)) => Err(unverified(format!("{} exists", file.display()))),
        Err(error) => Err(unverified(error.to_string())),
    }
}

/// Returns the file of a loose object. For packs, it only checks that their indexes can be opened.
fn find_in(objects: &Path, oid: Oid, depth: usize) -> io::Result<Option<PathBuf>> {
    let name = oid.to_string();
    let loose = objects.join(&name[..2]).join(&name[2..]);
    if find(loose.symlink_metadata())?.is_some() {
        return Ok(Some(loose));
    }
    for pack in find(fs::read_dir(objects.join("pack")))?.into_iter().flatten() {
        let pack = pack?.path();
        if pack.extension() == Some(OsStr::new("idx")) {
            find(open_regular(&pack))?;
        }
    }
    let alternates = find(read_regular(&objects.join("info/alternates"), SMALL_FILE))?.unwrap_or_default();
    for line in alternates.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && depth < MAX_DEPTH) {
        if let Some(found) = find_in(&objects.join(OsStr::from_bytes(line)), oid, depth + 1)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
