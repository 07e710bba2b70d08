//! What a recovery found and did: the document of `recover --json`.

use std::path::PathBuf;
use std::time::Duration;

use schemars::JsonSchema;
use serde::Serialize;

use super::case::Case;
use super::plan::Verdict;
use crate::session::WorktreeOutcome;
use crate::{SessionId, Status, Time};

/// A recovery, told.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Report {
    /// Whether nothing was changed.
    pub dry_run: bool,
    /// How many sessions were looked at.
    pub scanned: usize,
    /// The backup that was made before the first change.
    pub backup: Option<PathBuf>,
    /// Sessions that were dead or nobody's.
    pub orphans: usize,
    /// Sessions of which processes had to be ended.
    pub ended: usize,
    /// Sessions that have a new owner.
    pub adopted: usize,
    /// Sessions that are none of our business, or in good order.
    pub left_alone: usize,
    /// Sessions that nobody can judge.
    pub unknown: usize,
    /// Sessions that could not be cleaned up.
    pub failed: usize,
    /// What became of worktrees.
    pub worktrees: WorktreeCounts,
    /// What retention removed.
    pub pruned: Pruned,
    /// Where the time went.
    pub seconds: Seconds,
    /// Each session.
    pub sessions: Vec<SessionReport>,
}

/// What became of worktrees.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct WorktreeCounts {
    /// Had work in them, which is in a rescue ref now.
    pub rescued: usize,
    /// Are gone.
    pub removed: usize,
    /// Stay, for a reason.
    pub kept: usize,
    /// Could not be rescued or removed.
    pub failed: usize,
}

/// What retention removed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Pruned {
    /// Records that were too old.
    pub expired: usize,
    /// Records that were too many.
    pub over_limit: usize,
    /// How old they were, in days since their end.
    pub age_days: AgeBuckets,
}

/// Ages, counted.
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
    /// More.
    #[serde(rename = "30+")]
    pub older: usize,
}

impl AgeBuckets {
    /// Counts one more, of this age.
    pub(super) fn count(&mut self, age: Duration) {
        *match age.as_secs() / 86_400 {
            0 => &mut self.day,
            1..7 => &mut self.week,
            7..30 => &mut self.month,
            _ => &mut self.older,
        } += 1;
    }
}

/// Where the time went.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Seconds {
    /// Looking.
    pub observe: f64,
    /// Ending processes.
    pub end: f64,
    /// Saving work.
    pub rescue: f64,
    /// Removing worktrees.
    pub remove: f64,
    /// Retention.
    pub prune: f64,
    /// All together.
    pub total: f64,
}

/// One session.
#[derive(Clone, Debug, PartialEq, Serialize, JsonSchema)]
pub struct SessionReport {
    /// Which.
    pub id: SessionId,
    /// What its user calls it.
    pub name: Option<String>,
    /// Its status now.
    pub status: Status,
    /// Why it needed recovery; empty where it did not.
    pub cause: String,
    /// What was to be done.
    pub action: String,
    /// What came of that.
    pub outcome: Outcome,
    /// What was seen.
    pub evidence: String,
    /// Where its work is.
    pub rescue_ref: Option<String>,
    /// What became of its worktree.
    pub worktree: Option<WorktreeOutcome>,
    /// What went wrong.
    pub error: Option<String>,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// Everything that was to be done.
    Done,
    /// Nothing was to be done.
    LeftAlone,
    /// Nobody can tell, so nothing was done.
    Unknown,
    /// Not everything could be done.
    Failed,
}

/// The seconds from `since` to `now`.
pub(super) fn seconds(since: Time, now: Time) -> f64 {
    since.age_at(now).as_secs_f64()
}

impl Report {
    /// Adds what became of one session.
    pub(super) fn add(&mut self, case: &Case) {
        let session = case.report();
        match case.decision.verdict {
            Verdict::Orphan if !case.overtaken => self.orphans += 1,
            Verdict::Adopted if session.outcome == Outcome::Done => self.adopted += 1,
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
