//! Reads a session's output in parts.

use std::path::Path;

use serde::Serialize;
use sexton_core::Session;
use sexton_supervise::{LogChunk, LogReader};

use crate::error::ServiceError;

/// A part of the output, for programs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The text; invalid UTF-8 is replaced.
    pub output: String,
    /// Where the next part begins.
    pub cursor: u64,
    /// Whether nothing can follow.
    pub eof: bool,
    /// Whether output before it is no longer available.
    pub truncated: bool,
}

/// A log and a read position.
pub struct Output {
    reader: LogReader,
    cursor: u64,
}

impl Output {
    /// Opens the output of `session`, or its separate standard error, at `cursor`.
    pub fn of(session: &Session, stderr: bool, cursor: u64) -> Result<Output, ServiceError> {
        Output::open(log_path(session, stderr)?, cursor)
    }

    /// Opens the log at `path`, at `cursor`.
    pub fn open(path: &Path, cursor: u64) -> Result<Output, ServiceError> {
        let reader = LogReader::open(path).map_err(unreadable(path))?;
        Ok(Output { reader, cursor })
    }

    /// Returns the path of its file.
    pub fn path(&self) -> &Path {
        self.reader.path()
    }

    /// Returns the read position.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Moves to the beginning of the last `lines` lines.
    pub fn seek_to_tail(&mut self, lines: usize) -> Result<(), ServiceError> {
        let found = self.reader.tail_cursor(lines);
        self.cursor = found.map_err(unreadable(self.reader.path()))?;
        Ok(())
    }

    /// Reads the next part. A character that the end of the part would split is left for the next one.
    pub fn read(&mut self) -> Result<LogChunk, ServiceError> {
        let read = self.reader.read_from(self.cursor);
        let mut chunk = read.map_err(unreadable(self.reader.path()))?;
        if let Err(error) = str::from_utf8(&chunk.bytes)
            && error.error_len().is_none()
            && error.valid_up_to() > 0
        {
            chunk.cursor -= (chunk.bytes.len() - error.valid_up_to()) as u64;
            chunk.bytes.truncate(error.valid_up_to());
        }
        self.cursor = chunk.cursor;
        Ok(chunk)
    }

    /// Reads the next part as text. `ended` says whether its session has ended, so that nothing can follow.
    pub fn read_part(&mut self, ended: bool) -> Result<Part, ServiceError> {
        let chunk = self.read()?;
        let eof = ended && self.is_at_end()?;
        let output = String::from_utf8_lossy(&chunk.bytes).into_owned();
        Ok(Part { output, cursor: self.cursor, eof, truncated: chunk.truncated })
    }

    /// Returns whether there is nothing to read now.
    pub fn is_at_end(&mut self) -> Result<bool, ServiceError> {
        let next = self.reader.read_from(self.cursor);
        Ok(next.map_err(unreadable(self.reader.path()))?.bytes.is_empty())
    }
}

fn unreadable(path: &Path) -> impl FnOnce(std::io::Error) -> ServiceError {
    ServiceError::io(format!("cannot read the log {}", path.display()))
}

fn log_path(session: &Session, stderr: bool) -> Result<&Path, ServiceError> {
    let Some(log) = &session.log else {
        let id = &session.id;
        return Err(ServiceError::NoOutput(format!("session {id} has no log: it was not started by sexton")));
    };
    match (stderr, &log.stderr_path) {
        (false, _) => Ok(log.path.as_path()),
        (true, Some(path)) => Ok(path.as_path()),
        (true, None) => Err(ServiceError::NoOutput(format!(
            "session {} has standard output and standard error in one log",
            session.id
        ))),
    }
}
