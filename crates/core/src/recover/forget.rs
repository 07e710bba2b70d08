//! `forget`: the user marks a session whose state is unknown as gone.

use super::case::Case;
use super::context::{RecoverError, RecoveryContext};
use super::observe::sight;
use super::plan::{Cause, Decision, Step, Verdict};
use super::report::SessionReport;
use super::{record, worktrees};
use crate::probe::Group;
use crate::{Batch, Liveness, Others, Session, SessionId, Status, StoreError};

/// The result of `forget`.
#[derive(Clone, Debug, PartialEq)]
pub enum Forgotten {
    /// It is finished now.
    Done(SessionReport),
    /// It was finished already.
    AlreadyFinished(Status),
    /// It runs, and is therefore not changed.
    Running,
    /// There is no such session.
    NoSuchSession,
}

/// How many times a conflict is retried.
const ATTEMPTS: usize = 100;

/// Marks a session as gone. Sends no signal; saves its worktree, and removes it if no process is in it.
pub async fn forget(context: &RecoveryContext<'_>, id: &SessionId) -> Result<Forgotten, RecoverError> {
    for _ in 0..ATTEMPTS {
        let Some(session) = context.store.load(id).await? else { return Ok(Forgotten::NoSuchSession) };
        if session.is_settled() {
            return Ok(Forgotten::AlreadyFinished(session.status));
        }
        let sighting = sight(context, session.clone()).await?;
        let alive = [&sighting.process, &sighting.supervisor]
            .into_iter()
            .any(|liveness| *liveness == Some(Liveness::Alive));
        // If it cannot be judged here, the user decides.
        let is_unclear = [&sighting.process, &sighting.supervisor]
            .into_iter()
            .any(|liveness| matches!(liveness, Some(Liveness::Unknown(_))));
        if alive || !is_unclear && has_members(context, &session).await? {
            return Ok(Forgotten::Running);
        }
        let mut case = Case::new(Decision {
            session,
            verdict: Verdict::Orphan,
            cause: Some(Cause::Forgotten),
            evidence: "the user marked it as gone".to_owned(),
            steps: vec![Step::Record(Status::Orphaned)],
        });
        let now = (context.clock)();
        if case.session.worktree.is_some() {
            let store = context.store.describe().uuid;
            let cleaned = worktrees::clean_one(context, store.as_deref(), &case.session, now).await;
            case.worktree = cleaned.outcome;
            case.rescue_ref = cleaned.rescue_ref.or(case.rescue_ref);
            case.kept = cleaned.kept;
            case.failure = cleaned.failure;
        }
        let settled = record::settled(&case, now);
        match context.store.commit(Batch::new().replace(settled.clone())).await {
            Ok(_) => {
                case.session = settled;
                return Ok(Forgotten::Done(case.report()));
            }
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(Forgotten::Running)
}

/// Returns whether a process of a session of this host is known to live, although its command and supervisor are
/// gone. No later command would stop it.
async fn has_members(context: &RecoveryContext<'_>, session: &Session) -> Result<bool, RecoverError> {
    if session.is_elsewhere(&context.here().await?) {
        return Ok(false);
    }
    let others = Others::load(context.store).await.unwrap_or(Others::Unknown);
    // What cannot be searched is what this command is for.
    let members = context.probe.members(&Group::of(session), &others).await;
    Ok(members.is_ok_and(|members| !members.processes.is_empty()))
}
