//! Finds the processes that have their working directory inside a directory.
//!
//! A process whose directory may not be read counts as inside if it belongs to our user, has no rights that we
//! lack, and started after the directory was created. Any other does not count, or an ordinary user could never
//! remove a worktree: `ssh-agent` is such a process.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::fs::{AtFlags, Mode, OFlags, StatxFlags};
use rustix::time::ClockId;
use sexton_core::probe::Occupants;

use crate::LinuxProbe;
use crate::credentials::Credentials;
use crate::procfs_dir::is_refusal;
use crate::stat::Stat;
use crate::sweep::SWEEP_LIMIT;

/// Suffix that `/proc` appends to the path of a removed directory.
const DELETED: &[u8] = b" (deleted)";
/// Maximum number of directories held open.
const MAX_HELD: usize = 64;
/// The kernel rounds the start of a process down to a tick, and the creation of a directory to another one.
const INACCURACY: Duration = Duration::from_millis(100);
/// Deeper than any path can be: a longer walk is a cycle.
const MAX_DEPTH: usize = 4096;

/// Directories, by device and inode, that this search has already found to be outside: many processes share
/// one. They are held open so that no other directory can get their numbers meanwhile.
type Outside = HashMap<(u64, u64), OwnedFd>;

impl LinuxProbe {
    pub(crate) fn find_occupants(&self, dir: &Path) -> io::Result<Occupants> {
        let directory = Directory::find(dir)?;
        let we = Credentials::load(&self.proc, "self")?.ok_or(io::ErrorKind::NotFound)?;
        let mut occupants = Occupants::default();
        let mut outside = Outside::new();
        self.proc.for_each_pid(Instant::now() + SWEEP_LIMIT, |pid| {
            match self.is_inside(pid, &directory, &mut outside) {
                Ok(false) => {}
                Ok(true) => {
                    if let Some(process) =
                        self.prove(pid, |_| self.is_inside(pid, &directory, &mut Outside::new()))?
                    {
                        occupants.processes.push(process.identity);
                    }
                }
                Err(error) if is_refusal(&error) => {
                    if self.may_be_inside(pid, &we, &directory)? {
                        occupants.unreadable.push(pid);
                    }
                }
                Err(error) => return Err(error),
            }
            Ok(())
        })?;
        Ok(occupants)
    }

    fn is_inside(&self, pid: u32, directory: &Directory, outside: &mut Outside) -> io::Result<bool> {
        // Usually the link is enough. A process that has exited has none, and neither has one whose first
        // thread has exited: then another thread's link is read. Kernel threads are in the root.
        let place = pid.to_string();
        if let Some(path) = self.proc.load_link(&format!("{place}/cwd"))? {
            return self.is_place_inside(&place, &path, directory, outside);
        }
        let Some(stat) = self.proc.load_stat(&place)? else { return Ok(false) };
        if stat.is_zombie() || stat.is_kernel_thread() {
            return Ok(false);
        }
        let Some((place, _)) = self.proc.find_place(pid, &stat)? else { return Ok(false) };
        // An exiting process has given up its directory, so there is no link.
        let Some(path) = self.proc.load_link(&format!("{place}/cwd"))? else { return Ok(false) };
        self.is_place_inside(&place, &path, directory, outside)
    }

    /// Returns whether the working directory of `place`, whose link reads `path`, is inside.
    fn is_place_inside(
        &self,
        place: &str,
        path: &Path,
        directory: &Directory,
        outside: &mut Outside,
    ) -> io::Result<bool> {
        if directory.contains_path(path) {
            return Ok(true);
        }
        let Some(identity) = directory.identity else { return Ok(false) };
        // Through another mount, or in another mount namespace, the same directory has another name.
        let Some(cwd) = self.proc.open_dir(&format!("{place}/cwd"))? else { return Ok(false) };
        let found = rustix::fs::fstat(&cwd)?;
        let here = (found.st_dev, found.st_ino);
        if outside.contains_key(&here) {
            return Ok(false);
        }
        match leads_up_to(cwd.try_clone()?, identity) {
            // We may not search that place, and by its path it is not inside.
            Err(error) if is_refusal(&error) => Ok(false),
            Ok(false) if outside.len() < MAX_HELD => {
                outside.insert(here, cwd);
                Ok(false)
            }
            answer => answer,
        }
    }

    fn may_be_inside(&self, pid: u32, we: &Credentials, directory: &Directory) -> io::Result<bool> {
        let Some(stat) = self.proc.load_stat(&pid.to_string())? else { return Ok(false) };
        let other = Credentials::load(&self.proc, &pid.to_string())?;
        let is_ours = other.is_some_and(|other| we.own(&other));
        Ok(is_ours && !stat.is_zombie() && !stat.is_kernel_thread() && !directory.is_newer_than(&stat))
    }
}

/// The directory whose occupants are searched for.
struct Directory {
    path: PathBuf,
    /// Device and inode; `None` if it does not exist.
    identity: Option<(u64, u64)>,
    /// When it was created, since the epoch; `None` if the file system does not record that.
    created: Option<Duration>,
}

impl Directory {
    fn find(dir: &Path) -> io::Result<Directory> {
        match dir.canonicalize() {
            Ok(path) => {
                let found = rustix::fs::stat(&path)?;
                let created = find_creation(&path)?;
                Ok(Directory { path, identity: Some((found.st_dev, found.st_ino)), created })
            }
            // A removed directory can still be a working directory.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let path = std::path::absolute(dir)?;
                let (parent, name) = (path.parent(), path.file_name());
                let resolved = parent.and_then(|parent| parent.canonicalize().ok()).zip(name);
                Ok(Directory {
                    path: resolved.map_or(path.clone(), |(parent, name)| parent.join(name)),
                    identity: None,
                    created: None,
                })
            }
            Err(error) => Err(error),
        }
    }

    /// Returns whether it was created after the process started. That is no proof that the process did not change
    /// into it later, but programs that must not be examined do not do that, and the work is saved in any case.
    fn is_newer_than(&self, process: &Stat) -> bool {
        let Some(created) = self.created else { return false };
        let nanos = u128::from(process.start_ticks) * 1_000_000_000
            / u128::from(rustix::param::clock_ticks_per_second().max(1));
        let Ok(nanos) = u64::try_from(nanos) else { return false };
        let age = read_clock(ClockId::Boottime).saturating_sub(Duration::from_nanos(nanos));
        read_clock(ClockId::Realtime).saturating_sub(age) + INACCURACY < created
    }

    /// Returns whether a link of `/proc` names the directory or something below it. A path that really ends
    /// with " (deleted)" can give a false positive, never a false negative.
    fn contains_path(&self, link: &Path) -> bool {
        let stripped = link.as_os_str().as_bytes().strip_suffix(DELETED).map(OsStr::from_bytes);
        link.starts_with(&self.path) || stripped.is_some_and(|link| Path::new(link).starts_with(&self.path))
    }
}

fn find_creation(path: &Path) -> io::Result<Option<Duration>> {
    let found = rustix::fs::statx(rustix::fs::CWD, path, AtFlags::empty(), StatxFlags::BTIME)?;
    let has_time = StatxFlags::from_bits_retain(found.stx_mask).contains(StatxFlags::BTIME);
    let seconds = u64::try_from(found.stx_btime.tv_sec).ok().filter(|_| has_time);
    Ok(seconds.map(|seconds| Duration::new(seconds, found.stx_btime.tv_nsec)))
}

fn read_clock(clock: ClockId) -> Duration {
    Duration::try_from(rustix::time::clock_gettime(clock)).unwrap_or_default()
}

/// Returns whether a directory is `wanted` or below it, by walking up from it.
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

    fn directory(path: &str) -> Directory {
        Directory { path: path.into(), identity: None, created: None }
    }

    #[test]
    fn path_is_compared_by_components() {
        assert!(directory("/x/a").contains_path(Path::new("/x/a")));
        assert!(directory("/x/a").contains_path(Path::new("/x/a/b")));
        assert!(!directory("/x/a").contains_path(Path::new("/x/ab")));
        assert!(!directory("/x/a").contains_path(Path::new("/x")));
    }

    #[test]
    fn i3_removed_directory_is_still_inside() {
        assert!(directory("/x/a").contains_path(Path::new("/x/a (deleted)")));
        assert!(directory("/x/a").contains_path(Path::new("/x/a/b (deleted)")));
        assert!(directory("/x/a (deleted)").contains_path(Path::new("/x/a (deleted)")));
    }

    #[test]
    fn walking_up_finds_only_directories_above() {
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
