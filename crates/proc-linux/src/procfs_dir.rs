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
use std::time::Duration;

use procfs::FromRead;
use rustix::fs::{AtFlags, CWD, Mode, OFlags, RawDir, Stat as FileStat};
use rustix::io::Errno;
use rustix::param::{clock_ticks_per_second, page_size};

const PROC_SUPER_MAGIC: i64 = 0x9fa0;
const READ_DIRECTORY: OFlags = OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC);
const LISTING_BUFFER: usize = 32 * 1024;

/// The parts of `/proc/PID/stat` that matter here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stat {
    pub(crate) state: char,
    pub(crate) parent: u32,
    pub(crate) start_ticks: u64,
    flags: u32,
    threads: i64,
    environment: Option<(u64, u64)>,
    cpu_ticks: u64,
    resident_pages: u64,
}

impl Stat {
    /// Whether it has ended. The first thread of a process may end before the others: it is listed as
    /// dead then, and the process is not.
    pub(crate) fn is_zombie(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x') && self.threads <= 1
    }

    /// Whether its first thread has ended, so that only the others can be asked.
    pub(crate) fn has_lost_its_leader(&self) -> bool {
        matches!(self.state, 'Z' | 'X' | 'x') && self.threads > 1
    }

    pub(crate) fn is_stopped(&self) -> bool {
        self.state == 'T'
    }

    /// Whether it is a part of the kernel, with no program.
    pub(crate) fn is_kernel_thread(&self) -> bool {
        const PF_KTHREAD: u32 = 0x0020_0000;
        self.flags & PF_KTHREAD != 0
    }

    /// Whether it is on its way out: it has given up its memory, its environment included.
    pub(crate) fn is_exiting(&self) -> bool {
        const PF_EXITING: u32 = 0x0000_0004;
        self.flags & PF_EXITING != 0
    }

    /// How many bytes its environment has; `None` while it executes a program and has none yet.
    pub(crate) fn environment_length(&self) -> Option<u64> {
        let (start, end) = self.environment?;
        (end != 0).then(|| end.saturating_sub(start))
    }

    /// The processor time of all its threads, and of the children that it has waited for.
    pub(crate) fn cpu_time(&self) -> Duration {
        let per_second = clock_ticks_per_second().max(1);
        let fraction = (self.cpu_ticks % per_second) * 1_000_000_000 / per_second;
        Duration::from_secs(self.cpu_ticks / per_second) + Duration::from_nanos(fraction)
    }

    /// The memory that it holds, in bytes.
    pub(crate) fn resident_bytes(&self) -> u64 {
        self.resident_pages.saturating_mul(page_size() as u64)
    }
}

/// The mounted `/proc`.
pub(crate) struct ProcDir {
    dir: OwnedFd,
}

impl ProcDir {
    pub(crate) fn open() -> Result<ProcDir, String> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let dir = rustix::fs::openat(CWD, "/proc", flags, Mode::empty())
            .map_err(|error| format!("/proc cannot be opened: {error}"))?;
        let kind = rustix::fs::fstatfs(&dir).map_err(|error| format!("/proc cannot be examined: {error}"))?;
        if kind.f_type as i64 != PROC_SUPER_MAGIC {
            return Err("/proc is not mounted".to_owned());
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
        let stat = procfs::process::Stat::from_read(line.as_slice())
            .map_err(|error| io::Error::other(format!("/proc/{place}/stat cannot be understood: {error}")))?;
        Ok(Some(Stat {
            state: stat.state,
            // A parent outside of our namespace is 0, and no process has a negative number.
            parent: u32::try_from(stat.ppid).unwrap_or(0),
            start_ticks: stat.starttime,
            flags: stat.flags,
            threads: stat.num_threads,
            environment: stat.env_start.zip(stat.env_end),
            cpu_ticks: [stat.cutime, stat.cstime]
                .into_iter()
                .filter_map(|ticks| u64::try_from(ticks).ok())
                .fold(stat.utime.saturating_add(stat.stime), u64::saturating_add),
            resident_pages: stat.rss,
        }))
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
        let status = self.load("self/status")?.unwrap_or_default();
        let status = String::from_utf8_lossy(&status);
        let numbers = status.lines().find_map(|line| line.strip_prefix("NSpid:")).unwrap_or_default();
        Ok(numbers.split_whitespace().filter_map(|number| number.parse().ok()).collect())
    }
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
