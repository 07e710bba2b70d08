//! Separate directories for one tool, and the guarantee that no process that it started outlives them.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use sexton_workspace::target_dir;
use tempfile::TempDir;

use super::processes::{self, MARK, Process};
use crate::Result;
use crate::run::bench_env::PATH;

/// A file system in memory.
const MEMORY: &str = "/dev/shm";

/// Separate directories for one tool.
pub(super) struct Sandbox {
    mark: String,
    state: TempDir,
    // A socket's path must be short, so it cannot be in a deep target directory.
    sockets: TempDir,
}

impl Sandbox {
    /// Creates one on the disk of the target directory.
    pub(super) fn on_disk() -> Result<Sandbox> {
        fs::create_dir_all(target_dir())?;
        Sandbox::make(&target_dir(), &std::env::temp_dir())
    }

    /// Creates one in memory, for tools that write a lot.
    pub(super) fn in_memory() -> Result<Sandbox> {
        Sandbox::make(Path::new(MEMORY), Path::new(MEMORY))
    }

    fn make(state: &Path, sockets: &Path) -> Result<Sandbox> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let mark = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let state = TempDir::with_prefix_in("bench-", state)?;
        Ok(Sandbox { mark, state, sockets: TempDir::with_prefix_in("bench-", sockets)? })
    }

    /// Returns the directory for files.
    pub(super) fn path(&self) -> &Path {
        self.state.path()
    }

    /// Returns the directory for sockets.
    pub(super) fn sockets(&self) -> &Path {
        self.sockets.path()
    }

    /// Writes a file in this sandbox.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path().join(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    /// Returns a command without the user's environment, and with the mark.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", PATH).env("HOME", self.path());
        self.adopt(&mut command);
        command
    }

    /// Adds the mark to `command`, so that its processes can be found.
    pub(super) fn adopt(&self, command: &mut Command) {
        command.env(MARK, &self.mark).current_dir(self.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    }

    /// Returns every live process that was started here.
    pub(super) fn processes(&self) -> Result<Vec<Process>> {
        processes::find_marked(&self.mark)
    }

    /// Returns how many of the processes that were started here have this name.
    pub(super) fn count(&self, name: &str) -> Result<usize> {
        Ok(self.processes()?.iter().filter(|process| process.name == name).count())
    }

    /// Kills one of the processes that were started here.
    pub(super) fn kill(&self, process: &Process) -> Result {
        processes::kill_marked(process.pid, &self.mark)
    }
}

impl Drop for Sandbox {
    fn drop(&mut self) {
        if let Err(error) = processes::end_marked(&self.mark) {
            eprintln!("warning: {error}");
        }
    }
}
