//! The state directory as recovery needs it: exit files, session directories, backups, yards.

use std::collections::BTreeSet;
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use jiff::Timestamp;
use sexton_core::config::Containment;
use sexton_core::recover::{MarkedFiles, Premises};
use sexton_core::store::{Backup, StoreInfo};
use sexton_core::{OsText, ProcessIdentity, ProcessProbe, Session, SessionId, Store, StoreError, Time};
use sexton_durable::replace_file;

use crate::backups::{backup_dir, rotate_backups};
use crate::exit_file::PendingExits;
use crate::plan::{Plan, WatchedCommand};
use crate::session_dir::SessionDir;
use crate::start::start_watcher;
use crate::wait::{Watched, wait_for_all, watch_process};

/// A state directory.
#[derive(Clone, Debug)]
pub struct StateDir {
    path: PathBuf,
    /// How many backups are kept.
    backups: usize,
    /// The yard, where one is configured.
    yard: Option<PathBuf>,
    /// How a session that lost its supervisor gets another.
    supervision: Option<Supervision>,
}

/// How sessions are supervised, for those that lost their supervisor.
#[derive(Clone, Debug)]
pub struct Supervision {
    /// The store that records them: an absolute URL.
    pub store_url: String,
    /// Whether commits survive a power cut.
    pub power_safe: bool,
    /// The probe to use, by name.
    pub probe: String,
    /// How long an orphan waits to be adopted.
    pub owner_grace: Duration,
    /// How long the members have when they are ended.
    pub stop_grace: Duration,
    /// How much of the log is kept.
    pub log_max_bytes: Option<u64>,
    /// What to run when a session has ended.
    pub notify: Option<OsText>,
}

impl Supervision {
    /// What a shim needs to know to watch `session`, whose command runs.
    fn plan(&self, state_dir: &Path, session: &Session) -> io::Result<Plan> {
        let process = session.process.clone();
        let process = process.ok_or_else(|| io::Error::other("no command was ever recorded"))?;
        let directory = SessionDir::of(state_dir, &session.id);
        directory.create()?;
        let log = session.log.clone();
        let left = session.deadline_at.map(|deadline| Time::from(Timestamp::now()).age_at(deadline));
        Ok(Plan {
            session: session.id.clone(),
            store_url: self.store_url.clone(),
            power_safe: self.power_safe,
            probe: self.probe.clone(),
            state_dir: state_dir.to_owned(),
            command: session.command.clone(),
            env: Vec::new(),
            cwd: session.cwd.clone().unwrap_or_else(|| "/".into()),
            stderr_path: log.as_ref().and_then(|log| log.stderr_path.clone()),
            log_path: log.map_or_else(|| directory.log_path().into(), |log| log.path),
            log_max_bytes: self.log_max_bytes,
            owner: session.owner.clone(),
            on_owner_death: session.on_owner_death,
            owner_grace: self.owner_grace,
            stop_grace: self.stop_grace,
            timeout: left,
            worktree: session.worktree.is_some(),
            watch: Some(WatchedCommand {
                process,
                cgroup: session.cgroup.clone(),
                lost: session.supervisor.clone(),
            }),
            notify: self.notify.clone(),
            containment: Containment::Tree,
            memory_max: None,
            pids_max: None,
        })
    }
}

impl StateDir {
    /// The one at `path`, which keeps `backups` backups. `yard` is where worktrees are made, where that is
    /// not inside it.
    pub fn new(path: impl Into<PathBuf>, backups: usize, yard: Option<PathBuf>) -> StateDir {
        StateDir { path: path.into(), backups, yard, supervision: None }
    }

    /// The same, where sessions that lost their supervisor can get another.
    #[must_use]
    pub fn supervising(mut self, supervision: Supervision) -> StateDir {
        self.supervision = Some(supervision);
        self
    }

    /// Where it keeps the backups of a store.
    pub fn backup_dir(&self, store: &StoreInfo) -> PathBuf {
        backup_dir(&self.path, store)
    }

    /// Where worktrees are made that nobody chose a place for: one yard for each repository.
    pub fn yards_dir(&self) -> PathBuf {
        self.path.join("worktrees")
    }

    /// Remembers that `store` may have forgotten sessions until `now`, because it is restored or repaired.
    /// Said before that begins: what was marked before is never a stray from then on.
    pub fn note_incomplete(store: &StoreInfo, now: Time) -> io::Result<()> {
        replace_file(&since_file(store), |file| writeln!(file, "{now}"))
    }
}

/// The file beside a store that says since when it is complete.
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

impl Premises for StateDir {
    fn waiting_exits(&self) -> io::Result<BTreeSet<SessionId>> {
        let exits = PendingExits::of(&self.path);
        // A damaged one says nothing, and nobody waits for it: `doctor` names it. One that could not be read this
        // time may say how its session ended.
        let says_something = |id: &SessionId| match exits.load(id) {
            Ok(found) => found.is_some(),
            Err(error) => error.kind() != io::ErrorKind::InvalidData,
        };
        Ok(exits.list()?.into_iter().filter(says_something).collect())
    }

    fn commit_exits(&self, store: &dyn Store) -> Result<Vec<SessionId>, StoreError> {
        PendingExits::of(&self.path).commit(store)
    }

    fn wait_for_supervisors(
        &self,
        probe: &dyn ProcessProbe,
        supervisors: &[ProcessIdentity],
        limit: Duration,
    ) -> io::Result<()> {
        let watches: Vec<_> = supervisors
            .iter()
            .filter_map(|supervisor| match watch_process(probe, supervisor) {
                Watched::Alive(watch) => Some(watch),
                Watched::Gone | Watched::Unknown(_) => None,
            })
            .collect();
        wait_for_all(&watches, Some(Instant::now() + limit)).map(|_| ())
    }

    fn supervise_again(&self, session: &Session) -> io::Result<()> {
        let supervision =
            self.supervision.as_ref().ok_or_else(|| io::Error::other("nobody said how to supervise"))?;
        start_watcher(&supervision.plan(&self.path, session)?)
    }

    fn back_up(&self, store: &dyn Store, now: Time) -> Result<Backup, StoreError> {
        let directory = self.backup_dir(&store.describe());
        let backup = pollster::block_on(store.backup(&directory, now))?;
        rotate_backups(&directory, &store.describe().path, self.backups).map_err(|source| {
            StoreError::Io { action: "cannot remove old backups from", path: directory, source }
        })?;
        Ok(backup)
    }

    fn discard(&self, session: &SessionId) -> io::Result<()> {
        SessionDir::of(&self.path, session).remove()
    }

    fn marked(&self) -> io::Result<Vec<MarkedFiles>> {
        let marked = SessionDir::list_marked(&self.path)?.into_iter().map(|dir| {
            let made_at = Timestamp::try_from(dir.made_at).map_err(io::Error::other)?.into();
            Ok(MarkedFiles { session: dir.session, store: dir.store, made_at })
        });
        marked.collect()
    }

    fn yards(&self) -> io::Result<Vec<PathBuf>> {
        let mut yards = read_dirs(&self.yards_dir())?;
        yards.extend(self.yard.clone());
        // Records name them so; one that is gone holds nothing.
        Ok(yards.into_iter().filter_map(|yard| yard.canonicalize().ok()).collect())
    }

    fn complete_since(&self, store: &StoreInfo) -> io::Result<Option<Time>> {
        match fs::read_to_string(since_file(store)) {
            Ok(text) => text.trim().parse().map(Some).map_err(io::Error::other),
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
    fn a_store_that_was_restored_is_complete_only_since_then() {
        let dir = tempfile::tempdir().unwrap();
        let capabilities = Capabilities::EVERYTHING;
        let store = StoreInfo { backend: "json", path: dir.path().join("s.jsonl"), uuid: None, capabilities };
        let state = StateDir::new(dir.path(), 10, None);
        assert_eq!(state.complete_since(&store).unwrap(), None);
        let now: Time = "2026-01-02T03:04:05Z".parse().unwrap();
        StateDir::note_incomplete(&store, now).unwrap();
        assert_eq!(state.complete_since(&store).unwrap(), Some(now));
        fs::write(dir.path().join("s.jsonl.since"), "yesterday").unwrap();
        assert!(state.complete_since(&store).is_err(), "a time that cannot be read is not `never`");
    }
}
