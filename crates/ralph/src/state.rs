//! What the loop remembers: which tickets it took on and how far each has come. It is kept in the `loop` of the
//! loop's own record, and is all that the next loop needs to go on.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use sexton_core::session::LoopState;
use sexton_core::{OsText, SessionId, Time};

use crate::ticket::Ticket;

/// The word by which a record's loop is known as one of ours.
const KIND: &str = "ralph";

/// The loop's memory.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct State {
    kind: String,
    /// The repository.
    pub repo: OsText,
    /// Whose sessions they are: the same from loop to loop.
    pub run: SessionId,
    /// The branch that work begins at and is merged into.
    pub base: String,
    /// How many attempts were begun. Each session is marked with its number.
    pub serial: u64,
    /// The tickets.
    pub tickets: BTreeMap<Ticket, Progress>,
    /// Where the loop is.
    #[serde(skip)]
    pub phase: Phase,
    /// How many times a ticket was taken on.
    #[serde(skip)]
    pub iteration: u64,
}

/// Where the loop is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// It works, or was killed while it did.
    #[default]
    Running,
    /// It was told to stop, and lets its sessions end.
    Stopping,
    /// It was told to stop, and did.
    Interrupted,
    /// Nothing is left to do.
    Complete,
    /// It took on as many tickets as it may.
    Exhausted,
    /// Something is left to do, and none of it can be taken on.
    Stuck,
    /// It could not go on.
    Failed,
}

impl Phase {
    /// The phase as records spell it.
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

    /// Whether a run that was left in this phase came to its end. Any other goes on.
    pub fn is_end(self) -> bool {
        matches!(self, Phase::Complete | Phase::Exhausted | Phase::Stuck)
    }
}

/// How far a ticket has come.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Progress {
    /// How often it was taken on.
    pub iterations: u64,
    /// How many attempts failed since it was last taken on.
    pub failures: u64,
    /// How many attempts ended with their loop; they count for nothing else.
    #[serde(default)]
    pub interruptions: u64,
    /// Where its last session's output is.
    #[serde(default)]
    pub log: Option<OsText>,
    /// Its last session.
    #[serde(default)]
    pub session: Option<SessionId>,
    /// Where it is.
    pub stage: Stage,
}

/// Where a ticket is. What is not final is gone on with by the next loop.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "at")]
pub enum Stage {
    /// It is to be tried, not before this.
    Waiting {
        /// When.
        not_before: Time,
    },
    /// An attempt was begun.
    Running {
        /// Its number.
        serial: u64,
    },
    /// Its agent succeeded; what that left is to be put on the branch.
    Sealing,
    /// Its work is to be merged.
    Merging {
        /// The commit.
        tip: String,
        /// Why it could not be, so far.
        #[serde(default)]
        deferred: Option<String>,
    },
    /// Its worktree is to go.
    Clearing {
        /// What comes then.
        then: Then,
    },
    /// Final: it was done.
    Done {
        /// What became of its work.
        work: Work,
        /// Why its worktree is still there.
        #[serde(default)]
        kept: Option<String>,
    },
    /// Final: its work cannot be merged by a machine. Branch and worktree stay.
    Conflict {
        /// The files that both sides changed.
        paths: Vec<String>,
        /// The worktree.
        worktree: Option<OsText>,
    },
    /// Final: it is not tried any more.
    SetAside {
        /// Why.
        why: String,
    },
}

/// What comes after a worktree is gone.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "do")]
pub enum Then {
    /// The ticket is tried again after a pause.
    Retry,
    /// It is tried again, and nothing is held against it.
    Again,
    /// It is done.
    Finish {
        /// What became of its work.
        work: Work,
    },
    /// It is not tried any more.
    SetAside {
        /// Why.
        why: String,
    },
}

/// What became of finished work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", tag = "work")]
pub enum Work {
    /// It is in the base branch.
    Merged {
        /// Where that was then.
        commit: String,
        /// How.
        how: How,
    },
    /// It is on the ticket's branch, as asked for.
    OnBranch {
        /// Its commit.
        commit: String,
    },
    /// There was none.
    Nothing,
}

/// How work came into the base branch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum How {
    /// The branch was moved forward.
    FastForward,
    /// By a merge commit.
    MergeCommit,
    /// It was there already.
    Already,
}

impl Stage {
    /// Whether nothing more happens to the ticket by itself.
    pub fn is_final(&self) -> bool {
        matches!(self, Stage::Done { .. } | Stage::Conflict { .. } | Stage::SetAside { .. })
    }

    /// Whether only its merge is missing, and that waits for its user.
    pub fn is_deferred(&self) -> bool {
        matches!(self, Stage::Merging { deferred: Some(_), .. })
    }
}

impl Progress {
    /// A ticket that nothing was done about.
    pub fn new(now: Time) -> Progress {
        let stage = Stage::Waiting { not_before: now };
        Progress { iterations: 0, failures: 0, interruptions: 0, log: None, session: None, stage }
    }
}

impl State {
    /// The memory of a new run.
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

    /// The memory that a record's loop holds; `None` where that is another's, or of a version that says more
    /// than this one understands.
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

    /// The memory as a record keeps it. `active` says whether another loop is to go on with it.
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

    /// What the next loop begins with. A run that was cut off goes on; one that came to its end leaves only
    /// what is not finished, and is counted anew. `fresh` asks for that as well. It still says whether the last
    /// one was stopping: what that stopped, nobody else did.
    #[must_use]
    pub fn into_next(self, fresh: bool) -> State {
        if !fresh && !self.phase.is_end() {
            return self;
        }
        let unfinished = self.tickets.into_iter().filter(|(_, progress)| !progress.stage.is_final());
        let forgiven = |(ticket, progress)| (ticket, Progress { failures: 0, interruptions: 0, ..progress });
        let tickets = unfinished.map(forgiven).collect();
        // Sessions are marked with the run and their number: neither is ever given out twice.
        let phase = if self.phase.is_end() { Phase::Running } else { self.phase };
        State { tickets, iteration: 0, phase, ..self }
    }

    /// Whether another loop has to go on with it.
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
            Stage::Conflict { paths: vec!["a".into()], worktree: Some("/yard/x".into()) },
            Stage::SetAside { why: "no".into() },
        ];
        for (number, stage) in stages.into_iter().enumerate() {
            state.tickets.insert(ticket(&format!("T-{number}")), Progress { stage, ..Progress::new(now()) });
        }
        State { serial: 9, iteration: 5, ..state }
    }

    #[test]
    fn the_memory_survives_its_record() {
        for phase in [Phase::Running, Phase::Stopping, Phase::Interrupted, Phase::Stuck] {
            let state = State { phase, ..sample() };
            let text = serde_json::to_string(&state.to_loop(true, 50, now())).unwrap();
            assert_eq!(State::from_loop(&serde_json::from_str(&text).unwrap()), Some(state));
        }
    }

    #[test]
    fn a_loop_of_somebody_else_is_no_memory_of_ours() {
        assert_eq!(State::from_loop(&LoopState::default()), None);
        let mut other = sample().to_loop(true, 50, now());
        other.extra.insert("tickets".into(), serde_json::json!({"../x": {}}));
        assert_eq!(State::from_loop(&other), None);
    }

    #[test]
    fn what_was_cut_off_goes_on_and_what_ended_leaves_only_the_unfinished() {
        for phase in [Phase::Running, Phase::Stopping, Phase::Interrupted, Phase::Failed] {
            let state = State { phase, ..sample() };
            assert_eq!(state.clone().into_next(false), state);
        }
        for (phase, fresh) in [(Phase::Complete, false), (Phase::Exhausted, false), (Phase::Running, true)] {
            let state = State { phase, ..sample() };
            let next = state.clone().into_next(fresh);
            assert_eq!((next.iteration, next.tickets.len()), (0, 6), "{phase:?}");
            assert_eq!((next.run, next.serial), (state.run, state.serial), "a session could be mistaken");
        }
    }
}
