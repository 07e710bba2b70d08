//! The owner of a new session: the process whose death ends it.

use sexton_core::probe::COOKIE;
use sexton_core::store::Access;
use sexton_core::{Liveness, ProbeError, ProcessIdentity, ProcessProbe, SessionId};

use crate::error::ServiceError;
use crate::service::Service;

/// Returns the identity of the process with this pid, as an owner. A pid without a process is a user error.
pub async fn require_owner(probe: &dyn ProcessProbe, pid: u32) -> Result<ProcessIdentity, ServiceError> {
    probe.identify(pid).await.map_err(|error| match error {
        ProbeError::Gone { .. } => {
            ServiceError::BadRequest(format!("process {pid} cannot be the owner: it is gone"))
        }
        other => ServiceError::from(other),
    })
}

/// The session that this program was started in.
#[derive(Clone, Debug, PartialEq)]
pub enum Enclosing {
    /// None.
    Nothing,
    /// A running session, by its command.
    Running(ProcessIdentity),
    /// A session that does not run in this store; the cookie was inherited.
    NotRunning(SessionId),
}

impl Enclosing {
    /// Returns the command of the session, if it runs.
    pub fn into_owner(self) -> Option<ProcessIdentity> {
        match self {
            Enclosing::Running(process) => Some(process),
            Enclosing::Nothing | Enclosing::NotRunning(_) => None,
        }
    }
}

impl Service {
    /// Returns the session that this program was started in. The cookie counts only while that session's
    /// command is alive in this store: any descendant inherits it, such as a terminal that outlives the
    /// session.
    pub async fn find_enclosing(&self, probe: &dyn ProcessProbe) -> Result<Enclosing, ServiceError> {
        let Some(id) = std::env::var(COOKIE).ok().and_then(|cookie| cookie.parse::<SessionId>().ok()) else {
            return Ok(Enclosing::Nothing);
        };
        let store = self.open_store_as_it_is(Access::Read)?;
        let session = store.load(&id).await?.filter(|session| session.status.is_active());
        match session.and_then(|session| session.process) {
            Some(process) if probe.observe(&process).await == Liveness::Alive => {
                Ok(Enclosing::Running(process))
            }
            _ => Ok(Enclosing::NotRunning(id)),
        }
    }
}
