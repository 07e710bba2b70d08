//! What the starter sends the shim: everything it needs, so that the shim parses no argument and reads no
//! configuration.

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use sexton_core::config::Containment;
use sexton_core::session::{Cgroup, OnOwnerDeath};
use sexton_core::store::Durability;
use sexton_core::{OsText, ProcessIdentity, SessionId};

/// A command that already runs.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct WatchedCommand {
    /// Its process.
    pub process: ProcessIdentity,
    /// The control group that contains it.
    pub cgroup: Option<Cgroup>,
    /// The limit mark that it has.
    pub limit_mark: Option<u64>,
    /// The supervisor that it lost.
    pub lost: Option<ProcessIdentity>,
}

/// One session, as the shim needs it.
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
    /// Command line, program first.
    pub command: Vec<OsText>,
    /// Additional environment variables.
    pub env: Vec<(OsText, OsText)>,
    /// Working directory.
    pub cwd: OsText,
    /// The log of both streams, or of standard output if `stderr_path` is given.
    pub log_path: OsText,
    /// The log of standard error, if separate.
    pub stderr_path: Option<OsText>,
    /// How much of the log is kept; everything without a limit.
    pub log_max_bytes: Option<u64>,
    /// The process whose death ends the session.
    pub owner: Option<ProcessIdentity>,
    /// What happens when the owner dies.
    pub on_owner_death: OnOwnerDeath,
    /// How long an orphan waits to be adopted.
    pub owner_grace: Duration,
    /// How long the members have to exit when they are stopped.
    pub stop_grace: Duration,
    /// How long the command may run.
    pub timeout: Option<Duration>,
    /// Whether it has a worktree, which is removed with it if it contains nothing worth keeping.
    pub worktree: bool,
    /// The command, if it already runs and lost its supervisor: then nothing is executed.
    pub watch: Option<WatchedCommand>,
    /// Command to run after the session has ended.
    pub notify: Option<OsText>,
    /// How the processes are contained.
    pub containment: Containment,
    /// Maximum memory of the session, in bytes.
    pub memory_max: Option<u64>,
    /// Maximum number of processes of the session.
    pub pids_max: Option<u64>,
}

impl Plan {
    /// Returns the environment variables that tell a program of the session where its record is.
    pub(crate) fn store_variables(&self) -> [(OsString, OsString); 2] {
        let state_dir = self.state_dir.clone().into_os_string();
        [("SEXTON_STORE".into(), self.store_url.clone().into()), ("SEXTON_STATE_DIR".into(), state_dir)]
    }

    /// Returns what a commit must survive.
    pub fn durability(&self) -> Durability {
        if self.power_safe { Durability::Power } else { Durability::Process }
    }
}
