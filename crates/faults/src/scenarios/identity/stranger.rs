//! A process that belongs to no session, gets the pid of one, and has a name that is meant to confuse a
//! program that reads it.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, WaitOptions, waitpid};
use sexton_test_harness::{eventually, kill_9};

/// Names that look like the rest of a line of `/proc/PID/stat`, contain a line break, or are not UTF-8.
pub(super) const NAMES: [&[u8]; 4] = [b"a) R 1 (", b"two\nlines", b"\xff) Z 1 \xfe", b"sleep"];

/// Starts a process with exactly this pid and this name, in no session.
pub(super) fn start_as(pid: u64, name: &[u8], directory: &Path) -> Child {
    let program = directory.join(OsStr::from_bytes(name));
    if !program.exists() {
        std::fs::copy("/bin/sleep", &program).unwrap();
    }
    for _ in 0..1000 {
        std::fs::write("/proc/sys/kernel/ns_last_pid", (pid - 1).to_string()).unwrap();
        let mut sleep = Command::new(&program);
        sleep.arg("600").env_clear().stdin(Stdio::null()).stdout(Stdio::null());
        let mut child = sleep.spawn().unwrap();
        if u64::from(child.id()) == pid {
            // It has the name of this program until it has executed its own.
            eventually("the stranger has its name", || {
                std::fs::read(format!("/proc/{pid}/comm")).unwrap().strip_suffix(b"\n") == Some(name)
            });
            return child;
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    panic!("no process could be started with pid {pid}");
}

/// Kills a process that was reparented to this program, and reaps it, so that its pid is free.
pub(super) fn kill_and_reap(pid: u64) {
    if Path::new(&format!("/proc/{pid}")).exists() {
        kill_9(pid);
    }
    let raw = Pid::from_raw(i32::try_from(pid).unwrap()).unwrap();
    eventually("it is reaped", || {
        let _ = waitpid(Some(raw), WaitOptions::NOHANG);
        std::thread::park_timeout(Duration::from_millis(1));
        !Path::new(&format!("/proc/{pid}")).exists()
    });
}

/// Requires that it is still running, and kills it.
pub(super) fn require_spared(mut stranger: Child) {
    assert!(stranger.try_wait().unwrap().is_none(), "a process that got the pid of a session was ended");
    stranger.kill().unwrap();
    stranger.wait().unwrap();
}

/// Returns when a process was started, in ticks.
pub(super) fn start_ticks(pid: u64) -> u64 {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap();
    let stat = String::from_utf8_lossy(&stat).into_owned();
    stat.rsplit(") ").next().unwrap().split(' ').nth(19).unwrap().parse().unwrap()
}
