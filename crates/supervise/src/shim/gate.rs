//! The gate: the command is forked and then waits, before it executes anything, for one byte.
//!
//! The shim alone holds the writing end, so if the shim dies the waiting process reads the end of the
//! pipe and leaves without having executed anything.

use std::ffi::CString;
use std::io::{self, PipeReader, PipeWriter};
use std::os::fd::BorrowedFd;

use rustix::io::Errno;

use super::program::Program;
use crate::platform::{fork_into, reset_signals};

/// A process that waits at the gate.
pub(crate) struct Gated {
    /// Its number. It is our child and not reaped, so nobody else can get that number.
    pub(crate) pid: u32,
    gate: PipeWriter,
    report: PipeReader,
}

/// What the waiting process could not do, once the gate was open.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct NotExecuted {
    pub(crate) errno: i32,
    pub(crate) step: Step,
}

/// What happens behind the gate.
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

/// Where the command's streams go.
pub(crate) struct Streams<'a> {
    pub(crate) stdin: BorrowedFd<'a>,
    pub(crate) stdout: BorrowedFd<'a>,
    pub(crate) stderr: BorrowedFd<'a>,
}

/// Forks the command up to the gate, into `cgroup` where one is given.
pub(crate) fn fork_at_gate(
    program: &Program,
    directory: &CString,
    streams: &Streams<'_>,
    cgroup: Option<BorrowedFd<'_>>,
) -> io::Result<Gated> {
    let (gate_read, gate_write) = io::pipe()?;
    let (report_read, report_write) = io::pipe()?;
    match fork(cgroup)? {
        Some(pid) => Ok(Gated { pid, gate: gate_write, report: report_read }),
        None => {
            // Our copy of the writing end would keep the gate from ever reading its end.
            drop(gate_write);
            drop(report_read);
            behind_the_fork(program, directory, streams, &gate_read, &report_write)
        }
    }
}

/// What came of opening the gate.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Opened {
    /// The command was executed.
    Executed,
    /// Whoever waited went through, and could not execute the command.
    NotExecuted(NotExecuted),
    /// Nobody waited any more: it was killed at the gate.
    Nobody,
}

impl Gated {
    /// Opens the gate. Returns when it is clear what came of it.
    pub(crate) fn open(self) -> Opened {
        if rustix::io::write(&self.gate, &[1]).is_err() {
            return Opened::Nobody;
        }
        let mut report = [0; 5];
        let mut read = 0;
        while read < report.len() {
            match rustix::io::read(&self.report, &mut report[read..]) {
                Err(Errno::INTR) => {}
                // Executing closed the other end: that is the good news.
                Ok(0) | Err(_) => return Opened::Executed,
                Ok(more) => read += more,
            }
        }
        let [step, errno @ ..] = report;
        let step = if step == Step::ChangeDirectory as u8 { Step::ChangeDirectory } else { Step::Execute };
        Opened::NotExecuted(NotExecuted { errno: i32::from_ne_bytes(errno), step })
    }
}

/// Forks. The child gets `None`.
#[allow(unsafe_code, reason = "a fork that stops before exec cannot be had from the standard library")]
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

/// The child, from the fork to the end of this program in it.
fn behind_the_fork(
    program: &Program,
    directory: &CString,
    streams: &Streams<'_>,
    gate: &PipeReader,
    report: &PipeWriter,
) -> ! {
    reset_signals();
    // Its own session: what it does to its process group cannot reach the shim.
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
        leave();
    }
    let failure = match rustix::process::chdir(directory) {
        Err(error) => NotExecuted { errno: error.raw_os_error(), step: Step::ChangeDirectory },
        Ok(()) => NotExecuted { errno: program.execute(), step: Step::Execute },
    };
    let mut message = [failure.step as u8, 0, 0, 0, 0];
    message[1..].copy_from_slice(&failure.errno.to_ne_bytes());
    // Five bytes into an empty pipe: written whole, or the shim is gone and nobody reads them.
    let _ = rustix::io::write(report, &message);
    leave()
}

/// What a command that could not be executed exits with; nobody reads it.
const LEFT: i32 = 127;

/// Leaves at once: no destructor, no handler, nothing that belongs to the shim.
#[allow(unsafe_code, reason = "the standard library has no _exit")]
fn leave() -> ! {
    // SAFETY: ends this process.
    unsafe { libc::_exit(LEFT) }
}
