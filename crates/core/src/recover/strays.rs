//! Strays: worktrees with this store's mark and no record, old enough to be nobody's, with no process
//! that carries their cookie. They are saved and removed like any other.

use super::act::Run;
use super::ground::RecoverError;
use super::report::{Outcome, SessionReport};
use super::yard::{clean_plot, yards};
use crate::probe::Group;
use crate::session::WorktreeOutcome;
use crate::worktree::Marked;
use crate::{Status, WorktreeCleaner};

/// Saves and removes the strays of this store. Touches none where the store may have forgotten sessions.
pub(super) async fn clear(run: &mut Run<'_>) -> Result<(), RecoverError> {
    let (Some(cleaner), Some(store)) = (run.ground.cleaner, run.store.clone()) else { return Ok(()) };
    if !run.ground.store.damage().is_empty() {
        return Ok(());
    }
    let info = run.ground.store.describe();
    let complete_since = run
        .ground
        .premises
        .complete_since(&info)
        .map_err(RecoverError::premises("cannot tell whether the store is complete"))?;
    for root in yards(run).await? {
        // A yard that cannot be read holds nothing that could be judged.
        let Ok(marked) = cleaner.marked(&root, &store).await else { continue };
        for marked in marked {
            let known = complete_since.is_none_or(|since| marked.made_at > since);
            if known && is_stray(run, &marked).await? {
                clear_one(run, cleaner, marked).await;
            }
        }
    }
    Ok(())
}

async fn is_stray(run: &Run<'_>, marked: &Marked) -> Result<bool, RecoverError> {
    let session = &marked.plot.session;
    if marked.made_at.age_at(run.now()) < run.policy.stray_age
        || run.ground.store.load(session).await?.is_some()
    {
        return Ok(false);
    }
    let group = Group { session: session.clone(), process: None, supervisor: None, cgroup: None };
    let members = run.ground.probe.members(&group).await?;
    Ok(members.processes.is_empty() && members.unreadable.is_empty())
}

async fn clear_one(run: &mut Run<'_>, cleaner: &dyn WorktreeCleaner, marked: Marked) {
    let mut report = SessionReport {
        id: marked.plot.session.clone(),
        name: None,
        status: Status::Orphaned,
        cause: "stray".to_owned(),
        action: "remove_stray".to_owned(),
        outcome: Outcome::Done,
        evidence: format!("the worktree {} has no record", marked.plot.path.display()),
        rescue_ref: None,
        worktree: Some(WorktreeOutcome::Removed),
        error: None,
    };
    if !run.policy.dry_run {
        let cleaned = clean_plot(run.ground, cleaner, &marked.plot, run.now()).await;
        report.worktree = cleaned.outcome;
        report.rescue_ref = cleaned.rescue_ref;
        report.error = cleaned.failure.or(cleaned.kept);
        if report.error.is_some() {
            report.outcome = Outcome::Failed;
            run.report.failed += 1;
        }
    }
    run.report.worktrees.count(&report);
    run.report.sessions.push(report);
}
