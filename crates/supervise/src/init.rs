//! Process 1 of a container: the kernel re-parents every orphan to it, and only it can reap them.
//!
//! A program that waits for its own children cannot also wait for any child: it would take exit statuses from
//! the code that needs them. So if this program is process 1 or a child subreaper, it forks before anything
//! else. The child continues as the program. The parent reaps every child, forwards signals, and exits with
//! the program's exit code.

use std::process::ExitCode;

/// Forks if orphans are re-parented to this process. Returns `None` in the process that continues as the
/// program; in the other one, returns the program's exit code after it has exited.
///
/// Must be called first: while there is a single thread and no signal handler.
pub fn divide_if_init() -> Option<ExitCode> {
    #[cfg(target_os = "linux")]
    return linux::divide_if_init();
    #[cfg(not(target_os = "linux"))]
    None
}

#[cfg(target_os = "linux")]
mod linux {
    use std::io;
    use std::process::ExitCode;

    use rustix::io::Errno;
    use rustix::process::{
        Pid, Signal, WaitOptions, WaitStatus, child_subreaper, getpid, getppid, kill_process,
        set_parent_process_death_signal, wait,
    };

    use crate::platform::{Arrived, SignalPipe, wait_for};

    /// Signals that are not forwarded: those that cannot be blocked, those that report a fault of this
    /// process, and SIGCHLD.
    const OWN: [i32; 10] = [
        libc::SIGKILL,
        libc::SIGSTOP,
        libc::SIGCHLD,
        libc::SIGILL,
        libc::SIGTRAP,
        libc::SIGABRT,
        libc::SIGBUS,
        libc::SIGFPE,
        libc::SIGSEGV,
        libc::SIGSYS,
    ];

    /// Highest number of a standard signal.
    const LAST_SIGNAL: i32 = 31;

    pub(super) fn divide_if_init() -> Option<ExitCode> {
        let is_init = getpid().as_raw_nonzero().get() == 1 || matches!(child_subreaper(), Ok(Some(_)));
        if !is_init {
            return None;
        }
        // Without a fork the program still works; zombies only accumulate.
        divide().unwrap_or_default()
    }

    fn divide() -> io::Result<Option<ExitCode>> {
        let forwarded = (1..=LAST_SIGNAL).filter(|signal| !OWN.contains(signal));
        let mut taken: Vec<i32> = forwarded.collect();
        taken.push(libc::SIGCHLD);
        let signals = SignalPipe::open(&taken)?;
        let this = getpid();
        match fork() {
            Err(error) => {
                signals.restore_mask();
                Err(error)
            }
            Ok(None) => {
                signals.restore_mask();
                // The program must not keep running after process 1 was killed.
                let _ = set_parent_process_death_signal(Some(Signal::KILL));
                if getppid() != Some(this) {
                    let _ = kill_process(getpid(), Signal::KILL);
                }
                Ok(None)
            }
            Ok(Some(program)) => Ok(Some(wait_for_program(program, &signals))),
        }
    }

    /// Reaps every child until the program has exited.
    fn wait_for_program(program: Pid, signals: &SignalPipe) -> ExitCode {
        loop {
            if let Some(exit) = reap(program) {
                return exit;
            }
            // If waiting fails, there is nothing better than to check again at once.
            let _ = wait_for(&[signals.as_fd()], None);
            while let Ok(Some(Arrived { signal, from_kernel })) = signals.take_arrived() {
                // The kernel sends terminal signals to the program as well.
                if signal != libc::SIGCHLD
                    && !from_kernel
                    && let Some(signal) = Signal::from_named_raw(signal)
                {
                    let _ = kill_process(program, signal);
                }
            }
        }
    }

    /// Reaps every child that has exited. Returns the exit code of the program if it is one of them.
    fn reap(program: Pid) -> Option<ExitCode> {
        loop {
            match wait(WaitOptions::NOHANG | WaitOptions::UNTRACED) {
                Ok(Some((pid, status))) if pid == program => {
                    if let Some(exit) = exit_of(status) {
                        return Some(exit);
                    }
                    // There is no shell here that could continue a program stopped by Ctrl-Z.
                    if status.stopping_signal().is_some_and(|signal| signal != libc::SIGSTOP) {
                        let _ = kill_process(program, Signal::CONT);
                    }
                }
                Ok(Some(_)) | Err(Errno::INTR) => {}
                Ok(None) => return None,
                // The program is gone and its exit status is unknown.
                Err(_) => return Some(ExitCode::FAILURE),
            }
        }
    }

    fn exit_of(status: WaitStatus) -> Option<ExitCode> {
        let code = status.exit_status().or_else(|| status.terminating_signal().map(|signal| 128 + signal))?;
        Some(ExitCode::from(u8::try_from(code).unwrap_or(u8::MAX)))
    }

    #[allow(unsafe_code, reason = "fork has no safe interface")]
    fn fork() -> io::Result<Option<Pid>> {
        // SAFETY: this process has a single thread, so all locks and buffers are consistent in the child.
        match unsafe { libc::fork() } {
            -1 => Err(io::Error::last_os_error()),
            pid => Ok(Pid::from_raw(pid)),
        }
    }
}
