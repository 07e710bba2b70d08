//! The exit file: how a session ended, kept until a store can be written.
//!
//! All of them lie in one directory, `<state-dir>/exits/`, which is empty nearly always: finding none is
//! one look.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sexton_core::ending::record_outcome;
use sexton_core::session::{EndingReason, Exit};
use sexton_core::store::update_session;
use sexton_core::{Session, SessionId, Store, StoreError, Time};
use sexton_durable::{create_private_dir, replace_file};

/// How one session ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExitFile {
    /// The session.
    pub session: SessionId,
    /// Its end.
    pub exit: Exit,
    /// When that was seen.
    pub finished_at: Time,
    /// Why it was being ended, as far as its supervisor knew.
    #[serde(default)]
    pub ending: Option<EndingReason>,
}

impl ExitFile {
    /// Puts what the file says into the record, unless an end is recorded already.
    pub fn apply(&self, session: &mut Session) -> bool {
        record_outcome(session, self.exit.clone(), self.ending, self.finished_at)
    }
}

/// The exit files of a state directory.
#[derive(Clone, Debug)]
pub struct PendingExits {
    directory: PathBuf,
}

impl PendingExits {
    /// Those of `state_dir`.
    pub fn of(state_dir: &Path) -> PendingExits {
        PendingExits { directory: state_dir.join("exits") }
    }

    /// Writes one, durably.
    pub fn write(&self, exit: &ExitFile) -> io::Result<()> {
        create_private_dir(&self.directory)?;
        replace_file(&self.path(&exit.session), |file| file.write_all(&serde_json::to_vec(exit)?))
    }

    /// The exit file of one session. One that is damaged is an error of the kind `InvalidData`: it stays
    /// where it is, and nobody waits for it.
    pub fn load(&self, session: &SessionId) -> io::Result<Option<ExitFile>> {
        match fs::read(self.path(session)) {
            Ok(bytes) => serde_json::from_slice(&bytes)
                .map(Some)
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The sessions that have one.
    pub fn list(&self) -> io::Result<Vec<SessionId>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut sessions = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            // Temporary files of a writer that was killed begin with a dot and are no id.
            let id = name.to_str().and_then(|name| name.strip_suffix(".json")).and_then(|id| id.parse().ok());
            sessions.extend(id);
        }
        Ok(sessions)
    }

    /// Commits every exit file whose session this store knows, and removes it once that is durable.
    /// Returns the sessions it did that for.
    pub fn commit(&self, store: &dyn Store) -> Result<Vec<SessionId>, StoreError> {
        let failed = |action, path: &Path, source| StoreError::Io { action, path: path.to_owned(), source };
        let mut committed = Vec::new();
        let pending = self.list().map_err(|error| failed("cannot list", &self.directory, error))?;
        for id in pending {
            let path = self.path(&id);
            let exit = match self.load(&id) {
                Ok(Some(exit)) => exit,
                Ok(None) => continue,
                // One damaged witness must not keep everybody else from writing.
                Err(error) if error.kind() == io::ErrorKind::InvalidData => continue,
                Err(error) => return Err(failed("cannot read", &path, error)),
            };
            let known = pollster::block_on(update_session(store, &id, |session| exit.apply(session)))?;
            if known.is_none() {
                // Another store over the same state directory knows it.
                continue;
            }
            match fs::remove_file(&path) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => {
                    return Err(failed("cannot remove", &path, error));
                }
                _ => committed.push(id),
            }
        }
        Ok(committed)
    }

    fn path(&self, session: &SessionId) -> PathBuf {
        self.directory.join(format!("{session}.json"))
    }
}

#[cfg(test)]
mod tests {
    use sexton_core::session::Exit;

    use super::*;

    fn exit_of(session: &str) -> ExitFile {
        let finished_at = "2026-01-02T03:04:05Z".parse().unwrap();
        ExitFile { session: session.parse().unwrap(), exit: Exit::exited(3), finished_at, ending: None }
    }

    #[test]
    fn i8_an_exit_file_reads_back_and_is_found() {
        let dir = tempfile::tempdir().unwrap();
        let exits = PendingExits::of(dir.path());
        assert!(exits.list().unwrap().is_empty());
        exits.write(&exit_of("abcd")).unwrap();
        assert_eq!(exits.list().unwrap(), [exit_of("abcd").session]);
        assert_eq!(exits.load(&exit_of("abcd").session).unwrap(), Some(exit_of("abcd")));
    }

    #[test]
    fn a_damaged_exit_file_is_told_apart_from_a_missing_one() {
        let dir = tempfile::tempdir().unwrap();
        let exits = PendingExits::of(dir.path());
        exits.write(&exit_of("abcd")).unwrap();
        std::fs::write(dir.path().join("exits/abcd.json"), "{\"session\"").unwrap();
        let error = exits.load(&exit_of("abcd").session).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(exits.load(&exit_of("other").session).unwrap(), None);
    }
}
