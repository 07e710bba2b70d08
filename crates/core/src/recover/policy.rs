//! What recovery may do, in one place for every caller: `recover`, `prune`, a loop, the library.

use std::time::Duration;

use crate::ProcessIdentity;
use crate::config::Config;

/// How long to wait, after SIGKILL, for the kernel to let go of a process.
const KILL_WAIT: Duration = Duration::from_secs(5);

/// What recovery may do.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// How old a session must be before it is judged.
    pub min_age: Duration,
    /// How long processes have to end before they are killed.
    pub stop_grace: Duration,
    /// How long to wait for them after that.
    pub kill_wait: Duration,
    /// After how long a dead session is called abandoned.
    pub stale: Duration,
    /// How old something without a record must be before it is a stray.
    pub stray_age: Duration,
    /// What is kept of finished sessions.
    pub retention: Retention,
    /// Whether sessions whose owner died are taken over instead of ended.
    pub adopt: Option<Adoption>,
    /// Whether the store is backed up before the first change.
    pub backup: bool,
    /// Whether everything is only looked at and said.
    pub dry_run: bool,
}

/// What is kept of finished sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// For how long after their end.
    pub ttl: Duration,
    /// How many at most.
    pub keep: usize,
    /// For how long rescues are kept; `None` for ever.
    pub rescue_ttl: Option<Duration>,
}

/// Who takes over.
#[derive(Clone, Debug, PartialEq)]
pub struct Adoption {
    /// The new owner; `None` for nobody: the session lives on by itself.
    pub owner: Option<ProcessIdentity>,
}

impl Policy {
    /// What the configuration says.
    pub fn from_config(config: &Config) -> Policy {
        Policy {
            min_age: config.recover_min_age.value,
            stop_grace: config.stop_grace.value,
            kill_wait: KILL_WAIT,
            stale: config.recover_stale.value,
            stray_age: config.recover_stray_age.value,
            retention: Retention::from_config(config),
            adopt: None,
            backup: true,
            dry_run: false,
        }
    }
}

impl Retention {
    /// What the configuration says.
    pub fn from_config(config: &Config) -> Retention {
        Retention {
            ttl: config.retention_ttl.value,
            keep: config.retention_keep.value,
            rescue_ttl: config.rescue_ttl.value.0,
        }
    }
}
