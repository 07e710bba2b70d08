//! The worktrees of orphans: saved, then removed, several at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::PathBuf;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

use super::act::Run;
use super::case::Case;
use super::ground::{Ground, Phase, RecoverError};
use super::plan::Step;
use super::report::seconds;
use crate::session::WorktreeOutcome;
use crate::worktree::{Inspection, Plot, Removal};
use crate::{Session, SessionId, Time, WorktreeCleaner, WorktreeError};

/// What became of one worktree.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cleaned {
    pub(super) outcome: Option<WorktreeOutcome>,
    pub(super) rescue_ref: Option<String>,
    /// Why it stays, where that is how it should be.
    pub(super) kept: Option<String>,
    /// Why it stays, where a later recovery tries again.
    pub(super) failure: Option<String>,
}

/// Saves and removes the worktree of every case that has come so far.
pub(super) fn clean(run: &mut Run<'_>, cases: &mut [Case]) {
    let wants = |case: &Case| case.goes_on() && case.wants(|step| *step == Step::Rescue);
    let in_use: BTreeMap<PathBuf, SessionId> =
        cases.iter().filter(|case| !wants(case)).filter_map(path_in_use).collect();
    let wanting: Vec<_> = cases.iter_mut().filter(|case| wants(case)).collect();
    if wanting.is_empty() {
        return;
    }
    let began = run.now();
    run.progress.begin(Phase::Rescue, wanting.len());
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(wanting.len());
    let (next, wanting) = (AtomicUsize::new(0), wanting.into_iter().map(Mutex::new).collect::<Vec<_>>());
    let work = || {
        while let Some(case) = wanting.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut case = case.lock().expect("each case has one worker");
            let cleaned = if case.inside {
                // Whoever recovers lives in it: the next recovery can remove it.
                Cleaned { outcome: Some(WorktreeOutcome::Pending), ..Cleaned::default() }
            } else if let Some(user) =
                case.session.worktree.as_ref().and_then(|worktree| in_use.get(worktree.path.as_path()))
            {
                // Another tool gives the worktree of a ticket to every attempt at it.
                kept(format!("session {user} is in it"))
            } else {
                pollster::block_on(clean_one(run.ground, run.store.as_deref(), &case.session, began))
            };
            case.worktree = cleaned.outcome;
            case.rescue_ref = cleaned.rescue_ref.or_else(|| case.rescue_ref.take());
            case.kept = cleaned.kept;
            case.failure = cleaned.failure;
            run.progress.advance();
        }
    };
    std::thread::scope(|scope| {
        // Without a thread more it only takes longer.
        for _ in 1..threads {
            let _ = Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    run.report.seconds.rescue += seconds(began, (run.ground.clock)());
}

/// Saves and removes one worktree, whose session has no living process.
pub(super) async fn clean_one(
    ground: &Ground<'_>,
    store: Option<&str>,
    session: &Session,
    now: Time,
) -> Cleaned {
    let Some(cleaner) = ground.cleaner else {
        return Cleaned { outcome: Some(WorktreeOutcome::Pending), ..Cleaned::default() };
    };
    let marks = ground.store.describe().capabilities.marks;
    if store.is_none() && marks {
        // It has one. A worktree that is taken for somebody else's would never be looked at again.
        return kept_for_now("the store could not say which one it is");
    }
    let Some(mut plot) = store.and_then(|store| Plot::of(session, store)) else {
        return kept("Sexton did not make it".to_owned());
    };
    if !marks && let Err(error) = claim(cleaner, &mut plot, now).await {
        return refused(&error);
    }
    clean_plot(ground, cleaner, &plot, now).await
}

/// The worktree of a session that goes on, or that nobody can judge, and whose it is.
fn path_in_use(case: &Case) -> Option<(PathBuf, SessionId)> {
    let worktree = case.session.worktree.as_ref().filter(|_| case.session.status.is_active())?;
    Some((worktree.path.as_path().to_owned(), case.session.id.clone()))
}

/// Puts the session's mark on a worktree that another tool made, so that everything which is done to it
/// is done under the same rules as to one of ours. Only a worktree that git has registered for this very
/// repository, directly inside the yard, can be marked.
async fn claim(cleaner: &dyn WorktreeCleaner, plot: &mut Plot, now: Time) -> Result<(), WorktreeError> {
    plot.repo = cleaner.find_repository(&plot.repo).await?;
    match cleaner.inspect(plot).await? {
        Inspection::Absent | Inspection::Present { .. } => Ok(()),
        Inspection::Foreign(_) => cleaner.claim(plot, now).await,
    }
}

/// Saves and removes what is at `plot`.
pub(super) async fn clean_plot(
    ground: &Ground<'_>,
    cleaner: &dyn WorktreeCleaner,
    plot: &Plot,
    now: Time,
) -> Cleaned {
    let cleared = match cleaner.clear(plot, ground.probe, now).await {
        Ok(cleared) => cleared,
        Err(error) => return refused(&error),
    };
    let rescue_ref = cleared.rescued.saved.map(|rescue| rescue.reference);
    let cleaned = match cleared.removal {
        Ok(Removal::Removed | Removal::AlreadyGone) => {
            Cleaned { outcome: Some(WorktreeOutcome::Removed), ..Cleaned::default() }
        }
        Ok(Removal::Kept(why)) => kept_for_now(&why),
        Err(error) => refused(&error),
    };
    Cleaned { rescue_ref, ..cleaned }
}

fn kept(why: String) -> Cleaned {
    Cleaned { outcome: Some(WorktreeOutcome::Kept), kept: Some(why), ..Cleaned::default() }
}

fn kept_for_now(why: &str) -> Cleaned {
    let failure = Some(format!("the worktree was kept: {why}"));
    Cleaned { outcome: Some(WorktreeOutcome::Kept), failure, ..Cleaned::default() }
}

fn refused(error: &WorktreeError) -> Cleaned {
    if let WorktreeError::NotOurs { why, .. } = error {
        return kept(why.clone());
    }
    let failure = Some(with_sources(error));
    Cleaned { outcome: Some(WorktreeOutcome::Failed), failure, ..Cleaned::default() }
}

/// An error with everything that is behind it, on one line.
fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Says what would become of worktrees, without touching them.
pub(super) async fn foresee(run: &Run<'_>, cases: &mut [Case]) {
    let (Some(cleaner), Some(store)) = (run.ground.cleaner, &run.store) else { return };
    for case in cases.iter_mut().filter(|case| case.wants(|step| *step == Step::Rescue)) {
        let Some(plot) = Plot::of(&case.session, store) else {
            case.worktree = Some(WorktreeOutcome::Kept);
            continue;
        };
        let marks = run.ground.store.describe().capabilities.marks;
        let inspection =
            if marks { cleaner.inspect(&plot).await } else { survey(cleaner, plot.clone()).await };
        match inspection {
            Ok(Inspection::Absent) => case.worktree = Some(WorktreeOutcome::Removed),
            Ok(Inspection::Present { dirty, own_commits }) => {
                case.worktree = Some(WorktreeOutcome::Removed);
                if dirty || own_commits > 0 {
                    case.rescue_ref = Some(format!("refs/sexton/rescue/{}", plot.session));
                }
            }
            Ok(Inspection::Foreign(why)) => {
                case.worktree = Some(WorktreeOutcome::Kept);
                case.kept = Some(why);
            }
            Err(error) => {
                case.worktree = Some(WorktreeOutcome::Failed);
                case.failure = Some(with_sources(&error));
            }
        }
    }
}

/// What would be at a plot once it was claimed.
async fn survey(cleaner: &dyn WorktreeCleaner, mut plot: Plot) -> Result<Inspection, WorktreeError> {
    plot.repo = cleaner.find_repository(&plot.repo).await?;
    cleaner.survey(&plot).await
}

/// Deletes what lies in the trash of every yard that this store uses, also what a killed run left there.
pub(super) async fn sweep(run: &mut Run<'_>) -> Result<(), RecoverError> {
    let Some(cleaner) = run.ground.cleaner.filter(|_| !run.policy.dry_run) else { return Ok(()) };
    let began = run.now();
    let yards = yards(run).await?;
    run.progress.begin(Phase::Remove, yards.len());
    for root in yards {
        // What cannot be deleted now is found again by the next run; it is nobody's work any more.
        _ = cleaner.sweep(&root, run.ground.probe).await;
        run.progress.advance();
    }
    run.report.seconds.remove += seconds(began, run.now());
    Ok(())
}

/// Every yard that may hold something of this store: those of the premises, and those that the records of
/// this run name.
pub(super) async fn yards(run: &Run<'_>) -> Result<BTreeSet<PathBuf>, RecoverError> {
    let listed = run.ground.premises.yards().map_err(RecoverError::premises("cannot list the yards"))?;
    let mut yards: BTreeSet<_> = listed.into_iter().collect();
    for session in &run.report.sessions {
        if session.worktree.is_some()
            && let Some(record) = run.ground.store.load(&session.id).await?
            && let Some(root) = record.worktree.and_then(|worktree| worktree.root)
        {
            yards.insert(root.as_path().to_owned());
        }
    }
    Ok(yards)
}
