//! Retention: old records go, with their logs. Never one whose worktree is still there, and never one that
//! recovery still owes something.

use std::collections::BTreeSet;
use std::path::PathBuf;

use super::act::Run;
use super::ground::{Ground, Phase, Progress, RecoverError};
use super::policy::Retention;
use super::report::{Pruned, seconds};
use crate::session::WorktreeOutcome;
use crate::worktree::{Inspection, Plot};
use crate::{Batch, Query, Session, Status, StoreError, Time};

/// How many records one batch removes at most.
const BATCH: usize = 1000;

/// Removes what retention lets go, and nothing else. Says what it removed, or would.
pub async fn prune(
    ground: &Ground<'_>,
    retention: &Retention,
    dry_run: bool,
    progress: &dyn Progress,
) -> Result<Pruned, RecoverError> {
    let _lock = match dry_run {
        true => None,
        false => Some(super::act::lock(ground, progress).await?),
    };
    let now = (ground.clock)();
    let due = find_due(ground, retention, now).await?;
    if !dry_run {
        remove(ground, &due, progress).await?;
        drop_rescues(ground, retention, now).await?;
    }
    Ok(due.told(now))
}

/// Retention as the last part of a recovery.
pub(super) async fn apply(run: &mut Run<'_>) -> Result<(), RecoverError> {
    if !run.ground.store.describe().capabilities.processes {
        return Ok(());
    }
    let began = run.now();
    let due = find_due(run.ground, &run.policy.retention, began).await?;
    if !run.policy.dry_run {
        if !due.is_empty() {
            run.back_up_once()?;
        }
        remove(run.ground, &due, run.progress).await?;
        drop_rescues(run.ground, &run.policy.retention, began).await?;
    }
    run.report.pruned = due.told(began);
    run.report.seconds.prune += seconds(began, run.now());
    Ok(())
}

/// Records that may go.
#[derive(Default)]
struct Due {
    expired: Vec<Session>,
    over_limit: Vec<Session>,
}

impl Due {
    fn is_empty(&self) -> bool {
        self.expired.is_empty() && self.over_limit.is_empty()
    }

    fn told(&self, now: Time) -> Pruned {
        let mut pruned =
            Pruned { expired: self.expired.len(), over_limit: self.over_limit.len(), ..Pruned::default() };
        for session in self.expired.iter().chain(&self.over_limit) {
            pruned.age_days.count(session.finished_at.unwrap_or(session.created_at).age_at(now));
        }
        pruned
    }
}

async fn find_due(ground: &Ground<'_>, retention: &Retention, now: Time) -> Result<Due, RecoverError> {
    let before = now.saturating_sub(retention.ttl);
    let mut old = ground.store.list(&Query::all().finished_before(before)).await?.sessions;
    if sexton_mutant::is("prune_running") {
        let all = ground.store.list(&Query::all()).await?.sessions;
        old = all.into_iter().filter(|session| session.created_at < before).collect();
    }
    let tally = ground.store.tally().await?;
    let finished =
        tally.iter().filter(|(status, _)| status.is_finished()).map(|(_, count)| count).sum::<u64>();
    let expired = without_worktree(ground, old).await?;
    let kept = usize::try_from(finished).unwrap_or(usize::MAX).saturating_sub(expired.len());
    let surplus = kept.saturating_sub(retention.keep);
    let mut over_limit = Vec::new();
    if surplus > 0 {
        let ids: BTreeSet<_> = expired.iter().map(|session| &session.id).collect();
        let finished = Status::ALL.into_iter().filter(|status| status.is_finished());
        let all = ground.store.list(&Query::all().with_statuses(finished)).await?.sessions;
        let mut rest: Vec<_> = all.into_iter().filter(|session| !ids.contains(&session.id)).collect();
        rest.sort_by(|a, b| (a.finished_at, &a.id).cmp(&(b.finished_at, &b.id)));
        rest.truncate(surplus);
        over_limit = without_worktree(ground, rest).await?;
    }
    Ok(Due { expired, over_limit })
}

/// Those whose worktree is gone or never was.
async fn without_worktree(ground: &Ground<'_>, sessions: Vec<Session>) -> Result<Vec<Session>, RecoverError> {
    let store = ground.store.describe().uuid.unwrap_or_default();
    let mut free = Vec::new();
    for session in sessions {
        let removed = session.recovery.as_ref().and_then(|recovery| recovery.worktree);
        let gone = match (Plot::of(&session, &store), ground.cleaner) {
            _ if !session.is_settled() && !sexton_mutant::is("prune_running") => false,
            (None, _) => true,
            (Some(_), _) if removed == Some(WorktreeOutcome::Removed) => true,
            (Some(plot), Some(cleaner)) => {
                matches!(cleaner.inspect(&plot).await, Ok(Inspection::Absent))
            }
            (Some(_), None) => false,
        };
        if gone {
            free.push(session);
        }
    }
    Ok(free)
}

async fn remove(ground: &Ground<'_>, due: &Due, progress: &dyn Progress) -> Result<(), RecoverError> {
    if due.is_empty() {
        return Ok(());
    }
    progress.begin(Phase::Prune, due.expired.len() + due.over_limit.len());
    for (reason, sessions) in [("pruned.expired", &due.expired), ("pruned.over_limit", &due.over_limit)] {
        for chunk in sessions.chunks(BATCH) {
            let all: Vec<_> = chunk.iter().collect();
            let removed = match commit_removal(ground, &all, reason).await {
                Err(StoreError::Conflict { .. }) => remove_one_by_one(ground, chunk, reason).await?,
                other => other.map(|()| all)?,
            };
            for session in removed {
                // A control group that was busy at the end of its session has been left to this moment.
                session.cgroup.iter().for_each(|cgroup| ground.probe.release(cgroup));
                // What cannot be removed is a stray from now on.
                _ = ground.premises.discard(&session.id);
            }
            chunk.iter().for_each(|_| progress.advance());
        }
    }
    Ok(())
}

/// Somebody changed one of them: that one is not old after all, and keeps its files too.
async fn remove_one_by_one<'a>(
    ground: &Ground<'_>,
    sessions: &'a [Session],
    reason: &str,
) -> Result<Vec<&'a Session>, StoreError> {
    let mut removed = Vec::new();
    for session in sessions {
        match commit_removal(ground, &[session], reason).await {
            Ok(()) => removed.push(session),
            Err(StoreError::Conflict { .. }) => {}
            Err(error) => return Err(error),
        }
    }
    Ok(removed)
}

async fn commit_removal(ground: &Ground<'_>, sessions: &[&Session], reason: &str) -> Result<(), StoreError> {
    let mut buckets = Pruned::default().age_days;
    let now = (ground.clock)();
    for session in sessions {
        buckets.count(session.finished_at.unwrap_or(session.created_at).age_at(now));
    }
    let mut batch = Batch::new().count(reason, sessions.len() as u64);
    let ages = [("0-1", buckets.day), ("1-7", buckets.week), ("7-30", buckets.month), ("30+", buckets.older)];
    for (age, count) in ages.into_iter().filter(|(_, count)| *count > 0) {
        batch = batch.count(&format!("pruned.age_days.{age}"), count as u64);
    }
    batch = sessions.iter().fold(batch, |batch, session| batch.remove(session));
    let capabilities = ground.store.describe().capabilities;
    ground.store.commit(batch.countable(&capabilities)).await.map(|_| ())
}

/// Drops rescues that are older than their user wants to keep them. Off unless asked for.
async fn drop_rescues(ground: &Ground<'_>, retention: &Retention, now: Time) -> Result<(), RecoverError> {
    let (Some(ttl), Some(cleaner)) = (retention.rescue_ttl, ground.cleaner) else { return Ok(()) };
    let records = ground.store.list(&Query::all()).await?.sessions;
    let repo = |session: Session| session.worktree.and_then(|worktree| worktree.repo);
    let repos: BTreeSet<PathBuf> =
        records.into_iter().filter_map(repo).map(|repo| repo.as_path().to_owned()).collect();
    for repo in repos {
        // A repository that is gone has taken its rescues with it.
        let Ok(rescues) = cleaner.rescues(&repo).await else { continue };
        for entry in rescues.entries.into_iter().filter(|entry| entry.created_at.age_at(now) > ttl) {
            _ = cleaner.drop_rescue(&repo, &entry.session, &entry.rescue.commit).await;
        }
    }
    Ok(())
}
