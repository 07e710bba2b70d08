//! A session's files: `<state-dir>/sessions/<id>/`, with a mark that names their store.

use std::fs::DirBuilder;
use std::io::{self, Read, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use serde::{Deserialize, Serialize};
use sexton_core::{Incarnation, SessionId};
use sexton_durable::{SMALL_FILE, read_regular};

/// Maximum size of a note.
const MAX_NOTE: u64 = 4096;

/// The directory of one session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SessionDir {
    path: PathBuf,
}

/// A session's directory and its owner.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MarkedDir {
    /// The session.
    pub session: SessionId,
    /// The store that contains its record.
    pub store: String,
    /// When it was created.
    pub made_at: SystemTime,
    /// The machine that created it; `None` if an earlier release did not record it.
    pub made_on: Option<Incarnation>,
}

/// Content of the mark.
#[derive(Debug, PartialEq, Eq, Serialize, Deserialize)]
struct DirMark {
    store: String,
    session: SessionId,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    made_on: Option<Incarnation>,
}

impl SessionDir {
    /// Returns the directory of `session` in `state_dir`.
    pub fn of(state_dir: &Path, session: &SessionId) -> SessionDir {
        SessionDir { path: state_dir.join("sessions").join(session.as_str()) }
    }

    /// Creates it. Nothing is synced: output need not survive a power cut, and a start waits for a single
    /// sync, that of the record.
    pub fn create(&self) -> io::Result<()> {
        DirBuilder::new().recursive(true).mode(0o700).create(&self.path)
    }

    /// Writes a mark with the store that contains the session and the machine that it runs on.
    pub fn mark(&self, store: &str, session: &SessionId, made_on: Incarnation) -> io::Result<()> {
        let mark = DirMark { store: store.to_owned(), session: session.clone(), made_on: Some(made_on) };
        std::fs::write(self.path.join("mark.json"), serde_json::to_vec(&mark)?)
    }

    /// Returns every directory in `state_dir` that has a mark, with its store and creation time.
    pub fn list_marked(state_dir: &Path) -> io::Result<Vec<MarkedDir>> {
        let entries = match std::fs::read_dir(state_dir.join("sessions")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut found = Vec::new();
        for entry in entries {
            let path = entry?.path();
            // Without a readable mark its store is unknown, so it is left alone.
            let Ok(text) = read_regular(&path.join("mark.json"), SMALL_FILE) else { continue };
            let Ok(DirMark { store, session, made_on }) = serde_json::from_slice(&text) else { continue };
            if path.file_name().is_some_and(|name| name == session.as_str()) {
                let made_at = std::fs::metadata(path.join("mark.json"))?.modified()?;
                found.push(MarkedDir { session, store, made_at, made_on });
            }
        }
        Ok(found)
    }

    /// Removes it with all content, for example after a failed start.
    pub fn remove(&self) -> io::Result<()> {
        match std::fs::remove_dir_all(&self.path) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
            other => other,
        }
    }

    /// Records why the log exceeds its limit.
    pub(crate) fn note_unbounded(&self, why: &str) -> io::Result<()> {
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(0o600).open(self.unbounded_path());
        file?.write_all(why.as_bytes())
    }

    /// Records that the log is within its limit again.
    pub(crate) fn forget_unbounded(&self) {
        let _ = std::fs::remove_file(self.unbounded_path());
    }

    /// Returns why the log exceeds its limit, if its supervisor could not prevent that.
    pub fn find_unbounded(&self) -> Option<String> {
        let mut options = std::fs::OpenOptions::new();
        let file = options.read(true).custom_flags(libc::O_NOFOLLOW | libc::O_NONBLOCK);
        let file = file
            .open(self.unbounded_path())
            .ok()
            .filter(|file| file.metadata().is_ok_and(|metadata| metadata.is_file()))?;
        let mut bytes = Vec::new();
        file.take(MAX_NOTE).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    }

    fn unbounded_path(&self) -> PathBuf {
        self.path.join("log-unbounded")
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the path of its output.
    pub fn log_path(&self) -> PathBuf {
        self.path.join("output.log")
    }

    /// Returns the path of its standard error, if that is separate.
    pub fn stderr_path(&self) -> PathBuf {
        self.path.join("stderr.log")
    }
}
