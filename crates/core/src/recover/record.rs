//! Commits the outcome of orphans: many records in few batches.

use super::act::Run;
use super::case::Case;
use super::context::RecoverError;
use super::plan::{Cause, StepKind, Verdict};
use crate::session::{Exit, ExitReason, Recovery, WorktreeOutcome};
use crate::{Batch, Session, Status, StoreError, Time};

/// How many records one batch changes at most.
const BATCH: usize = 1000;

/// Commits the outcome of every case whose other steps were executed or skipped.
pub(super) async fn commit(run: &mut Run<'_>, cases: &mut [Case]) -> Result<(), RecoverError> {
    let now = run.now();
    let mut due: Vec<_> = cases
        .iter_mut()
        .filter(|case| case.is_due(StepKind::Record))
        .filter_map(|case| {
            let settled = settled(case, now);
            (settled != case.session).then_some((case, settled))
        })
        .collect();
    if !due.is_empty() {
        run.back_up_once()?;
    }
    for chunk in due.chunks_mut(BATCH) {
        let mut batch = counted(chunk.iter().map(|(case, _)| &**case));
        batch.counters.append(&mut run.take_counters());
        batch = chunk.iter().fold(batch, |batch, (_, settled)| batch.replace(settled.clone()));
        match run.context.store.commit(batch.countable(&run.context.store.describe().capabilities)).await {
            Ok(committed) => {
                for (case, settled) in chunk {
                    case.session =
                        Session { revision: committed.revision_of(&settled.id), ..settled.clone() };
                }
            }
            Err(StoreError::Conflict { .. } | StoreError::Transition { .. }) => {
                one_by_one(run, chunk).await?;
            }
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Commits the records one by one: another process changed one of them, and the others must not fail for that.
async fn one_by_one(run: &Run<'_>, chunk: &mut [(&mut Case, Session)]) -> Result<(), RecoverError> {
    for (case, settled) in chunk {
        let batch = counted([&**case].into_iter()).replace(settled.clone());
        match run.context.store.commit(batch.countable(&run.context.store.describe().capabilities)).await {
            Ok(committed) => {
                case.session = Session { revision: committed.revision_of(&settled.id), ..settled.clone() }
            }
            Err(StoreError::Conflict { .. } | StoreError::Transition { .. }) => case.overtaken = true,
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}

/// Creates a batch that counts the outcome of these cases, for `metrics`.
fn counted<'a>(cases: impl Iterator<Item = &'a Case>) -> Batch {
    let mut batch = Batch::new();
    for case in cases {
        let claimed = case.has(StepKind::Claim);
        let counts = case.decision.verdict == Verdict::Orphan && !claimed;
        if let Some(cause) = case.decision.cause.filter(|_| counts) {
            batch = batch.count(&format!("orphans.{cause}"), 1);
        }
        let outcome = match case.worktree {
            Some(WorktreeOutcome::Removed) => "worktrees.removed",
            Some(WorktreeOutcome::Kept) => "worktrees.kept",
            Some(WorktreeOutcome::Failed) => "worktrees.failed",
            Some(WorktreeOutcome::Pending) | None => continue,
        };
        batch = batch.count(outcome, 1);
    }
    batch
}

/// Returns the record as it is to be after this run.
pub(super) fn settled(case: &Case, now: Time) -> Session {
    let mut session = case.session.clone();
    let cause = case.decision.cause.unwrap_or(Cause::ProcessDead);
    let status = case.final_status().unwrap_or(session.status);
    if session.finished_at.is_none() {
        let reason = session.ending.as_ref().map(|ending| ending.reason);
        session.finish(exit_of(cause).because(reason), now);
    }
    // A session with its own end keeps it; its worktree stays pending for the next recovery.
    let waits = case.failure.is_some() && has_own_end(session.status);
    if waits {
        session.status = case.session.status;
    } else if case.failure.is_some() {
        session.status = Status::CleanupFailed;
    } else if !case.session.status.is_finished() {
        session.status = status;
    }
    let earlier = session.recovery.take();
    let recovery = earlier.unwrap_or_else(|| Recovery {
        cause: cause.to_string(),
        evidence: Some(case.decision.evidence.clone()),
        rescue_ref: None,
        worktree: None,
        error: None,
        extra: serde_json::Map::new(),
    });
    session.recovery = Some(Recovery {
        rescue_ref: case.rescue_ref.clone().or(recovery.rescue_ref),
        worktree: if waits { Some(WorktreeOutcome::Pending) } else { case.worktree.or(recovery.worktree) },
        error: case.failure.clone().or_else(|| case.kept.clone()),
        ..recovery
    });
    session
}

/// Returns whether a status means that the session ended by itself or on request, not through recovery.
fn has_own_end(status: Status) -> bool {
    status.is_finished() && !matches!(status, Status::Orphaned | Status::Abandoned)
}

fn exit_of(cause: Cause) -> Exit {
    let reason = match cause {
        Cause::NeverStarted => ExitReason::NeverStarted,
        Cause::OwnerDead => ExitReason::OwnerDead,
        _ => ExitReason::Unknown,
    };
    Exit { code: None, signal: None, reason, extra: serde_json::Map::new() }
}
