//! A pidfd: a reference to one process that no other process can take over.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, Signal, WaitId, WaitIdOptions, waitid};

const PID_FS_MAGIC: i64 = 0x5049_4446;

/// A process that existed when the handle was opened.
#[derive(Debug)]
pub(crate) struct Handle {
    pub(crate) pid: u32,
    fd: OwnedFd,
}

impl Handle {
    /// Opens the process that has `pid` now; returns `None` if there is none.
    pub(crate) fn open(pid: u32) -> io::Result<Option<Handle>> {
        let Some(number) = i32::try_from(pid).ok().and_then(Pid::from_raw) else { return Ok(None) };
        match rustix::process::pidfd_open(number, PidfdFlags::empty()) {
            Ok(fd) => Ok(Some(Handle { pid, fd })),
            // The number of a thread that is not a leader, or of a process group whose leader is gone: INVAL
            // in older kernels, NOENT in newer ones. No process has this pid.
            Err(Errno::SRCH | Errno::INVAL | Errno::NOENT) => Ok(None),
            Err(errno) => Err(errno.into()),
        }
    }

    /// Returns the inode that no other process of this boot has, if the kernel provides one. Before Linux 6.9
    /// all pidfds share one inode, and on 32 bit it can repeat: there it proves nothing.
    pub(crate) fn load_inode(&self) -> io::Result<Option<u64>> {
        let is_pidfs = rustix::fs::fstatfs(&self.fd)?.f_type as i64 == PID_FS_MAGIC;
        if !is_pidfs || cfg!(not(target_pointer_width = "64")) {
            return Ok(None);
        }
        Ok(Some(rustix::fs::fstat(&self.fd)?.st_ino))
    }

    /// Returns whether all threads of the process have exited, reaped or not.
    pub(crate) fn has_exited(&self) -> io::Result<bool> {
        let mut polled = [PollFd::new(&self.fd, PollFlags::IN)];
        let now = Timespec { tv_sec: 0, tv_nsec: 0 };
        Ok(rustix::io::retry_on_intr(|| rustix::event::poll(&mut polled, Some(&now)))? != 0)
    }

    /// Reaps this child if it has exited; `false` while it is alive. A process that another waiter reaped, or that is no
    /// child of this process, counts as gone.
    pub(crate) fn reap(&self) -> bool {
        let options = WaitIdOptions::EXITED | WaitIdOptions::NOHANG;
        let waited = rustix::io::retry_on_intr(|| waitid(WaitId::PidFd(self.fd.as_fd()), options));
        match waited {
            Ok(None) => false,
            Ok(Some(_)) | Err(Errno::CHILD) => true,
            Err(_) => self.has_exited().unwrap_or(false),
        }
    }

    /// Sends a signal to this process and no other; returns `false` if it has exited.
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
    fn thread_ids_and_impossible_pids_have_no_handle() {
        let (sender, receiver) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            sender.send(rustix::thread::gettid().as_raw_pid()).unwrap();
            let _ = stopped.recv();
        });
        let thread_id = u32::try_from(receiver.recv().unwrap()).unwrap();
        for pid in [thread_id, 0, u32::MAX, 4_194_305] {
            assert!(Handle::open(pid).unwrap().is_none(), "{pid}");
        }
        drop(stop);
        thread.join().unwrap();
    }

    #[test]
    fn handle_sees_the_exit_before_the_process_is_reaped() {
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

    #[test]
    #[allow(clippy::zombie_processes, reason = "the handle reaps it, which is what is tested")]
    fn a_child_that_exits_later_is_reaped_later() {
        let child = std::process::Command::new("sleep").arg("600").spawn().unwrap();
        let handle = Handle::open(child.id()).unwrap().unwrap();
        assert!(!handle.reap());
        handle.signal(Signal::KILL).unwrap();
        while !handle.reap() {
            std::thread::yield_now();
        }
        assert!(!std::path::Path::new(&format!("/proc/{}", child.id())).exists(), "it is a zombie");
    }
}
