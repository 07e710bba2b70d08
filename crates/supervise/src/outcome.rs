//! Putting the end of a session into its record: one way for the shim, the exit file and `stop`.

use sexton_core::session::{EndingReason, Exit, Recovery, WorktreeOutcome};
use sexton_core::{Session, Time};

/// Records how the session ended, unless an end is recorded already. Whoever said first that it is being
/// ended decides what it is remembered for; `ending` counts where nobody did. An orphan's worktree is left
/// to the next recovery. Says whether there is anything to write.
pub(crate) fn record_outcome(
    session: &mut Session,
    exit: Exit,
    ending: Option<EndingReason>,
    finished_at: Time,
) -> bool {
    if session.finished_at.is_some() {
        return false;
    }
    let reason = session.ending.as_ref().map(|ending| ending.reason).or(ending);
    session.finish(exit.because(reason), finished_at);
    if reason == Some(EndingReason::OwnerDead) && session.recovery.is_none() {
        let evidence =
            session.owner.as_ref().map(|owner| format!("its owner, process {}, is gone", owner.pid));
        session.recovery = Some(Recovery {
            cause: "owner_dead".to_owned(),
            evidence,
            rescue_ref: None,
            worktree: session.worktree.as_ref().map(|_| WorktreeOutcome::Pending),
            extra: serde_json::Map::new(),
        });
    }
    true
}

#[cfg(test)]
mod tests {
    use sexton_core::session::Ending;
    use sexton_core::{Host, SessionId, Status};

    use super::*;

    fn running() -> Session {
        let host = Host { machine_id: "m".into(), hostname: "h".into() };
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        Session { status: Status::Running, ..Session::new(SessionId::random(), host, now) }
    }

    #[test]
    fn whoever_said_first_that_it_is_ended_decides() {
        let mut session = running();
        let at = session.created_at;
        let by = "stop".to_owned();
        let extra = serde_json::Map::new();
        session.ending = Some(Ending { reason: EndingReason::Stopped, by, at, extra });
        assert!(record_outcome(&mut session, Exit::exited(7), Some(EndingReason::Timeout), at));
        assert_eq!((session.status, session.exit.as_ref().unwrap().code), (Status::Stopped, Some(7)));
        assert!(!record_outcome(&mut session, Exit::exited(0), None, at), "an end was replaced");
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
