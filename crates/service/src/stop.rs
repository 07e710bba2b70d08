//! Stops sessions on request.

use std::time::Duration;

use rustix::process::Signal;
use sexton_core::{ProcessProbe, SessionId, Store};
use sexton_supervise::{StopPolicy, Stopped, stop_sessions};

use crate::error::ServiceError;
use crate::recovery::now;
use crate::service::Service;

/// How long to wait, after SIGKILL, until the kernel has removed a process.
const KILL_WAIT: Duration = Duration::from_secs(5);

/// Returns the policy: SIGINT at once, SIGTERM after half of `grace`, SIGKILL at its end.
pub fn stop_policy(grace: Duration) -> StopPolicy {
    StopPolicy { grace, first_signal: Signal::INT.as_raw(), kill_wait: KILL_WAIT }
}

impl Service {
    /// Stops these sessions with all their processes; returns when they are gone.
    pub async fn stop(
        &self,
        store: &dyn Store,
        probe: &dyn ProcessProbe,
        ids: &[SessionId],
        policy: &StopPolicy,
    ) -> Result<Vec<Stopped>, ServiceError> {
        Ok(stop_sessions(store, probe, &self.pending_exits(), ids, policy, now).await?)
    }
}
