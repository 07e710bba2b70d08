//! Retention: deletes old records and their logs, but never a record whose worktree still exists or that
//! recovery has not finished with.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::act::Run;
use super::context::{Phase, Progress, RecoverError, RecoveryContext};
use super::policy::Retention;
use super::problem::{Problem, ProblemKind};
use super::report::{Pruned, seconds};
use super::worktrees::with_sources;
use crate::session::WorktreeOutcome;
use crate::worktree::{Inspection, RescueEntry, WorktreeLocation};
use crate::{Batch, Host, Incarnation, Query, Session, Status, StoreError, Time};

/// How many records one batch removes at most.
const BATCH: usize = 1000;

/// The result of retention.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PruneReport {
    /// The records that were deleted, or would be.
    pub pruned: Pruned,
    /// The files of those records that could not be deleted.
    pub problems: Vec<Problem>,
}

/// Which host's records retention applies to.
enum Scope<'a> {
    /// This host.
    Here(&'a Incarnation),
    /// Another host of this name.
    Host(&'a str, &'a Incarnation),
}

impl Scope<'_> {
    fn has(&self, session: &Session) -> bool {
        match self {
            Scope::Here(_) if sexton_mutant::is("retention_ignores_hosts") => true,
            Scope::Here(here) => !session.is_elsewhere(here),
            Scope::Host(name, here) => session.host.hostname == *name && session.is_elsewhere(here),
        }
    }
}

/// Deletes the records of this host that are due, and nothing else. Returns what it deleted, or would.
pub async fn prune(
    context: &RecoveryContext<'_>,
    retention: &Retention,
    dry_run: bool,
    progress: &dyn Progress,
) -> Result<PruneReport, RecoverError> {
    let here = context.here().await?;
    prune_in(&Scope::Here(&here), context, retention, dry_run, progress).await
}

/// Does the same as [`prune`] for the records of a host that the user declared gone. Never deletes records of
/// this host, whatever its name is.
pub async fn prune_host(
    hostname: &str,
    context: &RecoveryContext<'_>,
    retention: &Retention,
    dry_run: bool,
    progress: &dyn Progress,
) -> Result<PruneReport, RecoverError> {
    let here = context.here().await?;
    prune_in(&Scope::Host(hostname, &here), context, retention, dry_run, progress).await
}

async fn prune_in(
    scope: &Scope<'_>,
    context: &RecoveryContext<'_>,
    retention: &Retention,
    dry_run: bool,
    progress: &dyn Progress,
) -> Result<PruneReport, RecoverError> {
    let _lock = match dry_run {
        true => None,
        false => Some(super::act::lock(context, progress).await?),
    };
    let now = (context.clock)();
    let due = find_due(scope, context, retention, now).await?;
    let mut problems = Vec::new();
    if !dry_run {
        problems = remove(context, &due, progress).await?;
        if let Scope::Here(here) = scope {
            problems.extend(drop_rescues(context, here, retention, now).await?);
        }
    }
    Ok(PruneReport { pruned: due.summarize(now), problems })
}

/// Applies retention as the last part of a recovery.
pub(super) async fn apply(run: &mut Run<'_>) -> Result<(), RecoverError> {
    if !run.context.store.describe().capabilities.processes {
        return Ok(());
    }
    let began = run.now();
    let due = find_due(&Scope::Here(&run.here), run.context, &run.policy.retention, began).await?;
    if !run.policy.dry_run {
        if !due.is_empty() {
            run.back_up_once()?;
        }
        let mut problems = remove(run.context, &due, run.progress).await?;
        problems.extend(drop_rescues(run.context, &run.here, &run.policy.retention, began).await?);
        run.report.problems.append(&mut problems);
    }
    run.report.pruned = due.summarize(began);
    run.report.seconds.prune += seconds(began, run.now());
    Ok(())
}

/// Records that are to be deleted.
#[derive(Default)]
struct Due {
    expired: Vec<Session>,
    over_limit: Vec<Session>,
}

impl Due {
    fn is_empty(&self) -> bool {
        self.expired.is_empty() && self.over_limit.is_empty()
    }

    fn summarize(&self, now: Time) -> Pruned {
        let mut pruned =
            Pruned { expired: self.expired.len(), over_limit: self.over_limit.len(), ..Pruned::default() };
        for session in self.expired.iter().chain(&self.over_limit) {
            pruned.age_days.count(session.finished_at.unwrap_or(session.created_at).age_at(now));
        }
        pruned
    }
}

async fn find_due(
    scope: &Scope<'_>,
    context: &RecoveryContext<'_>,
    retention: &Retention,
    now: Time,
) -> Result<Due, RecoverError> {
    let before = now.saturating_sub(retention.ttl);
    let mut old = context.store.list(&Query::all().finished_before(before)).await?.sessions;
    if sexton_mutant::is("prune_running") {
        let all = context.store.list(&Query::all()).await?.sessions;
        old = all.into_iter().filter(|session| session.created_at < before).collect();
    }
    old.retain(|session| scope.has(session));
    let tally = context.store.tally().await?;
    let finished =
        tally.iter().filter(|(status, _)| status.is_finished()).map(|(_, count)| count).sum::<u64>();
    let expired = without_worktree(context, old).await?;
    let kept = usize::try_from(finished).unwrap_or(usize::MAX).saturating_sub(expired.len());
    let mut over_limit = Vec::new();
    // The tally counts all hosts: only a listing shows how many records belong to this one.
    if kept > retention.keep {
        let ids: BTreeSet<_> = expired.iter().map(|session| &session.id).collect();
        let finished = Status::ALL.into_iter().filter(|status| status.is_finished());
        let all = context.store.list(&Query::all().with_statuses(finished)).await?.sessions;
        let mut rest: Vec<_> =
            all.into_iter().filter(|session| scope.has(session) && !ids.contains(&session.id)).collect();
        let surplus = rest.len().saturating_sub(retention.keep);
        rest.sort_by(|a, b| (a.finished_at, &a.id).cmp(&(b.finished_at, &b.id)));
        rest.truncate(surplus);
        over_limit = without_worktree(context, rest).await?;
    }
    Ok(Due { expired, over_limit })
}

/// Returns the sessions whose worktree is gone or never existed.
async fn without_worktree(
    context: &RecoveryContext<'_>,
    sessions: Vec<Session>,
) -> Result<Vec<Session>, RecoverError> {
    let store = context.store.describe().uuid.unwrap_or_default();
    let mut free = Vec::new();
    for session in sessions {
        let removed = session.recovery.as_ref().and_then(|recovery| recovery.worktree);
        let gone = match (WorktreeLocation::of(&session, &store), context.cleaner) {
            _ if !session.is_settled() && !sexton_mutant::is("prune_running") => false,
            (None, _) => true,
            (Some(_), _) if removed == Some(WorktreeOutcome::Removed) => true,
            (Some(location), Some(cleaner)) => {
                matches!(cleaner.inspect(&location).await, Ok(Inspection::Absent))
            }
            (Some(_), None) => false,
        };
        if gone {
            free.push(session);
        }
    }
    Ok(free)
}

/// Deletes records and their files. Returns the files that could not be deleted.
async fn remove(
    context: &RecoveryContext<'_>,
    due: &Due,
    progress: &dyn Progress,
) -> Result<Vec<Problem>, RecoverError> {
    let mut problems = Vec::new();
    if due.is_empty() {
        return Ok(problems);
    }
    progress.begin(Phase::Prune, due.expired.len() + due.over_limit.len());
    for (reason, sessions) in [("pruned.expired", &due.expired), ("pruned.over_limit", &due.over_limit)] {
        for chunk in sessions.chunks(BATCH) {
            let all: Vec<_> = chunk.iter().collect();
            let removed = match commit_removal(context, &all, reason).await {
                Err(StoreError::Conflict { .. }) => remove_one_by_one(context, chunk, reason).await?,
                other => other.map(|()| all)?,
            };
            for session in removed {
                // A control group that was busy when its session ended is removed now.
                session.cgroup.iter().for_each(|cgroup| context.probe.release(cgroup));
                // The next recovery tries again to delete what remains.
                if let Err(error) = context.state_files.discard(&context.store.describe(), &session.id) {
                    let problem = Problem::new(ProblemKind::SessionFiles, error.to_string());
                    problems.push(problem.of_session(&session.id));
                }
            }
            chunk.iter().for_each(|_| progress.advance());
        }
    }
    Ok(problems)
}

/// Deletes the records one by one: another process changed one of them, so it is not due any more and keeps its
/// files.
async fn remove_one_by_one<'a>(
    context: &RecoveryContext<'_>,
    sessions: &'a [Session],
    reason: &str,
) -> Result<Vec<&'a Session>, StoreError> {
    let mut removed = Vec::new();
    for session in sessions {
        match commit_removal(context, &[session], reason).await {
            Ok(()) => removed.push(session),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}

async fn commit_removal(
    context: &RecoveryContext<'_>,
    sessions: &[&Session],
    reason: &str,
) -> Result<(), StoreError> {
    let mut buckets = Pruned::default().age_days;
    let now = (context.clock)();
    for session in sessions {
        buckets.count(session.finished_at.unwrap_or(session.created_at).age_at(now));
    }
    let mut batch = Batch::new().count(reason, sessions.len() as u64);
    let ages = [("0-1", buckets.day), ("1-7", buckets.week), ("7-30", buckets.month), ("30+", buckets.older)];
    for (age, count) in ages.into_iter().filter(|(_, count)| *count > 0) {
        batch = batch.count(&format!("pruned.age_days.{age}"), count as u64);
    }
    batch = sessions.iter().fold(batch, |batch, session| batch.remove(session));
    let capabilities = context.store.describe().capabilities;
    context.store.commit(batch.countable(&capabilities)).await.map(|_| ())
}

/// Deletes rescues of this host that are older than the configured age. Off by default. Returns those that
/// could not be deleted.
async fn drop_rescues(
    context: &RecoveryContext<'_>,
    here: &Incarnation,
    retention: &Retention,
    now: Time,
) -> Result<Vec<Problem>, RecoverError> {
    let mut problems = Vec::new();
    let (Some(ttl), Some(cleaner)) = (retention.rescue_ttl, context.cleaner) else { return Ok(problems) };
    let records = context.store.list(&Query::all()).await?.sessions;
    let (ours, theirs): (Vec<_>, Vec<_>) =
        records.into_iter().partition(|session| Scope::Here(here).has(session));
    let theirs: BTreeSet<_> = theirs.into_iter().map(|session| session.id).collect();
    let repo = |session: Session| session.worktree.and_then(|worktree| worktree.repo);
    let repos: BTreeSet<PathBuf> =
        ours.into_iter().filter_map(repo).map(|repo| repo.as_path().to_owned()).collect();
    let is_theirs = |entry: &RescueEntry| {
        let origin = |host: &Host| Incarnation { host: host.clone(), boot_id: None, pid_namespace: None };
        let elsewhere = entry.host.as_ref().is_some_and(|host| origin(host).is_elsewhere(here));
        theirs.contains(&entry.session) || elsewhere && !sexton_mutant::is("retention_ignores_hosts")
    };
    for repo in repos {
        // If the repository is gone, so are its rescues.
        let Ok(rescues) = cleaner.rescues(&repo).await else { continue };
        let old = |entry: &RescueEntry| entry.created_at.age_at(now) > ttl;
        for entry in rescues.entries.into_iter().filter(|entry| old(entry) && !is_theirs(entry)) {
            if let Err(error) = cleaner.drop_rescue(&repo, &entry.session, &entry.rescue.commit).await {
                let problem = Problem::new(ProblemKind::Rescue, with_sources(&error));
                problems.push(problem.of_session(&entry.session).at(repo.as_path()));
            }
        }
    }
    Ok(problems)
}
