//! The state directory as recovery needs it: exit files, session directories, backups, worktree roots.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sexton_core::recover::{MarkedFiles, Problem, StateFiles, UnreadableExit};
use sexton_core::store::{Backup, StoreInfo};
use sexton_core::{ProcessIdentity, ProcessProbe, Session, SessionId, Store, StoreError, Time};
use sexton_durable::{SMALL_FILE, read_regular, replace_file};

use crate::backups::{backup_dir, rotate_backups};
use crate::exit_file::PendingExits;
use crate::problems::{load_problems, save_problems};
use crate::session_dir::SessionDir;
use crate::start::start_watcher;
use crate::supervision::Supervision;
use crate::wait::wait_for_ends;

/// A state directory.
#[derive(Clone, Debug)]
pub struct StateDir {
    path: PathBuf,
    /// How many backups are kept.
    backups: usize,
    /// The worktree root, if one is configured.
    worktree_root: Option<PathBuf>,
    /// How a session that lost its supervisor gets a new one.
    supervision: Option<Supervision>,
}

impl StateDir {
    /// Creates a handle for the directory at `path`, which keeps `backups` backups. `worktree_root` is the
    /// configured worktree root, if it is not inside the directory.
    pub fn new(path: impl Into<PathBuf>, backups: usize, worktree_root: Option<PathBuf>) -> StateDir {
        StateDir { path: path.into(), backups, worktree_root, supervision: None }
    }

    /// Sets how sessions that lost their supervisor get a new one.
    #[must_use]
    pub fn supervising(mut self, supervision: Supervision) -> StateDir {
        self.supervision = Some(supervision);
        self
    }

    /// Returns where it keeps the backups of a store.
    pub fn backup_dir(&self, store: &StoreInfo) -> PathBuf {
        backup_dir(&self.path, store)
    }

    /// Returns the directory of the default worktree roots, one for each repository.
    pub fn worktree_roots_dir(&self) -> PathBuf {
        self.path.join("worktrees")
    }

    /// Remembers that `store` may lack sessions from before `now`, because it is restored or repaired. Call
    /// it before that begins: directories that were marked earlier are then never treated as strays.
    pub fn note_incomplete(store: &StoreInfo, now: Time) -> io::Result<()> {
        replace_file(&since_file(store), |file| writeln!(file, "{now}"))
    }
}

/// Returns the file beside a store that says since when it is complete.
fn since_file(store: &StoreInfo) -> PathBuf {
    let mut name = store.path.clone().into_os_string();
    name.push(".since");
    PathBuf::from(name)
}

fn read_dirs(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        other => other?,
    };
    let mut found = Vec::new();
    for entry in entries {
        let entry = entry?;
        if entry.file_type()?.is_dir() {
            found.push(entry.path());
        }
    }
    Ok(found)
}

impl StateFiles for StateDir {
    fn waiting_exits(&self) -> io::Result<BTreeSet<SessionId>> {
        let exits = PendingExits::of(&self.path);
        let is_readable = |id: &SessionId| matches!(exits.load(id), Ok(Some(_)));
        Ok(exits.list()?.into_iter().filter(is_readable).collect())
    }

    fn unreadable_exits(&self) -> io::Result<Vec<UnreadableExit>> {
        PendingExits::of(&self.path).list_unreadable()
    }

    fn commit_exits(
        &self,
        store: &dyn Store,
        probe: &dyn ProcessProbe,
    ) -> Result<Vec<SessionId>, StoreError> {
        PendingExits::of(&self.path).commit(store, probe)
    }

    fn wait_for_supervisors(
        &self,
        probe: &dyn ProcessProbe,
        supervisors: &[ProcessIdentity],
        limit: Duration,
    ) -> io::Result<()> {
        wait_for_ends(probe, supervisors.iter(), Instant::now() + limit)
    }

    fn supervise_again(&self, session: &Session) -> io::Result<bool> {
        let configured = self
            .supervision
            .as_ref()
            .ok_or_else(|| io::Error::other("no supervision settings are configured"))?;
        start_watcher(&configured.plan_again(&self.path, session)?)
    }

    fn back_up(&self, store: &dyn Store, now: Time) -> Result<Backup, StoreError> {
        let directory = self.backup_dir(&store.describe());
        let backup = pollster::block_on(store.backup(&directory, now))?;
        rotate_backups(&directory, &store.describe().path, self.backups).map_err(|source| {
            StoreError::Io { action: "cannot remove old backups from", path: directory, source }
        })?;
        Ok(backup)
    }

    fn discard(&self, store: &StoreInfo, session: &SessionId) -> io::Result<()> {
        if !store.capabilities.starts {
            return Ok(());
        }
        let directory = SessionDir::of(&self.path, session);
        directory.remove().map_err(|error| {
            io::Error::new(error.kind(), format!("cannot delete {}: {error}", directory.path().display()))
        })
    }

    fn marked(&self) -> io::Result<Vec<MarkedFiles>> {
        let marked = SessionDir::list_marked(&self.path)?.into_iter().map(|dir| {
            let made_at = Timestamp::try_from(dir.made_at).map_err(io::Error::other)?.into();
            Ok(MarkedFiles { session: dir.session, store: dir.store, made_at, made_on: dir.made_on })
        });
        marked.collect()
    }

    fn worktree_roots(&self) -> io::Result<Vec<PathBuf>> {
        let mut worktree_roots = read_dirs(&self.worktree_roots_dir())?;
        worktree_roots.extend(self.worktree_root.clone());
        // Records contain canonical paths; a missing root contains nothing.
        Ok(worktree_roots.into_iter().filter_map(|worktree_root| worktree_root.canonicalize().ok()).collect())
    }

    fn known_problems(&self, store: &StoreInfo) -> io::Result<Vec<Problem>> {
        load_problems(&self.path, store)
    }

    fn remember_problems(&self, store: &StoreInfo, problems: &[Problem]) -> io::Result<()> {
        save_problems(&self.path, store, problems)
    }

    fn complete_since(&self, store: &StoreInfo) -> io::Result<Option<Time>> {
        match read_regular(&since_file(store), SMALL_FILE) {
            Ok(text) => String::from_utf8_lossy(&text).trim().parse().map(Some).map_err(io::Error::other),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use sexton_core::store::Capabilities;

    use super::*;

    #[test]
    fn restored_store_is_complete_only_since_the_restore() {
        let dir = tempfile::tempdir().unwrap();
        let capabilities = Capabilities::EVERYTHING;
        let store = StoreInfo { backend: "json", path: dir.path().join("s.jsonl"), uuid: None, capabilities };
        let state = StateDir::new(dir.path(), 10, None);
        assert_eq!(state.complete_since(&store).unwrap(), None);
        let now: Time = "2026-01-02T03:04:05Z".parse().unwrap();
        StateDir::note_incomplete(&store, now).unwrap();
        assert_eq!(state.complete_since(&store).unwrap(), Some(now));
        fs::write(dir.path().join("s.jsonl.since"), "yesterday").unwrap();
        assert!(state.complete_since(&store).is_err(), "an unreadable time must be an error");
    }
}
