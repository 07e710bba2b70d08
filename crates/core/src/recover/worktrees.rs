//! Saves and removes the worktrees of orphans, several at a time.

use std::collections::{BTreeMap, BTreeSet};
use std::num::NonZero;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::Builder;

use super::act::Run;
use super::case::Case;
use super::context::{Phase, RecoverError, RecoveryContext};
use super::plan::StepKind;
use super::problem::{Problem, ProblemKind};
use super::report::seconds;
use crate::session::WorktreeOutcome;
use crate::worktree::{Inspection, Leftover, Removal, WorktreeLocation};
use crate::{Incarnation, Session, SessionId, Store, Time, WorktreeCleaner, WorktreeError};

/// What happened to one worktree.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Cleaned {
    pub(super) outcome: Option<WorktreeOutcome>,
    pub(super) rescue_ref: Option<String>,
    /// Why it was kept, if that is the intended outcome.
    pub(super) kept: Option<String>,
    /// Why it was kept, if a later recovery tries again.
    pub(super) failure: Option<String>,
}

/// Saves the worktree of every case whose earlier steps succeeded, and takes it away.
pub(super) fn rescue(run: &mut Run<'_>, cases: &mut [Case]) {
    let wants = |case: &Case| case.is_due(StepKind::Rescue);
    let in_use: BTreeMap<PathBuf, SessionId> =
        cases.iter().filter(|case| !wants(case)).filter_map(path_in_use).collect();
    let wanting: Vec<_> = cases.iter_mut().filter(|case| wants(case)).collect();
    let began = run.now();
    run.progress.begin(Phase::Rescue, wanting.len());
    let threads = std::thread::available_parallelism().map_or(1, NonZero::get).min(wanting.len());
    let (next, wanting) = (AtomicUsize::new(0), wanting.into_iter().map(Mutex::new).collect::<Vec<_>>());
    let work = || {
        while let Some(case) = wanting.get(next.fetch_add(1, Ordering::Relaxed)) {
            let mut case = case.lock().expect("each case has one worker");
            let cleaned = if case.inside {
                // The recovering process is part of the session: the next recovery can remove the worktree.
                Cleaned { outcome: Some(WorktreeOutcome::Pending), ..Cleaned::default() }
            } else if let Some(user) =
                case.session.worktree.as_ref().and_then(|worktree| in_use.get(worktree.path.as_path()))
            {
                // Another tool uses one worktree for every attempt at a ticket.
                kept(format!("session {user} uses it"))
            } else {
                pollster::block_on(clean_one(run.context, run.store.as_deref(), &case.session, began))
            };
            case.worktree = cleaned.outcome;
            case.rescue_ref = cleaned.rescue_ref.or_else(|| case.rescue_ref.take());
            case.kept = cleaned.kept;
            case.failure = cleaned.failure;
            run.progress.advance();
        }
    };
    std::thread::scope(|scope| {
        // If no thread can be started, it only takes longer.
        for _ in 1..threads {
            let _ = Builder::new().spawn_scoped(scope, work);
        }
        work();
    });
    run.report.seconds.rescue += seconds(began, (run.context.clock)());
}

/// Saves and removes one worktree, whose session has no live process.
pub(super) async fn clean_one(
    context: &RecoveryContext<'_>,
    store: Option<&str>,
    session: &Session,
    now: Time,
) -> Cleaned {
    let Some(cleaner) = context.cleaner else {
        return Cleaned { outcome: Some(WorktreeOutcome::Pending), ..Cleaned::default() };
    };
    let marks = context.store.describe().capabilities.marks;
    if store.is_none() && marks {
        // It has one, but it is unknown. Recording the worktree as foreign would exclude it permanently.
        return kept_for_now("the store's identifier could not be read");
    }
    let Some(mut location) = store.and_then(|store| WorktreeLocation::of(session, store)) else {
        return kept("Sexton did not make it".to_owned());
    };
    if !marks && let Err(error) = claim(cleaner, &mut location, now).await {
        return refused(&error);
    }
    clean_location(context, cleaner, &location, now).await
}

/// Returns the worktree of a session that continues or whose state is unknown, with the session's id.
fn path_in_use(case: &Case) -> Option<(PathBuf, SessionId)> {
    let worktree = case.session.worktree.as_ref().filter(|_| case.session.status.is_active())?;
    Some((worktree.path.as_path().to_owned(), case.session.id.clone()))
}

/// Puts the session's mark on a worktree that another tool made, so that the same rules apply to it as to our
/// own. Only a worktree that git has registered for this repository, directly inside the worktree root, can be
/// marked.
async fn claim(
    cleaner: &dyn WorktreeCleaner,
    location: &mut WorktreeLocation,
    now: Time,
) -> Result<(), WorktreeError> {
    location.repo = cleaner.find_repository(&location.repo).await?;
    match cleaner.inspect(location).await? {
        Inspection::Absent | Inspection::Present { .. } => Ok(()),
        Inspection::Foreign(_) => cleaner.claim(location, now).await,
    }
}

/// Saves and removes the worktree at `location`.
pub(super) async fn clean_location(
    context: &RecoveryContext<'_>,
    cleaner: &dyn WorktreeCleaner,
    location: &WorktreeLocation,
    now: Time,
) -> Cleaned {
    let cleared = match cleaner.clear(location, context.probe, now).await {
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

/// Returns an error with all of its sources, on one line.
pub(super) fn with_sources(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    text
}

/// Determines what would happen to the worktrees, without changing them.
pub(super) async fn preview(run: &Run<'_>, cases: &mut [Case]) {
    let (Some(cleaner), Some(store)) = (run.context.cleaner, &run.store) else { return };
    for case in cases.iter_mut().filter(|case| case.has(StepKind::Rescue)) {
        let Some(location) = WorktreeLocation::of(&case.session, store) else {
            case.worktree = Some(WorktreeOutcome::Kept);
            continue;
        };
        let marks = run.context.store.describe().capabilities.marks;
        let inspection =
            if marks { cleaner.inspect(&location).await } else { survey(cleaner, location.clone()).await };
        match inspection {
            Ok(Inspection::Absent) => case.worktree = Some(WorktreeOutcome::Removed),
            Ok(Inspection::Present { dirty, own_commits }) => {
                case.worktree = Some(WorktreeOutcome::Removed);
                if dirty || own_commits > 0 {
                    case.rescue_ref = Some(format!("refs/sexton/rescue/{}", location.session));
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

/// Returns what a worktree location would hold after a claim.
async fn survey(
    cleaner: &dyn WorktreeCleaner,
    mut location: WorktreeLocation,
) -> Result<Inspection, WorktreeError> {
    location.repo = cleaner.find_repository(&location.repo).await?;
    cleaner.survey(&location).await
}

/// Empties the trash of every worktree root that this store uses, including what a killed run left.
pub(super) async fn sweep(run: &mut Run<'_>) -> Result<(), RecoverError> {
    if run.policy.dry_run {
        return Ok(());
    }
    let began = run.now();
    let worktree_roots = worktree_roots(run).await?;
    run.progress.begin(Phase::Remove, worktree_roots.len());
    for root in worktree_roots {
        sweep_root(run, &root).await;
        run.progress.advance();
    }
    run.report.seconds.remove += seconds(began, run.now());
    Ok(())
}

/// Deletes the files of the worktrees that were just removed, before the outcome is recorded: the record
/// includes what could not be deleted.
pub(super) async fn delete_removed(run: &mut Run<'_>, cases: &mut [Case]) -> Result<(), RecoverError> {
    let removed = |case: &Case| case.is_due(StepKind::Remove);
    let root = |case: &Case| Some(case.session.worktree.as_ref()?.root.as_ref()?.as_path().to_owned());
    let roots: BTreeSet<PathBuf> = cases.iter().filter(|case| removed(case)).filter_map(root).collect();
    let began = run.now();
    for root in &roots {
        sweep_root(run, root).await;
    }
    let keeps = run.context.store.describe().capabilities.keeps("recovery");
    for case in cases.iter_mut().filter(|case| removed(case)) {
        let of = |leftover: &Leftover| leftover.session.as_ref() == Some(&case.session.id);
        let Some((_, leftover)) = run.leftovers.values().find(|(_, leftover)| of(leftover)) else { continue };
        if keeps {
            case.failure = Some(leftover.why.clone());
            case.worktree = Some(WorktreeOutcome::Failed);
        } else {
            case.undeleted = Some(leftover.why.clone());
        }
    }
    run.report.seconds.remove += seconds(began, run.now());
    Ok(())
}

/// Empties the trash of one worktree root, and notes what could not be deleted.
async fn sweep_root(run: &mut Run<'_>, root: &Path) {
    let Some(cleaner) = run.context.cleaner else { return };
    let swept = {
        let spare = is_another_hosts(run.context.store, &run.here);
        cleaner.sweep(root, run.context.probe, &spare).await
    };
    run.leftovers.retain(|_, (of, _)| of != root);
    match swept {
        Ok(swept) => run.leftovers.extend(
            swept.left.into_iter().map(|leftover| (leftover.path.clone(), (root.to_owned(), leftover))),
        ),
        Err(error) => {
            let problem = Problem::new(ProblemKind::WorktreeRoot, with_sources(&error)).at(root);
            let problem = Problem { root: Some(root.into()), ..problem };
            if !run.report.problems.iter().any(|known| known.is_same(&problem)) {
                run.report.problems.push(problem);
            }
        }
    }
}

/// Returns a predicate that is true if another host must delete a session's removed worktree. Also true if the
/// record cannot be read, because then the host is unknown.
pub fn is_another_hosts<'a>(
    store: &'a dyn Store,
    here: &'a Incarnation,
) -> impl Fn(&SessionId) -> bool + Sync + use<'a> {
    move |id| match pollster::block_on(store.load(id)) {
        Ok(record) => record.is_some_and(|session| session.is_elsewhere(here)),
        Err(_) => true,
    }
}

/// Returns every worktree root that may hold a worktree of this store: those of the state files, and those that
/// the records of this run name.
pub(super) async fn worktree_roots(run: &Run<'_>) -> Result<BTreeSet<PathBuf>, RecoverError> {
    let listed = run
        .context
        .state_files
        .worktree_roots()
        .map_err(RecoverError::state_files("cannot list the worktree roots"))?;
    let mut worktree_roots: BTreeSet<_> = listed.into_iter().collect();
    // What could not be deleted is tried again, even if no record names its root any more.
    let known = run.known.iter().filter_map(|problem| problem.root.as_ref());
    worktree_roots.extend(known.map(|root| root.as_path().to_owned()));
    for session in &run.report.sessions {
        if session.worktree.is_some()
            && let Some(record) = run.context.store.load(&session.id).await?
            && let Some(root) = record.worktree.and_then(|worktree| worktree.root)
        {
            worktree_roots.insert(root.as_path().to_owned());
        }
    }
    Ok(worktree_roots)
}
