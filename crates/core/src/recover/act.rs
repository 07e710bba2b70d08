//! Execution of a plan: all sessions side by side, each step only if the previous one succeeded.

use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::time::Duration;

use super::case::Case;
use super::context::{Progress, RecoverError, RecoveryContext, UnreadableExit};
use super::observe::observe;
use super::plan::{Step, StepKind, Verdict, plan};
use super::policy::Policy;
use super::problem::{Problem, ProblemKind};
use super::report::{Outcome, Report, seconds};
use super::{adopt, end, format, problem, record, retention, strays, supervise, worktrees};
use crate::probe::lineage;
use crate::store::{LockGuard, LockName};
use crate::worktree::Leftover;
use crate::{Incarnation, ProcessIdentity, StoreError, Time};

/// How long a recovery waits for another one, which may be saving a lot of work.
const LOCK_WAIT: Duration = Duration::from_secs(600);

/// How long to wait before the user is notified of the wait.
const SHORT_WAIT: Duration = Duration::from_millis(500);

/// How many times sessions that another process changed meanwhile are judged.
const ROUNDS: usize = 4;

/// One recovery.
pub(super) struct Run<'a> {
    pub(super) context: &'a RecoveryContext<'a>,
    pub(super) policy: &'a Policy,
    pub(super) progress: &'a dyn Progress,
    /// The recovering process and its ancestors.
    pub(super) lineage: Vec<ProcessIdentity>,
    /// The store's own identifier.
    pub(super) store: Option<String>,
    /// This host in its present incarnation.
    pub(super) here: Incarnation,
    /// The problems that earlier recoveries could not resolve.
    pub(super) known: Vec<Problem>,
    /// What could not be deleted, by path, each with its worktree root.
    pub(super) leftovers: BTreeMap<PathBuf, (PathBuf, Leftover)>,
    pub(super) report: Report,
    /// When the counters were last taken; `None` if they were not yet.
    counted: Option<Time>,
    started: Time,
}

/// Ends orphans, saves their work, removes their worktrees, records the outcome, and deletes old records. With
/// `policy.dry_run` it only reports what it would do.
///
/// Only one recovery works on a store at a time; another waits, and then finds little to do.
pub async fn recover(
    context: &RecoveryContext<'_>,
    policy: &Policy,
    progress: &dyn Progress,
) -> Result<Report, RecoverError> {
    let _lock = if policy.dry_run {
        None
    } else {
        let lock = lock(context, progress).await?;
        context.state_files.commit_exits(context.store, context.probe)?;
        Some(lock)
    };
    let mut run = Run::new(context, policy, progress).await?;
    let mut own = run.settle_sessions().await?;
    strays::clear(&mut run).await?;
    retention::apply(&mut run).await?;
    worktrees::sweep(&mut run).await?;
    format::raise(&mut run).await?;
    run.conclude()?;
    run.report.seconds.total = seconds(run.started, (context.clock)());
    end::end_own_ancestors(&run, &mut own).await?;
    Ok(run.report)
}

/// Takes the recovery lock of the store, waiting for another recovery that holds it.
pub(super) async fn lock(
    context: &RecoveryContext<'_>,
    progress: &dyn Progress,
) -> Result<LockGuard, StoreError> {
    let name = LockName::new("recover")?;
    match context.store.lock(&name, SHORT_WAIT).await {
        Err(StoreError::LockTimeout { .. }) => {
            progress.wait_for_other();
            context.store.lock(&name, LOCK_WAIT).await
        }
        other => other,
    }
}

/// Saves and removes the strays of this store, and does nothing else.
pub async fn clear_strays(
    context: &RecoveryContext<'_>,
    policy: &Policy,
    progress: &dyn Progress,
) -> Result<Report, RecoverError> {
    let _lock = match policy.dry_run {
        true => None,
        false => Some(lock(context, progress).await?),
    };
    let mut run = Run::new(context, policy, progress).await?;
    strays::clear(&mut run).await?;
    worktrees::sweep(&mut run).await?;
    run.collect_problems();
    Ok(run.report)
}

impl<'a> Run<'a> {
    async fn new(
        context: &'a RecoveryContext<'a>,
        policy: &'a Policy,
        progress: &'a dyn Progress,
    ) -> Result<Run<'a>, RecoverError> {
        let known = context.state_files.known_problems(&context.store.describe());
        let (known, unreadable) = match known {
            Ok(known) => (known, None),
            Err(error) => (Vec::new(), Some(Problem::new(ProblemKind::Memory, error.to_string()))),
        };
        let problems = unreadable.into_iter().collect();
        Ok(Run {
            here: context.here().await?,
            known,
            leftovers: BTreeMap::new(),
            context,
            policy,
            progress,
            lineage: lineage(context.probe, context.me).await?,
            store: context.store.describe().uuid,
            report: Report { dry_run: policy.dry_run, problems, ..Report::default() },
            counted: None,
            started: (context.clock)(),
        })
    }

    pub(super) fn now(&self) -> Time {
        (self.context.clock)()
    }

    /// Returns what the next commit adds to the counters: this run, once, and the time since the last call.
    pub(super) fn take_counters(&mut self) -> BTreeMap<String, u64> {
        let now = self.now();
        let spent = self.counted.unwrap_or(self.started).age_at(now);
        let mut counters = BTreeMap::new();
        if self.counted.is_none() {
            counters.insert("recoveries".to_owned(), 1);
        }
        if let Some(spent) = u64::try_from(spent.as_millis()).ok().filter(|spent| *spent > 0) {
            counters.insert("recovery_milliseconds".to_owned(), spent);
        }
        self.counted = Some(now);
        counters
    }

    /// Reports the unresolved problems and which of them are new, and remembers them.
    fn conclude(&mut self) -> Result<(), RecoverError> {
        let exits = self
            .context
            .state_files
            .unreadable_exits()
            .map_err(RecoverError::state_files("cannot list the exit files"))?;
        for UnreadableExit { session, path, why, .. } in exits {
            let error = format!("the exit file {} cannot be read: {why}", path.display());
            let problem = Problem::new(ProblemKind::ExitFile, error).of_session(&session).at(path);
            self.report.problems.push(problem);
        }
        self.collect_problems();
        let changed = problem::compare(&mut self.report.problems, &self.known);
        if changed && !self.policy.dry_run {
            let remembered: Vec<_> = self.report.problems.iter().map(Problem::remembered).collect();
            let store = self.context.store.describe();
            if let Err(error) = self.context.state_files.remember_problems(&store, &remembered) {
                self.report.problems.push(Problem::new(ProblemKind::Memory, error.to_string()));
            }
        }
        Ok(())
    }

    /// Adds the files that could not be deleted, and the sessions that failed for another reason.
    fn collect_problems(&mut self) {
        for (root, leftover) in self.leftovers.values() {
            if let Some(session) = &leftover.session {
                self.report.note_undeleted(session, &leftover.why);
            }
            self.report.problems.push(Problem::of_leftover(leftover, root));
        }
        let undeleted: BTreeSet<_> =
            self.leftovers.values().map(|(_, leftover)| (&leftover.session, &leftover.why)).collect();
        for session in self.report.sessions.iter().filter(|session| session.outcome == Outcome::Failed) {
            let error = session.error.clone().unwrap_or_default();
            if undeleted.contains(&(&Some(session.id.clone()), &error)) {
                continue;
            }
            let kind = match (session.cause.as_str(), session.worktree) {
                ("stray", Some(_)) => ProblemKind::Stray,
                ("stray", None) => ProblemKind::SessionFiles,
                _ => ProblemKind::Session,
            };
            self.report.problems.push(Problem::new(kind, error).of_session(&session.id));
        }
    }

    /// Backs up the store before the first change of this run.
    pub(super) fn back_up_once(&mut self) -> Result<(), RecoverError> {
        if self.policy.backup && !self.policy.dry_run && self.report.backup.is_none() {
            let backup = self.context.state_files.back_up(self.context.store, self.now())?;
            self.report.backup = Some(backup.path);
        }
        Ok(())
    }

    /// Judges every session and executes its steps. Returns the sessions that this process is part of: their
    /// last processes are ended after everything else.
    async fn settle_sessions(&mut self) -> Result<Vec<Case>, RecoverError> {
        let mut done: Vec<Case> = Vec::new();
        for round in 1..=ROUNDS {
            let began = self.now();
            let sightings = observe(self.context, self.progress).await?;
            let mut cases: Vec<_> =
                plan(&sightings, self.policy, self.now()).decisions.into_iter().map(Case::new).collect();
            // A case that failed in an earlier round is not tried again in the same run.
            cases.retain(|case| !done.iter().any(|done| done.session.id == case.session.id));
            self.report.seconds.observe += seconds(began, self.now());
            if self.policy.dry_run {
                worktrees::preview(self, &mut cases).await;
                done = cases;
                break;
            }
            self.execute(&mut cases).await?;
            let judge_again = |case: &Case| case.overtaken || case.has(StepKind::CommitExit);
            let again = cases.iter().any(judge_again) && round < ROUNDS;
            done.extend(cases.into_iter().filter(|case| !(again && judge_again(case))));
            if !again {
                break;
            }
        }
        self.report.scanned = done.len();
        done.iter().for_each(|case| self.report.add(case));
        Ok(done.into_iter().filter(|case| case.inside).collect())
    }

    /// Executes the steps of every case in their order. Steps of one kind are executed together: all orphans are
    /// ended in one grace period, and their records change in few batches.
    async fn execute(&mut self, cases: &mut [Case]) -> Result<(), RecoverError> {
        if cases.iter().all(|case| case.decision.steps.is_empty()) {
            return Ok(());
        }
        // What an earlier run did not finish mostly stays unchanged, which does not justify another backup.
        if cases
            .iter()
            .any(|case| case.decision.verdict != Verdict::Unfinished && !case.decision.steps.is_empty())
        {
            self.back_up_once()?;
        }
        let next = |cases: &[Case]| cases.iter().filter_map(Case::next_step).map(Step::kind).min();
        while let Some(kind) = next(cases) {
            for case in cases.iter().filter(|case| case.is_due(kind)) {
                self.progress.execute(&case.session.id, kind);
            }
            self.execute_kind(kind, cases).await?;
            cases.iter_mut().for_each(|case| case.pass(kind));
        }
        for case in cases.iter().filter(|case| case.goes_on() && !case.inside && case.has(StepKind::End)) {
            case.session.cgroup.iter().for_each(|cgroup| self.context.probe.release(cgroup));
        }
        Ok(())
    }

    /// Executes the next step of every case for which a step of this kind is due.
    async fn execute_kind(&mut self, kind: StepKind, cases: &mut [Case]) -> Result<(), RecoverError> {
        if !cases.iter().any(|case| case.is_due(kind)) {
            return Ok(());
        }
        match kind {
            StepKind::CommitExit => {
                self.context.state_files.commit_exits(self.context.store, self.context.probe)?;
            }
            StepKind::Adopt => adopt::adopt(self, cases).await?,
            StepKind::Supervise => supervise::supervise(self, cases),
            StepKind::Claim => end::claim(self, cases).await?,
            StepKind::End => end::end(self, cases).await?,
            StepKind::Rescue => worktrees::rescue(self, cases),
            StepKind::Remove => worktrees::delete_removed(self, cases).await?,
            StepKind::Record => record::commit(self, cases).await?,
        }
        Ok(())
    }
}
