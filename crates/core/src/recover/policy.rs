//! The policy of a recovery, in one place for every caller: `recover`, `prune`, a loop, the library.

use std::time::Duration;

use crate::ProcessIdentity;
use crate::config::Config;

/// How long to wait after SIGKILL for the kernel to end a process.
const KILL_WAIT: Duration = Duration::from_secs(5);

/// What recovery may do.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// How old a session must be before it is judged.
    pub min_age: Duration,
    /// The grace period before processes are killed.
    pub stop_grace: Duration,
    /// How long to wait for them after SIGKILL.
    pub kill_wait: Duration,
    /// The age at which a dead session counts as abandoned.
    pub stale: Duration,
    /// The age at which something without a record counts as a stray.
    pub stray_age: Duration,
    /// What is kept of finished sessions.
    pub retention: Retention,
    /// Whether sessions whose owner died are adopted instead of ended.
    pub adopt: Option<Adoption>,
    /// Whether the store is backed up before the first change.
    pub backup: bool,
    /// Whether to report only, and change nothing.
    pub dry_run: bool,
}

/// What is kept of finished sessions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Retention {
    /// How long after their end.
    pub ttl: Duration,
    /// How many at most.
    pub keep: usize,
    /// How long rescues are kept; `None` for permanently.
    pub rescue_ttl: Option<Duration>,
}

/// The new owner of adopted sessions.
#[derive(Clone, Debug, PartialEq)]
pub struct Adoption {
    /// The new owner; `None` if the session continues without one.
    pub owner: Option<ProcessIdentity>,
}

impl Policy {
    /// Creates the policy that the configuration sets.
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
    /// Creates the retention that the configuration sets.
    pub fn from_config(config: &Config) -> Retention {
        Retention {
            ttl: config.retention_ttl.value,
            keep: config.retention_keep.value,
            rescue_ttl: config.rescue_ttl.value.0,
        }
    }
}
