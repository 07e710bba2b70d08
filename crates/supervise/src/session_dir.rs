//! Where a session's files are: `<state-dir>/sessions/<id>/`, with a mark that says whose they are.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sexton_core::SessionId;

/// The directory of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDir {
    path: PathBuf,
}

/// What the mark says.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct DirMark {
    store: String,
    session: SessionId,
}

impl SessionDir {
    /// The directory of `session` in `state_dir`.
    pub fn of(state_dir: &Path, session: &SessionId) -> SessionDir {
        SessionDir { path: state_dir.join("sessions").join(session.as_str()) }
    }

    /// Makes it. Nothing is synced: output is not promised to survive a power cut, and a start waits for
    /// one sync only, the record's.
    pub fn create(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)
    }

    /// Puts the mark of the store that knows the session into it.
    pub fn mark(&self, store: &str, session: &SessionId) -> io::Result<()> {
        let mark = DirMark { store: store.to_owned(), session: session.clone() };
        std::fs::write(self.path.join("mark.json"), serde_json::to_vec(&mark)?)
    }

    /// Removes it with everything in it, as when a start came to nothing.
    pub fn remove(&self) -> io::Result<()> {
        match std::fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its output.
    pub fn log_path(&self) -> PathBuf {
        self.path.join("output.log")
    }

    /// Its standard error, where that has its own file.
    pub fn stderr_path(&self) -> PathBuf {
        self.path.join("stderr.log")
    }
}
