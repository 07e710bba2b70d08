//! The channel between starter and shim: a socket pair, one JSON document per line.
//!
//! End of file means that the other side is gone.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sexton_core::ProcessIdentity;
use sexton_core::containment::ContainedBy;
use sexton_core::session::Cgroup;

/// Maximum message size: a plan with a large environment fits, a runaway writer does not.
const MAX_MESSAGE: u64 = 64 * 1024 * 1024;

/// Messages from the shim.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FromShim {
    /// The command waits at the gate.
    Ready(Box<Ready>),
    /// The command was executed.
    Executed,
    /// The command to watch has exited, or already has another supervisor.
    NotNeeded,
    /// The command could not be executed.
    NotExecuted {
        /// The error number.
        errno: i32,
        /// The step that failed: `execute the command`, `change into the directory`.
        doing: String,
    },
    /// The shim failed before the gate.
    Failed {
        /// The cause.
        why: String,
    },
}

/// The command that waits at the gate, and its supervisor.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    pub(crate) process: ProcessIdentity,
    pub(crate) supervisor: ProcessIdentity,
    pub(crate) cgroup: Option<Cgroup>,
    pub(crate) containment: Option<ContainedBy>,
    pub(crate) limit_mark: Option<u64>,
}

/// Messages from the starter, after the plan.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FromStarter {
    /// The record is durable: open the gate.
    Recorded {
        /// The identifier of the store that contains it, for the mark in the session's directory.
        store: Option<String>,
    },
    /// The record could not be written: nothing may run, and the content of the store is unknown.
    NotRecorded,
    /// Writing the record was never attempted: nothing may run, and there is nothing to undo.
    CalledOff,
}

/// One end of the channel.
pub(crate) struct Control {
    reader: BufReader<UnixStream>,
}

impl Control {
    pub(crate) fn over(stream: UnixStream) -> Control {
        Control { reader: BufReader::new(stream) }
    }

    pub(crate) fn send(&mut self, message: &impl Serialize) -> io::Result<()> {
        let mut line = serde_json::to_vec(message)?;
        line.push(b'\n');
        self.reader.get_mut().write_all(&line)
    }

    /// Returns the next message, or `None` if the other side is gone.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = Vec::new();
        let mut limited = io::Read::take(&mut self.reader, MAX_MESSAGE);
        limited.read_until(b'\n', &mut line)?;
        match line.pop() {
            Some(b'\n') => Ok(Some(serde_json::from_slice(&line)?)),
            // Truncated: the writer died.
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_round_trips() {
        let (here, there) = UnixStream::pair().unwrap();
        let message = FromStarter::Recorded { store: Some("s".to_owned()) };
        Control::over(here).send(&message).unwrap();
        assert_eq!(Control::over(there).receive::<FromStarter>().unwrap(), Some(message));
    }

    #[test]
    fn i1_truncated_message_is_ignored() {
        let (mut here, there) = UnixStream::pair().unwrap();
        here.write_all(b"\"recor").unwrap();
        drop(here);
        assert_eq!(Control::over(there).receive::<FromStarter>().unwrap(), None);
    }
}
