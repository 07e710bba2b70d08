//! The state of the loop: the tickets that it took on and the progress of each. It is stored in the field `loop` of the
//! loop's record, and is all that the next loop needs to continue.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sexton_core::session::LoopState;
use sexton_core::{OsText, SessionId, Time};

use crate::ticket::Ticket;

/// Marks a record's loop state as one of this crate.
const KIND: &str = "ralph";

/// The loop's state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    kind: String,
    /// The repository.
    pub repo: OsText,
    /// Id of the run, kept across restarts. Tags of sessions contain it.
    pub run: SessionId,
    /// The branch that work starts from and is merged into.
    pub base: String,
    /// Number of attempts started. The tag of each session contains its number.
    pub serial: u64,
    /// The tickets.
    pub tickets: BTreeMap<Ticket, Progress>,
    /// Phase of the loop.
    #[serde(skip)]
    pub phase: Phase,
    /// Number of iterations: how often a ticket was taken on.
    #[serde(skip)]
    pub iteration: u64,
}

/// Phase of the loop.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// The loop is running, or was killed while it ran.
    #[default]
    Running,
    /// The loop is stopping its sessions.
    Stopping,
    /// The loop has stopped on request.
    Interrupted,
    /// Nothing is left to do.
    Complete,
    /// The limit of iterations is reached.
    Exhausted,
    /// Work is left, but none of it can be taken on.
    Stuck,
    /// The loop failed.
    Failed,
}

impl Phase {
    /// Returns the phase as written in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Phase::Running => "running",
            Phase::Stopping => "stopping",
            Phase::Interrupted => "interrupted",
            Phase::Complete => "complete",
            Phase::Exhausted => "exhausted",
            Phase::Stuck => "stuck",
            Phase::Failed => "failed",
        }
    }

    /// Returns whether a run in this phase has ended. Any other run is continued.
    pub fn is_end(self) -> bool {
        matches!(self, Phase::Complete | Phase::Exhausted | Phase::Stuck)
    }
}

/// The progress of a ticket.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// Number of times it was taken on.
    pub iterations: u64,
    /// Number of failed attempts since it was last taken on.
    pub failures: u64,
    /// Number of attempts that ended because the loop ended. They do not count as failures.
    #[serde(default)]
    pub interruptions: u64,
    /// Log file of its last session.
    #[serde(default)]
    pub log: Option<OsText>,
    /// Its last session.
    #[serde(default)]
    pub session: Option<SessionId>,
    /// Stage of the ticket.
    pub stage: Stage,
}

/// Stage of a ticket. The next loop continues stages that are not final.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "at")]
pub enum Stage {
    /// The ticket waits for its next attempt.
    Waiting {
        /// Earliest time of the attempt.
        not_before: Time,
    },
    /// An attempt was started.
    Running {
        /// Number of the attempt.
        serial: u64,
    },
    /// The agent succeeded; its work is to be committed to the branch.
    Sealing,
    /// The work is to be merged.
    Merging {
        /// The commit.
        tip: String,
        /// Why the last try was deferred.
        #[serde(default)]
        deferred: Option<String>,
    },
    /// The worktree is to be removed.
    Clearing {
        /// What follows.
        then: Then,
    },
    /// Final: the ticket is done.
    Done {
        /// Outcome of its work.
        work: Work,
        /// Why its worktree was kept.
        #[serde(default)]
        kept: Option<String>,
    },
    /// Final: the work cannot be merged automatically. Branch and worktree are kept.
    Conflict {
        /// The files that both sides changed.
        paths: Vec<String>,
        /// The worktree.
        worktree: Option<OsText>,
    },
    /// Final: the ticket is not retried.
    SetAside {
        /// The cause.
        why: String,
    },
}

/// What follows the removal of a worktree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum Then {
    /// Retry the ticket after a pause.
    Retry,
    /// Retry the ticket without counting a failure.
    Again,
    /// Mark the ticket as done.
    Finish {
        /// Outcome of its work.
        work: Work,
    },
    /// Set the ticket aside.
    SetAside {
        /// The cause.
        why: String,
    },
}

/// Outcome of finished work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "work")]
pub enum Work {
    /// The work is in the base branch.
    Merged {
        /// Commit of the base branch after the merge.
        commit: String,
        /// How it was merged.
        how: How,
    },
    /// The work stays on the ticket's branch, as configured.
    OnBranch {
        /// Its commit.
        commit: String,
    },
    /// There was no work.
    Nothing,
}

/// How work was merged into the base branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// Fast-forward.
    FastForward,
    /// Merge commit.
    MergeCommit,
    /// It was already merged.
    Already,
}

impl Stage {
    /// Returns whether the stage is final.
    pub fn is_final(&self) -> bool {
        matches!(self, Stage::Done { .. } | Stage::Conflict { .. } | Stage::SetAside { .. })
    }

    /// Returns whether only the merge is left, and it was deferred.
    pub fn is_deferred(&self) -> bool {
        matches!(self, Stage::Merging { deferred: Some(_), .. })
    }
}

impl Progress {
    /// Creates the progress of a new ticket.
    pub fn new(now: Time) -> Progress {
        let stage = Stage::Waiting { not_before: now };
        Progress { iterations: 0, failures: 0, interruptions: 0, log: None, session: None, stage }
    }
}

impl State {
    /// Creates the state of a new run.
    pub fn new(repo: OsText, base: String) -> State {
        State {
            kind: KIND.to_owned(),
            repo,
            run: SessionId::random(),
            base,
            serial: 0,
            tickets: BTreeMap::new(),
            phase: Phase::Running,
            iteration: 0,
        }
    }

    /// Reads the state from a record. Returns `None` if the loop belongs to another tool, or has a newer format.
    pub fn from_loop(recorded: &LoopState) -> Option<State> {
        let text = |key: &str| recorded.extra.get(key).and_then(|value| value.as_str());
        if text("kind") != Some(KIND) {
            return None;
        }
        let kept = serde_json::Value::Object(recorded.extra.clone());
        let state: State = serde_json::from_value(kept).ok()?;
        let phase = recorded.phase.clone().unwrap_or_default();
        let phase = serde_json::from_value(phase.into()).unwrap_or_default();
        Some(State { phase, iteration: recorded.iteration.unwrap_or(0), ..state })
    }

    /// Converts the state for a record. `active` says whether another loop is to continue it.
    ///
    /// # Panics
    /// Never: every field has a JSON form.
    pub fn to_loop(&self, active: bool, max_iterations: u64, now: Time) -> LoopState {
        let kept = serde_json::to_value(self).expect("every field has a JSON form");
        LoopState {
            active,
            phase: Some(self.phase.as_str().to_owned()),
            iteration: Some(self.iteration),
            max_iterations: Some(max_iterations),
            updated_at: Some(now),
            extra: kept.as_object().cloned().unwrap_or_default(),
            ..LoopState::default()
        }
    }

    /// Returns the state that the next loop starts with. An interrupted run continues unchanged. A run that ended, or
    /// any run with `fresh`, keeps only its unfinished tickets and restarts its counters. The phase of a loop that was
    /// stopping is kept, because the next loop must know that the loop and not the user stopped its sessions.
    #[must_use]
    pub fn into_next(self, fresh: bool) -> State {
        if !fresh && !self.phase.is_end() {
            return self;
        }
        let unfinished = self.tickets.into_iter().filter(|(_, progress)| !progress.stage.is_final());
        let reset = |(ticket, progress)| (ticket, Progress { failures: 0, interruptions: 0, ..progress });
        let tickets = unfinished.map(reset).collect();
        // The tags of sessions contain run and serial, so neither may be reused.
        let phase = if self.phase.is_end() { Phase::Running } else { self.phase };
        State { tickets, iteration: 0, phase, ..self }
    }

    /// Returns whether another loop has to continue it.
    pub fn is_unfinished(&self) -> bool {
        !self.phase.is_end() || self.tickets.values().any(|progress| !progress.stage.is_final())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn now() -> Time {
        "2026-01-02T03:04:05Z".parse().unwrap()
    }

    fn ticket(text: &str) -> Ticket {
        text.parse().unwrap()
    }

    fn sample() -> State {
        let mut state = State::new("/repo".into(), "main".to_owned());
        let stages = [
            Stage::Waiting { not_before: now() },
            Stage::Running { serial: 7 },
            Stage::Sealing,
            Stage::Merging { tip: "abc".into(), deferred: Some("dirty".into()) },
            Stage::Clearing { then: Then::Finish { work: Work::OnBranch { commit: "abc".into() } } },
            Stage::Clearing { then: Then::SetAside { why: "no".into() } },
            Stage::Done { work: Work::Merged { commit: "abc".into(), how: How::Already }, kept: None },
            Stage::Conflict { paths: vec!["a".into()], worktree: Some("/worktrees/x".into()) },
            Stage::SetAside { why: "no".into() },
        ];
        for (number, stage) in stages.into_iter().enumerate() {
            state.tickets.insert(ticket(&format!("T-{number}")), Progress { stage, ..Progress::new(now()) });
        }
        State { serial: 9, iteration: 5, ..state }
    }

    #[test]
    fn state_round_trips_through_record() {
        for phase in [Phase::Running, Phase::Stopping, Phase::Interrupted, Phase::Stuck] {
            let state = State { phase, ..sample() };
            let text = serde_json::to_string(&state.to_loop(true, 50, now())).unwrap();
            assert_eq!(State::from_loop(&serde_json::from_str(&text).unwrap()), Some(state));
        }
    }

    #[test]
    fn loop_state_of_another_tool_is_ignored() {
        assert_eq!(State::from_loop(&LoopState::default()), None);
        let mut other = sample().to_loop(true, 50, now());
        other.extra.insert("tickets".into(), serde_json::json!({"../x": {}}));
        assert_eq!(State::from_loop(&other), None);
    }

    #[test]
    fn interrupted_run_continues_and_ended_run_keeps_only_unfinished_tickets() {
        for phase in [Phase::Running, Phase::Stopping, Phase::Interrupted, Phase::Failed] {
            let state = State { phase, ..sample() };
            assert_eq!(state.clone().into_next(false), state);
        }
        for (phase, fresh) in [(Phase::Complete, false), (Phase::Exhausted, false), (Phase::Running, true)] {
            let state = State { phase, ..sample() };
            let next = state.clone().into_next(fresh);
            assert_eq!((next.iteration, next.tickets.len()), (0, 6), "{phase:?}");
            assert_eq!(
                (next.run, next.serial),
                (state.run, state.serial),
                "the tag of a session could be reused"
            );
        }
    }
}
