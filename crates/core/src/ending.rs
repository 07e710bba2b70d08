//! Ending a session: the first recorded decision determines its final status.

use std::collections::BTreeMap;

use crate::recover::owner_is_gone;
use crate::session::{Ending, EndingReason, Exit, Recovery, WorktreeOutcome};
use crate::{Batch, Session, SessionId, Store, StoreError, Time};

/// How many times a claim is retried after a conflict.
const CLAIM_ATTEMPTS: usize = 100;

/// Records in every active session of `ids` that it is being ended, all in one commit. An earlier claim is kept
/// unless it has expired, which means that the process that made it was killed. Returns the records as they are
/// then, in the order of `ids`, without those that do not exist. The same commit adds to `counters`, if there
/// is one.
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

/// Returns the valid decision to end the session, if there is one.
pub fn find_ending(session: &Session, now: Time) -> Option<&Ending> {
    session.ending.as_ref().filter(|ending| ending.stands_at(now))
}

/// Records how the session ended, unless an end is recorded already. The recorded decision to end it determines
/// the reason; `ending` counts if there is none. The worktree of an orphan is left to the next recovery.
/// Returns whether there is anything to write.
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
    fn first_ending_decides() {
        let mut session = running();
        let at = session.created_at;
        session.ending = Some(Ending::new(EndingReason::Stopped, "stop", at));
        assert!(record_outcome(&mut session, Exit::exited(7), Some(EndingReason::Timeout), at));
        assert_eq!((session.status, session.exit.as_ref().unwrap().code), (Status::Stopped, Some(7)));
        assert!(!record_outcome(&mut session, Exit::exited(0), None, at), "an end was replaced");
    }

    #[test]
    fn expired_stop_does_not_change_later_status() {
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
    fn orphan_records_its_cause() {
        let mut session = running();
        let at = session.created_at;
        assert!(record_outcome(&mut session, Exit::signalled(2), Some(EndingReason::OwnerDead), at));
        assert_eq!(session.status, Status::Orphaned);
        assert_eq!(session.recovery.unwrap().cause, "owner_dead");
    }
}
