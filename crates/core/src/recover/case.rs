//! One session during a recovery.

use super::plan::{Decision, Step, StepKind, Verdict};
use super::report::{Outcome, SessionReport};
use crate::session::WorktreeOutcome;
use crate::{Session, Status};

/// The progress of one session.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// What was decided.
    pub(super) decision: Decision,
    /// How many of its steps were executed or skipped.
    passed: usize,
    /// Its present record.
    pub(super) session: Session,
    /// What failed: no later step is executed, except that the failure is recorded.
    pub(super) failure: Option<String>,
    /// Whether another process changed the record meanwhile: the session is judged again.
    pub(super) overtaken: bool,
    /// Whether any process of it had to be ended.
    pub(super) signalled: bool,
    /// Whether the recovering process is itself part of the session.
    pub(super) inside: bool,
    /// The ref that holds its saved work.
    pub(super) rescue_ref: Option<String>,
    /// What happened to its worktree.
    pub(super) worktree: Option<WorktreeOutcome>,
    /// Why the worktree was kept.
    pub(super) kept: Option<String>,
    /// What part of its removed worktree could not be deleted, if the store cannot record that.
    pub(super) undeleted: Option<String>,
}

impl Case {
    /// Creates the case of a session for which nothing was done yet.
    pub(super) fn new(decision: Decision) -> Case {
        let recovery = decision.session.recovery.as_ref();
        Case {
            session: decision.session.clone(),
            passed: 0,
            failure: None,
            overtaken: false,
            signalled: false,
            inside: false,
            rescue_ref: recovery.and_then(|recovery| recovery.rescue_ref.clone()),
            worktree: None,
            kept: None,
            undeleted: None,
            decision,
        }
    }

    /// Returns whether every step so far succeeded.
    pub(super) fn goes_on(&self) -> bool {
        self.failure.is_none() && !self.overtaken
    }

    /// Returns its next step.
    pub(super) fn next_step(&self) -> Option<&Step> {
        self.decision.steps.get(self.passed)
    }

    /// Returns whether its next step is of this kind and may be executed.
    pub(super) fn is_due(&self, kind: StepKind) -> bool {
        self.next_step().is_some_and(|step| step.kind() == kind)
            && match kind {
                StepKind::Record => !self.overtaken,
                // Nothing is removed that was not rescued.
                StepKind::Remove => self.goes_on() && self.worktree == Some(WorktreeOutcome::Removed),
                _ => self.goes_on(),
            }
    }

    /// Goes on to the step after the next one, if the next one is of this kind.
    pub(super) fn pass(&mut self, kind: StepKind) {
        if self.next_step().is_some_and(|step| step.kind() == kind) {
            self.passed += 1;
        }
    }

    /// Returns whether the decision has a step of this kind.
    pub(super) fn has(&self, kind: StepKind) -> bool {
        self.decision.steps.iter().any(|step| step.kind() == kind)
    }

    /// Returns the status that its record gets if every step succeeds.
    pub(super) fn final_status(&self) -> Option<Status> {
        self.decision.steps.iter().find_map(|step| match step {
            Step::Record(status) => Some(*status),
            _ => None,
        })
    }

    /// Returns its part of the report.
    pub(super) fn report(&self) -> SessionReport {
        let decision = &self.decision;
        let outcome = match decision.verdict {
            _ if self.failure.is_some() || self.undeleted.is_some() => Outcome::Failed,
            Verdict::LeftAlone => Outcome::LeftAlone,
            Verdict::Unknown => Outcome::Unknown,
            _ if self.overtaken => Outcome::LeftAlone,
            _ => Outcome::Done,
        };
        let lives =
            decision.steps.iter().any(|step| matches!(step, Step::End(group) if group.process.is_some()));
        let action = match decision.verdict {
            Verdict::LeftAlone | Verdict::Unknown => "leave_alone",
            Verdict::Ended => "commit_exit",
            Verdict::Adopted => "adopt",
            Verdict::Unsupervised => "resupervised",
            Verdict::Unfinished => "clean_up",
            Verdict::Orphan if lives || self.signalled => "end",
            Verdict::Orphan => "mark",
        };
        SessionReport {
            id: self.session.id.clone(),
            name: self.session.name.clone(),
            status: self.session.status,
            cause: decision.cause.map_or_else(String::new, |cause| cause.to_string()),
            action: action.to_owned(),
            outcome,
            evidence: decision.evidence.clone(),
            rescue_ref: self.rescue_ref.clone(),
            worktree: self.undeleted.as_ref().map(|_| WorktreeOutcome::Failed).or(self.worktree),
            error: [&self.failure, &self.undeleted, &self.kept].into_iter().flatten().next().cloned(),
        }
    }
}
