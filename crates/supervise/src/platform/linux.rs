//! Linux: pidfd, signalfd, inotify, subreaper, control groups, holes in files.

use std::collections::HashMap;
use std::ffi::CStr;
use std::fs::File;
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::fs::{FallocateFlags, Mode, OFlags, SeekFrom, fallocate, mkdirat, openat, seek};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, getpid, pidfd_open, set_child_subreaper};

/// Signals that arrive through a descriptor instead of interrupting the program.
pub struct SignalPipe {
    fd: OwnedFd,
}

impl SignalPipe {
    /// Blocks `signals` for this thread, and opens the descriptor through which they arrive. The caller
    /// has no other thread, or those would still be interrupted.
    #[allow(unsafe_code, reason = "signal masks and signalfd have no safe interface")]
    pub fn open(signals: &[i32]) -> io::Result<SignalPipe> {
        // SAFETY: the set is initialised by sigemptyset before anything reads it; every pointer is to a
        // local; signalfd returns a new descriptor that nobody else owns.
        unsafe {
            let mut set = std::mem::zeroed::<libc::sigset_t>();
            libc::sigemptyset(&raw mut set);
            for signal in signals {
                libc::sigaddset(&raw mut set, *signal);
            }
            check(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, std::ptr::null_mut()))?;
            let fd = check(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?;
            Ok(SignalPipe { fd: OwnedFd::from_raw_fd(fd) })
        }
    }

    /// The next signal that arrived, or `None`.
    #[allow(unsafe_code, reason = "the structure that signalfd fills is plain memory")]
    pub fn take(&self) -> io::Result<Option<i32>> {
        // SAFETY: the structure is plain numbers, for which zero is valid, and read fills at most its size.
        let (got, info) = unsafe {
            let mut info = std::mem::zeroed::<libc::signalfd_siginfo>();
            let size = size_of::<libc::signalfd_siginfo>();
            (libc::read(self.fd.as_raw_fd(), (&raw mut info).cast(), size), info)
        };
        match got {
            -1 => match io::Error::last_os_error() {
                error if error.kind() == io::ErrorKind::WouldBlock => Ok(None),
                error => Err(error),
            },
            _ => Ok(i32::try_from(info.ssi_signo).ok()),
        }
    }

    /// The descriptor to wait on.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn check(result: i32) -> io::Result<i32> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Waits for the end of a process that need not be a child.
pub(crate) struct ExitWatch {
    pidfd: OwnedFd,
}

impl ExitWatch {
    /// Watches whoever has `pid` now; `None` where nobody has. The caller proves afterwards who it is:
    /// the handle stays with that process, whatever becomes of the number.
    pub(crate) fn open(pid: u32) -> io::Result<Option<ExitWatch>> {
        let pid = i32::try_from(pid).ok().and_then(Pid::from_raw);
        let Some(pid) = pid else { return Ok(None) };
        match pidfd_open(pid, PidfdFlags::empty()) {
            Ok(pidfd) => Ok(Some(ExitWatch { pidfd })),
            Err(Errno::SRCH) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.pidfd.as_fd()
    }
}

/// Says once that a file was written to, or that something appeared in a directory.
pub(crate) struct GrowthWatch {
    inotify: OwnedFd,
    armed: Mutex<HashMap<i32, PathBuf>>,
}

/// What is told of a file, and of a directory. A watch that has spoken is gone.
const CHANGES: WatchFlags =
    WatchFlags::MODIFY.union(WatchFlags::CREATE).union(WatchFlags::MOVED_TO).union(WatchFlags::ONESHOT);

impl GrowthWatch {
    pub(crate) fn open() -> io::Result<GrowthWatch> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(GrowthWatch { inotify, armed: Mutex::default() })
    }

    /// Asks to be told of the next change, once. A busy writer pays for one event, not for each write.
    pub(crate) fn arm(&self, path: &Path) -> io::Result<()> {
        let number = inotify::add_watch(&self.inotify, path, CHANGES)?;
        self.armed().insert(number, path.to_owned());
        Ok(())
    }

    /// Takes what has been said so far: the paths that changed, each once.
    pub(crate) fn drain(&self) -> Vec<PathBuf> {
        let mut buffer = [MaybeUninit::uninit(); 4096];
        let mut events = inotify::Reader::new(&self.inotify, &mut buffer);
        let mut changed = Vec::new();
        while let Ok(event) = events.next() {
            changed.extend(self.armed().remove(&event.wd()));
        }
        changed
    }

    pub(crate) fn as_fd(&self) -> BorrowedFd<'_> {
        self.inotify.as_fd()
    }

    fn armed(&self) -> MutexGuard<'_, HashMap<i32, PathBuf>> {
        self.armed.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What process listings call this process.
pub(crate) fn name_process(name: &CStr) {
    // A name is a courtesy: nothing depends on it.
    let _ = rustix::thread::set_name(name);
}

/// Whoever loses its parent inside the session becomes our child: nobody slips away to init.
pub(crate) fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Forks into a control group: the child is never outside of it, not for an instant.
///
/// # Safety
/// As for `fork`: the caller has a single thread.
#[allow(unsafe_code, reason = "clone3 has no wrapper")]
pub(crate) unsafe fn fork_into(cgroup: BorrowedFd<'_>) -> i64 {
    const CLONE_INTO_CGROUP: u64 = 0x2_0000_0000;
    // SAFETY: plain numbers, for which zero is valid.
    let mut arguments = unsafe { std::mem::zeroed::<libc::clone_args>() };
    arguments.flags = CLONE_INTO_CGROUP;
    arguments.exit_signal = u64::from(libc::SIGCHLD.unsigned_abs());
    arguments.cgroup = u64::from(cgroup.as_raw_fd().unsigned_abs());
    // SAFETY: without a stack of its own and without CLONE_VM this is a fork.
    unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>()) }
}

/// Leaves the control group of the session that this process was started in, if it is in one, for the place
/// that `beside`, a session's group as well, lies in. `prefix` is how the names of such groups begin.
///
/// Whoever ends the outer session ends everybody in its group at once, and removes the group when it is empty:
/// a supervisor of another session has no business in there.
pub(crate) fn leave_session_group(beside: BorrowedFd<'_>, prefix: &str) -> io::Result<()> {
    let own = std::fs::read_to_string("/proc/self/cgroup")?;
    if !is_session_group(&own, prefix) {
        return Ok(());
    }
    match join_group(beside, "../cgroup.procs") {
        // A group that hands controllers down holds no process itself.
        Err(error) if error.kind() == io::ErrorKind::ResourceBusy => {
            match mkdirat(beside, Path::new("..").join(SUPERVISORS), Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
            join_group(beside, &format!("../{SUPERVISORS}/cgroup.procs"))
        }
        done => done,
    }
}

/// The group of supervisors that cannot be where sessions' groups are. No session's is called so.
const SUPERVISORS: &str = "sextons";

/// Whether what `/proc/self/cgroup` says is a session's group, or below one.
fn is_session_group(own: &str, prefix: &str) -> bool {
    let group = own.lines().find_map(|line| line.strip_prefix("0::"));
    group.is_some_and(|group| group.split('/').any(|name| name.starts_with(prefix)))
}

fn join_group(beside: BorrowedFd<'_>, procs: &str) -> io::Result<()> {
    let procs = openat(beside, procs, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    // Zero is whoever writes it.
    rustix::io::write(procs, b"0")?;
    Ok(())
}

/// Frees what the file holds before `offset`; every offset after it stays as it was.
pub(crate) fn free_before(file: &File, offset: u64) -> io::Result<()> {
    Ok(fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, offset)?)
}

/// Where the data at or after `offset` begins: behind a hole, if there is one.
pub(crate) fn first_data_from(file: &File, offset: u64) -> io::Result<u64> {
    match seek(file, SeekFrom::Data(offset)) {
        Ok(data) => Ok(data),
        // Nothing but a hole up to the end, or a file system without holes.
        Err(Errno::NXIO | Errno::INVAL) => Ok(offset),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_sessions_group_is_left() {
        let inside = |own: &str| is_session_group(own, "sexton-");
        assert!(inside("5:cpu:/\n0::/user/sexton-abc\n") && inside("0::/sexton-abc/made-by-its-command\n"));
        assert!(!inside("0::/\n") && !inside("0::/user.slice/sextons\n") && !inside("5:cpu:/sexton-abc\n"));
    }
}
