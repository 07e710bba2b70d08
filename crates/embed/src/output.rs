//! A session's output, part by part.

use std::path::Path;

use serde::Serialize;
use sexton_core::Session;
use sexton_supervise::{LogChunk, LogReader};

use crate::error::HouseError;

/// A part of the output, as programs read it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Part {
    /// The text; what is not UTF-8 is replaced.
    pub output: String,
    /// Where the next part begins.
    pub cursor: u64,
    /// Whether nothing will ever follow.
    pub eof: bool,
    /// Whether something before it is no longer there.
    pub truncated: bool,
}

/// A log, and how far it was read.
pub struct Output {
    reader: LogReader,
    cursor: u64,
}

impl Output {
    /// The output of `session`, or its standard error where that was kept apart, from `cursor` on.
    pub fn of(session: &Session, stderr: bool, cursor: u64) -> Result<Output, HouseError> {
        Output::open(log_path(session, stderr)?, cursor)
    }

    /// The log at `path`, from `cursor` on.
    pub fn open(path: &Path, cursor: u64) -> Result<Output, HouseError> {
        let reader = LogReader::open(path).map_err(unreadable(path))?;
        Ok(Output { reader, cursor })
    }

    /// Its file.
    pub fn path(&self) -> &Path {
        self.reader.path()
    }

    /// How far it was read.
    pub fn cursor(&self) -> u64 {
        self.cursor
    }

    /// Goes to where the last `lines` begin.
    pub fn seek_to_tail(&mut self, lines: usize) -> Result<(), HouseError> {
        let found = self.reader.tail_cursor(lines);
        self.cursor = found.map_err(unreadable(self.reader.path()))?;
        Ok(())
    }

    /// The next part. A character that the end of the part would split is left for the next one.
    pub fn read(&mut self) -> Result<LogChunk, HouseError> {
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

    /// The next part as text. `ended` says whether its session has ended, so that nothing can follow.
    pub fn read_part(&mut self, ended: bool) -> Result<Part, HouseError> {
        let chunk = self.read()?;
        let eof = ended && self.is_at_end()?;
        let output = String::from_utf8_lossy(&chunk.bytes).into_owned();
        Ok(Part { output, cursor: self.cursor, eof, truncated: chunk.truncated })
    }

    /// Whether there is nothing to read now.
    pub fn is_at_end(&mut self) -> Result<bool, HouseError> {
        let next = self.reader.read_from(self.cursor);
        Ok(next.map_err(unreadable(self.reader.path()))?.bytes.is_empty())
    }
}

fn unreadable(path: &Path) -> impl FnOnce(std::io::Error) -> HouseError {
    HouseError::io(format!("cannot read the log {}", path.display()))
}

fn log_path(session: &Session, stderr: bool) -> Result<&Path, HouseError> {
    let Some(log) = &session.log else {
        let id = &session.id;
        return Err(HouseError::NoOutput(format!("session {id} has no log: something else started it")));
    };
    match (stderr, &log.stderr_path) {
        (false, _) => Ok(log.path.as_path()),
        (true, Some(path)) => Ok(path.as_path()),
        (true, None) => {
            Err(HouseError::NoOutput(format!("session {} has both streams in one log", session.id)))
        }
    }
}
