//! `forget`: the user marks a session whose state is unknown as gone.

use super::case::Case;
use super::context::{RecoverError, RecoveryContext};
use super::observe::sight;
use super::plan::{Cause, Decision, Step, Verdict};
use super::report::SessionReport;
use super::{record, worktrees};
use crate::{Batch, Liveness, SessionId, Status, StoreError};

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
        if alive {
            return Ok(Forgotten::Running);
        }
        let mut steps = Vec::new();
        if session.worktree.is_some() {
            steps.extend([Step::Rescue, Step::Remove]);
        }
        steps.push(Step::Record(Status::Orphaned));
        let mut case = Case::new(Decision {
            session,
            verdict: Verdict::Orphan,
            cause: Some(Cause::Forgotten),
            evidence: "the user marked it as gone".to_owned(),
            steps,
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
