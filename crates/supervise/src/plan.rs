//! What the starter tells the shim: everything it needs, so that the shim parses no argument and reads no
//! configuration.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sexton_core::config::Containment;
use sexton_core::session::{Cgroup, OnOwnerDeath};
use sexton_core::store::Durability;
use sexton_core::{OsText, ProcessIdentity, SessionId};

/// A command that runs already.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WatchedCommand {
    /// Its process.
    pub process: ProcessIdentity,
    /// The control group that holds it.
    pub cgroup: Option<Cgroup>,
    /// The supervisor that it lost.
    pub lost: Option<ProcessIdentity>,
}

/// One session, as the shim needs to know it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The session.
    pub session: SessionId,
    /// The store that records it: an absolute URL.
    pub store_url: String,
    /// Whether commits survive a power cut.
    pub power_safe: bool,
    /// The probe to use, by name.
    pub probe: String,
    /// The state directory.
    pub state_dir: PathBuf,
    /// What to execute, program first.
    pub command: Vec<OsText>,
    /// What to add to the environment.
    pub env: Vec<(OsText, OsText)>,
    /// Where to execute it.
    pub cwd: OsText,
    /// The log; both streams unless `stderr_path` is given.
    pub log_path: OsText,
    /// Standard error, where it has its own file.
    pub stderr_path: Option<OsText>,
    /// How much of the log is kept; everything without a limit.
    pub log_max_bytes: Option<u64>,
    /// Whose death ends the session.
    pub owner: Option<ProcessIdentity>,
    /// What happens then.
    pub on_owner_death: OnOwnerDeath,
    /// How long an orphan waits to be adopted.
    pub owner_grace: Duration,
    /// How long the members have when they are ended.
    pub stop_grace: Duration,
    /// How long the command may run.
    pub timeout: Option<Duration>,
    /// Whether it has a worktree, which goes with it where nothing in it is worth keeping.
    pub worktree: bool,
    /// The command, where it runs already and lost its supervisor: then nothing is executed.
    pub watch: Option<WatchedCommand>,
    /// What to run when the session has ended.
    pub notify: Option<OsText>,
    /// How the processes are held together.
    pub containment: Containment,
    /// The most memory that the session may use, in bytes.
    pub memory_max: Option<u64>,
    /// The most processes that the session may have.
    pub pids_max: Option<u64>,
}

impl Plan {
    /// What tells a program of the session where the session is recorded.
    pub(crate) fn whereabouts(&self) -> [(OsString, OsString); 2] {
        let state_dir = self.state_dir.clone().into_os_string();
        [("SEXTON_STORE".into(), self.store_url.clone().into()), ("SEXTON_STATE_DIR".into(), state_dir)]
    }

    /// What a commit must survive.
    pub fn durability(&self) -> Durability {
        if self.power_safe { Durability::Power } else { Durability::Process }
    }
}
