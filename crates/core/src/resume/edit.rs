//! The changes that a resumption makes to records. All other fields stay unchanged.

use serde_json::{Value, json};

use super::activity::Staleness;
use super::agent::recorded_id;
use super::decide::{Claim, Prior};
use super::dialect::Dialect;
use super::look::Standing;
use crate::session::{Agent, Exit, ExitReason, LoopState, Recovery, WorktreeOutcome};
use crate::{Session, Status, Time};

/// The phase of a loop that was cancelled.
const CANCELLED: &str = "cancelled";

/// Updates the owner, thread and pane of an active loop. Returns whether one of them differed.
pub(super) fn refresh(current: &mut Session, claim: &Claim, dialect: &Dialect, now: Time) -> bool {
    let id = current.id.clone();
    let mut agent = current.agent.clone().unwrap_or_default();
    let Some(state) = current.loop_state.as_mut() else { return false };
    let mut differed = identify(&mut agent, claim);
    if let Some(key) = dialect.owner_key
        && state.extra.get(key).and_then(Value::as_str).map(str::trim) != Some(id.as_str())
    {
        state.extra.insert(key.to_owned(), json!(id.as_str()));
        differed = true;
    }
    if let Some(pane) = claim.pane.as_deref().filter(|pane| recorded_id(state.pane.as_deref()) != Some(pane))
    {
        bind(state, pane, now);
        differed = true;
    }
    if differed && dialect.stamps_changes {
        state.updated_at = Some(now);
    }
    note_turn(state, claim, now);
    note_kind(&mut agent, claim);
    current.agent = Some(agent).filter(|agent| *agent != Agent::default());
    differed
}

/// Marks a stale active loop as abandoned.
pub(super) fn abandon(session: &mut Session, staleness: &Staleness, now: Time) {
    let Some(state) = session.loop_state.as_mut() else { return };
    let milliseconds = |span: std::time::Duration| u64::try_from(span.as_millis()).unwrap_or(u64::MAX);
    cancel(state, "stale_active_state", now);
    state.extra.insert("abandoned_at".to_owned(), json!(now));
    state.extra.insert("stale_resume_age_ms".to_owned(), json!(milliseconds(staleness.age)));
    state.extra.insert("stale_resume_threshold_ms".to_owned(), json!(milliseconds(staleness.threshold)));
    state.extra.insert("stale_resume_timestamp_source".to_owned(), json!(staleness.source));
}

/// Moves the loop of `prior` to `current`. Returns both records as they are afterwards.
pub(super) fn transfer(
    prior: &Prior,
    current: &Session,
    claim: &Claim,
    dialect: &Dialect,
    now: Time,
) -> [Session; 2] {
    let (mut source, mut target) = (prior.session.clone(), current.clone());
    let mut state = source.loop_state.clone().unwrap_or_default();
    state.active = true;
    state.extra.shift_remove("completed_at");
    state.extra.shift_remove("stop_reason");
    if let Some(key) = dialect.owner_key {
        state.extra.insert(key.to_owned(), json!(target.id.as_str()));
    }
    let bound = target.loop_state.as_ref().and_then(|state| state.pane.clone());
    if let Some(pane) = claim.pane.clone().or(bound) {
        bind(&mut state, &pane, now);
    }
    if dialect.stamps_changes {
        state.updated_at = Some(now);
    }
    note_turn(&mut state, claim, now);
    target.loop_state = Some(state);

    let driver = source.agent.clone().unwrap_or_default();
    let kind = target.agent.as_ref().and_then(|agent| agent.kind.clone()).or_else(|| driver.kind.clone());
    let extra = target.agent.take().map_or_else(|| driver.extra.clone(), |agent| agent.extra);
    let mut agent = Agent { kind, extra, ..driver };
    identify(&mut agent, claim);
    note_kind(&mut agent, claim);
    target.agent = Some(agent);

    if let Some(state) = source.loop_state.as_mut() {
        cancel(state, "ownership_transferred", now);
    }
    settle(&mut source, &prior.standing, now);
    [source, target]
}

/// Finishes the record of a session whose loop moved, if nothing of the session can act again. A
/// `cleanup_failed` record stays unchanged: finishing it would hide what recovery still has to do.
fn settle(source: &mut Session, standing: &Standing, now: Time) {
    match standing {
        Standing::Ended if source.status.is_finished() => source.status = Status::Transferred,
        Standing::Gone if source.status.is_active() => {
            let worktree = source.worktree.is_some().then_some(WorktreeOutcome::Pending);
            source.recovery = Some(Recovery {
                cause: "process_dead".to_owned(),
                evidence: Some("its processes were gone when its loop was taken over".to_owned()),
                rescue_ref: None,
                worktree,
                error: None,
                extra: serde_json::Map::new(),
            });
            let unseen =
                Exit { code: None, signal: None, reason: ExitReason::Unknown, extra: serde_json::Map::new() };
            source.finish(unseen, now);
            source.status = Status::Transferred;
        }
        _ => {}
    }
}

fn cancel(state: &mut LoopState, why: &str, now: Time) {
    state.active = false;
    state.phase = Some(CANCELLED.to_owned());
    state.extra.insert("completed_at".to_owned(), json!(now));
    state.extra.insert("stop_reason".to_owned(), json!(why));
}

/// Records the agent of `claim` in `agent`. A thread is irrelevant once the conversation is known. Returns
/// whether anything differed.
fn identify(agent: &mut Agent, claim: &Claim) -> bool {
    let before = (agent.session_id.clone(), agent.thread_id.clone());
    if let Some(id) = claim.agent.session_id()
        && recorded_id(agent.session_id.as_deref()) != Some(id)
    {
        agent.session_id = Some(id.to_owned());
    }
    if recorded_id(agent.session_id.as_deref()).is_some() {
        agent.thread_id = None;
    } else if let Some(id) = claim.agent.thread_id()
        && recorded_id(agent.thread_id.as_deref()) != Some(id)
    {
        agent.thread_id = Some(id.to_owned());
    }
    before != (agent.session_id.clone(), agent.thread_id.clone())
}

fn note_kind(agent: &mut Agent, claim: &Claim) {
    if agent.kind.is_none() {
        agent.kind.clone_from(&claim.kind);
    }
}

fn note_turn(state: &mut LoopState, claim: &Claim, now: Time) {
    if claim.turn {
        state.last_turn_at = Some(now);
    }
}

fn bind(state: &mut LoopState, pane: &str, now: Time) {
    state.pane = Some(pane.to_owned());
    state.pane_set_at = Some(now);
}
