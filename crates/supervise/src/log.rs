//! Reads a session's output: from a cursor, from the end, or as it is written.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};

use crate::growth::Growth;
use crate::platform::{DirectoryWatch, SignalPipe, first_data_from, ignore_signals, wait_for};
use crate::wait::ProcessWatch;

/// Maximum size of one read.
const CHUNK: u64 = 1024 * 1024;

/// Step size of the backward search for the beginning of a line.
const STEP: u64 = 64 * 1024;

/// A part of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogChunk {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Where the next part begins.
    pub cursor: u64,
    /// Whether output before these bytes is missing: freed, or truncated by the program.
    pub truncated: bool,
    /// How many bytes before these were freed because the log is bounded.
    pub freed: u64,
}

/// Reads one log. A missing log reads as empty.
pub struct LogReader {
    path: PathBuf,
    file: Option<File>,
}

impl LogReader {
    /// Opens the log at `path`.
    pub fn open(path: &Path) -> io::Result<LogReader> {
        match File::open(path) {
            Ok(file) => Ok(LogReader { path: path.to_owned(), file: Some(file) }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(LogReader { path: path.to_owned(), file: None })
            }
            Err(error) => Err(error),
        }
    }

    /// Reads from `cursor` on, at most one mebibyte. A cursor in a freed part moves to the first data; one
    /// beyond the end, as after the program truncated its log, moves to the beginning.
    pub fn read_from(&mut self, cursor: u64) -> io::Result<LogChunk> {
        let Some(file) = &mut self.file else {
            return Ok(LogChunk { truncated: cursor > 0, ..LogChunk::default() });
        };
        let size = file.metadata()?.len();
        let wanted = if cursor > size { 0 } else { cursor };
        let start = first_data_from(file, wanted)?;
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(CHUNK).read_to_end(&mut bytes)?;
        let end = start + bytes.len() as u64;
        Ok(LogChunk { bytes, cursor: end, truncated: start != cursor, freed: start.saturating_sub(wanted) })
    }

    /// Reads the last `most` bytes, or fewer if the log is shorter.
    pub fn read_end(&mut self, most: u64) -> io::Result<Vec<u8>> {
        let Some(file) = &mut self.file else { return Ok(Vec::new()) };
        let from = file.metadata()?.len().saturating_sub(most);
        let start = first_data_from(file, from)?;
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Returns where the last `lines` lines begin.
    pub fn tail_cursor(&mut self, lines: usize) -> io::Result<u64> {
        let Some(file) = &mut self.file else { return Ok(0) };
        let size = file.metadata()?.len();
        let first = first_data_from(file, 0)?;
        let (mut end, mut missing) = (size, lines);
        while end > first && missing > 0 {
            let begin = end.saturating_sub(STEP).max(first);
            file.seek(SeekFrom::Start(begin))?;
            let mut step = vec![0; usize::try_from(end - begin).unwrap_or(0)];
            file.read_exact(&mut step)?;
            for (at, _) in step.iter().enumerate().rev().filter(|(_, byte)| **byte == b'\n') {
                let after = begin + at as u64 + 1;
                // The newline at the end of the log begins no line.
                if after == size {
                    continue;
                }
                missing -= 1;
                if missing == 0 {
                    return Ok(after);
                }
            }
            end = begin;
        }
        Ok(if lines == 0 { size } else { first })
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Waits until `output` is writable, or until a signal arrives, which it returns. A slow reader of a
/// session's output must not delay signals.
pub fn wait_to_write(output: BorrowedFd<'_>, signals: &SignalPipe) -> io::Result<Option<i32>> {
    loop {
        let mut polled = [
            PollFd::from_borrowed_fd(signals.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(output, PollFlags::OUT),
        ];
        rustix::io::retry_on_intr(|| poll(&mut polled, None))?;
        if !polled[0].revents().is_empty()
            && let Some(signal) = signals.take()?
        {
            return Ok(Some(signal));
        }
        if !polled[1].revents().is_empty() {
            return Ok(None);
        }
    }
}

/// Result of waiting for a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// There may be more to read.
    Grew,
    /// The process that writes the log, or its supervisor, is gone.
    Ended,
    /// This signal arrived.
    Signal(i32),
    /// The deadline was reached.
    TimeUp,
}

/// Waits for a log to grow, for its session to end, and for signals, without waking in between. If the kernel
/// cannot notify it, it polls.
pub struct LogFollower {
    source: Source,
    paths: Vec<PathBuf>,
}

/// What reports that a log grew.
enum Source {
    /// Signals for the directories that contain the logs.
    Directories(Vec<DirectoryWatch>, SignalPipe),
    /// Watches on the files themselves.
    Files(Growth),
}

impl LogFollower {
    /// Follows the logs at `paths`, each in a directory with few other writes. The process must have no other
    /// thread that receives the signals of this one.
    pub fn new(paths: Vec<PathBuf>) -> LogFollower {
        match watch_directories(&paths) {
            Ok(source) => LogFollower { source, paths },
            Err(_) => LogFollower::exactly(paths),
        }
    }

    /// Follows the files at `paths`, whatever else is written beside them.
    pub fn exactly(paths: Vec<PathBuf>) -> LogFollower {
        LogFollower { source: Source::Files(Growth::open()), paths }
    }

    /// Requests a notification for the next write. Call it before reading, then read, then wait: so no write
    /// in between is missed.
    pub fn arm(&self) -> io::Result<()> {
        match &self.source {
            Source::Directories(directories, notifications) => {
                directories.iter().for_each(DirectoryWatch::drain);
                while notifications.take()?.is_some() {}
                directories.iter().try_for_each(DirectoryWatch::arm)
            }
            Source::Files(growth) => {
                growth.take_changed();
                for path in &self.paths {
                    match growth.arm(path) {
                        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                        other => other?,
                    }
                }
                Ok(())
            }
        }
    }

    /// Waits for the first of these events.
    pub fn wait(
        &self,
        session: Option<&ProcessWatch>,
        signals: Option<&SignalPipe>,
        until: Option<Instant>,
    ) -> io::Result<Woken> {
        let mut fds = Vec::new();
        fds.extend(session.map(|watch| watch.watch.as_fd()));
        fds.extend(signals.map(SignalPipe::as_fd));
        let (grew, ready) = self.source.wait(&fds, until)?;
        if let Some(signals) = signals.filter(|_| ready.last() == Some(&true))
            && let Some(signal) = signals.take()?
        {
            return Ok(Woken::Signal(signal));
        }
        if grew {
            return Ok(Woken::Grew);
        }
        if session.is_some() && ready.first() == Some(&true) {
            return Ok(Woken::Ended);
        }
        Ok(Woken::TimeUp)
    }
}

impl Source {
    /// Returns whether a log grew, and which of `others` are ready.
    fn wait(&self, others: &[BorrowedFd<'_>], until: Option<Instant>) -> io::Result<(bool, Vec<bool>)> {
        match self {
            Source::Files(growth) => {
                let woken = growth.wait(others, until)?;
                Ok((!woken.changed.is_empty(), woken.ready))
            }
            Source::Directories(directories, notifications) => {
                let mut fds = others.to_vec();
                fds.push(notifications.as_fd());
                fds.extend(directories.iter().filter_map(DirectoryWatch::as_fd));
                let mut ready = wait_for(&fds, until)?;
                let notified = ready.split_off(others.len());
                Ok((notified.contains(&true), ready))
            }
        }
    }
}

/// Watches the directories that contain `paths`. An inotify instance would count against the user's limit,
/// and closing it takes ten milliseconds.
fn watch_directories(paths: &[PathBuf]) -> io::Result<Source> {
    let mut directories = Vec::new();
    let mut seen: Vec<Option<&Path>> = Vec::new();
    for path in paths {
        if cfg!(target_os = "linux") && seen.contains(&path.parent()) {
            continue;
        }
        seen.push(path.parent());
        directories.push(DirectoryWatch::beside(path)?);
    }
    // If it arrives at another thread, it must do nothing.
    ignore_signals(&[DirectoryWatch::SIGNAL]);
    let notifications = SignalPipe::open(&[DirectoryWatch::SIGNAL])?;
    // Checked now, because a kernel may be configured without it.
    directories.iter().try_for_each(DirectoryWatch::arm)?;
    Ok(Source::Directories(directories, notifications))
}
