//! macOS and the BSDs: kqueue. There is no subreaper and no control group; re-parented processes are found by
//! their cookie.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A kernel event queue. It is a descriptor, so it can be polled like any other.
struct Queue {
    fd: OwnedFd,
}

impl Queue {
    #[allow(unsafe_code, reason = "kqueue has no safe interface")]
    fn open() -> io::Result<Queue> {
        // SAFETY: returns a new descriptor that has no other owner.
        let fd = unsafe { libc::kqueue() };
        if fd == -1 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: see above.
        let fd = unsafe { OwnedFd::from_raw_fd(fd) };
        rustix::io::fcntl_setfd(&fd, rustix::io::FdFlags::CLOEXEC)?;
        Ok(Queue { fd })
    }

    #[allow(unsafe_code, reason = "kevent has no safe interface")]
    fn add(&self, ident: usize, filter: i16, flags: u16, fflags: u32) -> io::Result<()> {
        // SAFETY: plain numbers and a null pointer, for which zero is valid.
        let mut change = unsafe { std::mem::zeroed::<libc::kevent>() };
        change.ident = ident;
        change.filter = filter;
        change.flags = libc::EV_ADD | flags;
        change.fflags = fflags;
        // SAFETY: one change is read, no event is written.
        let done = unsafe {
            libc::kevent(self.fd.as_raw_fd(), &raw const change, 1, std::ptr::null_mut(), 0, std::ptr::null())
        };
        if done == -1 { Err(io::Error::last_os_error()) } else { Ok(()) }
    }

    /// Returns the next pending event.
    #[allow(unsafe_code, reason = "kevent has no safe interface")]
    fn take(&self) -> io::Result<Option<libc::kevent>> {
        // SAFETY: at most one event is written into a local; a zero timeout does not wait.
        let (got, event) = unsafe {
            let mut event = std::mem::zeroed::<libc::kevent>();
            let now = std::mem::zeroed::<libc::timespec>();
            let fd = self.fd.as_raw_fd();
            (libc::kevent(fd, std::ptr::null(), 0, &raw mut event, 1, &raw const now), event)
        };
        match got {
            -1 => Err(io::Error::last_os_error()),
            0 => Ok(None),
            _ => Ok(Some(event)),
        }
    }
}

/// Delivers signals through a descriptor instead of interrupting the program.
pub struct SignalPipe {
    queue: Queue,
}

impl SignalPipe {
    /// Blocks `signals` for this thread, and opens the descriptor that delivers them.
    #[allow(unsafe_code, reason = "signal masks have no safe interface")]
    pub fn open(signals: &[i32]) -> io::Result<SignalPipe> {
        let queue = Queue::open()?;
        // SAFETY: the set is initialised by sigemptyset before anything reads it.
        unsafe {
            let mut set = std::mem::zeroed::<libc::sigset_t>();
            libc::sigemptyset(&raw mut set);
            for signal in signals {
                libc::sigaddset(&raw mut set, *signal);
            }
            libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut());
        }
        for signal in signals {
            let ident = usize::try_from(*signal).map_err(io::Error::other)?;
            queue.add(ident, libc::EVFILT_SIGNAL, libc::EV_CLEAR, 0)?;
        }
        Ok(SignalPipe { queue })
    }

    /// Returns the next signal that arrived, or `None`.
    pub fn take(&self) -> io::Result<Option<i32>> {
        Ok(self.queue.take()?.and_then(|event| i32::try_from(event.ident).ok()))
    }

    /// Returns the descriptor to wait on.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.fd.as_fd()
    }
}

/// Waits for the exit of a process that need not be a child.
pub(crate) struct ExitWatch {
    queue: Queue,
}

impl ExitWatch {
    /// Watches the process that has `pid` now; returns `None` if there is none. The caller must verify its
    /// identity afterwards.
    pub(crate) fn open(pid: u32) -> io::Result<Option<ExitWatch>> {
        let queue = Queue::open()?;
        let ident = usize::try_from(pid).map_err(io::Error::other)?;
        match queue.add(ident, libc::EVFILT_PROC, libc::EV_ONESHOT, libc::NOTE_EXIT) {
            Ok(()) => Ok(Some(ExitWatch { queue })),
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(None),
            Err(error) => Err(error),
        }
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.fd.as_fd()
    }
}

/// Reports once that a file was written to, or that a directory has a new entry.
pub(crate) struct GrowthWatch {
    queue: Queue,
    /// A watch exists as long as the descriptor it is on.
    armed: Mutex<HashMap<PathBuf, File>>,
}

impl GrowthWatch {
    pub(crate) fn open() -> io::Result<GrowthWatch> {
        Ok(GrowthWatch { queue: Queue::open()?, armed: Mutex::default() })
    }

    /// Requests one notification for the next change.
    pub(crate) fn arm(&self, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        let ident = usize::try_from(file.as_raw_fd()).map_err(io::Error::other)?;
        let grew = libc::NOTE_WRITE | libc::NOTE_EXTEND;
        self.queue.add(ident, libc::EVFILT_VNODE, libc::EV_ONESHOT, grew)?;
        self.armed().insert(path.to_owned(), file);
        Ok(())
    }

    /// Returns the paths that changed so far, each once.
    pub(crate) fn drain(&self) -> Vec<PathBuf> {
        let mut changed = Vec::new();
        while let Ok(Some(event)) = self.queue.take() {
            let is_it = |file: &File| usize::try_from(file.as_raw_fd()) == Ok(event.ident);
            changed.extend(self.armed().extract_if(|_, file| is_it(file)).map(|(path, _)| path));
        }
        changed
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.fd.as_fd()
    }

    fn armed(&self) -> MutexGuard<'_, HashMap<PathBuf, File>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reports once that a file was written to. Queues are not scarce here, so this is one.
pub(crate) struct DirectoryWatch {
    growth: GrowthWatch,
    path: PathBuf,
}

impl DirectoryWatch {
    /// Not used to notify here; it is only waited for.
    pub(crate) const SIGNAL: i32 = libc::SIGIO;

    /// Creates a watch for the file at `path`.
    pub(crate) fn beside(path: &Path) -> io::Result<DirectoryWatch> {
        Ok(DirectoryWatch { growth: GrowthWatch::open()?, path: path.to_owned() })
    }

    /// Requests one notification for the next write.
    pub(crate) fn arm(&self) -> io::Result<()> {
        self.growth.arm(&self.path)
    }

    /// Returns the descriptor to wait on.
    pub(crate) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        Some(self.growth.as_fd())
    }

    /// Discards pending notifications.
    pub(crate) fn drain(&self) {
        self.growth.drain();
    }
}

/// Does nothing: process listings show the program's own name here.
pub(crate) fn name_process(_: &CStr) {}

/// Does nothing: there is no subreaper. Orphans are re-parented to init, and found by their cookie.
pub(crate) fn become_subreaper() -> io::Result<()> {
    Ok(())
}

/// Does nothing: there is no subreaper.
pub(crate) fn stop_being_subreaper() {}

/// Forks. There are no control groups here.
///
/// # Safety
/// As for `fork`: the caller has a single thread.
#[allow(unsafe_code, reason = "a fork")]
pub(crate) unsafe fn fork_into(_: BorrowedFd<'_>) -> i64 {
    // SAFETY: guaranteed by the caller.
    i64::from(unsafe { libc::fork() })
}

/// Does nothing: there are no control groups.
pub(crate) fn leave_session_group(_: BorrowedFd<'_>, _: &str) -> io::Result<()> {
    Ok(())
}

/// Fails: a file cannot be freed from the front here, so the log is not bounded.
pub(crate) fn free_before(_: &File, _: u64) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// Returns `offset`: there are no holes.
pub(crate) fn first_data_from(_: &File, offset: u64) -> io::Result<u64> {
    Ok(offset)
}
