//! Adopts sessions whose owner died.

use super::act::Run;
use super::case::Case;
use super::context::RecoverError;
use super::plan::{Step, StepKind};
use super::supervise::supervise_again;
use crate::ending::find_ending;
use crate::store::update_session;
use crate::{Liveness, ProcessIdentity, Session};

/// The signal on which a supervisor reads its record again.
#[cfg(any(target_os = "linux", target_os = "android"))]
const SIGUSR1: i32 = 10;
#[cfg(not(any(target_os = "linux", target_os = "android")))]
const SIGUSR1: i32 = 30;

/// Sets the new owner of every session that is to be adopted, and notifies its supervisor. If the supervisor is
/// gone, a new one is started.
pub(super) async fn adopt(run: &mut Run<'_>, cases: &mut [Case]) -> Result<(), RecoverError> {
    for case in cases.iter_mut().filter(|case| case.is_due(StepKind::Adopt)) {
        let Some(Step::Adopt(owner)) = case.next_step() else { continue };
        let owner = owner.as_deref().cloned();
        adopt_one(run, case, owner).await?;
    }
    Ok(())
}

async fn adopt_one(
    run: &Run<'_>,
    case: &mut Case,
    owner: Option<ProcessIdentity>,
) -> Result<(), RecoverError> {
    let orphaned_by = case.session.owner.clone();
    let (mut adopted, now) = (false, run.now());
    // Only one can win: the process that ends the session, or the one that adopts it.
    let session = update_session(run.context.store, &case.session.id, |session| {
        let is_ended = find_ending(session, now).is_some();
        adopted = session.status.is_active() && !is_ended && session.owner == orphaned_by;
        if adopted {
            session.owner.clone_from(&owner);
        }
        adopted
    });
    match session.await? {
        Some(session) if adopted => {
            case.session = session;
            if let Err(why) = notify_supervisor(run, &case.session).await {
                case.failure = Some(why);
            }
        }
        _ => case.overtaken = true,
    }
    Ok(())
}

async fn notify_supervisor(run: &Run<'_>, session: &Session) -> Result<(), String> {
    if let Some(supervisor) = &session.supervisor {
        match run.context.probe.signal(supervisor, SIGUSR1).await {
            Ok(Liveness::Alive) => return Ok(()),
            Ok(Liveness::Gone | Liveness::Reused) => {}
            Ok(Liveness::Unknown(why)) => return Err(format!("cannot notify its supervisor: {why}")),
            Err(error) => return Err(format!("cannot notify its supervisor: {error}")),
        }
    }
    supervise_again(run, session).map(|_| ())
}
