//! Reads the environment and the command line from the memory of a process. That can block forever, so on
//! Linux a thread reads them that can be abandoned.

use std::cell::RefCell;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::sync::mpsc;
use std::time::Duration;

/// How long a read may take.
const READ_LIMIT: Duration = Duration::from_millis(500);

/// Result of a read.
pub(crate) enum Memory {
    /// The strings that were read.
    Strings(Vec<OsString>),
    /// It may not be read, or the process is gone.
    Closed,
    /// The read took too long.
    TimedOut,
}

/// A thread that reads for one operation, and ends with it unless a read blocks.
#[derive(Default)]
pub(crate) struct Reader {
    worker: RefCell<Option<Worker>>,
}

struct Worker {
    paths: mpsc::SyncSender<String>,
    contents: mpsc::Receiver<io::Result<Vec<u8>>>,
}

impl Worker {
    fn start() -> io::Result<Worker> {
        let (paths, asked) = mpsc::sync_channel::<String>(1);
        let (answers, contents) = mpsc::sync_channel(1);
        std::thread::Builder::new().spawn(move || {
            for path in asked {
                if answers.send(std::fs::read(path)).is_err() {
                    break;
                }
            }
        })?;
        Ok(Worker { paths, contents })
    }
}

impl Reader {
    /// Reads `/proc/PID/FILE`, which contains NUL-terminated strings.
    pub(crate) fn read_strings(&self, pid: u32, file: &str) -> Memory {
        let mut slot = self.worker.borrow_mut();
        let Some(worker) = slot.take().or_else(|| Worker::start().ok()) else { return Memory::Closed };
        if worker.paths.send(format!("/proc/{pid}/{file}")).is_err() {
            return Memory::Closed;
        }
        match worker.contents.recv_timeout(READ_LIMIT) {
            Ok(read) => {
                *slot = Some(worker);
                read.map_or(Memory::Closed, |bytes| Memory::Strings(split(&bytes)))
            }
            // The thread is abandoned.
            Err(_) => Memory::TimedOut,
        }
    }
}

/// Returns the command line of a process; where reading it cannot block, `seen` already holds it.
pub(crate) fn load_command(pid: u32, seen: Vec<OsString>) -> Vec<OsString> {
    if cfg!(not(target_os = "linux")) {
        return seen;
    }
    match Reader::default().read_strings(pid, "cmdline") {
        Memory::Strings(command) => command,
        Memory::Closed | Memory::TimedOut => Vec::new(),
    }
}

fn split(bytes: &[u8]) -> Vec<OsString> {
    let bytes = bytes.strip_suffix(b"\0").unwrap_or(bytes);
    if bytes.is_empty() {
        return Vec::new();
    }
    bytes.split(|byte| *byte == 0).map(|string| OsString::from_vec(string.to_vec())).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strings_are_nul_terminated() {
        assert_eq!(split(b""), [""; 0]);
        assert_eq!(split(b"a\0b c\0"), ["a", "b c"]);
        assert_eq!(split(b"a\0\0"), ["a", ""]);
    }
}
