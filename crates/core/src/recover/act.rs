//! Acting: carries a plan out, all sessions side by side, each step only where the one before succeeded.

use std::collections::BTreeMap;
use std::time::Duration;

use super::case::Case;
use super::ground::{Ground, Progress, RecoverError};
use super::observe::observe;
use super::plan::{Step, plan};
use super::policy::Policy;
use super::report::{Report, seconds};
use super::{adopt, end, record, retention, strays, yard};
use crate::probe::lineage;
use crate::store::{LockGuard, LockName};
use crate::{ProcessIdentity, StoreError, Time};

/// How long a recovery waits for another one. The other may be saving a great deal of work.
const LOCK_WAIT: Duration = Duration::from_secs(600);

/// After how long its user is told that it waits.
const SHORT_WAIT: Duration = Duration::from_millis(500);

/// How often sessions that somebody else changed meanwhile are judged again.
const ROUNDS: usize = 4;

/// One recovery.
pub(super) struct Run<'a> {
    pub(super) ground: &'a Ground<'a>,
    pub(super) policy: &'a Policy,
    pub(super) progress: &'a dyn Progress,
    /// The process that recovers, and its ancestors.
    pub(super) lineage: Vec<ProcessIdentity>,
    /// The store's own identifier.
    pub(super) store: Option<String>,
    pub(super) report: Report,
    /// Since when nothing was counted; `None` where nothing was yet.
    counted: Option<Time>,
    started: Time,
}

/// Puts everything in order: ends orphans, saves their work, removes their worktrees, records what became
/// of them, and lets old records go. With `policy.dry_run` it says what it would do.
///
/// Only one recovery works on a store at a time; another waits, and finds little to do.
pub async fn recover(
    ground: &Ground<'_>,
    policy: &Policy,
    progress: &dyn Progress,
) -> Result<Report, RecoverError> {
    let _lock = if policy.dry_run {
        None
    } else {
        let lock = lock(ground, progress).await?;
        ground.premises.commit_exits(ground.store)?;
        Some(lock)
    };
    let mut run = Run::new(ground, policy, progress).await?;
    let mut own = run.settle_sessions().await?;
    strays::clear(&mut run).await?;
    retention::apply(&mut run).await?;
    yard::sweep(&mut run).await?;
    run.report.seconds.total = seconds(run.started, (ground.clock)());
    end::end_own_ancestors(&run, &mut own).await?;
    Ok(run.report)
}

/// Makes sure that no other recovery works on the store, waiting for one that does.
pub(super) async fn lock(ground: &Ground<'_>, progress: &dyn Progress) -> Result<LockGuard, StoreError> {
    let name = LockName::new("recover")?;
    match ground.store.lock(&name, SHORT_WAIT).await {
        Err(StoreError::LockTimeout { .. }) => {
            progress.wait_for_other();
            ground.store.lock(&name, LOCK_WAIT).await
        }
        other => other,
    }
}

/// Saves and removes the strays of this store, and nothing else.
pub async fn clear_strays(
    ground: &Ground<'_>,
    policy: &Policy,
    progress: &dyn Progress,
) -> Result<Report, RecoverError> {
    let _lock = match policy.dry_run {
        true => None,
        false => Some(lock(ground, progress).await?),
    };
    let mut run = Run::new(ground, policy, progress).await?;
    strays::clear(&mut run).await?;
    yard::sweep(&mut run).await?;
    Ok(run.report)
}

impl<'a> Run<'a> {
    async fn new(
        ground: &'a Ground<'a>,
        policy: &'a Policy,
        progress: &'a dyn Progress,
    ) -> Result<Run<'a>, RecoverError> {
        Ok(Run {
            ground,
            policy,
            progress,
            lineage: lineage(ground.probe, ground.me).await?,
            store: ground.store.describe().uuid,
            report: Report { dry_run: policy.dry_run, ..Report::default() },
            counted: None,
            started: (ground.clock)(),
        })
    }

    pub(super) fn now(&self) -> Time {
        (self.ground.clock)()
    }

    /// What the next commit adds to the counters: this run, once, and the time it took so far.
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

    /// Backs the store up before the first change of this run.
    pub(super) fn back_up_once(&mut self) -> Result<(), RecoverError> {
        if self.policy.backup && !self.policy.dry_run && self.report.backup.is_none() {
            let backup = self.ground.premises.back_up(self.ground.store, self.now())?;
            self.report.backup = Some(backup.path);
        }
        Ok(())
    }

    /// Judges every session and does what is to be done. Returns those that this process is inside of:
    /// their last processes are ended when everything else is done.
    async fn settle_sessions(&mut self) -> Result<Vec<Case>, RecoverError> {
        let mut done: Vec<Case> = Vec::new();
        for round in 1..=ROUNDS {
            let began = self.now();
            let sightings = observe(self.ground, self.progress).await?;
            let mut cases: Vec<_> =
                plan(&sightings, self.policy, self.now()).decisions.into_iter().map(Case::new).collect();
            // What a round has dealt with, it has dealt with: a failure is not tried twice in one run.
            cases.retain(|case| !done.iter().any(|done| done.session.id == case.session.id));
            self.report.seconds.observe += seconds(began, self.now());
            if self.policy.dry_run {
                yard::foresee(self, &mut cases).await;
                done = cases;
                break;
            }
            self.carry_out(&mut cases).await?;
            let judge_again = |case: &Case| case.overtaken || case.wants(|step| *step == Step::CommitExit);
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

    async fn carry_out(&mut self, cases: &mut [Case]) -> Result<(), RecoverError> {
        if cases.iter().all(|case| case.decision.steps.is_empty()) {
            return Ok(());
        }
        self.back_up_once()?;
        if cases.iter().any(|case| case.wants(|step| *step == Step::CommitExit)) {
            self.ground.premises.commit_exits(self.ground.store)?;
        }
        adopt::adopt(self, cases).await?;
        end::claim(self, cases).await?;
        end::end(self, cases).await?;
        yard::clean(self, cases);
        record::commit(self, cases).await?;
        for case in cases.iter().filter(|case| case.goes_on() && !case.inside) {
            if case.wants(|step| matches!(step, Step::End(_))) {
                case.session.cgroup.iter().for_each(|cgroup| self.ground.probe.release(cgroup));
            }
        }
        Ok(())
    }
}
