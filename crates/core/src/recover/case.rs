//! One session on its way through a recovery.

use super::plan::{Decision, Step, Verdict};
use super::report::{Outcome, SessionReport};
use crate::session::WorktreeOutcome;
use crate::{Session, Status};

/// What has been done about one session so far.
#[derive(Clone, Debug)]
pub(super) struct Case {
    /// What was decided.
    pub(super) decision: Decision,
    /// Its record as it stands.
    pub(super) session: Session,
    /// What went wrong: no later step is taken.
    pub(super) failure: Option<String>,
    /// Somebody else changed the record meanwhile: it is judged again.
    pub(super) overtaken: bool,
    /// Whether any process of it had to be ended.
    pub(super) signalled: bool,
    /// Whether the process that recovers is inside the session itself.
    pub(super) inside: bool,
    /// Where its work is.
    pub(super) rescue_ref: Option<String>,
    /// What became of its worktree.
    pub(super) worktree: Option<WorktreeOutcome>,
    /// Why the worktree was kept.
    pub(super) kept: Option<String>,
}

impl Case {
    /// A session about which something was decided and nothing done.
    pub(super) fn new(decision: Decision) -> Case {
        let recovery = decision.session.recovery.as_ref();
        Case {
            session: decision.session.clone(),
            failure: None,
            overtaken: false,
            signalled: false,
            inside: false,
            rescue_ref: recovery.and_then(|recovery| recovery.rescue_ref.clone()),
            worktree: None,
            kept: None,
            decision,
        }
    }

    /// Whether its next step may be taken.
    pub(super) fn goes_on(&self) -> bool {
        self.failure.is_none() && !self.overtaken
    }

    /// Whether a step that `wanted` recognises was decided.
    pub(super) fn wants(&self, wanted: fn(&Step) -> bool) -> bool {
        self.decision.steps.iter().any(wanted)
    }

    /// The status that its record is to have when every step succeeded.
    pub(super) fn final_status(&self) -> Option<Status> {
        self.decision.steps.iter().find_map(|step| match step {
            Step::Record(status) => Some(*status),
            _ => None,
        })
    }

    /// What the report says of it.
    pub(super) fn report(&self) -> SessionReport {
        let decision = &self.decision;
        let outcome = match decision.verdict {
            _ if self.failure.is_some() => Outcome::Failed,
            Verdict::LeftAlone => Outcome::LeftAlone,
            Verdict::Unknown => Outcome::Unknown,
            _ if self.overtaken => Outcome::LeftAlone,
            _ => Outcome::Done,
        };
        let lives = self.wants(|step| matches!(step, Step::End(group) if group.process.is_some()));
        let action = match decision.verdict {
            Verdict::LeftAlone | Verdict::Unknown => "leave_alone",
            Verdict::Ended => "commit_exit",
            Verdict::Adopted => "adopt",
            Verdict::Owed => "clean_up",
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
            worktree: self.worktree,
            error: self.failure.clone().or_else(|| self.kept.clone()),
        }
    }
}
