//! The decision what to do, from what was observed. A pure function; the first rule that matches decides.

use std::fmt;

use serde::Serialize;

use super::observe::Sighting;
use super::policy::Policy;
use crate::ending::find_ending;
use crate::probe::Group;
use crate::session::{EndingReason, OnOwnerDeath};
use crate::{Liveness, ProcessIdentity, Session, Status, Time};

/// What to do, session by session, in the order in which they were observed.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// One decision for each session.
    pub decisions: Vec<Decision>,
}

/// What to do about one session.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The record that the decision is based on.
    pub session: Session,
    /// The judgement.
    pub verdict: Verdict,
    /// Why it needs recovery.
    pub cause: Option<Cause>,
    /// What was observed, in words.
    pub evidence: String,
    /// The steps, in order.
    pub steps: Vec<Step>,
}

/// How a session was judged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong, or nothing that this host may change.
    LeftAlone,
    /// Its state is unknown, so nothing is done.
    Unknown,
    /// It ended, but its record does not say so yet.
    Ended,
    /// It is dead, or has no owner.
    Orphan,
    /// An orphan that an earlier run could not finish.
    Unfinished,
    /// Its owner died, and it gets a new one.
    Adopted,
    /// It runs, its supervisor died, and it gets a new one.
    Unsupervised,
}

/// Why a session needs recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The host was rebooted since.
    HostRebooted,
    /// The process that was starting it is gone, and no command was ever recorded.
    NeverStarted,
    /// It has been dead for longer than the stale age.
    Stale,
    /// Its pid belongs to another process now.
    PidReused,
    /// Its command and its supervisor are gone.
    ProcessDead,
    /// Its owner is gone.
    OwnerDead,
    /// It runs, and its supervisor is gone.
    SupervisorDead,
    /// The user marked it as gone.
    Forgotten,
}

impl Cause {
    /// Returns the cause as it is written in records.
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::HostRebooted => "host_rebooted",
            Cause::NeverStarted => "never_started",
            Cause::Stale => "stale",
            Cause::PidReused => "pid_reused",
            Cause::ProcessDead => "process_dead",
            Cause::OwnerDead => "owner_dead",
            Cause::SupervisorDead => "supervisor_dead",
            Cause::Forgotten => "forgotten",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One action. Each can be repeated without harm.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Commit the content of its exit file.
    CommitExit,
    /// Set this owner.
    Adopt(Option<Box<ProcessIdentity>>),
    /// Start a supervisor that replaces the one it lost.
    Supervise,
    /// Record that it is being ended, and why.
    Claim(EndingReason),
    /// End the remaining processes, and prove that they are gone. Contains the command only if it was observed
    /// alive.
    End(Box<Group>),
    /// Save the content of its worktree, and take the worktree away.
    Rescue,
    /// Delete the files of the worktree that was taken away.
    Remove,
    /// Commit the outcome.
    Record(Status),
}

/// The kinds of steps, in the order in which they are executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepKind {
    /// [`Step::CommitExit`]
    CommitExit,
    /// [`Step::Adopt`]
    Adopt,
    /// [`Step::Supervise`]
    Supervise,
    /// [`Step::Claim`]
    Claim,
    /// [`Step::End`]
    End,
    /// [`Step::Rescue`]
    Rescue,
    /// [`Step::Remove`]
    Remove,
    /// [`Step::Record`]
    Record,
}

impl Step {
    /// Returns its kind.
    pub fn kind(&self) -> StepKind {
        match self {
            Step::CommitExit => StepKind::CommitExit,
            Step::Adopt(_) => StepKind::Adopt,
            Step::Supervise => StepKind::Supervise,
            Step::Claim(_) => StepKind::Claim,
            Step::End(_) => StepKind::End,
            Step::Rescue => StepKind::Rescue,
            Step::Remove => StepKind::Remove,
            Step::Record(_) => StepKind::Record,
        }
    }
}

/// Decides what to do about every observed session.
pub fn plan(sightings: &[Sighting], policy: &Policy, now: Time) -> Plan {
    Plan { decisions: sightings.iter().map(|sighting| decide(sighting, policy, now)).collect() }
}

impl Plan {
    /// Returns whether executing the plan changes nothing.
    pub fn is_empty(&self) -> bool {
        self.decisions.iter().all(|decision| decision.steps.is_empty())
    }
}

fn decide(seen: &Sighting, policy: &Policy, now: Time) -> Decision {
    let session = &seen.session;
    let of = Judged { seen, now };
    let age = session.started_at.unwrap_or(session.created_at).age_at(now);
    if !seen.ours {
        return of.left_alone(match session.host.is_unnamed() {
            true => "its record does not identify a process".to_owned(),
            false => format!("it belongs to the host {}", session.host.hostname),
        });
    }
    // A supervisor writes the exit file after its command ended. While the command is alive, something else
    // wrote the file, such as the command itself.
    if seen.exit_waits && seen.process != Some(Liveness::Alive) {
        return of.with_steps(
            Verdict::Ended,
            None,
            "its exit file records how it ended",
            vec![Step::CommitExit],
        );
    }
    if !session.status.is_active() {
        return of.finish_cleanup();
    }
    if let Some(why) = &seen.exit_unreadable
        && seen.process != Some(Liveness::Alive)
    {
        return of.unknown(why);
    }
    if seen.rebooted {
        return of.orphan(Cause::HostRebooted, "the host was rebooted", None);
    }
    if session.status == Status::Starting
        && matches!(seen.supervisor, Some(Liveness::Alive | Liveness::Unknown(_)))
    {
        return of.left_alone("it is being started");
    }
    if age < policy.min_age {
        return of.left_alone("it is too young to be judged");
    }
    if seen.store_omits_process && seen.process.is_none() {
        return of.left_alone("its store does not record processes");
    }
    let Some(process) = &seen.process else {
        return match &seen.supervisor {
            Some(Liveness::Alive) => of.left_alone("it is being started"),
            Some(Liveness::Unknown(why)) => of.unknown(why),
            _ => of.orphan(Cause::NeverStarted, "no command was ever recorded", Some(of.rest())),
        };
    };
    match process {
        Liveness::Gone | Liveness::Reused => of.judge_dead(process, age > policy.stale),
        Liveness::Alive if age > policy.stale && sexton_mutant::is("stale_is_dead") => {
            of.orphan(Cause::Stale, "it is old", Some(of.rest()))
        }
        Liveness::Alive => of.judge_living(policy),
        Liveness::Unknown(why) => of.unknown(why),
    }
}

/// One observation while it is judged.
struct Judged<'a> {
    seen: &'a Sighting,
    now: Time,
}

impl Judged<'_> {
    fn judge_dead(&self, process: &Liveness, stale: bool) -> Decision {
        let session = &self.seen.session;
        match &self.seen.supervisor {
            Some(Liveness::Alive) if self.seen.supervisor_stopped => {
                let pid = session.supervisor.as_ref().map_or(0, |supervisor| supervisor.pid);
                return self.left_alone(format!("its command ended, and its supervisor {pid} is stopped"));
            }
            Some(Liveness::Alive) => {
                return self.left_alone("its command ended, and its supervisor is finishing");
            }
            Some(Liveness::Unknown(why)) => return self.unknown(why),
            None | Some(Liveness::Gone | Liveness::Reused) => {}
        }
        let pid = session.process.as_ref().map_or(0, |process| process.pid);
        // If the process that was ending it was killed, the reason is recorded.
        let was_ending = session.ending.as_ref().map(|ending| ending.reason);
        let rest = Some(self.rest());
        if stale {
            self.orphan(Cause::Stale, format!("process {pid} is long gone"), rest)
        } else if was_ending == Some(EndingReason::OwnerDead) {
            self.orphan(Cause::OwnerDead, owner_is_gone(session), rest)
        } else if *process == Liveness::Reused {
            self.orphan(Cause::PidReused, format!("pid {pid} belongs to another process now"), rest)
        } else {
            self.orphan(Cause::ProcessDead, format!("process {pid} and its supervisor are gone"), rest)
        }
    }

    fn judge_living(&self, policy: &Policy) -> Decision {
        let session = &self.seen.session;
        let orphaned = matches!(self.seen.owner, Some(Liveness::Gone | Liveness::Reused))
            && session.on_owner_death == OnOwnerDeath::End;
        if !orphaned {
            return self.judge_supervision();
        }
        let evidence = owner_is_gone(session);
        let Some(adoption) = &policy.adopt else {
            let group = Group { process: self.seen.identity.clone(), ..self.rest() };
            return self.orphan(Cause::OwnerDead, evidence, Some(group));
        };
        if find_ending(session, self.now).is_some() {
            return self.left_alone("it is being ended already");
        }
        let steps = vec![Step::Adopt(adoption.owner.clone().map(Box::new))];
        self.with_steps(Verdict::Adopted, Some(Cause::OwnerDead), evidence, steps)
    }

    /// Judges a session that runs and has an owner, or needs none. A registered session never had a supervisor,
    /// so none is missing.
    fn judge_supervision(&self) -> Decision {
        let session = &self.seen.session;
        let pid = match (&self.seen.supervisor, &session.supervisor) {
            (Some(Liveness::Gone | Liveness::Reused), Some(supervisor)) => supervisor.pid,
            (Some(Liveness::Unknown(why)), _) => {
                return self.left_alone(format!("it runs; the state of its supervisor is unknown: {why}"));
            }
            _ => return self.left_alone("it runs"),
        };
        if sexton_mutant::is("no_resupervise") {
            return self.left_alone("it runs");
        }
        if find_ending(session, self.now).is_some() {
            return self.left_alone("it is being ended already");
        }
        let evidence = format!("its supervisor, process {pid}, is gone");
        self.with_steps(Verdict::Unsupervised, Some(Cause::SupervisorDead), evidence, vec![Step::Supervise])
    }

    /// Decides what remains to be done for a session whose end is recorded.
    fn finish_cleanup(&self) -> Decision {
        let session = &self.seen.session;
        let failed = session.status == Status::CleanupFailed;
        let cause = session.recovery.as_ref().and_then(|recovery| cause_of(&recovery.cause));
        let mut steps = Vec::new();
        if failed && !self.seen.rebooted {
            for liveness in [&self.seen.process, &self.seen.supervisor].into_iter().flatten() {
                if let Liveness::Unknown(why) = liveness {
                    return self.unknown(why);
                }
            }
            let alive = self.seen.process == Some(Liveness::Alive);
            let process = self.seen.identity.clone().filter(|_| alive);
            steps.push(Step::End(Box::new(Group { process, ..self.rest() })));
        }
        if session.worktree.is_some() {
            steps.extend([Step::Rescue, Step::Remove]);
        }
        let status = match (failed, cause) {
            (true, Some(Cause::Stale)) => Status::Abandoned,
            (true, _) => Status::Orphaned,
            (false, _) => session.status,
        };
        steps.push(Step::Record(status));
        let evidence = session.recovery.as_ref().and_then(|recovery| recovery.evidence.clone());
        self.with_steps(Verdict::Unfinished, cause, evidence.unwrap_or_default(), steps)
    }

    /// Returns the processes that may remain when the command is gone: those with the cookie or the limit mark,
    /// and the control group. Never a process by its pid alone.
    fn rest(&self) -> Group {
        let session = &self.seen.session;
        let alive = self.seen.supervisor == Some(Liveness::Alive);
        Group {
            session: session.id.clone(),
            process: None,
            supervisor: session.supervisor.clone().filter(|_| alive),
            cgroup: session.cgroup.clone(),
            limit_mark: session.limit_mark,
        }
    }

    fn orphan(&self, cause: Cause, evidence: impl Into<String>, end: Option<Group>) -> Decision {
        let session = &self.seen.session;
        let mut steps = Vec::new();
        if let Some(group) = end {
            // Without a process, nothing else can be ending it, so there is nothing to claim.
            if group.process.is_some() && find_ending(session, self.now).is_none() {
                steps.push(Step::Claim(EndingReason::OwnerDead));
            }
            steps.push(Step::End(Box::new(group)));
        }
        if session.worktree.is_some() {
            steps.extend([Step::Rescue, Step::Remove]);
        }
        let status = match (cause, session.ending.as_ref().map(|ending| ending.reason)) {
            (Cause::Stale, _) => Status::Abandoned,
            (_, Some(EndingReason::Stopped)) => Status::Stopped,
            (_, Some(EndingReason::Timeout)) => Status::TimedOut,
            _ => Status::Orphaned,
        };
        steps.push(Step::Record(status));
        self.with_steps(Verdict::Orphan, Some(cause), evidence, steps)
    }

    fn left_alone(&self, evidence: impl Into<String>) -> Decision {
        self.with_steps(Verdict::LeftAlone, None, evidence, Vec::new())
    }

    fn unknown(&self, why: &str) -> Decision {
        self.with_steps(Verdict::Unknown, None, why, Vec::new())
    }

    fn with_steps(
        &self,
        verdict: Verdict,
        cause: Option<Cause>,
        evidence: impl Into<String>,
        steps: Vec<Step>,
    ) -> Decision {
        let session = self.seen.session.clone();
        Decision { session, verdict, cause, evidence: evidence.into(), steps }
    }
}

/// Returns the evidence for an owner that died.
pub(crate) fn owner_is_gone(session: &Session) -> String {
    match &session.owner {
        Some(owner) => format!("its owner, process {}, is gone", owner.pid),
        None => "its owner is gone".to_owned(),
    }
}

fn cause_of(text: &str) -> Option<Cause> {
    [
        Cause::HostRebooted,
        Cause::NeverStarted,
        Cause::Stale,
        Cause::PidReused,
        Cause::ProcessDead,
        Cause::OwnerDead,
        Cause::SupervisorDead,
        Cause::Forgotten,
    ]
    .into_iter()
    .find(|cause| cause.as_str() == text)
}

#[cfg(test)]
mod tests;
