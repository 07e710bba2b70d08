//! Where a session's files are: `<state-dir>/sessions/<id>/`, with a mark that says whose they are.

use std::fs::DirBuilder;
use std::io;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sexton_core::SessionId;

/// The directory of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDir {
    path: PathBuf,
}

/// A session's directory, and whose it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedDir {
    /// The session.
    pub session: SessionId,
    /// The store that knows it.
    pub store: String,
    /// When it was made.
    pub made_at: SystemTime,
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

    /// Every directory in `state_dir` that has a mark, with the store in it and the time it was made.
    pub fn list_marked(state_dir: &Path) -> io::Result<Vec<MarkedDir>> {
        let entries = match std::fs::read_dir(state_dir.join("sessions")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry?.path();
            // One without a mark that can be read is nobody's to judge.
            let Ok(text) = std::fs::read(path.join("mark.json")) else { continue };
            let Ok(DirMark { store, session }) = serde_json::from_slice(&text) else { continue };
            if path.file_name().is_some_and(|name| name == session.as_str()) {
                let made_at = std::fs::metadata(path.join("mark.json"))?.modified()?;
                found.push(MarkedDir { session, store, made_at });
            }
        }
        Ok(found)
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
