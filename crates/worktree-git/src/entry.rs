//! The admin entry: the directory `worktrees/<name>` of a repository, by which git knows a worktree.
//!
//! It appears and disappears by one rename, so that it is never there in part. Entries are built and deleted
//! in `sexton/` beside `worktrees/`, which git ignores.

use std::ffi::OsString;
use std::fs;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

use sexton_core::WorktreeError;
use sexton_core::worktree::WorktreeLocation;
use sexton_durable::{SMALL_FILE, read_regular};

use crate::fault::failed;

/// The file that makes git leave an entry alone; it contains the reason.
const LOCKED: &str = "locked";
/// The lock reason while a worktree is being created. An entry with this reason is not complete.
const MAKING: &str = "sexton is making this worktree";

/// Returns the name of an entry that Sexton created for `location`, so that it is found without a search.
pub(crate) fn name_of(location: &WorktreeLocation) -> String {
    let store: String = location.store.chars().filter(char::is_ascii_alphanumeric).take(8).collect();
    format!("{}-{store}", location.session)
}

/// Returns the directory that contains the entries of a repository.
pub(crate) fn all(common: &Path) -> PathBuf {
    common.join("worktrees")
}

/// Returns the directory where entries are built and deleted.
pub(crate) fn staging(common: &Path) -> PathBuf {
    common.join("sexton")
}

/// Returns the paths of all entries of a repository, sorted.
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

/// Returns why an entry is locked; `None` if it is not.
pub(crate) fn find_lock(admin: &Path) -> Result<Option<String>, WorktreeError> {
    Ok(load(&admin.join(LOCKED))?.map(|reason| String::from_utf8_lossy(&reason).trim().to_owned()))
}

/// Returns whether `reason` is the lock reason of a worktree that is being created.
pub(crate) fn is_making(reason: &str) -> bool {
    reason == MAKING
}

/// Marks a new entry as not complete.
pub(crate) fn begin(admin: &Path) -> io::Result<()> {
    fs::write(admin.join(LOCKED), MAKING)
}

/// Marks an entry as complete.
pub(crate) fn complete(admin: &Path) -> io::Result<()> {
    match fs::remove_file(admin.join(LOCKED)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        outcome => outcome,
    }
}

/// How often a directory that another process deletes is created again.
const MAX_ATTEMPTS: usize = 100;

/// Runs `act`, which needs the directory `parent`. Other processes, git included, delete it when it becomes
/// empty, and may do so at any moment.
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

/// Returns the worktree that an entry is for; `None` if it has no `gitdir` file.
pub(crate) fn load_worktree(admin: &Path) -> Result<Option<PathBuf>, WorktreeError> {
    let Some(text) = load(&admin.join("gitdir"))? else { return Ok(None) };
    let dot_git = resolve(admin, &trimmed_path(text));
    Ok(dot_git.parent().map(Path::to_owned))
}

/// Returns the common directory of the repository that an entry belongs to; `None` if there is none.
pub(crate) fn load_common(admin: &Path) -> Result<Option<PathBuf>, WorktreeError> {
    let Some(text) = load(&admin.join("commondir"))? else { return Ok(None) };
    let common = admin.join(trimmed_path(text));
    match common.canonicalize() {
        Ok(common) => Ok(Some(common)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(failed("resolving", &common, error)),
    }
}

/// Returns the entry that the content of a worktree's `.git` file names. A relative path is resolved from
/// `worktree`.
pub(crate) fn named_by(dot_git: &[u8], worktree: &Path) -> Option<PathBuf> {
    let target = dot_git.strip_prefix(b"gitdir: ")?;
    Some(resolve(worktree, &trimmed_path(target.to_vec())))
}

fn load(path: &Path) -> Result<Option<Vec<u8>>, WorktreeError> {
    match read_regular(path, SMALL_FILE) {
        Ok(bytes) => Ok(Some(bytes)),
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => {
            Ok(None)
        }
        Err(error) => Err(failed("reading", path, error)),
    }
}

/// Removes the line end from a path.
fn trimmed_path(mut bytes: Vec<u8>) -> PathBuf {
    while bytes.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        bytes.pop();
    }
    OsString::from_vec(bytes).into()
}

/// Resolves `path` from `base` lexically; it need not exist.
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

/// Returns the relative path from `base` to `path`, both absolute and without `..`.
pub(crate) fn relative(base: &Path, path: &Path) -> PathBuf {
    let shared = base.components().zip(path.components()).take_while(|(one, other)| one == other).count();
    let up = base.components().skip(shared).map(|_| Component::ParentDir);
    up.chain(path.components().skip(shared)).collect()
}

/// Returns `prefix` and `path` as one line.
pub(crate) fn line(prefix: &str, path: &Path) -> Vec<u8> {
    [prefix.as_bytes(), path.as_os_str().as_bytes(), b"\n"].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dot_git_link_may_be_relative_or_absolute() {
        let worktree = Path::new("/worktrees/s1");
        let entry = Path::new("/repo/.git/worktrees/s1");
        assert_eq!(named_by(b"gitdir: /repo/.git/worktrees/s1\n", worktree).unwrap(), entry);
        assert_eq!(named_by(b"gitdir: ../../repo/.git/worktrees/s1\n", worktree).unwrap(), entry);
        assert_eq!(named_by(b"something else", worktree), None);
    }

    #[test]
    fn relative_path_resolves_back_to_the_original() {
        for (base, path) in [("/a/b", "/a/b/c"), ("/a/b/c", "/a/d"), ("/a", "/b/c"), ("/a", "/a")] {
            let (base, path) = (Path::new(base), Path::new(path));
            assert_eq!(resolve(base, &relative(base, path)), path);
        }
    }
}
