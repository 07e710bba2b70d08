//! Reading the cookie of a process from its environment.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use sexton_core::SessionId;
use sexton_core::membership::Cookie;
use sexton_core::probe::COOKIE;

use crate::LinuxProbe;
use crate::procfs_dir::is_refusal;
use crate::stat::Stat;

/// How long a process may take to execute a program before its environment counts as unreadable. No event
/// says that it is done.
const EXEC_LIMIT: Duration = Duration::from_millis(50);
const EXEC_PAUSE: Duration = Duration::from_micros(200);

impl LinuxProbe {
    /// The cookie of a process; `None` where it has gone.
    ///
    /// While a program is being executed its environment is empty, and one that is replaced while it is
    /// read ends too early. A process is said to have no cookie only where as much was read as the kernel
    /// says is there.
    pub(crate) fn load_cookie(&self, pid: u32, stat: &Stat) -> io::Result<Option<Cookie>> {
        let begun = Instant::now();
        let mut stat = *stat;
        loop {
            let Some((place, current)) = self.proc.find_place(pid, &stat)? else { return Ok(None) };
            match self.proc.load(&format!("{place}/environ")) {
                Ok(Some(environment)) => {
                    if let Some(session) = find_session(&environment) {
                        return Ok(Some(Cookie::Session(session)));
                    }
                    if current.environment_length() == Some(environment.len() as u64) {
                        return Ok(Some(Cookie::Absent));
                    }
                }
                // Without memory there is nothing to open; whether it is gone, `stat` says.
                Ok(None) => {}
                Err(error) if is_refusal(&error) => return Ok(Some(Cookie::Unreadable)),
                Err(error) => return Err(error),
            }
            let Some(next) = self.proc.load_stat(&pid.to_string())?.filter(|next| !next.is_zombie()) else {
                return Ok(None);
            };
            if next.is_exiting() && !next.has_lost_its_leader() || begun.elapsed() > EXEC_LIMIT {
                return Ok(Some(Cookie::Unreadable));
            }
            thread::sleep(EXEC_PAUSE);
            stat = next;
        }
    }
}

/// The value of the first variable that has the cookie's name, as a program would read it. What cannot be
/// an id, such as nothing at all, is no session's cookie.
pub(crate) fn find_session(environment: &[u8]) -> Option<String> {
    let value = environment
        .split(|byte| *byte == 0)
        .find_map(|variable| variable.strip_prefix(COOKIE.as_bytes())?.strip_prefix(b"="))?;
    let text = str::from_utf8(value).ok()?;
    (text.parse::<SessionId>().is_ok() || sexton_mutant::is("any_cookie")).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use std::process::{Child, Command};

    use super::*;

    #[test]
    fn only_the_whole_name_counts_and_the_first_of_two() {
        let environment =
            b"XSEXTON_SESSION_ID=a\0SEXTON_SESSION_IDX=b\0SEXTON_SESSION_ID=c\0SEXTON_SESSION_ID=d\0";
        assert_eq!(find_session(environment), Some("c".to_owned()));
        assert_eq!(find_session(b"PATH=/bin\0"), None);
        assert_eq!(find_session(b""), None);
        assert_eq!(find_session(b"SEXTON_SESSION_ID=\0"), None);
        assert_eq!(find_session(b"SEXTON_SESSION_ID=../x\0"), None);
    }

    /// A process that ends with its test.
    struct Actor(Child);

    impl Actor {
        fn start(command: &mut Command) -> Actor {
            Actor(command.spawn().unwrap())
        }

        fn cookie(&self) -> Cookie {
            let probe = LinuxProbe::open().unwrap();
            let stat = probe.proc.load_stat(&self.0.id().to_string()).unwrap().unwrap();
            probe.load_cookie(self.0.id(), &stat).unwrap().unwrap()
        }
    }

    impl Drop for Actor {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn an_environment_that_is_empty_for_good_has_no_cookie() {
        let actor = Actor::start(Command::new("/bin/sleep").arg("600").env_clear());
        assert_eq!(actor.cookie(), Cookie::Absent);
    }

    #[test]
    fn a_cookie_is_found_in_a_large_environment() {
        let mut command = Command::new("/bin/sleep");
        command.arg("600").env_clear().envs((0..60).map(|n| (format!("V{n}"), "x".repeat(4000))));
        let actor = Actor::start(command.env(COOKIE, "large"));
        assert_eq!(actor.cookie(), Cookie::Session("large".into()));
    }

    /// A shell that executes itself over and over is in the middle of it most of the time.
    #[test]
    fn a_process_that_keeps_executing_programs_is_never_said_to_have_no_cookie() {
        let script = "exec /bin/sh -c \"$AGAIN\"";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).env_clear().env(COOKIE, "runner").env("AGAIN", script);
        let actor = Actor::start(&mut command);
        for _ in 0..2000 {
            assert_ne!(actor.cookie(), Cookie::Absent);
        }
    }
}
