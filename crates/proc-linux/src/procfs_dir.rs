//! Reading `/proc`, through one directory handle.
//!
//! `None` always means that there is no such process (any more); an error means that we could not look.
//! The two are never mixed up, because one of them is a reason to clean up and the other is not.

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Read};
use std::mem::MaybeUninit;
use std::ops::ControlFlow;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

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

    /// Calls `visit` for each process, until a listing shows nobody who was not visited. `visit` can end
    /// it earlier.
    ///
    /// One listing is not enough: a process that forked and exited between being listed and being visited
    /// left a child that no entry names.
    pub(crate) fn for_each_pid(
        &self,
        mut visit: impl FnMut(u32) -> io::Result<ControlFlow<()>>,
    ) -> io::Result<ControlFlow<()>> {
        let mut visited = HashSet::new();
        loop {
            let mut is_over = true;
            for pid in self.list_pids()? {
                if visited.insert(pid) {
                    is_over = false;
                    if visit(pid)?.is_break() {
                        return Ok(ControlFlow::Break(()));
                    }
                }
            }
            if is_over {
                return Ok(ControlFlow::Continue(()));
            }
        }
    }

    fn list_pids(&self) -> io::Result<Vec<u32>> {
        let listing = rustix::fs::openat(&self.dir, ".", READ_DIRECTORY, Mode::empty())?;
        let mut pids = Vec::new();
        let mut buffer = Vec::with_capacity(LISTING_BUFFER);
        let mut entries = RawDir::new(listing.as_fd(), buffer.spare_capacity_mut());
        while let Some(entry) = entries.next() {
            pids.extend(entry?.file_name().to_str().ok().and_then(|name| name.parse::<u32>().ok()));
        }
        Ok(pids)
    }

    /// The whole of a file below `/proc`.
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

    /// What `/proc/PLACE/stat` says; a place is a pid, or `PID/task/TID`.
    pub(crate) fn load_stat(&self, place: &str) -> io::Result<Option<Stat>> {
        let Some(line) = self.load(&format!("{place}/stat"))? else { return Ok(None) };
        let misread = || io::Error::other(format!("/proc/{place}/stat cannot be understood"));
        Stat::parse(&line).map(Some).ok_or_else(misread)
    }

    /// Where a link below `/proc` points to.
    pub(crate) fn load_link(&self, path: &str) -> io::Result<Option<PathBuf>> {
        let link = present(rustix::fs::readlinkat(&self.dir, path, Vec::new()))?;
        Ok(link.map(|target| PathBuf::from(std::ffi::OsString::from_vec(target.into_bytes()))))
    }

    /// The file that a path below `/proc` leads to.
    pub(crate) fn load_metadata(&self, path: &str) -> io::Result<Option<FileStat>> {
        present(rustix::fs::statat(&self.dir, path, AtFlags::empty()))
    }

    /// Opens the directory that a link below `/proc` leads to, to look around from there.
    pub(crate) fn open_dir(&self, path: &str) -> io::Result<Option<OwnedFd>> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        present(rustix::fs::openat(&self.dir, path, flags, Mode::empty()))
    }

    /// Where to read what all threads of a process share: the process itself, or another of its threads
    /// where the first one has ended.
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

    /// Our own numbers, from the namespace of this `/proc` inwards.
    pub(crate) fn load_own_pids(&self) -> io::Result<Vec<u32>> {
        Ok(parse_own_pids(&self.load("self/status")?.unwrap_or_default()))
    }
}

pub(crate) fn parse_own_pids(status: &[u8]) -> Vec<u32> {
    let status = String::from_utf8_lossy(status);
    let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
    numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect()
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

/// Whether an error says that we may not look at this one, rather than that looking failed.
pub(crate) fn is_refusal(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::ACCESS | Errno::PERM))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_stat_is_that_of_a_living_program() {
        let stat = ProcDir::open().unwrap().load_stat("self").unwrap().unwrap();
        assert_eq!(stat.parent, std::os::unix::process::parent_id());
        assert!(!stat.is_zombie() && !stat.is_kernel_thread() && !stat.is_exiting());
        assert!(stat.environment_length().is_some());
    }

    #[test]
    fn a_process_that_is_not_there_is_none_and_not_an_error() {
        let proc = ProcDir::open().unwrap();
        // Beyond the largest number that Linux ever gives out.
        assert_eq!(proc.load_stat("4194305").unwrap(), None);
        assert_eq!(proc.load_link("4194305/cwd").unwrap(), None);
    }

    #[test]
    fn every_listed_pid_is_visited_and_ours_is_among_them() {
        let mut pids = Vec::new();
        let proc = ProcDir::open().unwrap();
        let listed = proc.for_each_pid(|pid| {
            pids.push(pid);
            Ok(ControlFlow::Continue(()))
        });
        assert!(listed.unwrap().is_continue());
        assert!(pids.contains(&std::process::id()));
        assert!(pids.is_sorted());
    }
}
