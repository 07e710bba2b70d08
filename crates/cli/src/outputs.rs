//! Showing a session's output as it comes.

use std::io::{self, Write};
use std::path::Path;

use sexton_core::session::Log;
use sexton_supervise::{LogFollower, LogReader};

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

    /// Shows what is new.
    pub fn pump(&mut self) -> Result<(), Failure> {
        for stream in &mut self.streams {
            stream.pump().map_err(|error| {
                Failure::new(format!("cannot show {}: {error}", stream.reader.path().display()))
            })?;
        }
        Ok(())
    }
}

impl Stream {
    fn pump(&mut self) -> io::Result<()> {
        loop {
            let chunk = self.reader.read_from(self.cursor)?;
            self.cursor = chunk.cursor;
            if chunk.bytes.is_empty() {
                return Ok(());
            }
            let shown = if self.to_stderr {
                io::stderr().lock().write_all(&chunk.bytes)
            } else {
                let mut stdout = io::stdout().lock();
                stdout.write_all(&chunk.bytes).and_then(|()| stdout.flush())
            };
            match shown {
                // Whoever read our output has seen enough; the session goes on.
                Err(error) if error.kind() == io::ErrorKind::BrokenPipe => {}
                other => other?,
            }
        }
    }
}

fn stream(path: &Path, to_stderr: bool) -> Result<Stream, Failure> {
    let reader = LogReader::open(path)
        .map_err(|error| Failure::new(format!("cannot open the log {}: {error}", path.display())))?;
    Ok(Stream { reader, cursor: 0, to_stderr })
}
