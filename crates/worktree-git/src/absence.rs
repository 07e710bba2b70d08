//! Whether an object is really not there. libgit2 says so of one that it could not look for, too, and nobody
//! rescues what does not exist.

use std::ffi::OsStr;
use std::fs::{self, File};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use git2::{ErrorCode, Oid, Repository};
use sexton_durable::find;

/// How far alternates of alternates are followed, as git does.
const DEEPEST: usize = 5;

/// The commit that `oid` is or names; `None` where it is no commit, or is not there.
pub(crate) fn find_commit(repository: &Repository, oid: Oid) -> Result<Option<Oid>, git2::Error> {
    match repository.find_object(oid, None).and_then(|object| object.peel_to_commit()) {
        Ok(commit) => Ok(Some(commit.id())),
        // A tag of a file.
        Err(error) if matches!(error.code(), ErrorCode::Peel | ErrorCode::InvalidSpec) => Ok(None),
        Err(error) if error.code() == ErrorCode::NotFound => require_absent(repository, oid).map(|()| None),
        Err(error) => Err(error),
    }
}

/// Fails where `oid`, which libgit2 did not find, may be there all the same.
pub(crate) fn require_absent(repository: &Repository, oid: Oid) -> Result<(), git2::Error> {
    let unseen = |why: String| git2::Error::from_str(&format!("object {oid} cannot be looked for: {why}"));
    let objects = repository.commondir().join("objects");
    match find_in(&objects, oid, 0) {
        Ok(None) => Ok(()),
        Ok(Some(file)) => Err(unseen(format!("{} is there", file.display()))),
        Err(error) => Err(unseen(error.to_string())),
    }
}

/// The file of a loose object. Of packs it is only made sure that they could be searched.
fn find_in(objects: &Path, oid: Oid, depth: usize) -> io::Result<Option<PathBuf>> {
    let name = oid.to_string();
    let loose = objects.join(&name[..2]).join(&name[2..]);
    if find(loose.symlink_metadata())?.is_some() {
        return Ok(Some(loose));
    }
    for pack in find(fs::read_dir(objects.join("pack")))?.into_iter().flatten() {
        let pack = pack?.path();
        if pack.extension() == Some(OsStr::new("idx")) {
            find(File::open(&pack))?;
        }
    }
    let alternates = find(fs::read(objects.join("info/alternates")))?.unwrap_or_default();
    for line in alternates.split(|byte| *byte == b'\n').filter(|line| !line.is_empty() && depth < DEEPEST) {
        if let Some(found) = find_in(&objects.join(OsStr::from_bytes(line)), oid, depth + 1)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}
