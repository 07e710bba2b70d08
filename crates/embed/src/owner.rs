//! Whose death ends a new session.

use sexton_core::probe::COOKIE;
use sexton_core::store::Access;
use sexton_core::{Liveness, ProbeError, ProcessIdentity, ProcessProbe, SessionId};

use crate::error::HouseError;
use crate::house::House;

/// The process with this pid, as an owner. One that is gone owns nothing, and asking for it is a mistake.
pub async fn require_owner(probe: &dyn ProcessProbe, pid: u32) -> Result<ProcessIdentity, HouseError> {
    probe.identify(pid).await.map_err(|error| match error {
        ProbeError::Gone { .. } => {
            HouseError::BadRequest(format!("process {pid} cannot be the owner: it is gone"))
        }
        other => HouseError::from(other),
    })
}

/// The session that this program was started in.
#[derive(Clone, Debug, PartialEq)]
pub enum Enclosing {
    /// None.
    Nothing,
    /// One that runs, by its command.
    Running(ProcessIdentity),
    /// One that does not run in this store; the cookie was inherited from somewhere.
    NotRunning(SessionId),
}

impl Enclosing {
    /// The command of the session, where it runs.
    pub fn into_owner(self) -> Option<ProcessIdentity> {
        match self {
            Enclosing::Running(process) => Some(process),
            Enclosing::Nothing | Enclosing::NotRunning(_) => None,
        }
    }
}

impl House {
    /// The session that this program was started in. The cookie counts only while that session's command
    /// is alive in this store: it is inherited by anything, such as a terminal that outlives it.
    pub async fn find_enclosing(&self, probe: &dyn ProcessProbe) -> Result<Enclosing, HouseError> {
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
