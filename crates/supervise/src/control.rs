//! The channel between starter and shim: a socket pair, one JSON document per line.
//!
//! The end of the channel is a message too: it means that the other side is gone.

use std::io::{self, BufRead, BufReader, Write};
use std::os::unix::net::UnixStream;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use sexton_core::ProcessIdentity;
use sexton_core::session::Cgroup;

/// The longest message: a plan with a large environment fits, a runaway writer does not.
const MAX_MESSAGE: u64 = 64 * 1024 * 1024;

/// What the shim says.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FromShim {
    /// The command waits at the gate.
    Ready(Box<Ready>),
    /// The command was executed.
    Executed,
    /// The command could not be executed.
    NotExecuted {
        /// The number of the error.
        errno: i32,
        /// What was tried: `execute the command`, `change into the directory`.
        doing: String,
    },
    /// The shim could not get as far as the gate.
    Failed {
        /// Why.
        why: String,
    },
}

/// Who waits at the gate, and who holds it.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Ready {
    pub(crate) process: ProcessIdentity,
    pub(crate) supervisor: ProcessIdentity,
    pub(crate) cgroup: Option<Cgroup>,
}

/// What the starter says, after the plan.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum FromStarter {
    /// The record is durable: open the gate.
    Recorded {
        /// The identifier of the store that it is in, for the mark of the session's directory.
        store: Option<String>,
    },
    /// The record could not be written: nothing may run, and nobody knows what the store says.
    NotRecorded,
    /// No record was ever tried to be written: nothing may run, and nothing has to be put right.
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

    /// The next message, or `None` where the other side is gone.
    pub(crate) fn receive<T: DeserializeOwned>(&mut self) -> io::Result<Option<T>> {
        let mut line = Vec::new();
        let mut limited = io::Read::take(&mut self.reader, MAX_MESSAGE);
        limited.read_until(b'\n', &mut line)?;
        match line.pop() {
            Some(b'\n') => Ok(Some(serde_json::from_slice(&line)?)),
            // Cut off in the middle: whoever wrote it died.
            _ => Ok(None),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_message_arrives_as_it_was_sent() {
        let (here, there) = UnixStream::pair().unwrap();
        let message = FromStarter::Recorded { store: Some("s".to_owned()) };
        Control::over(here).send(&message).unwrap();
        assert_eq!(Control::over(there).receive::<FromStarter>().unwrap(), Some(message));
    }

    #[test]
    fn i1_a_message_that_was_cut_off_is_no_message() {
        let (mut here, there) = UnixStream::pair().unwrap();
        here.write_all(b"\"recor").unwrap();
        drop(here);
        assert_eq!(Control::over(there).receive::<FromStarter>().unwrap(), None);
    }
}
