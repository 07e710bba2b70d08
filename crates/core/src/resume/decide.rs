//! The decision of a resumption, from what was observed. A pure function; the first rule that matches decides.

use std::time::Duration;

use super::activity::{Activity, Staleness};
use super::agent::AgentIdentity;
use super::dialect::{Dialect, Reason};
use super::edit;
use super::look::Standing;
use crate::{Session, SessionId, Time};

/// The request of an agent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    /// The agent's own ids.
    pub agent: AgentIdentity,
    /// The kind of agent, such as `codex`, if known.
    pub kind: Option<String>,
    /// The terminal pane that it runs in.
    pub pane: Option<String>,
    /// Whether it just took a turn.
    pub turn: bool,
    /// How long an active loop may be idle before it is stale.
    pub stale: Duration,
}

/// The current session, as it was found.
#[derive(Clone, Debug, PartialEq)]
pub enum Current {
    /// There is no current session.
    Missing,
    /// It exists, but its record cannot be read.
    Unreadable(SessionId),
    /// Its record, and the activity that is used if its loop has none of its own.
    Found(Box<Session>, Option<Activity>),
}

/// A session that may have driven the loop before.
#[derive(Clone, Debug, PartialEq)]
pub struct Prior {
    /// Its record.
    pub session: Session,
    /// The activity that is used if its loop has none of its own.
    pub fallback: Option<Activity>,
    /// The state of its processes.
    pub standing: Standing,
}

/// The decision, with its reason.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// The reason.
    pub reason: Reason,
    /// Whether the owner, thread or pane of the current loop differed.
    pub updated_current_owner: bool,
    /// The session whose loop was taken over, or is not available.
    pub source: Option<SessionId>,
    /// The session whose loop was found or created.
    pub target: Option<SessionId>,
    /// What was observed, in words, if it matters to the user.
    pub evidence: Option<String>,
    /// Every record that changes, as it is afterwards; committed together or not at all.
    pub changed: Vec<Session>,
}

impl Decision {
    fn of(reason: Reason) -> Decision {
        Decision {
            reason,
            updated_current_owner: false,
            source: None,
            target: None,
            evidence: None,
            changed: Vec::new(),
        }
    }
}

impl Claim {
    /// Returns whether `session` has an unfinished active loop of this agent.
    pub(super) fn fits(&self, session: &Session) -> bool {
        let goes_on = session.loop_state.as_ref().is_some_and(|state| state.active && !state.is_over());
        goes_on && session.agent.as_ref().is_some_and(|agent| self.agent.is(agent))
    }
}

/// Returns whether the decision depends on other sessions: only then are they observed.
pub(super) fn needs_priors(current: &Current, claim: &Claim, dialect: &Dialect) -> bool {
    match current {
        Current::Missing | Current::Unreadable(_) => false,
        Current::Found(session, _) => !has_loop(session, dialect) && !claim.agent.is_unknown(),
    }
}

fn has_loop(session: &Session, dialect: &Dialect) -> bool {
    session.loop_state.as_ref().is_some_and(|state| dialect.counts_blank_loops || !state.is_blank())
}

/// Decides what to do. `priors` are sessions other than the current one; those that do not match are skipped.
pub fn decide(current: &Current, priors: &[Prior], claim: &Claim, dialect: &Dialect, now: Time) -> Decision {
    let (session, fallback) = match current {
        Current::Missing => return Decision::of(Reason::CurrentSessionMissing),
        Current::Unreadable(id) => {
            return Decision { target: Some(id.clone()), ..Decision::of(Reason::CurrentLoopUnreadable) };
        }
        Current::Found(session, fallback) => (session.as_ref(), *fallback),
    };
    if has_loop(session, dialect) {
        return judge_own(session, fallback, claim, dialect, now);
    }
    if claim.agent.is_unknown() {
        return Decision::of(Reason::AgentIdentityMissing);
    }
    judge_priors(session, priors, claim, dialect, now)
}

/// Decides for a current session that already has a loop.
fn judge_own(
    session: &Session,
    fallback: Option<Activity>,
    claim: &Claim,
    dialect: &Dialect,
    now: Time,
) -> Decision {
    let found = |reason| Decision { target: Some(session.id.clone()), ..Decision::of(reason) };
    let Some(state) = session.loop_state.as_ref().filter(|state| state.active) else {
        return found(Reason::CurrentLoopPresent);
    };
    let mut after = session.clone();
    if let Some(staleness) = Staleness::of(state, fallback, dialect, claim.stale, now) {
        edit::abandon(&mut after, &staleness, now);
        return Decision { changed: vec![after], ..found(Reason::CurrentLoopAbandonedStale) };
    }
    let updated_current_owner = edit::refresh(&mut after, claim, dialect, now);
    let changed = if after == *session { Vec::new() } else { vec![after] };
    Decision { updated_current_owner, changed, ..found(Reason::CurrentLoopActive) }
}

/// Decides for a current session without a loop, whose agent may have left one in another session.
fn judge_priors(
    session: &Session,
    priors: &[Prior],
    claim: &Claim,
    dialect: &Dialect,
    now: Time,
) -> Decision {
    let mut fresh = Vec::new();
    let mut abandoned = Vec::new();
    for prior in priors {
        if prior.session.id == session.id || !claim.fits(&prior.session) {
            continue;
        }
        let spared = dialect.spares_the_living && prior.standing.may_run();
        let stale = prior.session.loop_state.as_ref().filter(|_| !spared);
        let stale = stale.and_then(|state| Staleness::of(state, prior.fallback, dialect, claim.stale, now));
        match stale {
            // A session that may be running is never marked as stale.
            None => fresh.push((prior, spared)),
            Some(staleness) => {
                let mut after = prior.session.clone();
                edit::abandon(&mut after, &staleness, now);
                abandoned.push(after);
            }
        }
    }
    match fresh.as_slice() {
        [] if abandoned.is_empty() => Decision::of(Reason::NoMatchingPriorLoop),
        [] => Decision { changed: abandoned, ..Decision::of(Reason::MatchingPriorLoopAbandonedStale) },
        [(prior, true)] => Decision {
            source: Some(prior.session.id.clone()),
            evidence: match &prior.standing {
                Standing::Running(evidence) | Standing::Unclear(evidence) => Some(evidence.clone()),
                _ => None,
            },
            ..Decision::of(Reason::PriorSessionRunning)
        },
        [(prior, false)] => {
            let mut changed = Vec::from(edit::transfer(prior, session, claim, dialect, now));
            changed.extend(abandoned);
            Decision {
                source: Some(prior.session.id.clone()),
                target: Some(session.id.clone()),
                changed,
                ..Decision::of(Reason::Resumed)
            }
        }
        several => {
            let ids: Vec<_> = several.iter().map(|(prior, _)| prior.session.id.as_str()).collect();
            let evidence = Some(ids.join(", "));
            Decision { evidence, ..Decision::of(Reason::MultipleMatchingPriorLoops) }
        }
    }
}

#[cfg(test)]
mod tests;
