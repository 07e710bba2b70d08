//! The files that hold branches, changed by git's own rules: whoever changes one has its `.lock` first.
//!
//! A killed git leaves that lock behind, and then nobody can change the branch any more. Here the lock is a
//! second name of a file in the session's workshop: one that a killed run left is known by that, and by
//! nothing else, and is taken away.

use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use sexton_durable::sync_all;

use crate::entry;

/// How long another git process may hold a lock.
const PATIENCE: Duration = Duration::from_secs(10);
/// How often to look whether it still does: a lock of git's tells nobody when it goes.
const PAUSE: Duration = Duration::from_millis(5);

/// Where the refs of a repository are, and where locks are kept that a killed run can be known by.
pub(crate) struct Refs<'a> {
    common: &'a Path,
    /// Begins the names of this session's files in the workshop.
    owner: &'a str,
}

impl<'a> Refs<'a> {
    /// The refs of the repository at `common`, changed on behalf of the entry `owner`, which the caller alone
    /// works on.
    pub(crate) fn new(common: &'a Path, owner: &'a str) -> Refs<'a> {
        Refs { common, owner }
    }

    /// Takes away the locks that a killed run left on the ref `name`.
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

    /// Locks the ref `name`, with the value that it may get.
    pub(crate) fn lock(&self, name: &str, value: &str) -> io::Result<Lock> {
        Lock::take(self.common.join(name), self.kept("ref"), format!("{value}\n").as_bytes())
    }

    /// Deletes the ref `name` that `lock` holds, wherever it is written, and its log.
    pub(crate) fn delete(&self, name: &str, lock: Lock) -> io::Result<()> {
        // The older value first: without the newer one it would be valid again.
        self.delete_packed(name)?;
        remove(&self.common.join(name))?;
        remove(&self.common.join("logs").join(name))?;
        drop(lock);
        self.remove_empty_folders(name);
        Ok(())
    }

    /// Removes the folders above the ref `name` that hold nothing, as git does it.
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
        // Read again: now nobody else changes it.
        match without(&load(&self.packed())?, name) {
            Some(rest) => lock.commit_with(&rest),
            None => Ok(()),
        }
    }

    fn packed(&self) -> PathBuf {
        self.common.join("packed-refs")
    }

    fn kept(&self, what: &str) -> PathBuf {
        entry::workshop(self.common).join(format!("{}.{what}", self.owner))
    }
}

/// A held lock; dropping it changes nothing.
pub(crate) struct Lock {
    target: PathBuf,
    kept: PathBuf,
}

impl Lock {
    fn take(target: PathBuf, kept: PathBuf, content: &[u8]) -> io::Result<Lock> {
        let workshop = kept.parent().unwrap_or(&kept);
        entry::inside(workshop, || File::create(&kept)?.write_all(content))?;
        let lock = Lock { target, kept };
        let begun = Instant::now();
        let folder = lock.target.parent().unwrap_or(&lock.target);
        loop {
            match entry::inside(folder, || fs::hard_link(&lock.kept, lock_of(&lock.target))) {
                Ok(()) => return Ok(lock),
                Err(error) if error.kind() != io::ErrorKind::AlreadyExists => return Err(error),
                Err(_) if begun.elapsed() > PATIENCE => {
                    return Err(io::Error::other(format!(
                        "{} is locked by another git",
                        lock.target.display()
                    )));
                }
                Err(_) => std::thread::sleep(PAUSE),
            }
        }
    }

    /// Puts the content in place.
    pub(crate) fn commit(self) -> io::Result<()> {
        fs::rename(lock_of(&self.target), &self.target)
    }

    /// Puts other content in place than was locked with.
    fn commit_with(self, content: &[u8]) -> io::Result<()> {
        let mut file = File::options().write(true).truncate(true).open(&self.kept)?;
        file.write_all(content)?;
        // Other branches are in it too.
        sync_all(&file)?;
        self.commit()
    }
}

impl Drop for Lock {
    fn drop(&mut self) {
        // Where either cannot be removed, the next call finds them.
        if is_same(&self.kept, &lock_of(&self.target)).unwrap_or(false) {
            let _ = remove(&lock_of(&self.target));
        }
        let _ = remove(&self.kept);
    }
}

/// `packed` without the ref `name`; `None` where that is not in it.
fn without(packed: &[u8], name: &str) -> Option<Vec<u8>> {
    let mut rest = Vec::with_capacity(packed.len());
    let mut found = false;
    // What a tag leads to stands on a line of its own after it.
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
    match fs::read(path) {
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

/// Whether two names are of one file.
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
    fn a_packed_ref_goes_with_its_peeled_line_and_no_other() {
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
    fn a_lock_that_a_killed_run_left_is_taken_away_and_one_of_another_is_not() {
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
