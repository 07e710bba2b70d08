//! Showing a session's output as it comes.

use std::io::{self, Write};
use std::path::Path;

use sexton_core::session::Log;
use sexton_supervise::{LogFollower, LogReader, SignalPipe, wait_to_write};

use crate::failure::Failure;

/// One stream of a session's output, and how far it was shown.
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
    /// Shows both streams of `log` from the beginning.
    pub fn of(log: &Log) -> Result<Outputs, Failure> {
        let mut streams = vec![stream(log.path.as_path(), false)?];
        if let Some(stderr) = &log.stderr_path {
            streams.push(stream(stderr.as_path(), true)?);
        }
        Ok(Outputs { streams })
    }

    /// What waits for more of it.
    pub fn follower(&self) -> Result<LogFollower, Failure> {
        let paths = self.streams.iter().map(|stream| stream.reader.path().to_owned()).collect();
        LogFollower::new(paths).map_err(|error| Failure::new(format!("cannot follow the log: {error}")))
    }

    /// Shows what is new, until there is no more or a signal arrives.
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

/// What came of showing output.
#[derive(Default)]
pub struct Pumped {
    /// How many bytes nobody will see: the log is bounded, and they were freed before they were read.
    pub freed: u64,
    /// The signal that arrived meanwhile; there may be more to show.
    pub signal: Option<i32>,
}

/// What a pipe that takes anything takes at once, so that writing it never blocks.
const PIECE: usize = 4096;

impl Stream {
    fn pump(&mut self, signals: &SignalPipe) -> io::Result<Pumped> {
        let mut freed = 0;
        loop {
            let chunk = self.reader.read_from(self.cursor)?;
            freed += chunk.freed;
            // Cursors count from where the chunk begins; what is shown of it is counted below.
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

    /// Shows a piece, unless a signal arrives before it can be shown.
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
            // Whoever read our output has seen enough; the session goes on.
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
