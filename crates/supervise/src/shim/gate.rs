//! The gate: the command is forked and then waits for one byte before it executes anything.
//!
//! Only the shim holds the write end, so if the shim dies, the waiting process reads end of file and exits
//! without having executed anything.

use std::ffi::CString;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::program::Program;
use crate::platform::{InheritedLimits, fork_into, reset_signals};

/// A process that waits at the gate.
pub(crate) struct Gated {
    /// Its pid. It is our unreaped child, so the pid cannot be reused.
    pub(crate) pid: u32,
    gate: PipeWriter,
    report: PipeReader,
}

/// Why the waiting process failed after the gate opened.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotExecuted {
    pub(crate) errno: i32,
    pub(crate) step: Step,
}

/// The steps after the gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Step {
    ChangeDirectory,
    Execute,
}

impl Step {
    pub(crate) fn doing(self) -> &'static str {
        match self {
            Step::ChangeDirectory => "change into its directory",
            Step::Execute => "execute the command",
        }
    }
}

/// The standard streams of the command.
pub(crate) struct Streams<'a> {
    pub(crate) stdin: BorrowedFd<'a>,
    pub(crate) stdout: BorrowedFd<'a>,
    pub(crate) stderr: BorrowedFd<'a>,
}

/// Forks the command up to the gate, into `cgroup` if one is given.
pub(crate) fn fork_at_gate(
    program: &Program,
    directory: &CString,
    streams: &Streams<'_>,
    limits: &InheritedLimits,
    cgroup: Option<BorrowedFd<'_>>,
) -> io::Result<Gated> {
    let (gate_read, gate_write) = io::pipe()?;
    let (report_read, report_write) = io::pipe()?;
    match fork(cgroup)? {
        Some(pid) => Ok(Gated { pid, gate: gate_write, report: report_read }),
        None => {
            // Our copy of the write end would keep the child from reading end of file.
            drop(gate_write);
            drop(report_read);
            limits.restore();
            run_child(program, directory, streams, &gate_read, &report_write)
        }
    }
}

/// Result of opening the gate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// The command was executed.
    Executed,
    /// The gate opened, but the command could not be executed.
    NotExecuted(NotExecuted),
    /// The process was killed at the gate.
    Gone,
}

impl Gated {
    /// Opens the gate. Returns when the result is known.
    pub(crate) fn open(self) -> Opened {
        if rustix::io::write(&self.gate, &[1]).is_err() {
            return Opened::Gone;
        }
        let mut report = [0; 5];
        let mut read = 0;
        while read < report.len() {
            match rustix::io::read(&self.report, &mut report[read..]) {
                Err(Errno::INTR) => {}
                // A successful `execve` closed the other end.
                Ok(0) | Err(_) => return Opened::Executed,
                Ok(more) => read += more,
            }
        }
        let [step, errno @ ..] = report;
        let step = if step == Step::ChangeDirectory as u8 { Step::ChangeDirectory } else { Step::Execute };
        Opened::NotExecuted(NotExecuted { errno: i32::from_ne_bytes(errno), step })
    }
}

/// Forks; returns `None` in the child.
#[allow(unsafe_code, reason = "the standard library cannot fork without exec")]
fn fork(cgroup: Option<BorrowedFd<'_>>) -> io::Result<Option<u32>> {
    // SAFETY: the shim has a single thread, so the child's memory is consistent and no lock is held.
    let pid = unsafe {
        match cgroup {
            None => i64::from(libc::fork()),
            Some(fd) => fork_into(fd),
        }
    };
    match pid {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(Some(u32::try_from(pid).map_err(io::Error::other)?)),
    }
}

/// Runs the child, from the fork to `execve` or exit.
fn run_child(
    program: &Program,
    directory: &CString,
    streams: &Streams<'_>,
    gate: &PipeReader,
    report: &PipeWriter,
) -> ! {
    reset_signals();
    // Its own session: signals that it sends to its process group cannot reach the shim.
    let _ = rustix::process::setsid();
    let streams_in_place = rustix::stdio::dup2_stdin(streams.stdin)
        .and_then(|()| rustix::stdio::dup2_stdout(streams.stdout))
        .and_then(|()| rustix::stdio::dup2_stderr(streams.stderr));
    let mut byte = [0];
    let opened = loop {
        match rustix::io::read(gate, &mut byte) {
            Err(Errno::INTR) => {}
            other => break other == Ok(1) || sexton_mutant::is("gate_before_record"),
        }
    };
    if !opened || streams_in_place.is_err() {
        exit_now();
    }
    let failure = match rustix::process::chdir(directory) {
        Err(error) => NotExecuted { errno: error.raw_os_error(), step: Step::ChangeDirectory },
        Ok(()) => NotExecuted { errno: program.execute(), step: Step::Execute },
    };
    let mut message = [failure.step as u8, 0, 0, 0, 0];
    message[1..].copy_from_slice(&failure.errno.to_ne_bytes());
    // Five bytes fit into an empty pipe; the write fails only if the shim is gone.
    let _ = rustix::io::write(report, &message);
    exit_now()
}

/// Exit code of a command that could not be executed; it is not used.
const NOT_EXECUTED_CODE: i32 = 127;

/// Exits at once, without destructors and exit handlers of the shim.
#[allow(unsafe_code, reason = "the standard library has no _exit")]
fn exit_now() -> ! {
    // SAFETY: ends this process.
    unsafe { libc::_exit(NOT_EXECUTED_CODE) }
}
