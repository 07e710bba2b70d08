//! Reads the cookie of a process from its environment.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;

use sexton_core::SessionId;
use sexton_core::membership::Cookie;
use sexton_core::probe::COOKIE;

use crate::LinuxProbe;
use crate::reader::Answer;
use crate::reading::Reading;
use crate::stat::Stat;

/// How long a process may take to execute a program before its environment counts as unanswered. No event
/// reports the end of an `execve`.
const EXEC_LIMIT: Duration = Duration::from_millis(50);
const EXEC_PAUSE: Duration = Duration::from_micros(200);

/// Result of one read.
enum Read {
    /// Final: a later read gives the same.
    Final(Cookie),
    /// Nothing, because the process was executing a program: the next read may give more.
    NotYet,
}

impl LinuxProbe {
    /// Returns the cookie of a process, or `None` if the process is gone.
    ///
    /// While a program is being executed its environment is empty, and an environment that is replaced during
    /// the read ends too early. A cookie counts as absent only if as many bytes were read as the kernel
    /// reports.
    pub(crate) fn load_cookie(&self, reading: &Reading, pid: u32, stat: &Stat) -> io::Result<Option<Cookie>> {
        if let Some(cookie) = reading.find_read(pid, stat.start_ticks) {
            return Ok(Some(cookie));
        }
        let begun = Instant::now();
        let read = self.read_cookie(reading, pid, stat)?;
        Ok(read.map(|read| match read {
            Read::Final(cookie) => {
                reading.note(pid, stat.start_ticks, begun, &cookie);
                cookie
            }
            Read::NotYet => Cookie::Unanswered,
        }))
    }

    fn read_cookie(&self, reading: &Reading, pid: u32, stat: &Stat) -> io::Result<Option<Read>> {
        let begun = Instant::now();
        let mut stat = *stat;
        loop {
            let Some((place, current)) = self.proc.find_place(pid, &stat)? else { return Ok(None) };
            match reading.load(&self.proc, &format!("{place}/environ"))? {
                Answer::Content(environment) => {
                    if let Some(session) = find_session(&environment) {
                        return Ok(Some(Read::Final(Cookie::Session(session))));
                    }
                    if current.environment_length() == Some(environment.len() as u64) {
                        return Ok(Some(Read::Final(Cookie::Absent)));
                    }
                }
                // Without memory there is nothing to open; `stat` shows whether the process is gone.
                Answer::Failed(Errno::NOENT | Errno::SRCH) => {}
                Answer::Failed(Errno::ACCESS | Errno::PERM) => {
                    return Ok(Some(Read::Final(Cookie::Unreadable)));
                }
                Answer::Failed(errno) => return Err(errno.into()),
                Answer::NotAsked => return Ok(Some(Read::NotYet)),
                Answer::TimedOut => return Ok(Some(Read::Final(Cookie::Unanswered))),
            }
            let Some(next) = self.proc.load_stat(&pid.to_string())?.filter(|next| !next.is_zombie()) else {
                return Ok(None);
            };
            // It has freed its memory. Its children are found by themselves.
            if next.is_exiting() && !next.has_lost_its_leader() {
                return Ok(Some(Read::Final(Cookie::Unreadable)));
            }
            if begun.elapsed() > EXEC_LIMIT {
                return Ok(Some(Read::NotYet));
            }
            thread::sleep(EXEC_PAUSE);
            stat = next;
        }
    }
}

/// Returns the value of the first variable with the cookie's name, as a program would read it. A value that
/// is not a valid id, such as the empty one, is no cookie.
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
    fn first_variable_with_the_exact_name_is_the_cookie() {
        let environment =
            b"XSEXTON_SESSION_ID=a\0SEXTON_SESSION_IDX=b\0SEXTON_SESSION_ID=c\0SEXTON_SESSION_ID=d\0";
        assert_eq!(find_session(environment), Some("c".to_owned()));
        assert_eq!(find_session(b"PATH=/bin\0"), None);
        assert_eq!(find_session(b""), None);
        assert_eq!(find_session(b"SEXTON_SESSION_ID=\0"), None);
        assert_eq!(find_session(b"SEXTON_SESSION_ID=../x\0"), None);
    }

    /// A process that is killed at the end of its test.
    struct TestProcess(Child);

    impl TestProcess {
        fn start(command: &mut Command) -> TestProcess {
            TestProcess(command.spawn().unwrap())
        }

        fn cookie(&self) -> Cookie {
            let probe = LinuxProbe::open().unwrap();
            let stat = probe.proc.load_stat(&self.0.id().to_string()).unwrap().unwrap();
            probe.load_cookie(&Reading::default(), self.0.id(), &stat).unwrap().unwrap()
        }
    }

    impl Drop for TestProcess {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }

    #[test]
    fn empty_environment_has_no_cookie() {
        let process = TestProcess::start(Command::new("/bin/sleep").arg("600").env_clear());
        assert_eq!(process.cookie(), Cookie::Absent);
    }

    #[test]
    fn cookie_is_found_in_a_large_environment() {
        let mut command = Command::new("/bin/sleep");
        command.arg("600").env_clear().envs((0..60).map(|n| (format!("V{n}"), "x".repeat(4000))));
        let process = TestProcess::start(command.env(COOKIE, "large"));
        assert_eq!(process.cookie(), Cookie::Session("large".into()));
    }

    /// A shell that executes itself repeatedly is in the middle of an `execve` most of the time.
    #[test]
    fn cookie_of_a_process_that_keeps_executing_programs_is_never_absent() {
        let script = "exec /bin/sh -c \"$AGAIN\"";
        let mut command = Command::new("/bin/sh");
        command.args(["-c", script]).env_clear().env(COOKIE, "runner").env("AGAIN", script);
        let process = TestProcess::start(&mut command);
        for _ in 0..2000 {
            assert_ne!(process.cookie(), Cookie::Absent);
        }
    }
}
