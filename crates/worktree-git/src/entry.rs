//! The admin entry: the directory `worktrees/<name>` of a repository that makes git know a worktree.
//!
//! It appears and disappears by one rename, so that no moment has half of one. What is being built or
//! taken apart lies in `sexton/` beside `worktrees/`, where git does not look.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use sexton_core::WorktreeError;
use sexton_core::worktree::Plot;

use crate::fault::failed;

/// The file by which git keeps its hands off an entry, with the reason in it.
const LOCKED: &str = "locked";
/// The reason while a worktree is made. An entry with this one is not complete.
const MAKING: &str = "sexton is making this worktree";

/// The name that the entry of `plot` has where Sexton made it: found again without a search.
pub(crate) fn name_of(plot: &Plot) -> String {
    let store: String = plot.store.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    format!("{}-{store}", plot.session)
}

/// Where the entries of a repository are.
pub(crate) fn all(common: &Path) -> PathBuf {
    common.join("worktrees")
}

/// Where entries are built and taken apart.
pub(crate) fn workshop(common: &Path) -> PathBuf {
    common.join("sexton")
}

/// Every entry of a repository.
pub(crate) fn list(common: &Path) -> Result<Vec<PathBuf>, WorktreeError> {
    let directory = all(common);
    let entries = match fs::read_dir(&directory) {
        Ok(entries) => entries,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        Err(error) => return Err(failed("listing", &directory, error)),
    };
    let paths: io::Result<Vec<PathBuf>> = entries.map(|entry| Ok(entry?.path())).collect();
    let mut paths = paths.map_err(|error| failed("listing", &directory, error))?;
    paths.sort();
    Ok(paths)
}

/// Why an entry is locked; `None` where it is not.
pub(crate) fn find_lock(admin: &Path) -> Result<Option<String>, WorktreeError> {
    Ok(load(&admin.join(LOCKED))?.map(|reason| String::from_utf8_lossy(&reason).trim().to_owned()))
}

/// Whether a reason is the one of a worktree that is being made.
pub(crate) fn is_making(reason: &str) -> bool {
    reason == MAKING
}

/// Says in a new entry that it is not complete.
pub(crate) fn begin(admin: &Path) -> io::Result<()> {
    fs::write(admin.join(LOCKED), MAKING)
}

/// Says that an entry is complete.
pub(crate) fn complete(admin: &Path) -> io::Result<()> {
    match fs::remove_file(admin.join(LOCKED)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// How often a directory that somebody else deletes is made again.
const MAX_ATTEMPTS: usize = 100;

/// Does something that needs the directory `parent`. Whoever leaves it empty deletes it, as git does with its
/// own, and that may be just now.
pub(crate) fn inside(parent: &Path, mut act: impl FnMut() -> io::Result<()>) -> io::Result<()> {
    let mut attempts = 0;
    loop {
        attempts += 1;
        match fs::create_dir_all(parent).and_then(|()| act()) {
            Err(error) if error.kind() == io::ErrorKind::NotFound && attempts < MAX_ATTEMPTS => {}
            outcome => return outcome,
        }
    }
}

/// The worktree that an entry is for; `None` where it does not say.
pub(crate) fn load_worktree(admin: &Path) -> Result<Option<PathBuf>, WorktreeError> {
    let Some(text) = load(&admin.join("gitdir"))? else { return Ok(None) };
    let dot_git = resolve(admin, &trimmed_path(text));
    Ok(dot_git.parent().map(Path::to_owned))
}

/// The common directory of the repository that an entry belongs to; `None` where there is none.
pub(crate) fn load_common(admin: &Path) -> Result<Option<PathBuf>, WorktreeError> {
    let Some(text) = load(&admin.join("commondir"))? else { return Ok(None) };
    let common = admin.join(trimmed_path(text));
    match common.canonicalize() {
        Ok(common) => Ok(Some(common)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("resolving", &common, error)),
    }
}

/// The entry that the content of a worktree's `.git` file names. A relative one is seen from `worktree`.
pub(crate) fn named_by(dot_git: &[u8], worktree: &Path) -> Option<PathBuf> {
    let target = dot_git.strip_prefix(b"gitdir: ")?;
    Some(resolve(worktree, &trimmed_path(target.to_vec())))
}

fn load(path: &Path) -> Result<Option<Vec<u8>>, WorktreeError> {
    match fs::read(path) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(failed("reading", path, error)),
    }
}

/// A path that ends with its line.
fn trimmed_path(mut bytes: Vec<u8>) -> PathBuf {
    while bytes.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        bytes.pop();
    }
    OsString::from_vec(bytes).into()
}

/// `path` as seen from `base`, by its names alone: what it names need not exist.
pub(crate) fn resolve(base: &Path, path: &Path) -> PathBuf {
    let mut resolved = PathBuf::new();
    for component in base.join(path).components() {
        match component {
            Component::ParentDir => {
                resolved.pop();
            }
            Component::CurDir => {}
            other => resolved.push(other),
        }
    }
    resolved
}

/// The way from `base` to `path`, both absolute and without `..`.
pub(crate) fn relative(base: &Path, path: &Path) -> PathBuf {
    let shared = base.components().zip(path.components()).take_while(|(one, other)| one == other).count();
    let up = base.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(path.components().skip(shared)).collect()
}

/// `path` and the end of its line.
pub(crate) fn line(prefix: &str, path: &Path) -> Vec<u8> {
    [prefix.as_bytes(), path.as_os_str().as_bytes(), b"\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_read_relative_or_absolute() {
        let worktree = Path::new("/yard/s1");
        let entry = Path::new("/repo/.git/worktrees/s1");
        assert_eq!(named_by(b"gitdir: /repo/.git/worktrees/s1\n", worktree).unwrap(), entry);
        assert_eq!(named_by(b"gitdir: ../../repo/.git/worktrees/s1\n", worktree).unwrap(), entry);
        assert_eq!(named_by(b"something else", worktree), None);
    }

    #[test]
    fn a_relative_way_leads_back() {
        for (base, path) in [("/a/b", "/a/b/c"), ("/a/b/c", "/a/d"), ("/a", "/b/c"), ("/a", "/a")] {
            let (base, path) = (Path::new(base), Path::new(path));
            assert_eq!(resolve(base, &relative(base, path)), path);
        }
    }
}
