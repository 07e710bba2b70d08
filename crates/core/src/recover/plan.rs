//! Deciding: what is to be done, from what was seen. A pure function; the first rule that fits decides.

use std::fmt;

use serde::Serialize;

use super::observe::Sighting;
use super::policy::Policy;
use crate::ending::find_ending;
use crate::probe::Group;
use crate::session::{EndingReason, OnOwnerDeath};
use crate::{Liveness, ProcessIdentity, Session, Status, Time};

/// What is to be done, session by session, in the order in which they were seen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plan {
    /// One for each session.
    pub decisions: Vec<Decision>,
}

/// What is to be done about one session.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Its record, as it was judged.
    pub session: Session,
    /// What it is.
    pub verdict: Verdict,
    /// Why it needs recovery.
    pub cause: Option<Cause>,
    /// What was seen, in words.
    pub evidence: String,
    /// What is done, in this order.
    pub steps: Vec<Step>,
}

/// What a session was found to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Nothing is wrong, or nothing that is ours to change.
    LeftAlone,
    /// Nobody can tell, so nothing is done.
    Unknown,
    /// It ended; only its record does not say so yet.
    Ended,
    /// It is dead or nobody's.
    Orphan,
    /// An orphan that an earlier run did not finish with.
    Owed,
    /// Its owner died, and it gets another.
    Adopted,
}

/// Why a session needs recovery.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Cause {
    /// The machine was started again since.
    HostRebooted,
    /// Whoever was starting it is gone, and no command was ever recorded.
    NeverStarted,
    /// It is dead, and has been for so long that nothing more can be learned.
    Stale,
    /// Its pid belongs to another process now.
    PidReused,
    /// Its command and its supervisor are gone.
    ProcessDead,
    /// Its owner is gone.
    OwnerDead,
    /// Its user said that it is gone.
    Forgotten,
}

impl Cause {
    /// The cause as records spell it.
    pub fn as_str(self) -> &'static str {
        match self {
            Cause::HostRebooted => "host_rebooted",
            Cause::NeverStarted => "never_started",
            Cause::Stale => "stale",
            Cause::PidReused => "pid_reused",
            Cause::ProcessDead => "process_dead",
            Cause::OwnerDead => "owner_dead",
            Cause::Forgotten => "forgotten",
        }
    }
}

impl fmt::Display for Cause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

/// One thing that is done. Each can be done twice without harm.
#[derive(Clone, Debug, PartialEq)]
pub enum Step {
    /// Commit what its exit file says.
    CommitExit,
    /// Give it this owner.
    Adopt(Option<Box<ProcessIdentity>>),
    /// Say in the record that it is being ended, and why.
    Claim(EndingReason),
    /// End whoever is left of it, and prove them gone. Holds the command only where that was seen alive.
    End(Box<Group>),
    /// Save what its worktree holds.
    Rescue,
    /// Remove its worktree.
    Remove,
    /// Commit what became of it.
    Record(Status),
}

/// Decides what is to be done about everything that was seen.
pub fn plan(sightings: &[Sighting], policy: &Policy, now: Time) -> Plan {
    Plan { decisions: sightings.iter().map(|sighting| decide(sighting, policy, now)).collect() }
}

impl Plan {
    /// Whether carrying it out changes anything.
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
            true => "nothing says which process it is".to_owned(),
            false => format!("it belongs to the host {}", session.host.hostname),
        });
    }
    if seen.exit_waits {
        return of.with_steps(
            Verdict::Ended,
            None,
            "its exit file says how it ended",
            vec![Step::CommitExit],
        );
    }
    if !session.status.is_active() {
        return of.owed();
    }
    if seen.rebooted {
        return of.orphan(Cause::HostRebooted, "the machine was started again since", None);
    }
    if session.status == Status::Starting
        && matches!(seen.supervisor, Some(Liveness::Alive | Liveness::Unknown(_)))
    {
        return of.left_alone("it is being started");
    }
    if age < policy.min_age {
        return of.left_alone("it is too young to be judged");
    }
    if seen.untold && seen.process.is_none() {
        return of.left_alone("its store does not tell of processes");
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

/// One sighting, while it is judged.
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
        // Whoever was ending it, and was killed over it, had said why.
        let was_ending = session.ending.as_ref().map(|ending| ending.reason);
        let rest = Some(self.rest());
        if stale {
            self.orphan(Cause::Stale, format!("process {pid} is long gone"), rest)
        } else if was_ending == Some(EndingReason::OwnerDead) {
            self.orphan(Cause::OwnerDead, owner_is_gone(session), rest)
        } else if *process == Liveness::Reused {
            self.orphan(Cause::PidReused, format!("pid {pid} belongs to another process now"), rest)
        } else {
            self.orphan(Cause::ProcessDead, format!("process {pid} is gone, and its supervisor too"), rest)
        }
    }

    fn judge_living(&self, policy: &Policy) -> Decision {
        let session = &self.seen.session;
        let orphaned = matches!(self.seen.owner, Some(Liveness::Gone | Liveness::Reused))
            && session.on_owner_death == OnOwnerDeath::End;
        if !orphaned {
            return self.left_alone("it runs");
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

    /// A session whose end is recorded, and for which something is still to be done.
    fn owed(&self) -> Decision {
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
        self.with_steps(Verdict::Owed, cause, evidence.unwrap_or_default(), steps)
    }

    /// Whoever may be left when the command is gone: those with the cookie, and the control group. No
    /// process by its pid alone.
    fn rest(&self) -> Group {
        let session = &self.seen.session;
        let alive = self.seen.supervisor == Some(Liveness::Alive);
        Group {
            session: session.id.clone(),
            process: None,
            supervisor: session.supervisor.clone().filter(|_| alive),
            cgroup: session.cgroup.clone(),
        }
    }

    fn orphan(&self, cause: Cause, evidence: impl Into<String>, end: Option<Group>) -> Decision {
        let session = &self.seen.session;
        let mut steps = Vec::new();
        if let Some(group) = end {
            // Nobody else can be ending what has no process, so there is nothing to claim.
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

/// How records say that an owner died.
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
        Cause::Forgotten,
    ]
    .into_iter()
    .find(|cause| cause.as_str() == text)
}

#[cfg(test)]
mod tests;
