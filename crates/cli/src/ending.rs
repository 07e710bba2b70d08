//! How sessions end, as commands tell it.

use sexton_core::{Session, Status};

use crate::failure::Exit;

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

#[cfg(test)]
mod tests {
    use sexton_core::session::Exit as SessionExit;
    use sexton_core::{Host, SessionId};

    use super::*;

    #[test]
    fn the_exit_code_tells_a_code_a_signal_a_timeout_and_the_unknown_apart() {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        let host = Host::new("m", "h");
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
