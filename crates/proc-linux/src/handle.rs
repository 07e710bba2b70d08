//! A pidfd: a hold on one process that no other process can slip into.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal};

const PID_FS_MAGIC: i64 = 0x5049_4446;

/// A process that was there when this was opened.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) pid: u32,
    fd: OwnedFd,
}

impl Handle {
    /// Takes hold of the process that has `pid` now; `None` where there is none.
    pub(crate) fn open(pid: u32) -> io::Result<Option<Handle>> {
        let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        match rustix::process::pidfd_open(number, PidfdFlags::empty()) {
            Ok(fd) => Ok(Some(Handle { pid, fd })),
            // The number of a mere thread, or of a group whose first process is gone: INVAL in older
            // kernels, NOENT in newer ones. No process has it.
            Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// The inode that no other process of this boot has, where the kernel gives one. Before Linux 6.9 all
    /// pidfds share one inode, and on 32 bit it can repeat: there it would prove nothing.
    pub(crate) fn load_inode(&self) -> io::Result<Option<u64>> {
        let is_pidfs = rustix::fs::fstatfs(&self.fd)?.f_type as i64 == PID_FS_MAGIC;
        if !is_pidfs || cfg!(not(target_pointer_width = "64")) {
            return Ok(None);
        }
        Ok(Some(rustix::fs::fstat(&self.fd)?.st_ino))
    }

    /// Whether all threads of the process have ended, reaped or not.
    pub(crate) fn has_exited(&self) -> io::Result<bool> {
        let mut polled = [PollFd::new(&self.fd, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        Ok(rustix::io::retry_on_intr(|| rustix::event::poll(&mut polled, Some(&now)))? != 0)
    }

    /// Signals this process and no other; `false` where it has ended.
    pub(crate) fn signal(&self, signal: Signal) -> io::Result<bool> {
        let sent = match i32::try_from(self.pid).ok().and_then(Pid::from_raw) {
            Some(pid) if sexton_mutant::is("signal_by_pid") => rustix::process::kill_process(pid, signal),
            _ => rustix::process::pidfd_send_signal(&self.fd, signal),
        };
        match sent {
            Ok(()) => Ok(true),
            Err(Errno::SRCH) => Ok(false),
            Err(errno) => Err(errno.into()),
        }
    }
}

impl AsFd for Handle {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_process_has_the_number_of_a_thread_nor_an_impossible_one() {
        let (tell, told) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            tell.send(rustix::thread::gettid().as_raw_pid()).unwrap();
            let _ = stopped.recv();
        });
        let thread_id = u32::try_from(told.recv().unwrap()).unwrap();
        for pid in [thread_id, 0, u32::MAX, 4_194_305] {
            assert!(Handle::open(pid).unwrap().is_none(), "{pid}");
        }
        drop(stop);
        thread.join().unwrap();
    }

    #[test]
    fn a_handle_sees_the_end_of_its_process_before_anybody_reaped_it() {
        let mut child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let handle = Handle::open(child.id()).unwrap().unwrap();
        assert!(!handle.has_exited().unwrap());
        child.kill().unwrap();
        let mut polled = [PollFd::new(&handle, PollFlags::IN)];
        rustix::event::poll(&mut polled, Some(&Timespec { tv_sec: 30, tv_nsec: 0 })).unwrap();
        assert!(handle.has_exited().unwrap());
        child.wait().unwrap();
        assert!(!handle.signal(Signal::KILL).unwrap());
    }
}
