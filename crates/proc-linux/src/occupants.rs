//! Who has a working directory inside a directory.
//!
//! A process that may not be looked at counts as inside where it is our user's and has no rights that we
//! lack. Any other does not, or an ordinary user could never clean anything.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::ops::ControlFlow;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use sexton_core::probe::Occupants;

use crate::LinuxProbe;
use crate::credentials::Credentials;
use crate::procfs_dir::is_refusal;

/// What `/proc` appends to the name of a directory that was removed.
const DELETED: &[u8] = b" (deleted)";
/// So many are held open at most.
const MOST_HELD: usize = 64;
/// Deeper than any path can be: such a walk goes in circles.
const MAX_DEPTH: usize = 4096;

/// Directories, by device and inode, from which one look has already climbed up in vain: many processes share
/// theirs. They are held open, so that no other can have their numbers meanwhile.
type Outside = HashMap<(u64, u64), OwnedFd>;

impl LinuxProbe {
    pub(crate) fn find_occupants(&self, dir: &Path) -> io::Result<Occupants> {
        let yard = Yard::find(dir)?;
        let we = Credentials::load(&self.proc, "self")?.ok_or(io::ErrorKind::NotFound)?;
        let mut occupants = Occupants::default();
        let mut outside = Outside::new();
        let ended = self.proc.for_each_pid(|pid| {
            match self.is_inside(pid, &yard, &mut outside) {
                Ok(false) => {}
                Ok(true) => {
                    if let Some(process) =
                        self.prove(pid, |_| self.is_inside(pid, &yard, &mut Outside::new()))?
                    {
                        occupants.processes.push(process.identity);
                    }
                }
                Err(error) if is_refusal(&error) => {
                    if self.belongs_to(pid, &we)? {
                        occupants.unreadable.push(pid);
                    }
                }
                Err(error) => return Err(error),
            }
            Ok(ControlFlow::Continue(()))
        })?;
        debug_assert!(ended.is_continue());
        Ok(occupants)
    }

    fn is_inside(&self, pid: u32, yard: &Yard, outside: &mut Outside) -> io::Result<bool> {
        // Mostly the link alone says enough. A process that has ended has none, and neither has one whose
        // first thread has ended: the others must be asked then. A part of the kernel is in the root.
        let place = pid.to_string();
        if let Some(path) = self.proc.load_link(&format!("{place}/cwd"))? {
            return self.is_place_inside(&place, &path, yard, outside);
        }
        let Some(stat) = self.proc.load_stat(&place)? else { return Ok(false) };
        if stat.is_zombie() || stat.is_kernel_thread() {
            return Ok(false);
        }
        let Some((place, _)) = self.proc.find_place(pid, &stat)? else { return Ok(false) };
        // A process on its way out has given up its directory: there is no link.
        let Some(path) = self.proc.load_link(&format!("{place}/cwd"))? else { return Ok(false) };
        self.is_place_inside(&place, &path, yard, outside)
    }

    /// Whether the working directory of `place`, which its link calls `path`, is inside.
    fn is_place_inside(
        &self,
        place: &str,
        path: &Path,
        yard: &Yard,
        outside: &mut Outside,
    ) -> io::Result<bool> {
        if yard.contains_path(path) {
            return Ok(true);
        }
        let Some(identity) = yard.identity else { return Ok(false) };
        // Through another mount, or in another mount namespace, the same directory has another name.
        let Some(cwd) = self.proc.open_dir(&format!("{place}/cwd"))? else { return Ok(false) };
        let found = rustix::fs::fstat(&cwd)?;
        let here = (found.st_dev, found.st_ino);
        if outside.contains_key(&here) {
            return Ok(false);
        }
        match leads_up_to(cwd.try_clone()?, identity) {
            // It is in a place that we may not search, and by its name that is not ours.
            Err(error) if is_refusal(&error) => Ok(false),
            Ok(false) if outside.len() < MOST_HELD => {
                outside.insert(here, cwd);
                Ok(false)
            }
            answer => answer,
        }
    }

    fn belongs_to(&self, pid: u32, we: &Credentials) -> io::Result<bool> {
        let Some(stat) = self.proc.load_stat(&pid.to_string())? else { return Ok(false) };
        let other = Credentials::load(&self.proc, &pid.to_string())?;
        Ok(!stat.is_zombie() && !stat.is_kernel_thread() && other.is_some_and(|other| we.own(&other)))
    }
}

/// The directory that somebody may be inside.
struct Yard {
    path: PathBuf,
    /// Device and inode; `None` where it does not exist.
    identity: Option<(u64, u64)>,
}

impl Yard {
    fn find(dir: &Path) -> io::Result<Yard> {
        match dir.canonicalize() {
            Ok(path) => {
                let found = rustix::fs::stat(&path)?;
                Ok(Yard { path, identity: Some((found.st_dev, found.st_ino)) })
            }
            // A removed directory can still be somebody's.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let path = std::path::absolute(dir)?;
                let (parent, name) = (path.parent(), path.file_name());
                let resolved = parent.and_then(|parent| parent.canonicalize().ok()).zip(name);
                Ok(Yard {
                    path: resolved.map_or(path.clone(), |(parent, name)| parent.join(name)),
                    identity: None,
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Whether a link of `/proc` names the directory or something in it. A name that really ends like that
    /// of a removed directory makes this say yes too often, never too seldom.
    fn contains_path(&self, link: &Path) -> bool {
        let stripped = link.as_os_str().as_bytes().strip_suffix(DELETED).map(OsStr::from_bytes);
        link.starts_with(&self.path) || stripped.is_some_and(|link| Path::new(link).starts_with(&self.path))
    }
}

/// Whether a directory is `wanted` or below it, by going up from it.
fn leads_up_to(start: OwnedFd, wanted: (u64, u64)) -> io::Result<bool> {
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let mut dir = start;
    let mut last = None;
    for _ in 0..MAX_DEPTH {
        let found = rustix::fs::fstat(&dir)?;
        let here = (found.st_dev, found.st_ino);
        if here == wanted {
            return Ok(true);
        }
        // The root is its own parent.
        if last.replace(here) == Some(here) {
            return Ok(false);
        }
        dir = rustix::fs::openat(&dir, "..", flags, Mode::empty())?;
    }
    Ok(false)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn yard(path: &str) -> Yard {
        Yard { path: path.into(), identity: None }
    }

    #[test]
    fn a_path_is_compared_by_its_components() {
        assert!(yard("/x/a").contains_path(Path::new("/x/a")));
        assert!(yard("/x/a").contains_path(Path::new("/x/a/b")));
        assert!(!yard("/x/a").contains_path(Path::new("/x/ab")));
        assert!(!yard("/x/a").contains_path(Path::new("/x")));
    }

    #[test]
    fn i3_a_removed_directory_is_still_inside() {
        assert!(yard("/x/a").contains_path(Path::new("/x/a (deleted)")));
        assert!(yard("/x/a").contains_path(Path::new("/x/a/b (deleted)")));
        assert!(yard("/x/a (deleted)").contains_path(Path::new("/x/a (deleted)")));
    }

    #[test]
    fn going_up_finds_every_directory_above_and_no_other() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("a/b/c");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::create_dir(dir.path().join("other")).unwrap();
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let leads = |to: &str| {
            let start = rustix::fs::open(&deep, flags, Mode::empty()).unwrap();
            let wanted = rustix::fs::stat(dir.path().join(to)).unwrap();
            leads_up_to(start, (wanted.st_dev, wanted.st_ino)).unwrap()
        };
        assert!(leads("a") && leads("a/b") && leads("a/b/c"));
        assert!(!leads("other"));
    }
}
