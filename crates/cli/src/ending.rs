//! How sessions end, as commands tell it: exit codes, and ends that no store knows yet.

use std::io;

use sexton_core::{Session, Status};
use sexton_supervise::PendingExits;

use crate::failure::{Exit, Failure};

/// What a signal adds to its number to become an exit code.
const SIGNAL_BASE: i32 = 128;

/// The exit code that `run` and `wait` pass on: the command's own, 128 and the signal that ended it, 124
/// where its time was up, 125 where nobody knows.
pub fn exit_code(session: &Session) -> Exit {
    if session.status == Status::TimedOut {
        return Exit::TIMED_OUT;
    }
    let exit = session.exit.as_ref();
    let code = exit.and_then(|exit| exit.code.or(exit.signal.map(|signal| SIGNAL_BASE + signal)));
    code.and_then(|code| u8::try_from(code).ok()).map_or(Exit::OWN_ERROR, Exit)
}

/// Shows in the records what exit files say that no store has been told yet.
pub fn overlay_exits<'a>(
    exits: &PendingExits,
    sessions: impl IntoIterator<Item = &'a mut Session>,
) -> Result<(), Failure> {
    let unreadable = |error| Failure::new(format!("cannot read the exit files: {error}"));
    let pending = exits.list().map_err(unreadable)?;
    if pending.is_empty() {
        return Ok(());
    }
    for session in sessions.into_iter().filter(|session| pending.contains(&session.id)) {
        match exits.load(&session.id) {
            Ok(Some(exit)) => drop(exit.apply(session)),
            Ok(None) => {}
            // Its record stands as it is; one damaged witness hides nothing else.
            Err(error) if error.kind() == io::ErrorKind::InvalidData => {}
            Err(error) => return Err(unreadable(error)),
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use sexton_core::session::Exit as SessionExit;
    use sexton_core::{Host, SessionId};

    use super::*;

    #[test]
    fn the_exit_code_tells_a_code_a_signal_a_timeout_and_the_unknown_apart() {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        let host = Host { machine_id: "m".into(), hostname: "h".into() };
        let mut session = Session::new(SessionId::random(), host, now);
        assert_eq!(exit_code(&session), Exit::OWN_ERROR);
        session.exit = Some(SessionExit::exited(7));
        assert_eq!(exit_code(&session), Exit(7));
        session.exit = Some(SessionExit::signalled(9));
        assert_eq!(exit_code(&session), Exit(137));
        session.status = Status::TimedOut;
        assert_eq!(exit_code(&session), Exit::TIMED_OUT);
    }
}
