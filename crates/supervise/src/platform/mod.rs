//! Platform differences behind one interface: Linux in one file, other Unixes in another.
//!
//! Every event source is a descriptor, so that one `poll` waits for all of them.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as this;

#[cfg(not(target_os = "linux"))]
mod kqueue;
#[cfg(not(target_os = "linux"))]
use kqueue as this;

mod limits;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

pub(crate) use limits::InheritedLimits;
#[cfg(target_os = "linux")]
pub(crate) use linux::Arrived;
pub use this::SignalPipe;
pub(crate) use this::{
    DirectoryWatch, ExitWatch, GrowthWatch, become_subreaper, first_data_from, fork_into, free_before,
    leave_session_group, name_process, stop_being_subreaper,
};

/// Waits until one of `fds` is ready or `until` is reached. Returns which of them are ready.
pub(crate) fn wait_for(fds: &[BorrowedFd<'_>], until: Option<Instant>) -> io::Result<Vec<bool>> {
    let mut polled: Vec<_> = fds.iter().map(|fd| PollFd::from_borrowed_fd(*fd, PollFlags::IN)).collect();
    loop {
        let left = until.map(|until| until.saturating_duration_since(Instant::now()));
        let timeout = left.map(|left| rustix::time::Timespec {
            tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
            tv_nsec: left.subsec_nanos().into(),
        });
        match poll(&mut polled, timeout.as_ref()) {
            Err(Errno::INTR) => {}
            Err(error) => return Err(error.into()),
            Ok(_) => return Ok(polled.iter().map(|fd| !fd.revents().is_empty()).collect()),
        }
    }
}

/// Resets SIGCHLD, whatever disposition this process inherited. If it is ignored, the kernel reaps every child
/// itself, and no exit can be recorded.
#[allow(unsafe_code, reason = "signal dispositions have no safe interface")]
pub fn expect_children() {
    // SAFETY: SIG_DFL runs no code of ours.
    unsafe { libc::signal(libc::SIGCHLD, libc::SIG_DFL) };
}

/// Ignores `signals`. Executed programs inherit that, unless it is reset first.
#[allow(unsafe_code, reason = "signal dispositions have no safe interface")]
pub(crate) fn ignore_signals(signals: &[i32]) {
    for signal in signals {
        // SAFETY: SIG_IGN runs no code of ours.
        unsafe { libc::signal(*signal, libc::SIG_IGN) };
    }
}

/// Makes a write beyond the file size limit (`ulimit -f`) fail like any other failed write, instead of
/// killing this program. A session's command is not affected: it starts with default signal dispositions.
pub fn survive_file_size_limit() {
    if !sexton_mutant::is("xfsz_kills") {
        ignore_signals(&[libc::SIGXFSZ]);
    }
}

/// Highest number of a standard signal; the same on every supported Unix.
const LAST_SIGNAL: i32 = 31;

/// Resets every signal to what a new program expects: default disposition, not blocked. The Rust runtime
/// ignores SIGPIPE, and the shim ignores more.
#[allow(unsafe_code, reason = "signal masks have no safe interface")]
pub(crate) fn reset_signals() {
    // SAFETY: only async-signal-safe calls, on a local set; SIG_DFL runs no code of ours.
    unsafe {
        for signal in 1..=LAST_SIGNAL {
            libc::signal(signal, libc::SIG_DFL);
        }
        let mut none = std::mem::zeroed::<libc::sigset_t>();
        libc::sigemptyset(&raw mut none);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const none, std::ptr::null_mut());
    }
}
