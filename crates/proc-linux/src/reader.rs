//! Reads files whose read the process itself can block: its environment and its command line.
//!
//! The kernel takes both from the memory of the process. That can be slow (a page may come from a slow file)
//! or never end (a thread of the process waits in the kernel and holds the lock of its memory). A blocked
//! read cannot be cancelled, so a forked child reads. A child that does not answer in time is abandoned. It
//! is not a thread, because a process exits only when all its threads have.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::Signal;

use crate::handle::Handle;
use crate::procfs_dir::ProcDir;

/// How long a read may take; usually it takes a few microseconds.
const READ_LIMIT: Duration = Duration::from_millis(250);
/// How long it may take on a machine so busy that the reader waits for a processor.
const BUSY_LIMIT: Duration = Duration::from_secs(5);
/// How long a reader may take to exit after the request pipe is closed.
const EXIT_LIMIT: Duration = Duration::from_millis(100);
/// Longest path below `/proc` that can be requested.
const LONGEST_PATH: usize = 128;

/// Result of a read.
pub(crate) enum Answer {
    /// The whole file.
    Content(Vec<u8>),
    /// The file could not be opened or read.
    Failed(Errno),
    /// The read took too long.
    TimedOut,
    /// Not requested, because too many other reads took too long.
    NotAsked,
}

/// A child process that reads files for us.
pub(crate) struct Reader {
    process: Arc<Handle>,
    requests: Option<OwnedFd>,
    answers: OwnedFd,
}

/// The readers of this process. They belong to no session, whatever they inherited.
static READERS: Mutex<Vec<Arc<Handle>>> = Mutex::new(Vec::new());

/// Returns whether `pid` is a reader of this process.
pub(crate) fn is_own_reader(pid: u32) -> bool {
    let readers = READERS.lock().unwrap_or_else(PoisonError::into_inner);
    // The pid of an exited process may have been reused.
    readers.iter().any(|reader| reader.pid == pid && !reader.has_exited().unwrap_or(true))
}

impl Reader {
    pub(crate) fn start(proc: &ProcDir) -> io::Result<Reader> {
        let (their_requests, requests) = pipe_with(PipeFlags::CLOEXEC)?;
        let (answers, their_answers) = pipe_with(PipeFlags::CLOEXEC)?;
        let pid = match fork()? {
            Some(pid) => pid,
            None => serve(their_requests.as_fd(), their_answers.as_fd(), proc.as_fd()),
        };
        let gone = || io::Error::other("the reader exited before the first request");
        let process = Arc::new(Handle::open(pid)?.ok_or_else(gone)?);
        let mut readers = READERS.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|reader| !reader.reap());
        readers.push(Arc::clone(&process));
        Ok(Reader { process, requests: Some(requests), answers })
    }

    /// Requests a file below `/proc`. Answers come in the order of the requests; concurrent requests fit into
    /// a pipe.
    pub(crate) fn ask(&self, path: &str) -> io::Result<()> {
        let length = u8::try_from(path.len()).ok().filter(|length| usize::from(*length) < LONGEST_PATH);
        let mut request = vec![length.ok_or(io::ErrorKind::InvalidInput)?];
        request.extend_from_slice(path.as_bytes());
        let requests = self.requests.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        rustix::io::retry_on_intr(|| rustix::io::write(requests, &request))?;
        Ok(())
    }

    /// Receives the next answer. After a timeout there is no other.
    pub(crate) fn receive(&self, proc: &ProcDir) -> io::Result<Answer> {
        let ended = || io::Error::other("the reader exited before it answered");
        let begun = Instant::now();
        let mut content = Vec::new();
        loop {
            let Some(header) = self.take(proc, 4, begun)? else { return Ok(Answer::TimedOut) };
            let header: [u8; 4] = header.try_into().map_err(|_| ended())?;
            match i32::from_ne_bytes(header) {
                0 => return Ok(Answer::Content(content)),
                failed if failed < 0 => return Ok(Answer::Failed(Errno::from_raw_os_error(-failed))),
                length => {
                    let length = usize::try_from(length).map_err(io::Error::other)?;
                    let Some(part) = self.take(proc, length, begun)? else { return Ok(Answer::TimedOut) };
                    content.extend(part);
                }
            }
        }
    }

    /// Reads `length` bytes of the answer; returns `None` if they do not arrive in time.
    fn take(&self, proc: &ProcDir, length: usize, begun: Instant) -> io::Result<Option<Vec<u8>>> {
        let mut taken = vec![0; length];
        let mut filled = 0;
        while filled < length {
            let mut polled = [PollFd::new(&self.answers, PollFlags::IN)];
            let left = READ_LIMIT.saturating_sub(begun.elapsed()).max(Duration::from_millis(10));
            let left = Timespec::try_from(left).map_err(|_| io::ErrorKind::InvalidInput)?;
            match rustix::event::poll(&mut polled, Some(&left)) {
                Err(Errno::INTR) => {}
                Err(errno) => return Err(errno.into()),
                Ok(0) if begun.elapsed() >= READ_LIMIT && !self.is_waiting_for_cpu(proc, begun) => {
                    return Ok(None);
                }
                Ok(0) => {}
                Ok(_) => match rustix::io::read(&self.answers, &mut taken[filled..])? {
                    0 => return Err(io::Error::other("the reader exited before it answered")),
                    more => filled += more,
                },
            }
        }
        Ok(Some(taken))
    }

    fn is_waiting_for_cpu(&self, proc: &ProcDir, begun: Instant) -> bool {
        let stat = proc.load_stat(&self.process.pid.to_string());
        begun.elapsed() < BUSY_LIMIT && matches!(stat, Ok(Some(stat)) if stat.state == 'R')
    }
}

impl Drop for Reader {
    fn drop(&mut self) {
        // It exits when the request pipe is closed.
        self.requests = None;
        let mut polled = [PollFd::new(&*self.process, PollFlags::IN)];
        let limit = Timespec { tv_sec: 0, tv_nsec: i64::from(EXIT_LIMIT.subsec_nanos()) };
        let left = rustix::event::poll(&mut polled, Some(&limit));
        if !matches!(left, Ok(1..)) {
            // A reader that waits for a memory lock dies of this, now or when it gets the lock. The next
            // reader drops its handle, and it is reaped after this process exits at the latest.
            let _ = self.process.signal(Signal::KILL);
        }
        let mut readers = READERS.lock().unwrap_or_else(PoisonError::into_inner);
        readers.retain(|reader| !reader.reap());
    }
}

/// Forks; returns `None` in the child.
#[allow(unsafe_code, reason = "the standard library cannot fork without exec")]
fn fork() -> io::Result<Option<u32>> {
    // SAFETY: the child only calls `serve`, which makes system calls, takes no lock and allocates nothing.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => Ok(None),
        pid => Ok(Some(u32::try_from(pid).map_err(io::Error::other)?)),
    }
}

/// Runs the child: answers requests until the pipe is closed. After `fork` in a process with other threads,
/// nothing may be allocated.
fn serve(requests: BorrowedFd<'_>, answers: BorrowedFd<'_>, proc: BorrowedFd<'_>) -> ! {
    // Signals from the terminal must not reach it.
    let _ = rustix::process::setsid();
    let kept = rustix::stdio::dup2_stdin(requests)
        .and_then(|()| rustix::stdio::dup2_stdout(answers))
        .and_then(|()| rustix::stdio::dup2_stderr(proc));
    if kept.is_ok() {
        close_from(3);
        while answer_one().is_some() {}
    }
    exit_now()
}

/// Reads one request and answers it; returns `None` if a pipe is closed.
fn answer_one() -> Option<()> {
    let (requests, answers) = (rustix::stdio::stdin(), rustix::stdio::stdout());
    let mut request = [0_u8; LONGEST_PATH + 1];
    fill(requests, &mut request[..1])?;
    let length = usize::from(request[0]);
    fill(requests, request.get_mut(..length)?)?;
    // The path ends with a NUL byte.
    *request.get_mut(length)? = 0;
    let path = core::ffi::CStr::from_bytes_until_nul(&request).ok()?;
    let flags = OFlags::RDONLY | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(rustix::stdio::stderr(), path, flags, Mode::empty()) {
        Ok(file) => file,
        Err(errno) => return write_all(answers, &(-errno.raw_os_error()).to_ne_bytes()),
    };
    let mut buffer = [0; 16 * 1024];
    loop {
        match rustix::io::read(&file, &mut buffer) {
            Err(Errno::INTR) => {}
            Err(errno) => return write_all(answers, &(-errno.raw_os_error()).to_ne_bytes()),
            Ok(length) => {
                write_all(answers, &i32::try_from(length).ok()?.to_ne_bytes())?;
                write_all(answers, buffer.get(..length)?)?;
                if length == 0 {
                    return Some(());
                }
            }
        }
    }
}

fn fill(from: BorrowedFd<'_>, buffer: &mut [u8]) -> Option<()> {
    let mut filled = 0;
    while filled < buffer.len() {
        match rustix::io::read(from, &mut buffer[filled..]) {
            Err(Errno::INTR) => {}
            Ok(0) | Err(_) => return None,
            Ok(more) => filled += more,
        }
    }
    Some(())
}

fn write_all(to: BorrowedFd<'_>, bytes: &[u8]) -> Option<()> {
    let mut written = 0;
    while written < bytes.len() {
        match rustix::io::write(to, &bytes[written..]) {
            Err(Errno::INTR) => {}
            Ok(0) | Err(_) => return None,
            Ok(more) => written += more,
        }
    }
    Some(())
}

/// Closes every descriptor from `first` on: an abandoned reader must not keep our locks and pipes open.
#[allow(unsafe_code, reason = "closing descriptors that are not owned has no safe interface")]
fn close_from(first: u32) {
    // SAFETY: this process is a fork that uses only the first three descriptors.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, u32::MAX, 0) != 0 {
            // Linux before 5.9.
            for fd in 3..65_536 {
                libc::close(fd);
            }
        }
    }
}

/// Exits at once, without destructors and exit handlers of the forked program.
#[allow(unsafe_code, reason = "the standard library has no _exit")]
fn exit_now() -> ! {
    // SAFETY: ends this process.
    unsafe { libc::_exit(0) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reader_returns_whole_files_and_errors() {
        let proc = ProcDir::open().unwrap();
        let reader = Reader::start(&proc).unwrap();
        for _ in 0..3 {
            let read = |path: &str| {
                reader.ask(path).unwrap();
                reader.receive(&proc).unwrap()
            };
            let own = std::fs::read("/proc/self/limits").unwrap();
            let asked = format!("{}/limits", std::process::id());
            assert!(matches!(read(&asked), Answer::Content(content) if content == own));
            assert!(matches!(read("4194305/environ"), Answer::Failed(Errno::NOENT)));
        }
        assert!(is_own_reader(reader.process.pid));
        let pid = reader.process.pid;
        drop(reader);
        assert!(!is_own_reader(pid));
        assert_eq!(proc.load_stat(&pid.to_string()).unwrap(), None, "the reader must have been reaped");
    }

    /// A pipe without a writer blocks its reader like a process that holds the lock of its memory.
    #[test]
    fn i10_read_that_never_ends_times_out() {
        let proc = ProcDir::open().unwrap();
        let dir = tempfile::tempdir().unwrap();
        let fifo = dir.path().join("fifo");
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, rustix::fs::FileType::Fifo, Mode::RUSR, 0).unwrap();
        let reader = Reader::start(&proc).unwrap();
        let pid = reader.process.pid;
        let begun = Instant::now();
        let path = format!("self/root{}", fifo.display());
        reader.ask(&path).unwrap();
        assert!(matches!(reader.receive(&proc), Ok(Answer::TimedOut)));
        drop(reader);
        assert!(begun.elapsed() < BUSY_LIMIT, "{:?}", begun.elapsed());
        while is_own_reader(pid) {
            std::thread::yield_now();
        }
    }

    #[test]
    fn reader_keeps_no_inherited_descriptor_open() {
        let proc = ProcDir::open().unwrap();
        let reader = Reader::start(&proc).unwrap();
        reader.ask("4194305/stat").unwrap();
        assert!(matches!(reader.receive(&proc), Ok(Answer::Failed(_))));
        let open = std::fs::read_dir(format!("/proc/{}/fd", reader.process.pid)).unwrap().count();
        assert_eq!(open, 3);
    }
}
