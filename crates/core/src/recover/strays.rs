//! Strays: worktrees, files and control groups that carry this store's mark and have no record, are older than
//! the stray age, and have no process with their cookie. Worktrees are saved and removed like any other.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::time::Duration;

use super::act::Run;
use super::context::RecoverError;
use super::problem::ProblemKind;
use super::report::{Outcome, SessionReport};
use super::worktrees::{clean_location, worktree_roots};
use crate::probe::Group;
use crate::session::WorktreeOutcome;
use crate::worktree::Marked;
use crate::{Host, Incarnation, Others, Query, Session, SessionId, Status, Time, WorktreeCleaner};

/// A control group is empty for a moment while its session starts, whichever store records it.
const STARTING: Duration = Duration::from_secs(5);

/// Saves and removes the strays of this store. Does nothing if the store may have lost records.
pub(super) async fn clear(run: &mut Run<'_>) -> Result<(), RecoverError> {
    let Some(store) = run.store.clone() else { return Ok(()) };
    if !run.context.store.damage().is_empty() {
        return Ok(());
    }
    let info = run.context.store.describe();
    let complete_since = run
        .context
        .state_files
        .complete_since(&info)
        .map_err(RecoverError::state_files("cannot determine whether the store is complete"))?;
    if !run.policy.dry_run {
        let age = run.policy.stray_age.max(STARTING);
        run.context.probe.release_empty(run.now().saturating_sub(age));
    }
    let known = |made_at: Time| complete_since.is_none_or(|since| made_at > since);
    if let Some(cleaner) = run.context.cleaner {
        let in_use = paths_in_use(run).await?;
        for root in worktree_roots(run).await? {
            // Without reading the worktree root, nothing in it can be judged.
            let Ok(marked) = cleaner.marked(&root, &store).await else { continue };
            for marked in marked {
                let ours = is_ours(run, marked.host.as_ref());
                let free = ours && known(marked.made_at) && !in_use.contains(&marked.location.path);
                if free && is_stray(run, &marked.location.session, marked.made_at).await? {
                    clear_worktree(run, cleaner, marked).await;
                }
            }
        }
    }
    let files = run
        .context
        .state_files
        .marked()
        .map_err(RecoverError::state_files("cannot list the files of sessions"))?;
    for files in files.into_iter().filter(|files| files.store == store && known(files.made_at)) {
        let elsewhere = files.made_on.as_ref().is_some_and(|origin| origin.is_elsewhere(&run.here));
        if (!elsewhere || sexton_mutant::is("retention_ignores_hosts"))
            && is_stray(run, &files.session, files.made_at).await?
        {
            clear_files(run, files.session);
        }
    }
    discard_again(run).await
}

/// Returns whether a worktree without a record was created on this host. Marks of an earlier release name no
/// host.
fn is_ours(run: &Run<'_>, host: Option<&Host>) -> bool {
    let made_at = |host: &Host| Incarnation { host: host.clone(), boot_id: None, pid_namespace: None };
    let elsewhere = host.is_some_and(|host| made_at(host).is_elsewhere(&run.here));
    !elsewhere || sexton_mutant::is("retention_ignores_hosts")
}

/// Tries again to delete the files of deleted records, however new they are.
async fn discard_again(run: &mut Run<'_>) -> Result<(), RecoverError> {
    let known = run.known.iter().filter(|problem| problem.kind == ProblemKind::SessionFiles);
    let sessions: BTreeSet<_> = known.filter_map(|problem| problem.session.clone()).collect();
    for id in sessions {
        let is_reported = run.report.sessions.iter().any(|session| session.id == id);
        if !is_reported && run.context.store.load(&id).await?.is_none() {
            clear_files(run, id);
        }
    }
    Ok(())
}

/// Returns the worktrees of active sessions. Another tool may have given a worktree that Sexton had claimed to
/// its next session, whose mark it does not carry.
async fn paths_in_use(run: &Run<'_>) -> Result<BTreeSet<PathBuf>, RecoverError> {
    let active = run.context.store.list(&Query::active()).await?.sessions.into_iter();
    let path = |session: Session| Some(session.worktree?.path.as_path().to_owned());
    Ok(active.filter_map(path).collect())
}

async fn is_stray(run: &Run<'_>, session: &SessionId, made_at: Time) -> Result<bool, RecoverError> {
    if made_at.age_at(run.now()) < run.policy.stray_age || run.context.store.load(session).await?.is_some() {
        return Ok(false);
    }
    // Its control group has no record any more, but may still contain processes without a cookie.
    let cgroup = run.context.probe.find_container(session);
    let others = Others::load(run.context.store).await?;
    let members = run.context.probe.members(&Group { cgroup, ..Group::of_cookie(session) }, &others).await?;
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
    let evidence = format!("the worktree {} has no record", marked.location.path.display());
    let mut report = report_of(marked.location.session.clone(), evidence);
    report.worktree = Some(WorktreeOutcome::Removed);
    if !run.policy.dry_run {
        let cleaned = clean_location(run.context, cleaner, &marked.location, run.now()).await;
        report.worktree = cleaned.outcome;
        report.rescue_ref = cleaned.rescue_ref;
        report.error = cleaned.failure.or(cleaned.kept);
    }
    run.report.worktrees.count(&report);
    add(run, report);
}

/// Removes the control group before the files, whose mark identifies the session it belonged to.
fn clear_files(run: &mut Run<'_>, session: SessionId) {
    let mut report = report_of(session, "its files have no record".to_owned());
    if !run.policy.dry_run {
        let context = run.context;
        context.probe.find_container(&report.id).iter().for_each(|cgroup| context.probe.release(cgroup));
        report.error = context
            .state_files
            .discard(&context.store.describe(), &report.id)
            .err()
            .map(|error| error.to_string());
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
