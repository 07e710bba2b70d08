//! What differs between systems, behind one interface: Linux in one file, the other Unixes in another.
//!
//! Everything that can be waited for is a descriptor, so that one `poll` waits for all of it.

#[cfg(target_os = "linux")]
mod linux;
#[cfg(target_os = "linux")]
use linux as this;

#[cfg(not(target_os = "linux"))]
mod kqueue;
#[cfg(not(target_os = "linux"))]
use kqueue as this;

use std::io;
use std::os::fd::BorrowedFd;
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::Errno;

pub use this::SignalPipe;
pub(crate) use this::{
    ExitWatch, GrowthWatch, become_subreaper, first_data_from, fork_into, free_before, leave_session_group,
    name_process,
};

/// Waits until one of `fds` has something to say or `until` has come. Says which of them do.
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

/// Ignores `signals`. What this process executes inherits that, unless it is set back before.
#[allow(unsafe_code, reason = "signal dispositions have no safe interface")]
pub(crate) fn ignore_signals(signals: &[i32]) {
    for signal in signals {
        // SAFETY: SIG_IGN runs no code of ours.
        unsafe { libc::signal(*signal, libc::SIG_IGN) };
    }
}

/// The largest number of an ordinary signal; the same on every Unix we run on.
const LAST_SIGNAL: i32 = 31;

/// Sets every signal back to what a new program expects: default, and none blocked. The Rust runtime
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
