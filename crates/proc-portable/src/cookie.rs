//! Reads the cookie of a process. The reason for an empty environment is not always known.

use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::thread;
use std::time::{Duration, Instant};

use sexton_core::SessionId;
use sexton_core::membership::Cookie;
use sexton_core::probe::COOKIE;

use crate::look::{IdentityScope, Inspection, Seen, inspect};
use crate::memory::{Memory, Reader};

/// How long a process may take to execute a program; its environment is empty meanwhile.
const EXEC_LIMIT: Duration = Duration::from_millis(20);
const EXEC_PAUSE: Duration = Duration::from_millis(1);

/// Returns the cookie of a process that was just seen.
pub(crate) fn load_cookie(here: &IdentityScope, reader: &Reader, seen: &Seen) -> io::Result<Cookie> {
    let begun = Instant::now();
    let mut seen = seen.clone();
    loop {
        let environment = match load_environment(reader, &seen) {
            Memory::Strings(environment) => environment,
            Memory::Closed => return Ok(Cookie::Unreadable),
            Memory::TimedOut => return Ok(Cookie::Unanswered),
        };
        if !environment.is_empty() {
            return Ok(find_session(&environment).map_or(Cookie::Absent, Cookie::Session));
        }
        if !seen.is_our_users() {
            return Ok(Cookie::Unreadable);
        }
        if begun.elapsed() >= EXEC_LIMIT {
            return Ok(Cookie::Absent);
        }
        thread::sleep(EXEC_PAUSE);
        match inspect(here, seen.pid())? {
            Inspection::Alive(again) => seen = *again,
            Inspection::Absent | Inspection::Hidden => return Ok(Cookie::Unreadable),
        }
    }
}

/// Reads the environment. On Linux only our own user's processes are read: another user must not be able to
/// block us.
fn load_environment(reader: &Reader, seen: &Seen) -> Memory {
    match cfg!(target_os = "linux") {
        true if !seen.is_our_users() => Memory::Closed,
        true => reader.read_strings(seen.pid(), "environ"),
        false => Memory::Strings(seen.environment.clone()),
    }
}

/// Returns the cookie. A value that is not a valid id, such as the empty one, is no cookie.
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
    fn first_variable_with_the_exact_name_is_the_cookie() {
        let environment =
            ["XSEXTON_SESSION_ID=a", "SEXTON_SESSION_IDX=b", "SEXTON_SESSION_ID=c", "SEXTON_SESSION_ID=d"];
        assert_eq!(find_session(&environment.map(OsString::from)), Some("c".to_owned()));
        assert_eq!(find_session(&[]), None);
        assert_eq!(find_session(&["SEXTON_SESSION_ID=".into()]), None);
    }
}
