//! Ending sessions on request.

use std::time::Duration;

use rustix::process::Signal;
use sexton_core::{ProcessProbe, SessionId, Store};
use sexton_supervise::{StopPolicy, Stopped, stop_sessions};

use crate::error::HouseError;
use crate::house::House;
use crate::recovery::now;

/// How long to wait, after SIGKILL, for the kernel to let go of a process.
const KILL_WAIT: Duration = Duration::from_secs(5);

/// SIGINT at once, SIGTERM at half of `grace`, SIGKILL at its end.
pub fn stop_policy(grace: Duration) -> StopPolicy {
    StopPolicy { grace, first_signal: Signal::INT.as_raw(), kill_wait: KILL_WAIT }
}

impl House {
    /// Ends these sessions, with every process of theirs; returns when they are gone.
    pub async fn stop(
        &self,
        store: &dyn Store,
        probe: &dyn ProcessProbe,
        ids: &[SessionId],
        policy: &StopPolicy,
    ) -> Result<Vec<Stopped>, HouseError> {
        Ok(stop_sessions(store, probe, &self.pending_exits(), ids, policy, now).await?)
    }
}
