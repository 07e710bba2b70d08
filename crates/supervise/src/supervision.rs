//! How a session is supervised, stored beside its log, so that a killed supervisor can be replaced by an
//! equivalent one.
//!
//! The record contains the command, its owner and its deadline. The rest is written to `supervision.json` in
//! the session's directory before the command is executed. It is not synced: a power cut ends the command
//! too.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::Path;
use std::time::Duration;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};
use sexton_core::config::Containment;
use sexton_core::{OsText, Session, Time};

use crate::plan::{Plan, WatchedCommand};
use crate::session_dir::SessionDir;

/// How a session is supervised, in addition to its record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Supervision {
    /// The store that contains its record: an absolute URL.
    pub store_url: String,
    /// Whether commits survive a power cut.
    pub power_safe: bool,
    /// The probe to use, by name.
    pub probe: String,
    /// How long an orphan waits to be adopted.
    pub owner_grace: Duration,
    /// How long the members have to exit when they are stopped.
    pub stop_grace: Duration,
    /// How much of the log is kept.
    pub log_max_bytes: Option<u64>,
    /// Command to run after a session has ended.
    pub notify: Option<OsText>,
}

/// Maximum size of the file: no command line is longer.
const MAX_SIZE: u64 = 4 * 1024 * 1024;

impl Supervision {
    /// Returns the settings of `plan`.
    pub(crate) fn of(plan: &Plan) -> Supervision {
        Supervision {
            store_url: plan.store_url.clone(),
            power_safe: plan.power_safe,
            probe: plan.probe.clone(),
            owner_grace: plan.owner_grace,
            stop_grace: plan.stop_grace,
            log_max_bytes: plan.log_max_bytes,
            notify: plan.notify.clone(),
        }
    }

    /// Writes it into the session's directory.
    pub(crate) fn keep(&self, directory: &SessionDir) -> io::Result<()> {
        let mut options = OpenOptions::new();
        let mut file =
            options.write(true).create(true).truncate(true).mode(0o600).open(path_in(directory))?;
        file.write_all(&serde_json::to_vec(self)?)
    }

    /// Returns the stored settings of a session; `None` if its supervisor was of a release that stored none,
    /// or if a supervisor did not write the file.
    fn find_kept(directory: &SessionDir) -> Option<Supervision> {
        let mut options = OpenOptions::new();
        let flags = libc::O_NOFOLLOW | libc::O_NONBLOCK;
        let file: File = options.read(true).custom_flags(flags).open(path_in(directory)).ok()?;
        let metadata = file.metadata().ok()?;
        let me = rustix::process::geteuid().as_raw();
        if !metadata.is_file() || metadata.uid() != me || metadata.len() > MAX_SIZE {
            return None;
        }
        let mut bytes = Vec::new();
        file.take(MAX_SIZE).read_to_end(&mut bytes).ok()?;
        serde_json::from_slice(&bytes).ok()
    }

    /// Returns the plan of a new supervisor for `session`, whose command runs: with the settings of the lost
    /// supervisor, or the configured ones if it stored none. The store is the one that contains this record.
    pub(crate) fn plan_again(&self, state_dir: &Path, session: &Session) -> io::Result<Plan> {
        let process = session.process.clone();
        let process = process.ok_or_else(|| io::Error::other("no command is recorded"))?;
        let directory = SessionDir::of(state_dir, &session.id);
        directory.create()?;
        let supervised = Supervision::find_kept(&directory).unwrap_or_else(|| Supervision {
            // The identities in the record are comparable only with those of the same probe.
            probe: session.probe.clone().unwrap_or_else(|| self.probe.clone()),
            ..self.clone()
        });
        let log = session.log.clone();
        let left = session.deadline_at.map(|deadline| Time::from(Timestamp::now()).age_at(deadline));
        Ok(Plan {
            session: session.id.clone(),
            store_url: self.store_url.clone(),
            power_safe: supervised.power_safe,
            probe: supervised.probe,
            state_dir: state_dir.to_owned(),
            command: session.command.clone(),
            env: Vec::new(),
            cwd: session.cwd.clone().unwrap_or_else(|| "/".into()),
            stderr_path: log.as_ref().and_then(|log| log.stderr_path.clone()),
            log_path: log.map_or_else(|| directory.log_path().into(), |log| log.path),
            log_max_bytes: supervised.log_max_bytes,
            owner: session.owner.clone(),
            on_owner_death: session.on_owner_death,
            owner_grace: supervised.owner_grace,
            stop_grace: supervised.stop_grace,
            timeout: left,
            worktree: session.worktree.is_some(),
            watch: Some(WatchedCommand {
                process,
                cgroup: session.cgroup.clone(),
                limit_mark: session.limit_mark,
                lost: session.supervisor.clone(),
            }),
            notify: supervised.notify,
            containment: Containment::Tree,
            memory_max: None,
            pids_max: None,
        })
    }
}

fn path_in(directory: &SessionDir) -> std::path::PathBuf {
    directory.path().join("supervision.json")
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use sexton_core::{Host, ProcessIdentity, SessionId};

    use super::*;

    fn configured() -> Supervision {
        Supervision {
            store_url: "json:/here/sessions.jsonl".to_owned(),
            power_safe: true,
            probe: "auto".to_owned(),
            owner_grace: Duration::from_secs(5),
            stop_grace: Duration::from_secs(6),
            log_max_bytes: Some(7),
            notify: None,
        }
    }

    fn session() -> Session {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        let mut session = Session::new(SessionId::random(), Host::new("m", "h"), now);
        session.process = Some(ProcessIdentity::of_pid(100));
        session.probe = Some("linux".to_owned());
        session
    }

    #[test]
    fn new_supervisor_keeps_the_settings_and_uses_the_current_store() {
        let (dir, session) = (tempfile::tempdir().unwrap(), session());
        let files = SessionDir::of(dir.path(), &session.id);
        files.create().unwrap();
        let kept = Supervision {
            store_url: "json:/before/it/was/moved.jsonl".to_owned(),
            probe: "portable".to_owned(),
            stop_grace: Duration::from_millis(1),
            log_max_bytes: None,
            notify: Some("say so".into()),
            ..configured()
        };
        kept.keep(&files).unwrap();
        assert_eq!(path_in(&files).metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let plan = configured().plan_again(dir.path(), &session).unwrap();
        assert_eq!(Supervision::of(&plan), Supervision { store_url: configured().store_url, ..kept });
    }

    #[test]
    fn without_stored_settings_the_configuration_applies() {
        let (dir, session) = (tempfile::tempdir().unwrap(), session());
        let files = SessionDir::of(dir.path(), &session.id);
        let expected = Supervision { probe: "linux".to_owned(), ..configured() };
        let require = |what: &str| {
            let plan = configured().plan_again(dir.path(), &session).unwrap();
            assert_eq!(Supervision::of(&plan), expected, "{what}");
        };
        require("an older release");
        std::fs::write(path_in(&files), "{\"probe\":").unwrap();
        require("truncated");
        std::fs::remove_file(path_in(&files)).unwrap();
        std::os::unix::fs::symlink("/dev/zero", path_in(&files)).unwrap();
        require("a link");
    }
}
