//! Forgetting: its user's word that a session which nobody can judge is gone.

use super::case::Case;
use super::ground::{Ground, RecoverError};
use super::observe::sight;
use super::plan::{Cause, Decision, Step, Verdict};
use super::report::SessionReport;
use super::{record, yard};
use crate::{Batch, Liveness, SessionId, Status, StoreError};

/// What came of a session that was to be forgotten.
#[derive(Clone, Debug, PartialEq)]
pub enum Forgotten {
    /// It is settled now.
    Done(SessionReport),
    /// It was finished already.
    AlreadyFinished(Status),
    /// It runs: that is no matter of anybody's word.
    Running,
    /// There is no such session.
    NoSuchSession,
}

/// How often a lost race is run again.
const ATTEMPTS: usize = 100;

/// Settles a session on its user's word: no signal is sent to anyone; its worktree is saved, and removed
/// where nobody is in it.
pub async fn forget(ground: &Ground<'_>, id: &SessionId) -> Result<Forgotten, RecoverError> {
    for _ in 0..ATTEMPTS {
        let Some(session) = ground.store.load(id).await? else { return Ok(Forgotten::NoSuchSession) };
        if session.is_settled() {
            return Ok(Forgotten::AlreadyFinished(session.status));
        }
        let sighting = sight(ground, session.clone()).await?;
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
            evidence: "its user said that it is gone".to_owned(),
            steps,
        });
        let now = (ground.clock)();
        if case.session.worktree.is_some() {
            let store = ground.store.describe().uuid;
            let cleaned = yard::clean_one(ground, store.as_deref(), &case.session, now).await;
            case.worktree = cleaned.outcome;
            case.rescue_ref = cleaned.rescue_ref.or(case.rescue_ref);
            case.kept = cleaned.kept;
            case.failure = cleaned.failure;
        }
        let settled = record::settled(&case, now);
        match ground.store.commit(Batch::new().replace(settled.clone())).await {
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
