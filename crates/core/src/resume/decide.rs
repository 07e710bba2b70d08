//! Deciding: what a resumption does, from what was seen. A pure function; the first rule that fits decides.

use std::time::Duration;

use super::activity::{Activity, Staleness};
use super::agent::AgentIdentity;
use super::dialect::{Dialect, Reason};
use super::edit;
use super::look::Standing;
use crate::{Session, SessionId, Time};

/// What an agent asks for.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Claim {
    /// Who it is.
    pub agent: AgentIdentity,
    /// Which agent it is, such as `codex`, where that is known.
    pub kind: Option<String>,
    /// The terminal pane it sits in.
    pub pane: Option<String>,
    /// Whether it took a turn just now.
    pub turn: bool,
    /// After how long an active loop that nobody touched is stale.
    pub stale: Duration,
}

/// The current session, as it was found.
#[derive(Clone, Debug, PartialEq)]
pub enum Current {
    /// There is none.
    Missing,
    /// It is there, and its record cannot be read.
    Unreadable(SessionId),
    /// Its record, and the last sign of life that stands in for its loop's own.
    Found(Box<Session>, Option<Activity>),
}

/// A session that may have driven the loop before.
#[derive(Clone, Debug, PartialEq)]
pub struct Prior {
    /// Its record.
    pub session: Session,
    /// The last sign of life that stands in for its loop's own.
    pub fallback: Option<Activity>,
    /// What became of its processes.
    pub standing: Standing,
}

/// What is done, and why.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision {
    /// Why.
    pub reason: Reason,
    /// Whether the owner, thread or pane of the current loop differed.
    pub updated_current_owner: bool,
    /// The session whose loop was taken, or is not to be had.
    pub source: Option<SessionId>,
    /// The session whose loop was found or made.
    pub target: Option<SessionId>,
    /// What was seen, in words, where somebody will want to know.
    pub evidence: Option<String>,
    /// Every record that changes, as it is afterwards; all of them in one commit, or none.
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
    /// Whether `session` has a loop that goes on and is this agent's.
    pub(super) fn fits(&self, session: &Session) -> bool {
        let goes_on = session.loop_state.as_ref().is_some_and(|state| state.active && !state.is_over());
        goes_on && session.agent.as_ref().is_some_and(|agent| self.agent.is(agent))
    }
}

/// Whether the decision depends on what other sessions do: only then are they looked at.
pub(super) fn needs_priors(current: &Current, claim: &Claim, dialect: &Dialect) -> bool {
    match current {
        Current::Missing | Current::Unreadable(_) => false,
        Current::Found(session, _) => !has_loop(session, dialect) && !claim.agent.is_unknown(),
    }
}

fn has_loop(session: &Session, dialect: &Dialect) -> bool {
    session.loop_state.as_ref().is_some_and(|state| dialect.counts_blank_loops || !state.is_blank())
}

/// What is to be done. `priors` are sessions other than the current one; those that do not fit are passed
/// over.
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

/// The current session has a loop already.
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

/// The current session has no loop, and its agent may have left one somewhere.
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
            // A session that runs is not called stale over its head.
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
