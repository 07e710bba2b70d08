//! Strays: worktrees, files and control groups with this store's mark and no record, old enough to be
//! nobody's, with no process that carries their cookie. Worktrees are saved and removed like any other.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::act::Run;
use super::ground::RecoverError;
use super::report::{Outcome, SessionReport};
use super::yard::{clean_plot, yards};
use crate::probe::Group;
use crate::session::WorktreeOutcome;
use crate::worktree::Marked;
use crate::{Query, Session, SessionId, Status, Time, WorktreeCleaner};

/// Saves and removes the strays of this store. Touches none where the store may have forgotten sessions.
pub(super) async fn clear(run: &mut Run<'_>) -> Result<(), RecoverError> {
    let Some(store) = run.store.clone() else { return Ok(()) };
    if !run.ground.store.damage().is_empty() {
        return Ok(());
    }
    let info = run.ground.store.describe();
    let complete_since = run
        .ground
        .premises
        .complete_since(&info)
        .map_err(RecoverError::premises("cannot tell whether the store is complete"))?;
    let known = |made_at: Time| complete_since.is_none_or(|since| made_at > since);
    if let Some(cleaner) = run.ground.cleaner {
        let in_use = paths_in_use(run).await?;
        for root in yards(run).await? {
            // A yard that cannot be read holds nothing that could be judged.
            let Ok(marked) = cleaner.marked(&root, &store).await else { continue };
            for marked in marked {
                let free = known(marked.made_at) && !in_use.contains(&marked.plot.path);
                if free && is_stray(run, &marked.plot.session, marked.made_at).await? {
                    clear_worktree(run, cleaner, marked).await;
                }
            }
        }
    }
    let files =
        run.ground.premises.marked().map_err(RecoverError::premises("cannot list the files of sessions"))?;
    for files in files.into_iter().filter(|files| files.store == store && known(files.made_at)) {
        if is_stray(run, &files.session, files.made_at).await? {
            clear_files(run, files.session);
        }
    }
    Ok(())
}

/// The worktrees that sessions work in. Another tool may have given one that was ours to clear to its next
/// session, whose mark is not on it.
async fn paths_in_use(run: &Run<'_>) -> Result<BTreeSet<PathBuf>, RecoverError> {
    let active = run.ground.store.list(&Query::active()).await?.sessions.into_iter();
    let path = |session: Session| Some(session.worktree?.path.as_path().to_owned());
    Ok(active.filter_map(path).collect())
}

async fn is_stray(run: &Run<'_>, session: &SessionId, made_at: Time) -> Result<bool, RecoverError> {
    if made_at.age_at(run.now()) < run.policy.stray_age || run.ground.store.load(session).await?.is_some() {
        return Ok(false);
    }
    let group = Group { session: session.clone(), process: None, supervisor: None, cgroup: None };
    let members = run.ground.probe.members(&group).await?;
    Ok(members.processes.is_empty() && members.unreadable.is_empty())
}

fn report_of(session: SessionId, evidence: String) -> SessionReport {
    SessionReport {
        id: session,
        name: None,
        status: Status::Orphaned,
        cause: "stray".to_owned(),
        action: "remove_stray".to_owned(),
        outcome: Outcome::Done,
        evidence,
        rescue_ref: None,
        worktree: None,
        error: None,
    }
}

async fn clear_worktree(run: &mut Run<'_>, cleaner: &dyn WorktreeCleaner, marked: Marked) {
    let evidence = format!("the worktree {} has no record", marked.plot.path.display());
    let mut report = report_of(marked.plot.session.clone(), evidence);
    report.worktree = Some(WorktreeOutcome::Removed);
    if !run.policy.dry_run {
        let cleaned = clean_plot(run.ground, cleaner, &marked.plot, run.now()).await;
        report.worktree = cleaned.outcome;
        report.rescue_ref = cleaned.rescue_ref;
        report.error = cleaned.failure.or(cleaned.kept);
    }
    run.report.worktrees.count(&report);
    add(run, report);
}

/// The control group before the files, whose mark says whose it was.
fn clear_files(run: &mut Run<'_>, session: SessionId) {
    let mut report = report_of(session, "its files have no record".to_owned());
    if !run.policy.dry_run {
        let ground = run.ground;
        ground.probe.find_container(&report.id).iter().for_each(|cgroup| ground.probe.release(cgroup));
        report.error = ground.premises.discard(&report.id).err().map(|error| error.to_string());
    }
    add(run, report);
}

fn add(run: &mut Run<'_>, mut report: SessionReport) {
    if report.error.is_some() {
        report.outcome = Outcome::Failed;
        run.report.failed += 1;
    }
    run.report.sessions.push(report);
}
