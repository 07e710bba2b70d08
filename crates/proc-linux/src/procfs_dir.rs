//! Reads `/proc` through one directory handle.
//!
//! `None` always means that the process does not exist (any more); an error means that the read failed. The
//! two must not be confused: only the first is a reason to clean up.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
use std::time::Instant;

use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir, Stat as FileStat};
use rustix::io::Errno;
use sexton_core::ProbeError;

use crate::stat::Stat;
use crate::{missing, obstacle};

const PROC_SUPER_MAGIC: i64 = 0x9fa0;
const READ_DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const LISTING_BUFFER: usize = 32 * 1024;

/// The mounted `/proc`.
pub(crate) struct ProcDir {
    dir: OwnedFd,
}

impl ProcDir {
    pub(crate) fn open() -> Result<ProcDir, ProbeError> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(CWD, "/proc", flags, Mode::empty())
            .map_err(|error| obstacle("opening /proc", error.into()))?;
        let kind = rustix::fs::fstatfs(&dir).map_err(|error| obstacle("examining /proc", error.into()))?;
        if kind.f_type as i64 != PROC_SUPER_MAGIC {
            return Err(missing("/proc is not mounted"));
        }
        Ok(ProcDir { dir })
    }

    /// Calls `visit` for each process until a listing shows no unvisited one.
    ///
    /// One listing is not enough: a process that forked and exited between being listed and being visited
    /// left a child that no entry names. An error if processes keep appearing until `until`.
    pub(crate) fn for_each_pid(
        &self,
        until: Instant,
        mut visit: impl FnMut(u32) -> io::Result<()>,
    ) -> io::Result<()> {
        let mut visited = HashSet::new();
        loop {
            let mut is_over = true;
            for pid in self.list_pids()? {
                if visited.insert(pid) {
                    is_over = false;
                    visit(pid)?;
                }
            }
            if is_over {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(too_many_forks());
            }
        }
    }

    pub(crate) fn list_pids(&self) -> io::Result<Vec<u32>> {
        let listing = rustix::fs::openat(&self.dir, ".", READ_DIRECTORY, Mode::empty())?;
        let mut pids = Vec::new();
        let mut buffer = Vec::with_capacity(LISTING_BUFFER);
        let mut entries = RawDir::new(listing.as_fd(), buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            pids.extend(entry?.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()));
        }
        Ok(pids)
    }

    /// Reads a whole file below `/proc`.
    pub(crate) fn load(&self, path: &str) -> io::Result<Option<Vec<u8>>> {
        let flags = OFlags::RDONLY | OFlags::CLOEXEC;
        let Some(file) = present(rustix::fs::openat(&self.dir, path, flags, Mode::empty()))? else {
            return Ok(None);
        };
        let mut content = Vec::with_capacity(4096);
        match File::from(file).read_to_end(&mut content) {
            Ok(_) => Ok(Some(content)),
            Err(error) if is_absence(&error) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Reads `/proc/PLACE/stat`; a place is a pid or `PID/task/TID`.
    pub(crate) fn load_stat(&self, place: &str) -> io::Result<Option<Stat>> {
        let Some(line) = self.load(&format!("{place}/stat"))? else { return Ok(None) };
        let misread = || io::Error::other(format!("cannot parse /proc/{place}/stat"));
        Stat::parse(&line).map(Some).ok_or_else(misread)
    }

    /// Reads a link below `/proc`.
    pub(crate) fn load_link(&self, path: &str) -> io::Result<Option<PathBuf>> {
        let link = present(rustix::fs::readlinkat(&self.dir, path, Vec::new()))?;
        Ok(link.map(|target| PathBuf::from(std::ffi::OsString::from_vec(target.into_bytes()))))
    }

    /// Reads the metadata of a path below `/proc`, following links.
    pub(crate) fn load_metadata(&self, path: &str) -> io::Result<Option<FileStat>> {
        present(rustix::fs::statat(&self.dir, path, AtFlags::empty()))
    }

    /// Opens the directory that a link below `/proc` points to.
    pub(crate) fn open_dir(&self, path: &str) -> io::Result<Option<OwnedFd>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        present(rustix::fs::openat(&self.dir, path, flags, Mode::empty()))
    }

    /// Returns where to read what all threads of a process share: the process itself, or another of its
    /// threads if the first one has exited.
    pub(crate) fn find_place(&self, pid: u32, stat: &Stat) -> io::Result<Option<(String, Stat)>> {
        if !stat.has_lost_its_leader() {
            return Ok(Some((pid.to_string(), *stat)));
        }
        let Some(tasks) = self.open_dir(&format!("{pid}/task"))? else { return Ok(None) };
        let Some(tasks) = present(rustix::fs::openat(&tasks, ".", READ_DIRECTORY, Mode::empty()))? else {
            return Ok(None);
        };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut entries = RawDir::new(tasks.as_fd(), &mut buffer);
        while let Some(entry) = entries.next() {
            let Some(entry) = present(entry)? else { return Ok(None) };
            let Some(thread) = entry.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok())
            else {
                continue;
            };
            let place = format!("{pid}/task/{thread}");
            if let Some(stat) = self.load_stat(&place)?.filter(|stat| !matches!(stat.state, 'Z' | 'X' | 'x'))
            {
                return Ok(Some((place, stat)));
            }
        }
        Ok(None)
    }

    /// Returns the children of a process, including those that `/proc` hides.
    pub(crate) fn load_children(&self, pid: u32) -> io::Result<Vec<u32>> {
        let mut children = Vec::new();
        let Some(tasks) = self.open_dir(&format!("{pid}/task"))? else { return Ok(children) };
        let Some(tasks) = present(rustix::fs::openat(&tasks, ".", READ_DIRECTORY, Mode::empty()))? else {
            return Ok(children);
        };
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut entries = RawDir::new(tasks.as_fd(), &mut buffer);
        while let Some(entry) = entries.next() {
            let Some(entry) = present(entry)? else { break };
            let Some(thread) = entry.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok())
            else {
                continue;
            };
            let numbers = self.load(&format!("{pid}/task/{thread}/children"))?.unwrap_or_default();
            let numbers = String::from_utf8_lossy(&numbers);
            children.extend(numbers.split_whitespace().filter_map(|number| number.parse::<u32>().ok()));
        }
        Ok(children)
    }

    /// Returns whether this `/proc` hides processes from users that may not examine them (`hidepid`).
    pub(crate) fn hides_processes(&self) -> io::Result<bool> {
        let mounts = self.load("self/mountinfo")?.unwrap_or_default();
        let is_hiding = |line: &[u8]| {
            let line = String::from_utf8_lossy(line);
            let is_proc = line.split(' ').nth(4) == Some("/proc");
            is_proc && line.split([' ', ',']).any(is_hiding_option)
        };
        // Of several stacked mounts any counts: a needless search for hidden processes does no harm.
        Ok(mounts.split(|byte| *byte == b'\n').any(is_hiding))
    }
}

impl AsFd for ProcDir {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.dir.as_fd()
    }
}

/// Returns the error for a search that did not complete.
pub(crate) fn too_many_forks() -> io::Error {
    io::Error::new(io::ErrorKind::TimedOut, "processes fork faster than they are read")
}

fn is_hiding_option(option: &str) -> bool {
    option.strip_prefix("hidepid=").is_some_and(|level| !matches!(level, "0" | "off"))
}

fn present<T>(result: Result<T, Errno>) -> io::Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Errno::NOENT | Errno::SRCH) => Ok(None),
        Err(errno) => Err(errno.into()),
    }
}

fn is_absence(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::NOENT | Errno::SRCH))
}

/// Returns whether an error means that permission was denied, rather than that the read failed.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::ACCESS | Errno::PERM))
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn own_stat_is_that_of_a_live_process() {
        let stat = ProcDir::open().unwrap().load_stat("self").unwrap().unwrap();
        assert_eq!(stat.parent, std::os::unix::process::parent_id());
        assert!(!stat.is_zombie() && !stat.is_kernel_thread() && !stat.is_exiting());
        assert!(stat.environment_length().is_some());
    }

    #[test]
    fn missing_process_is_none_and_not_an_error() {
        let proc = ProcDir::open().unwrap();
        // Above the largest pid that Linux assigns.
        assert_eq!(proc.load_stat("4194305").unwrap(), None);
        assert_eq!(proc.load_link("4194305/cwd").unwrap(), None);
    }

    #[test]
    fn each_pid_is_visited_once_and_our_own_is_among_them() {
        let mut pids = Vec::new();
        let until = Instant::now() + Duration::from_secs(60);
        let listed = ProcDir::open().unwrap().for_each_pid(until, |pid| {
            pids.push(pid);
            Ok(())
        });
        listed.unwrap();
        assert!(pids.contains(&std::process::id()));
        assert_eq!(pids.iter().collect::<HashSet<_>>().len(), pids.len());
    }

    #[test]
    fn a_search_beside_continuous_forks_is_an_error_at_its_time_limit() {
        let mut started = Vec::new();
        let searched = ProcDir::open().unwrap().for_each_pid(Instant::now(), |_| {
            // The next listing shows a new process, because this one is not reaped.
            if started.is_empty() {
                started.push(std::process::Command::new("true").spawn()?);
            }
            Ok(())
        });
        assert_eq!(searched.unwrap_err().kind(), io::ErrorKind::TimedOut);
        for mut child in started {
            child.wait().unwrap();
        }
    }
}
