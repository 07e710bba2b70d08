//! What a recovery found and did: the document of `recover --json`.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::case::Case;
use super::plan::Verdict;
use super::problem::Problem;
use crate::session::WorktreeOutcome;
use crate::{SessionId, Status, Time};

/// The result of a recovery.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// The number of sessions examined.
    pub scanned: usize,
    /// The backup that was made before the first change.
    pub backup: Option<PathBuf>,
    /// Sessions that were dead or had no owner.
    pub orphans: usize,
    /// Sessions whose processes had to be ended.
    pub ended: usize,
    /// Sessions that have a new owner.
    pub adopted: usize,
    /// Sessions that run and have a new supervisor.
    pub resupervised: usize,
    /// Sessions that are in order, or that this host may not change.
    pub left_alone: usize,
    /// Sessions whose state is unknown.
    pub unknown: usize,
    /// Sessions that could not be cleaned up.
    pub failed: usize,
    /// What happened to worktrees.
    pub worktrees: WorktreeCounts,
    /// What retention deleted.
    pub pruned: Pruned,
    /// What happened to the store's format; absent if it is the newest.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub format: Option<FormatReport>,
    /// How long each part took, in seconds.
    pub seconds: Seconds,
    /// The sessions.
    pub sessions: Vec<SessionReport>,
    /// What could not be resolved and is tried again by every later recovery.
    pub problems: Vec<Problem>,
}

/// What happened to worktrees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct WorktreeCounts {
    /// Worktrees whose work was saved in a rescue ref.
    pub rescued: usize,
    /// Worktrees that were removed.
    pub removed: usize,
    /// Worktrees that were kept for a reason.
    pub kept: usize,
    /// Worktrees that could not be rescued or removed.
    pub failed: usize,
}

/// What retention deleted.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Pruned {
    /// Records over the age limit.
    pub expired: usize,
    /// Records over the count limit.
    pub over_limit: usize,
    /// Their ages, in days since their end.
    pub age_days: AgeBuckets,
}

/// What happened to the store's format.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct FormatReport {
    /// The format it had.
    pub found: u64,
    /// The newest that this version writes.
    pub newest: u64,
    /// Whether it was raised.
    pub outcome: FormatOutcome,
    /// Sessions whose supervisor is of an older release and may still be running.
    pub waits_for: Vec<SessionId>,
    /// The backup that was made before the raise.
    pub backup: Option<PathBuf>,
    /// What went wrong.
    pub error: Option<String>,
}

/// Whether the store's format was raised.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum FormatOutcome {
    /// It is not raised yet.
    #[default]
    Waits,
    /// It is the newest now.
    Raised,
    /// It could not be raised, and is unchanged.
    Failed,
}

/// A histogram of ages.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct AgeBuckets {
    /// Less than a day.
    #[serde(rename = "0-1")]
    pub day: usize,
    /// Less than a week.
    #[serde(rename = "1-7")]
    pub week: usize,
    /// Less than a month.
    #[serde(rename = "7-30")]
    pub month: usize,
    /// A month or more.
    #[serde(rename = "30+")]
    pub older: usize,
}

impl AgeBuckets {
    /// Counts one more session of this age.
    pub(super) fn count(&mut self, age: Duration) {
        *match age.as_secs() / 86_400 {
            0 => &mut self.day,
            1..7 => &mut self.week,
            7..30 => &mut self.month,
            _ => &mut self.older,
        } += 1;
    }
}

/// How long each part took, in seconds.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Seconds {
    /// Observation.
    pub observe: f64,
    /// Ending processes.
    pub end: f64,
    /// Saving work.
    pub rescue: f64,
    /// Removing worktrees.
    pub remove: f64,
    /// Retention.
    pub prune: f64,
    /// The whole recovery.
    pub total: f64,
}

/// The result for one session.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SessionReport {
    /// The session's id.
    pub id: SessionId,
    /// The name that the user gave it.
    pub name: Option<String>,
    /// Its status now.
    pub status: Status,
    /// Why it needed recovery; empty if it did not.
    pub cause: String,
    /// The planned action.
    pub action: String,
    /// The result of that action.
    pub outcome: Outcome,
    /// What was observed.
    pub evidence: String,
    /// The ref that holds its saved work.
    pub rescue_ref: Option<String>,
    /// What happened to its worktree.
    pub worktree: Option<WorktreeOutcome>,
    /// What went wrong.
    pub error: Option<String>,
}

/// The result of an action.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Everything was done.
    Done,
    /// There was nothing to do.
    LeftAlone,
    /// The state is unknown, so nothing was done.
    Unknown,
    /// Not everything could be done.
    Failed,
}

/// Returns the seconds from `since` to `now`.
pub(super) fn seconds(since: Time, now: Time) -> f64 {
    since.age_at(now).as_secs_f64()
}

impl Report {
    /// Returns whether this recovery met a problem that no earlier one had met.
    pub fn has_new_problems(&self) -> bool {
        self.problems.iter().any(|problem| problem.new)
    }

    /// Corrects the report of a session whose worktree was counted as removed but could not be deleted.
    pub(super) fn note_undeleted(&mut self, id: &SessionId, why: &str) {
        let removed = |session: &&mut SessionReport| {
            session.id == *id && session.worktree == Some(WorktreeOutcome::Removed)
        };
        let Some(session) = self.sessions.iter_mut().find(removed) else { return };
        self.worktrees.removed -= 1;
        self.worktrees.rescued -= usize::from(session.rescue_ref.is_some());
        self.failed += usize::from(session.outcome != Outcome::Failed);
        session.worktree = Some(WorktreeOutcome::Failed);
        session.outcome = Outcome::Failed;
        session.error = Some(why.to_owned());
        self.worktrees.count(session);
    }

    /// Adds the result for one session.
    pub(super) fn add(&mut self, case: &Case) {
        let session = case.report();
        match case.decision.verdict {
            Verdict::Orphan if !case.overtaken => self.orphans += 1,
            Verdict::Adopted if session.outcome == Outcome::Done => self.adopted += 1,
            Verdict::Unsupervised if session.outcome == Outcome::Done => self.resupervised += 1,
            _ => {}
        }
        self.ended += usize::from(case.signalled);
        match session.outcome {
            Outcome::LeftAlone => self.left_alone += 1,
            Outcome::Unknown => self.unknown += 1,
            Outcome::Failed => self.failed += 1,
            Outcome::Done => {}
        }
        self.worktrees.count(&session);
        self.sessions.push(session);
    }
}

impl WorktreeCounts {
    pub(super) fn count(&mut self, session: &SessionReport) {
        match session.worktree {
            Some(WorktreeOutcome::Removed) => {
                self.removed += 1;
                self.rescued += usize::from(session.rescue_ref.is_some());
            }
            Some(WorktreeOutcome::Kept) => self.kept += 1,
            Some(WorktreeOutcome::Failed) => self.failed += 1,
            Some(WorktreeOutcome::Pending) | None => {}
        }
    }
}
