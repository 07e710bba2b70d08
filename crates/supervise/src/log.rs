//! Reading a session's output: from a cursor, from the end, or as it comes.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use rustix::event::{PollFd, PollFlags, poll};

use crate::platform::{GrowthWatch, SignalPipe, first_data_from, wait_for};
use crate::wait::ProcessWatch;

/// The most that one read returns.
const CHUNK: u64 = 1024 * 1024;

/// How far back one step looks for the beginning of a line.
const STEP: u64 = 64 * 1024;

/// A part of a log.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LogChunk {
    /// The bytes.
    pub bytes: Vec<u8>,
    /// Where the next part begins.
    pub cursor: u64,
    /// Whether something before these bytes is no longer there: freed, or truncated by the program.
    pub truncated: bool,
    /// How many bytes before these were freed, because the log is bounded, and cannot be read any more.
    pub freed: u64,
}

/// Reads one log. A log that does not exist reads as empty.
pub struct LogReader {
    path: PathBuf,
    file: Option<File>,
}

impl LogReader {
    /// The log at `path`.
    pub fn open(path: &Path) -> io::Result<LogReader> {
        match File::open(path) {
            Ok(file) => Ok(LogReader { path: path.to_owned(), file: Some(file) }),
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                Ok(LogReader { path: path.to_owned(), file: None })
            }
            Err(error) => Err(error),
        }
    }

    /// What stands from `cursor` on, at most a mebibyte. A cursor in a freed part moves to the first data
    /// there is; one beyond the end, as after the program truncated its log, moves to the beginning.
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

    /// The last `most` bytes, or what there is of them.
    pub fn read_end(&mut self, most: u64) -> io::Result<Vec<u8>> {
        let Some(file) = &mut self.file else { return Ok(Vec::new()) };
        let from = file.metadata()?.len().saturating_sub(most);
        let start = first_data_from(file, from)?;
        file.seek(SeekFrom::Start(start))?;
        let mut bytes = Vec::new();
        file.take(most).read_to_end(&mut bytes)?;
        Ok(bytes)
    }

    /// Where the last `lines` lines begin.
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
                // The newline that ends the last line begins no other.
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

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }
}

/// Waits until `output` takes more, or until a signal arrives; says which signal. Whoever reads a session's
/// output slowly must not keep its signals from arriving.
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

/// Why following ended, or what interrupted it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Woken {
    /// There may be more to read.
    Grew,
    /// The process whose output it is, or whoever supervises it, is gone.
    Ended,
    /// This signal arrived.
    Signal(i32),
    /// The time was up.
    TimeUp,
}

/// Waits for a log to grow, for its session to end, and for signals; nothing wakes it in between.
pub struct LogFollower {
    growth: GrowthWatch,
    paths: Vec<PathBuf>,
}

impl LogFollower {
    /// Follows the logs at `paths`.
    pub fn new(paths: Vec<PathBuf>) -> io::Result<LogFollower> {
        Ok(LogFollower { growth: GrowthWatch::open()?, paths })
    }

    /// Asks to be told of what is written from here on. Call it before reading, then read, then wait: so
    /// nothing that is written in between is missed.
    pub fn arm(&self) -> io::Result<()> {
        self.growth.drain();
        for path in &self.paths {
            match self.growth.arm(path) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                other => other?,
            }
        }
        Ok(())
    }

    /// Waits.
    pub fn wait(
        &self,
        session: Option<&ProcessWatch>,
        signals: Option<&SignalPipe>,
        until: Option<Instant>,
    ) -> io::Result<Woken> {
        let mut fds = vec![self.growth.as_fd()];
        fds.extend(session.map(|watch| watch.watch.as_fd()));
        fds.extend(signals.map(SignalPipe::as_fd));
        let ready = wait_for(&fds, until)?;
        if let Some(signals) = signals.filter(|_| ready.last() == Some(&true))
            && let Some(signal) = signals.take()?
        {
            return Ok(Woken::Signal(signal));
        }
        if ready[0] {
            return Ok(Woken::Grew);
        }
        if session.is_some() && ready[1] {
            return Ok(Woken::Ended);
        }
        Ok(Woken::TimeUp)
    }
}
