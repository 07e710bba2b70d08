//! Linux: pidfd, signalfd, inotify, subreaper, control groups, sparse files.

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

/// Delivers signals through a descriptor instead of interrupting the program.
pub struct SignalPipe {
    fd: OwnedFd,
    /// The signal mask before it was opened.
    before: libc::sigset_t,
}

/// A signal that arrived.
pub(crate) struct Arrived {
    pub(crate) signal: i32,
    /// Whether the kernel sent it, as to the whole foreground process group of a terminal.
    pub(crate) from_kernel: bool,
}

impl SignalPipe {
    /// Blocks `signals` for this thread, and opens the descriptor that delivers them. The caller must have no
    /// other thread, or that would still be interrupted.
    #[allow(unsafe_code, reason = "signal masks and signalfd have no safe interface")]
    pub fn open(signals: &[i32]) -> io::Result<SignalPipe> {
        // SAFETY: the set is initialised by sigemptyset before anything reads it; every pointer is to a
        // local; signalfd returns a new descriptor that has no other owner.
        unsafe {
            let mut set = std::mem::zeroed::<libc::sigset_t>();
            let mut before = std::mem::zeroed::<libc::sigset_t>();
            libc::sigemptyset(&raw mut set);
            for signal in signals {
                libc::sigaddset(&raw mut set, *signal);
            }
            check(libc::sigprocmask(libc::SIG_BLOCK, &raw const set, &raw mut before))?;
            let fd = check(libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK))?;
            Ok(SignalPipe { fd: OwnedFd::from_raw_fd(fd), before })
        }
    }

    /// Returns the next signal that arrived, or `None`.
    pub fn take(&self) -> io::Result<Option<i32>> {
        Ok(self.take_arrived()?.map(|arrived| arrived.signal))
    }

    /// Returns the next signal that arrived with its source, or `None`.
    #[allow(unsafe_code, reason = "the structure that signalfd fills is plain memory")]
    pub(crate) fn take_arrived(&self) -> io::Result<Option<Arrived>> {
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
            _ => Ok(i32::try_from(info.ssi_signo)
                .ok()
                .map(|signal| Arrived { signal, from_kernel: info.ssi_code == libc::SI_KERNEL })),
        }
    }

    /// Restores the signal mask from before it was opened.
    #[allow(unsafe_code, reason = "signal masks have no safe interface")]
    pub(crate) fn restore_mask(self) {
        // SAFETY: the set was filled by sigprocmask itself.
        unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const self.before, std::ptr::null_mut()) };
    }

    /// Returns the descriptor to wait on.
    pub fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn check(result: i32) -> io::Result<i32> {
    if result == -1 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Waits for the exit of a process that need not be a child.
pub(crate) struct ExitWatch {
    pidfd: OwnedFd,
}

impl ExitWatch {
    /// Watches the process that has `pid` now; returns `None` if there is none. The caller must verify its
    /// identity afterwards: the handle stays with that process even if the pid is reused.
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

/// Reports once that a file was written to, or that a directory has a new entry.
pub(crate) struct GrowthWatch {
    inotify: OwnedFd,
    armed: Mutex<HashMap<i32, PathBuf>>,
}

/// Events of files and directories. A watch that has fired is removed.
const CHANGES: WatchFlags =
    WatchFlags::MODIFY.union(WatchFlags::CREATE).union(WatchFlags::MOVED_TO).union(WatchFlags::ONESHOT);

impl GrowthWatch {
    pub(crate) fn open() -> io::Result<GrowthWatch> {
        let inotify = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        Ok(GrowthWatch { inotify, armed: Mutex::default() })
    }

    /// Requests one notification for the next change. A busy writer causes one event, not one per write.
    pub(crate) fn arm(&self, path: &Path) -> io::Result<()> {
        let number = inotify::add_watch(&self.inotify, path, CHANGES)?;
        self.armed().insert(number, path.to_owned());
        Ok(())
    }

    /// Returns the paths that changed so far, each once.
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

/// Reports once, by SIGIO, that a file in a directory was written to (dnotify). Unlike an inotify instance it
/// does not count against the user's limit of 128, and closing it takes no time. The signal arrives through a
/// [`SignalPipe`] that was opened for [`DirectoryWatch::SIGNAL`].
pub(crate) struct DirectoryWatch {
    directory: OwnedFd,
}

/// The `F_NOTIFY` flag for a write to a file in the directory (`fcntl.h`); libc does not define it.
const DN_MODIFY: libc::c_long = 0x2;

impl DirectoryWatch {
    /// The signal that notifies. It is not queued: one pending signal stands for all.
    pub(crate) const SIGNAL: i32 = libc::SIGIO;

    /// Creates a watch for the directory that contains the file at `path`.
    pub(crate) fn beside(path: &Path) -> io::Result<DirectoryWatch> {
        let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = rustix::fs::open(directory.unwrap_or(Path::new(".")), flags, Mode::empty())?;
        Ok(DirectoryWatch { directory })
    }

    /// Requests one notification for the next write. Fails if the kernel is built or configured without it.
    #[allow(unsafe_code, reason = "rustix has no interface to F_NOTIFY")]
    pub(crate) fn arm(&self) -> io::Result<()> {
        // SAFETY: the descriptor is open, and the argument is a number.
        check(unsafe { libc::fcntl(self.directory.as_raw_fd(), libc::F_NOTIFY, DN_MODIFY) })?;
        Ok(())
    }

    /// Returns `None`: only signals notify.
    pub(crate) fn as_fd(&self) -> Option<BorrowedFd<'_>> {
        None
    }

    /// Does nothing: only signals notify.
    pub(crate) fn drain(&self) {}
}

/// Sets the name of this process in process listings.
pub(crate) fn name_process(name: &CStr) {
    // Nothing depends on the name.
    let _ = rustix::thread::set_name(name);
}

/// Makes orphans of the session children of this process instead of init.
pub(crate) fn become_subreaper() -> io::Result<()> {
    Ok(set_child_subreaper(Some(getpid()))?)
}

/// Lets orphans go to init again: the program that this process executes next does not reap them.
pub(crate) fn stop_being_subreaper() {
    // This cannot fail.
    let _ = set_child_subreaper(None);
}

/// Forks into a control group: the child is never outside it.
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
    // SAFETY: without its own stack and without CLONE_VM this is a fork.
    unsafe { libc::syscall(libc::SYS_clone3, &raw const arguments, size_of::<libc::clone_args>()) }
}

/// Moves this process out of the control group of the session that it was started in, if any, to the parent
/// of `beside`, which is also a session's group. `prefix` is the name prefix of such groups.
///
/// Stopping the outer session kills every process in its group and then removes the group, so the supervisor
/// of another session must not be in it.
pub(crate) fn leave_session_group(beside: BorrowedFd<'_>, prefix: &str) -> io::Result<()> {
    let own = std::fs::read_to_string("/proc/self/cgroup")?;
    if !is_session_group(&own, prefix) {
        return Ok(());
    }
    match join_group(beside, "../cgroup.procs") {
        // A group that delegates controllers cannot contain processes itself.
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

/// Group for supervisors that cannot be in the parent of sessions' groups. No session's group has this name.
const SUPERVISORS: &str = "sextons";

/// Returns whether the content of `/proc/self/cgroup` names a session's group or a group below one.
fn is_session_group(own: &str, prefix: &str) -> bool {
    let group = own.lines().find_map(|line| line.strip_prefix("0::"));
    group.is_some_and(|group| group.split('/').any(|name| name.starts_with(prefix)))
}

fn join_group(beside: BorrowedFd<'_>, procs: &str) -> io::Result<()> {
    let procs = openat(beside, procs, OFlags::WRONLY | OFlags::CLOEXEC, Mode::empty())?;
    // Zero means the writing process.
    rustix::io::write(procs, b"0")?;
    Ok(())
}

/// Frees the content of the file before `offset`; all later offsets stay valid.
pub(crate) fn free_before(file: &File, offset: u64) -> io::Result<()> {
    Ok(fallocate(file, FallocateFlags::PUNCH_HOLE | FallocateFlags::KEEP_SIZE, 0, offset)?)
}

/// Returns where the data at or after `offset` begins, skipping a hole.
pub(crate) fn first_data_from(file: &File, offset: u64) -> io::Result<u64> {
    match seek(file, SeekFrom::Data(offset)) {
        Ok(data) => Ok(data),
        // Only a hole up to the end, or a file system without holes.
        Err(Errno::NXIO | Errno::INVAL) => Ok(offset),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_session_group_is_recognised() {
        let inside = |own: &str| is_session_group(own, "sexton-");
        assert!(inside("5:cpu:/\n0::/user/sexton-abc\n") && inside("0::/sexton-abc/made-by-its-command\n"));
        assert!(!inside("0::/\n") && !inside("0::/user.slice/sextons\n") && !inside("5:cpu:/sexton-abc\n"));
    }
}
