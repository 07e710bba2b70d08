//! The exit file: how a session ended, kept until the store can be written.
//!
//! All of them are in one directory, `<state-dir>/exits/`, which is almost always empty, so checking it is
//! cheap.

use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, RenameFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use sexton_core::ending::record_outcome;
use sexton_core::foreign_identity::is_command_alive;
use sexton_core::recover::UnreadableExit;
use sexton_core::session::{EndingReason, Exit};
use sexton_core::store::update_session;
use sexton_core::{ProcessProbe, Session, SessionId, Store, StoreError, Time};
use sexton_durable::{create_private_dir, find_regular, replace_file, sync_parent};

/// Larger than any exit file.
const MAX_SIZE: u64 = 64 << 10;

/// How many files of one session can be set aside.
const MAX_SET_ASIDE: usize = 100;

/// How one session ended.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ExitFile {
    /// The session.
    pub session: SessionId,
    /// Its end.
    pub exit: Exit,
    /// When the end was observed.
    pub finished_at: Time,
    /// Why it was being stopped, as far as its supervisor knew.
    #[serde(default)]
    pub ending: Option<EndingReason>,
}

impl ExitFile {
    /// Applies the file to the record, unless an end is already recorded.
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
    /// Returns the exit files of `state_dir`.
    pub fn of(state_dir: &Path) -> PendingExits {
        PendingExits { directory: state_dir.join("exits") }
    }

    /// Writes an exit file durably.
    pub fn write(&self, exit: &ExitFile) -> io::Result<()> {
        create_private_dir(&self.directory)?;
        replace_file(&self.path(&exit.session), |file| file.write_all(&serde_json::to_vec(exit)?))
    }

    /// Reads the exit file of one session. A damaged one is an error of the kind `InvalidData`; it is left in
    /// place and can never be read.
    pub fn load(&self, session: &SessionId) -> io::Result<Option<ExitFile>> {
        let invalid = |why: String| io::Error::new(io::ErrorKind::InvalidData, why);
        let Some(bytes) = find_regular(&self.path(session), MAX_SIZE)? else { return Ok(None) };
        let exit: ExitFile = serde_json::from_slice(&bytes).map_err(|error| invalid(error.to_string()))?;
        if exit.session != *session {
            return Err(invalid(format!("it belongs to session {}", exit.session)));
        }
        Ok(Some(exit))
    }

    /// Returns the exit files that are damaged or cannot be read, sorted by session.
    pub fn list_unreadable(&self) -> io::Result<Vec<UnreadableExit>> {
        let mut unreadable = Vec::new();
        for session in self.list()? {
            if let Err(error) = self.load(&session) {
                let damaged = error.kind() == io::ErrorKind::InvalidData;
                let path = self.path(&session);
                unreadable.push(UnreadableExit { session, path, why: error.to_string(), damaged });
            }
        }
        unreadable.sort_by(|one, other| one.session.cmp(&other.session));
        Ok(unreadable)
    }

    /// Renames an exit file that cannot be read, so that nothing finds it. Returns the new path.
    pub fn set_aside(&self, session: &SessionId) -> io::Result<PathBuf> {
        let path = self.path(session);
        // In the same directory: a directory owned by another user cannot be moved to another parent.
        for attempt in 0..MAX_SET_ASIDE {
            let target = self.directory.join(format!("{session}.json.set-aside-{attempt}"));
            match rustix::fs::renameat_with(CWD, &path, CWD, &target, RenameFlags::NOREPLACE) {
                Ok(()) => {
                    sync_parent(&target)?;
                    return Ok(target);
                }
                Err(Errno::EXIST) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Err(io::Error::other(format!("{MAX_SET_ASIDE} files of session {session} are set aside already")))
    }

    /// Returns the sessions that have an exit file.
    pub fn list(&self) -> io::Result<Vec<SessionId>> {
        let entries = match fs::read_dir(&self.directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            other => other?,
        };
        let mut sessions = Vec::new();
        for entry in entries {
            let name = entry?.file_name();
            // Temporary files of a killed writer begin with a dot and are not ids.
            let id = name.to_str().and_then(|name| name.strip_suffix(".json")).and_then(|id| id.parse().ok());
            sessions.extend(id);
        }
        Ok(sessions)
    }

    /// Commits every exit file whose session is in this store, and removes it once the commit is durable. A
    /// file whose command is alive was not written by its supervisor: it stays and is ignored. Returns the
    /// sessions whose ends were committed.
    pub fn commit(&self, store: &dyn Store, probe: &dyn ProcessProbe) -> Result<Vec<SessionId>, StoreError> {
        // A store that starts no sessions has none: the same id in it, perhaps from a cloned repository, is another
        // session.
        if !store.describe().capabilities.starts {
            return Ok(Vec::new());
        }
        let failed = |action, path: &Path, source| StoreError::Io { action, path: path.to_owned(), source };
        let mut committed = Vec::new();
        let pending = self.list().map_err(|error| failed("cannot list", &self.directory, error))?;
        for id in pending {
            let path = self.path(&id);
            let exit = match self.load(&id) {
                Ok(Some(exit)) => exit,
                // An unreadable file must not block every other command from writing. `list_unreadable`
                // reports it.
                Ok(None) | Err(_) => continue,
            };
            // It may belong to another store with the same state directory.
            let Some(session) = pollster::block_on(store.load(&id))? else { continue };
            if pollster::block_on(is_command_alive(probe, &session)) {
                continue;
            }
            if pollster::block_on(update_session(store, &id, |session| exit.apply(session)))?.is_none() {
                continue;
            }
            // If it stays, the next writer applies it again, which changes nothing.
            let _ = fs::remove_file(&path);
            committed.push(id);
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
    fn i8_exit_file_round_trips_and_is_listed() {
        let dir = tempfile::tempdir().unwrap();
        let exits = PendingExits::of(dir.path());
        assert!(exits.list().unwrap().is_empty());
        exits.write(&exit_of("abcd")).unwrap();
        assert_eq!(exits.list().unwrap(), [exit_of("abcd").session]);
        assert_eq!(exits.load(&exit_of("abcd").session).unwrap(), Some(exit_of("abcd")));
    }

    #[test]
    fn damaged_exit_file_differs_from_a_missing_one() {
        let dir = tempfile::tempdir().unwrap();
        let exits = PendingExits::of(dir.path());
        exits.write(&exit_of("abcd")).unwrap();
        std::fs::write(dir.path().join("exits/abcd.json"), "{\"session\"").unwrap();
        let error = exits.load(&exit_of("abcd").session).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData);
        assert_eq!(exits.load(&exit_of("other").session).unwrap(), None);
    }
}
