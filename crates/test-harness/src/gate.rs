//! A command that runs until the test opens a gate. It blocks in one read and starts no process.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;

use rustix::fs::{CWD, FileType, Mode, mknodat};

/// A FIFO that a command waits on. The command also continues when the test fails, because the FIFO is closed.
pub struct Gate {
    /// Open for reading and writing: neither side blocks in `open`, and written data stays until it is read.
    pipe: File,
    path: String,
}

impl Gate {
    /// Creates a closed gate at `path`, which must not exist.
    pub fn at(path: &Path) -> Gate {
        mknodat(CWD, path, FileType::Fifo, Mode::RUSR | Mode::WUSR, 0).unwrap();
        let pipe = OpenOptions::new().read(true).write(true).open(path).unwrap();
        Gate { pipe, path: path.to_str().unwrap().to_owned() }
    }

    /// Returns a line of shell that waits until the gate is open and exits with `code`.
    pub fn script(&self, code: i64) -> String {
        format!("read line < {}; exit {code}", self.path)
    }

    /// Opens the gate. It is no error if the command has exited already.
    pub fn open(&self) {
        (&self.pipe).write_all(b"\n").unwrap();
    }
}
