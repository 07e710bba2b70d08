//! Whose death ends a new session.

use sexton_core::probe::COOKIE;
use sexton_core::store::Access;
use sexton_core::{Liveness, ProbeError, ProcessIdentity, ProcessProbe, SessionId};

use crate::context::Context;
use crate::failure::Failure;

/// The process with this pid, as an owner. One that is gone owns nothing, and asking for it is a mistake.
pub async fn require_owner(probe: &dyn ProcessProbe, pid: u32) -> Result<ProcessIdentity, Failure> {
    probe.identify(pid).await.map_err(|error| match error {
        ProbeError::Gone { .. } => Failure::usage(format!("process {pid} cannot be the owner: it is gone")),
        other => Failure::from(other),
    })
}

/// The command of the session that this program was started in, if any. The cookie counts only while that
/// command is alive in this store: it is inherited by anything, such as a terminal that outlives it.
pub async fn find_enclosing_owner(
    probe: &dyn ProcessProbe,
    context: &Context<'_>,
) -> Result<Option<ProcessIdentity>, Failure> {
    let Some(id) = std::env::var(COOKIE).ok().and_then(|cookie| cookie.parse::<SessionId>().ok()) else {
        return Ok(None);
    };
    let store = context.open_store_as_it_is(Access::Read)?;
    let session = store.load(&id).await?.filter(|session| session.status.is_active());
    let process = session.and_then(|session| session.process);
    if let Some(process) = process
        && probe.observe(&process).await == Liveness::Alive
    {
        return Ok(Some(process));
    }
    context.screen.warn(&format!(
        "{COOKIE} names session {id}, which does not run in this store; the new session has no owner"
    ));
    Ok(None)
}
