//! Exit codes and messages for ended sessions.

use sexton_core::{Session, Status};

use crate::failure::Exit;
use crate::screen::Screen;

/// The offset of exit codes for signals.
const SIGNAL_BASE: i32 = 128;

/// Returns the exit code for `run` and `wait`: the command's own, 128 + the signal that ended it, 124 after a
/// timeout, 122 if unknown.
pub fn exit_code(session: &Session) -> Exit {
    if session.status == Status::TimedOut {
        return Exit::TIMED_OUT;
    }
    let exit = session.exit.as_ref();
    let code = exit.and_then(|exit| exit.code.or(exit.signal.map(|signal| SIGNAL_BASE + signal)));
    code.and_then(|code| u8::try_from(code).ok()).map_or(Exit::UNKNOWN_END, Exit)
}

/// Returns the first exit code of the sessions that is not 0. Warns about each session whose exit status is
/// unknown.
pub fn report_ends<'a>(ended: impl IntoIterator<Item = &'a Session>, screen: &Screen) -> Exit {
    let mut first = Exit::DONE;
    for session in ended {
        let exit = exit_code(session);
        if exit == Exit::UNKNOWN_END && session.exit.as_ref().is_none_or(|exit| exit.code.is_none()) {
            screen.warn(&format!(
                "the exit status of session {} is unknown: {}",
                session.id,
                why_unknown(session)
            ));
        }
        if first == Exit::DONE {
            first = exit;
        }
    }
    first
}

/// Returns why the exit status of a session is unknown.
fn why_unknown(session: &Session) -> &'static str {
    match session.status {
        Status::Starting | Status::Running => "its supervisor is gone (run `sexton recover`)",
        Status::Stopped => "it was stopped after its supervisor had exited",
        _ => "its supervisor exited before it did",
    }
}

#[cfg(test)]
mod tests {
    use sexton_core::session::Exit as SessionExit;
    use sexton_core::{Host, SessionId};

    use super::*;

    #[test]
    fn exit_code_distinguishes_code_signal_timeout_and_unknown() {
        let now = "2026-01-02T03:04:05Z".parse().unwrap();
        let host = Host::new("m", "h");
        let mut session = Session::new(SessionId::random(), host, now);
        assert_eq!(exit_code(&session), Exit::UNKNOWN_END);
        session.exit = Some(SessionExit::exited(7));
        assert_eq!(exit_code(&session), Exit(7));
        session.exit = Some(SessionExit::signalled(9));
        assert_eq!(exit_code(&session), Exit(137));
        session.status = Status::TimedOut;
        assert_eq!(exit_code(&session), Exit::TIMED_OUT);
    }
}
