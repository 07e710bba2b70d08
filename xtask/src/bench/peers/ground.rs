//! A place of its own for one tool, and the certainty that nothing that it started outlives it.

use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering};

use tempfile::TempDir;

use super::processes::{self, MARK, Process};
use crate::Result;
use crate::bench::run::yard::PATH;
use crate::workspace::target_dir;

/// Where memory is a file system.
const MEMORY: &str = "/dev/shm";

/// A place of its own.
pub(super) struct Ground {
    mark: String,
    state: TempDir,
    // A socket's path must be short, so it cannot lie in a deep target directory.
    sockets: TempDir,
}

impl Ground {
    /// One on the disk of the target directory.
    pub(super) fn on_disk() -> Result<Ground> {
        fs::create_dir_all(target_dir())?;
        Ground::make(&target_dir(), &std::env::temp_dir())
    }

    /// One on no disk at all, for what writes a lot.
    pub(super) fn in_memory() -> Result<Ground> {
        Ground::make(Path::new(MEMORY), Path::new(MEMORY))
    }

    fn make(state: &Path, sockets: &Path) -> Result<Ground> {
        static NEXT: AtomicUsize = AtomicUsize::new(0);
        let mark = format!("{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
        let state = TempDir::with_prefix_in("bench-", state)?;
        Ok(Ground { mark, state, sockets: TempDir::with_prefix_in("bench-", sockets)? })
    }

    /// Where files may lie.
    pub(super) fn path(&self) -> &Path {
        self.state.path()
    }

    /// Where sockets may lie.
    pub(super) fn sockets(&self) -> &Path {
        self.sockets.path()
    }

    /// Writes a file here.
    pub(super) fn write(&self, name: &str, text: &str) -> Result<PathBuf> {
        let path = self.path().join(name);
        fs::write(&path, text)?;
        Ok(path)
    }

    /// A program with nothing of its user's environment, that can be found again.
    pub(super) fn command(&self, program: impl AsRef<OsStr>) -> Command {
        let mut command = Command::new(program);
        command.env_clear().env("PATH", PATH).env("HOME", self.path());
        self.adopt(&mut command);
        command
    }

    /// Makes `command` one that can be found again.
    pub(super) fn adopt(&self, command: &mut Command) {
        command.env(MARK, &self.mark).current_dir(self.path());
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    }

    /// Every process that was started here and lives.
    pub(super) fn processes(&self) -> Result<Vec<Process>> {
        processes::find_marked(&self.mark)
    }

    /// How many of those that were started here have this name.
    pub(super) fn count(&self, name: &str) -> Result<usize> {
        Ok(self.processes()?.iter().filter(|process| process.name == name).count())
    }

    /// Kills one of those that were started here.
    pub(super) fn kill(&self, process: &Process) -> Result {
        processes::kill_marked(process.pid, &self.mark)
    }
}

impl Drop for Ground {
    fn drop(&mut self) {
        if let Err(error) = processes::end_marked(&self.mark) {
            eprintln!("warning: {error}");
        }
    }
}
