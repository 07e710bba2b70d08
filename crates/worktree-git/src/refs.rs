//! The files of branches, changed by git's own rules: a process must hold the `.lock` of a file to change it.
//!
//! A killed git leaves that lock behind, and then the branch cannot be changed any more. Here the lock is a
//! hard link to a file of the session in the staging directory. Only by that link is a lock recognized as
//! left by a killed run of Sexton, and then deleted.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sexton_durable::{LARGE_FILE, read_regular, sync_all};

use crate::entry;

/// How long to wait for a lock that another git process holds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// How often to check whether it still does: git does not signal when a lock is released.
const PAUSE: Duration = Duration::from_millis(5);

/// The refs of a repository, and the files that identify locks of a killed run.
pub(crate) struct Refs<'a> {
    common: &'a Path,
    /// The prefix of this session's files in the staging directory.
    owner: &'a str,
}

impl<'a> Refs<'a> {
    /// Returns the refs of the repository at `common`, changed on behalf of the entry `owner`. Only the
    /// caller may work on that entry.
    pub(crate) fn new(common: &'a Path, owner: &'a str) -> Refs<'a> {
        Refs { common, owner }
    }

    /// Deletes the locks that a killed run left on the ref `name`.
    pub(crate) fn recover(&self, name: &str) -> io::Result<()> {
        for (file, kept) in [(self.common.join(name), "ref"), (self.packed(), "packed")] {
            let kept = self.kept(kept);
            if is_same(&kept, &lock_of(&file))? {
                remove(&lock_of(&file))?;
            }
            remove(&kept)?;
        }
        self.remove_empty_folders(name);
        Ok(())
    }

    /// Locks the ref `name`; `value` is what [`Lock::commit`] writes to it.
    pub(crate) fn lock(&self, name: &str, value: &str) -> io::Result<Lock> {
        Lock::take(self.common.join(name), self.kept("ref"), format!("{value}\n").as_bytes())
    }

    /// Deletes the ref `name` that `lock` holds, loose and packed, and its log.
    pub(crate) fn delete(&self, name: &str, lock: Lock) -> io::Result<()> {
        // The packed value first: it is older, and would become valid again without the loose one.
        self.delete_packed(name)?;
        remove(&self.common.join(name))?;
        remove(&self.common.join("logs").join(name))?;
        drop(lock);
        self.remove_empty_folders(name);
        Ok(())
    }

    /// Deletes the empty directories above the ref `name`, as git does.
    fn remove_empty_folders(&self, name: &str) {
        for place in [self.common.join(name), self.common.join("logs").join(name)] {
            let above = place.ancestors().skip(1).take_while(|folder| !folder.ends_with("refs/heads"));
            for folder in above {
                if fs::remove_dir(folder).is_err() {
                    break;
                }
            }
        }
    }

    fn delete_packed(&self, name: &str) -> io::Result<()> {
        if without(&load(&self.packed())?, name).is_none() {
            return Ok(());
        }
        let lock = Lock::take(self.packed(), self.kept("packed"), b"")?;
        // Read again: now no other process changes it.
        match without(&load(&self.packed())?, name) {
            Some(rest) => lock.commit_with(&rest),
            None => Ok(()),
        }
    }

    fn packed(&self) -> PathBuf {
        self.common.join("packed-refs")
    }

    fn kept(&self, what: &str) -> PathBuf {
        entry::staging(self.common).join(format!("{}.{what}", self.owner))
    }
}

/// A held lock; dropping it changes nothing.
pub(crate) struct Lock {
    target: PathBuf,
    kept: PathBuf,
}

impl Lock {
    fn take(target: PathBuf, kept: PathBuf, content: &[u8]) -> io::Result<Lock> {
        let staging = kept.parent().unwrap_or(&kept);
        entry::inside(staging, || File::create(&kept)?.write_all(content))?;
        let lock = Lock { target, kept };
        let begun = Instant::now();
        let folder = lock.target.parent().unwrap_or(&lock.target);
        loop {
            match entry::inside(folder, || fs::hard_link(&lock.kept, lock_of(&lock.target))) {
                Ok(()) => return Ok(lock),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Err(_) if begun.elapsed() > LOCK_TIMEOUT => {
                    return Err(io::Error::other(format!(
                        "{} is locked by another git process",
                        lock.target.display()
                    )));
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Replaces the target with the locked content.
    pub(crate) fn commit(self) -> io::Result<()> {
        fs::rename(lock_of(&self.target), &self.target)
    }

    /// Replaces the target with `content`.
    fn commit_with(self, content: &[u8]) -> io::Result<()> {
        let mut file = File::options().write(true).truncate(true).open(&self.kept)?;
        file.write_all(content)?;
        // The file also contains other branches.
        sync_all(&file)?;
        self.commit()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // If either cannot be deleted, the next call finds them.
        if is_same(&self.kept, &lock_of(&self.target)).unwrap_or(false) {
            let _ = remove(&lock_of(&self.target));
        }
        let _ = remove(&self.kept);
    }
}

/// Returns `packed` without the ref `name`; `None` if `name` is not in it.
fn without(packed: &[u8], name: &str) -> Option<Vec<u8>> {
    let mut rest = Vec::with_capacity(packed.len());
    let mut found = false;
    // The peeled target of a tag is on a separate line after it.
    let mut skipping = false;
    for line in packed.split_inclusive(|byte| *byte == b'\n') {
        let of_it = line
            .split(|byte| *byte == b' ')
            .nth(1)
            .is_some_and(|word| word.trim_ascii_end() == name.as_bytes());
        skipping = (of_it && !line.starts_with(b"#")) || (skipping && line.starts_with(b"^"));
        found |= skipping;
        if !skipping {
            rest.extend_from_slice(line);
        }
    }
    found.then_some(rest)
}

fn lock_of(target: &Path) -> PathBuf {
    let mut lock = target.as_os_str().to_owned();
    lock.push(".lock");
    lock.into()
}

fn load(path: &Path) -> io::Result<Vec<u8>> {
    match read_regular(path, LARGE_FILE) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        outcome => outcome,
    }
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if is_nothing(&error) => Ok(()),
        outcome => outcome,
    }
}

/// Returns whether two paths are the same file.
fn is_same(one: &Path, other: &Path) -> io::Result<bool> {
    match (fs::symlink_metadata(one), fs::symlink_metadata(other)) {
        (Ok(one), Ok(other)) => Ok((one.dev(), one.ino()) == (other.dev(), other.ino())),
        (Err(error), _) | (_, Err(error)) if is_nothing(&error) => Ok(false),
        (Err(error), _) | (_, Err(error)) => Err(error),
    }
}

fn is_nothing(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packed_ref_is_removed_with_its_peeled_line_only() {
        let packed = b"# pack-refs with: peeled\n1 refs/heads/a\n2 refs/heads/ab\n3 refs/tags/a\n^4\n5 refs/tags/b\n^6\n";
        let gone = |name| without(packed, name).map(|rest| String::from_utf8(rest).unwrap());
        assert_eq!(
            gone("refs/heads/a").unwrap(),
            "# pack-refs with: peeled\n2 refs/heads/ab\n3 refs/tags/a\n^4\n5 refs/tags/b\n^6\n"
        );
        assert_eq!(
            gone("refs/tags/a").unwrap(),
            "# pack-refs with: peeled\n1 refs/heads/a\n2 refs/heads/ab\n5 refs/tags/b\n^6\n"
        );
        assert_eq!(gone("refs/heads/b"), None);
    }

    #[test]
    fn only_own_locks_of_a_killed_run_are_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let name = "refs/heads/x";
        let refs = Refs::new(dir.path(), "s1");
        std::mem::forget(refs.lock(name, "1").unwrap());
        let lock = dir.path().join("refs/heads/x.lock");
        Refs::new(dir.path(), "s2").recover(name).unwrap();
        assert!(lock.exists(), "another session's lock stays");
        refs.recover(name).unwrap();
        assert!(!lock.exists());
        fs::write(&lock, "of a git that runs").unwrap();
        refs.recover(name).unwrap();
        assert!(lock.exists());
    }
}
