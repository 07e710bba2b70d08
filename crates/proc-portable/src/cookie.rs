//! The cookie of a process, from an environment of which it is not always known why it is empty.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::thread;
use std::time::{Duration, Instant};

use sexton_core::SessionId;
use sexton_core::membership::Cookie;
use sexton_core::probe::COOKIE;

use crate::look::{Glance, Seen, Vantage, look_at};

/// How long a process may take to execute a program; its environment is empty meanwhile.
const EXEC_LIMIT: Duration = Duration::from_millis(20);
const EXEC_PAUSE: Duration = Duration::from_millis(1);

/// The cookie of a process that was just seen.
pub(crate) fn load_cookie(here: &Vantage, seen: &Seen) -> io::Result<Cookie> {
    if !seen.environment.is_empty() {
        return Ok(find_session(&seen.environment).map_or(Cookie::Absent, Cookie::Session));
    }
    if !seen.is_our_users() || is_closed(seen.pid()) {
        return Ok(Cookie::Unreadable);
    }
    let begun = Instant::now();
    while begun.elapsed() < EXEC_LIMIT {
        thread::sleep(EXEC_PAUSE);
        match look_at(here, seen.pid())? {
            Glance::Alive(again) if !again.environment.is_empty() => {
                return Ok(find_session(&again.environment).map_or(Cookie::Absent, Cookie::Session));
            }
            Glance::Alive(_) => {}
            Glance::Nobody | Glance::Hidden => return Ok(Cookie::Unreadable),
        }
    }
    Ok(Cookie::Absent)
}

/// Whether the system says that an environment may not be read. Where it does not say, it may.
fn is_closed(pid: u32) -> bool {
    let opened = std::fs::File::open(format!("/proc/{pid}/environ"));
    opened.is_err_and(|error| error.kind() == io::ErrorKind::PermissionDenied)
}

/// What cannot be an id, such as nothing at all, is no session's cookie.
fn find_session(environment: &[OsString]) -> Option<String> {
    let value = environment
        .iter()
        .find_map(|variable| variable.as_bytes().strip_prefix(COOKIE.as_bytes())?.strip_prefix(b"="))?;
    let text = str::from_utf8(value).ok()?;
    text.parse::<SessionId>().is_ok().then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_name_counts_and_the_first_of_two() {
        let environment =
            ["XSEXTON_SESSION_ID=a", "SEXTON_SESSION_IDX=b", "SEXTON_SESSION_ID=c", "SEXTON_SESSION_ID=d"];
        assert_eq!(find_session(&environment.map(OsString::from)), Some("c".to_owned()));
        assert_eq!(find_session(&[]), None);
        assert_eq!(find_session(&["SEXTON_SESSION_ID=".into()]), None);
    }
}
