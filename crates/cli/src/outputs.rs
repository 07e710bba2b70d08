//! Shows a session's output as it is written.

use std::io::{self, Write};
use std::path::Path;

use sexton_core::session::Log;
use sexton_supervise::{LogFollower, LogReader, SignalPipe, wait_to_write};

use crate::failure::Failure;

/// One stream of a session's output, and how much of it was shown.
struct Stream {
    reader: LogReader,
    cursor: u64,
    to_stderr: bool,
}

/// The output of a session, shown on this program's own streams.
pub struct Outputs {
    streams: Vec<Stream>,
}

impl Outputs {
    /// Opens the streams of `log` at the beginning.
    pub fn of(log: &Log) -> Result<Outputs, Failure> {
        let mut streams = vec![stream(log.path.as_path(), false)?];
        if let Some(stderr) = &log.stderr_path {
            streams.push(stream(stderr.as_path(), true)?);
        }
        Ok(Outputs { streams })
    }

    /// Returns a follower that waits for more output.
    pub fn follower(&self) -> LogFollower {
        LogFollower::new(self.streams.iter().map(|stream| stream.reader.path().to_owned()).collect())
    }

    /// Shows new output until the end of the log or until a signal arrives.
    pub fn pump(&mut self, signals: &SignalPipe) -> Result<Pumped, Failure> {
        let mut freed = 0;
        for stream in &mut self.streams {
            let pumped = stream.pump(signals).map_err(|error| {
                Failure::new(format!("cannot show {}: {error}", stream.reader.path().display()))
            })?;
            freed += pumped.freed;
            if pumped.signal.is_some() {
                return Ok(Pumped { freed, ..pumped });
            }
        }
        Ok(Pumped { freed, signal: None })
    }
}

/// The result of showing output.
#[derive(Default)]
pub struct Pumped {
    /// The number of bytes that were freed before they were read, because the log is bounded.
    pub freed: u64,
    /// The signal that arrived; there may be more output to show.
    pub signal: Option<i32>,
}

/// The size of a write that does not block once `poll` reports the pipe as writable (PIPE_BUF).
const PIECE: usize = 4096;

impl Stream {
    fn pump(&mut self, signals: &SignalPipe) -> io::Result<Pumped> {
        let mut freed = 0;
        loop {
            let chunk = self.reader.read_from(self.cursor)?;
            freed += chunk.freed;
            // Set to the beginning of the chunk; each piece that is shown advances it below.
            self.cursor = chunk.cursor - chunk.bytes.len() as u64;
            if chunk.bytes.is_empty() {
                return Ok(Pumped { freed, signal: None });
            }
            for piece in chunk.bytes.chunks(PIECE) {
                let signal = self.show(piece, signals)?;
                if signal.is_some() {
                    return Ok(Pumped { freed, signal });
                }
                self.cursor += piece.len() as u64;
            }
        }
    }

    /// Shows a piece. Returns the signal if one arrives before the piece can be written.
    fn show(&self, piece: &[u8], signals: &SignalPipe) -> io::Result<Option<i32>> {
        let output = if self.to_stderr { rustix::stdio::stderr() } else { rustix::stdio::stdout() };
        let signal = wait_to_write(output, signals)?;
        if signal.is_some() {
            return Ok(signal);
        }
        let shown = if self.to_stderr {
            io::stderr().lock().write_all(piece)
        } else {
            let mut stdout = io::stdout().lock();
            stdout.write_all(piece).and_then(|()| stdout.flush())
        };
        match shown {
            // The reader closed the pipe; the session continues.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(None),
            other => other.map(|()| None),
        }
    }
}

fn stream(path: &Path, to_stderr: bool) -> Result<Stream, Failure> {
    let reader = LogReader::open(path)
        .map_err(|error| Failure::new(format!("cannot open the log {}: {error}", path.display())))?;
    Ok(Stream { reader, cursor: 0, to_stderr })
}
