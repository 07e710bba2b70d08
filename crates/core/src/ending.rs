//! Ending a session: who says so first decides what it is remembered for.

use std::collections::BTreeMap;

use crate::recover::owner_is_gone;
use crate::session::{Ending, EndingReason, Exit, Recovery, WorktreeOutcome};
use crate::{Batch, Session, SessionId, Store, StoreError, Time};

/// How often a claim starts over after a lost race before it gives up.
const CLAIM_ATTEMPTS: usize = 100;

/// Says in every record that is still active that it is being ended, all in one commit. A claim that
/// somebody made before stands, unless its time is over: whoever made it was killed. Returns the records as they are then, in the order asked for, without
/// those that do not exist. `counters` are added to by the same commit, if there is one.
pub async fn claim_ending(
    store: &dyn Store,
    ids: &[SessionId],
    ending: &Ending,
    counters: &BTreeMap<String, u64>,
) -> Result<Vec<Session>, StoreError> {
    let mut attempt = 1;
    loop {
        let mut sessions = Vec::new();
        let mut claimed = Vec::new();
        let mut batch = Batch::new();
        for id in ids {
            let Some(mut session) = store.load(id).await? else { continue };
            let is_free = session.status.is_active() && find_ending(&session, ending.at).is_none();
            if is_free && !sexton_mutant::is("no_ending_claim") {
                session.ending = Some(ending.clone());
                batch = batch.replace(session.clone());
                claimed.push(sessions.len());
            }
            sessions.push(session);
        }
        if !batch.is_empty() {
            batch.counters.clone_from(counters);
        }
        match store.commit(batch.countable(&store.describe().capabilities)).await {
            Ok(committed) => {
                for index in claimed {
                    sessions[index].revision = committed.revision_of(&sessions[index].id);
                }
                return Ok(sessions);
            }
            Err(StoreError::Conflict { .. }) if attempt < CLAIM_ATTEMPTS => attempt += 1,
            Err(error) => return Err(error),
        }
    }
}

/// Who is ending the session at this moment.
pub fn find_ending(session: &Session, now: Time) -> Option<&Ending> {
    session.ending.as_ref().filter(|ending| ending.stands_at(now))
}

/// Records how the session ended, unless an end is recorded already. Whoever said first that it is being
/// ended decides what it is remembered for; `ending` counts where nobody did. An orphan's worktree is left
/// to the next recovery. Says whether there is anything to write.
pub fn record_outcome(
    session: &mut Session,
    exit: Exit,
    ending: Option<EndingReason>,
    finished_at: Time,
) -> bool {
    if session.finished_at.is_some() {
        return false;
    }
    let reason = find_ending(session, finished_at).map(|ending| ending.reason).or(ending);
    session.finish(exit.because(reason), finished_at);
    if reason == Some(EndingReason::OwnerDead) && session.recovery.is_none() {
        session.recovery = Some(Recovery {
            cause: "owner_dead".to_owned(),
            evidence: Some(owner_is_gone(session)),
            rescue_ref: None,
            worktree: session.worktree.as_ref().map(|_| WorktreeOutcome::Pending),
            error: None,
            extra: serde_json::Map::new(),
        });
    }
    true
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::{Host, Status};

    fn running() -> Session {
        let host = Host::new("m", "h");
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        Session { status: Status::Running, ..Session::new(SessionId::random(), host, now) }
    }

    #[test]
    fn whoever_said_first_that_it_is_ended_decides() {
        let mut session = running();
        let at = session.created_at;
        session.ending = Some(Ending::new(EndingReason::Stopped, "stop", at));
        assert!(record_outcome(&mut session, Exit::exited(7), Some(EndingReason::Timeout), at));
        assert_eq!((session.status, session.exit.as_ref().unwrap().code), (Status::Stopped, Some(7)));
        assert!(!record_outcome(&mut session, Exit::exited(0), None, at), "an end was replaced");
    }

    #[test]
    fn a_stop_that_was_killed_over_it_is_not_what_a_later_end_is_remembered_for() {
        let at = running().created_at;
        let stop = Ending::new(EndingReason::Stopped, "stop", at).within(Duration::from_secs(10));
        for (after, status) in [(10, Status::Stopped), (41, Status::Completed)] {
            let mut session = Session { ending: Some(stop.clone()), ..running() };
            let finished_at = at.saturating_add(Duration::from_secs(after));
            assert!(record_outcome(&mut session, Exit::exited(0), None, finished_at));
            assert_eq!(session.status, status, "{after} s later");
        }
    }

    #[test]
    fn an_orphan_says_why() {
        let mut session = running();
        let at = session.created_at;
        assert!(record_outcome(&mut session, Exit::signalled(2), Some(EndingReason::OwnerDead), at));
        assert_eq!(session.status, Status::Orphaned);
        assert_eq!(session.recovery.unwrap().cause, "owner_dead");
    }
}
