//! macOS and the BSDs: kqueue. There is no subreaper and no control group; the cookie finds what was
//! re-parented.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// A kernel queue of events. It is a descriptor, so it can be waited for like any other.
struct Queue {
    fd: OwnedFd,
}

impl Queue {
    #[allow(unsafe_code, reason = "kqueue has no safe interface")]
    fn open() -> io::Result<Queue> {
        // SAFETY: returns a new descriptor that nobody else owns.
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

    /// The next event that is there already.
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

/// Signals that arrive through a descriptor instead of interrupting the program.
pub struct SignalPipe {
    queue: Queue,
}

impl SignalPipe {
    /// Blocks `signals` for this thread, and opens the descriptor through which they arrive.
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

    /// The next signal that arrived, or `None`.
    pub fn take(&self) -> io::Result<Option<i32>> {
        Ok(self.queue.take()?.and_then(|event| i32::try_from(event.ident).ok()))
    }

    /// The descriptor to wait on.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.fd.as_fd()
    }
}

/// Waits for the end of a process that need not be a child.
pub(crate) struct ExitWatch {
    queue: Queue,
}

impl ExitWatch {
    /// Watches whoever has `pid` now; `None` where nobody has. The caller proves afterwards who it is.
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

/// Says once that a file was written to, or that something appeared in a directory.
pub(crate) struct GrowthWatch {
    queue: Queue,
    /// A watch lives as long as the descriptor it is on.
    armed: Mutex<HashMap<PathBuf, File>>,
}

impl GrowthWatch {
    pub(crate) fn open() -> io::Result<GrowthWatch> {
        Ok(GrowthWatch { queue: Queue::open()?, armed: Mutex::default() })
    }

    /// Asks to be told of the next change, once.
    pub(crate) fn arm(&self, path: &Path) -> io::Result<()> {
        let file = File::open(path)?;
        let ident = usize::try_from(file.as_raw_fd()).map_err(io::Error::other)?;
        let grew = libc::NOTE_WRITE | libc::NOTE_EXTEND;
        self.queue.add(ident, libc::EVFILT_VNODE, libc::EV_ONESHOT, grew)?;
        self.armed().insert(path.to_owned(), file);
        Ok(())
    }

    /// Takes what has been said so far: the paths that changed, each once.
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

/// Process listings show the program's own name here.
pub(crate) fn name_process(_: &CStr) {}

/// There is no subreaper: what loses its parent goes to init, and the cookie finds it there.
pub(crate) fn become_subreaper() -> io::Result<()> {
    Ok(())
}

/// There are no control groups, so nobody asks for one; this is a plain fork.
///
/// # Safety
/// As for `fork`: the caller has a single thread.
#[allow(unsafe_code, reason = "a fork")]
pub(crate) unsafe fn fork_into(_: BorrowedFd<'_>) -> i64 {
    // SAFETY: the caller's promise.
    i64::from(unsafe { libc::fork() })
}

/// There are no control groups to leave.
pub(crate) fn leave_session_group(_: BorrowedFd<'_>, _: &str) -> io::Result<()> {
    Ok(())
}

/// Files cannot be shortened from the front here: the log is not bounded.
pub(crate) fn free_before(_: &File, _: u64) -> io::Result<()> {
    Err(io::Error::from(io::ErrorKind::Unsupported))
}

/// There are no holes, so data begins where it is looked for.
pub(crate) fn first_data_from(_: &File, offset: u64) -> io::Result<u64> {
    Ok(offset)
}
