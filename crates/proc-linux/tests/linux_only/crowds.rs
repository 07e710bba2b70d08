//! Many processes at once.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit};
use sexton_core::SessionId;
use sexton_core::probe::{COOKIE, Group, SIGKILL};

use super::play::{Case, TIMEOUT, TestProcess, end, group, idle, policy, role, stubborn};

pub const CASES: &[Case] = &[
    ("i10_500_sessions_that_ignore_signals_share_one_grace_period", share_one_grace_period),
    ("i10_more_processes_than_open_files_are_stopped", more_processes_than_files),
    ("i10_chain_of_forks_without_exec_is_stopped", chain_of_forks),
    ("i10_child_that_ignores_signals_is_killed_after_its_parent", child_outlives_its_parent),
    ("stopped_process_exits_at_the_first_signal", stopped_process_exits),
];

fn share_one_grace_period() {
    const SESSIONS: usize = 500;
    let sessions: Vec<SessionId> = (0..SESSIONS).map(|_| SessionId::random()).collect();
    let mut processes: Vec<TestProcess> =
        sessions.iter().map(|session| TestProcess::start(stubborn().env(COOKIE, session.as_str()))).collect();
    let groups: Vec<_> = sessions.iter().map(group).collect();
    let begun = Instant::now();
    let ended = end(&groups, &policy(Duration::from_secs(1)));
    let took = begun.elapsed();
    for ended in &ended {
        assert_eq!(ended.signalled.len(), 1);
        assert_eq!(ended.signalled[0].1, SIGKILL);
        assert_eq!(ended.survivors, []);
    }
    assert!(processes.iter_mut().all(|process| !process.is_alive()));
    // It usually takes about 300 ms beyond the grace period; the rest allows for a loaded machine.
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(10), "{took:?}");
    eprintln!("{SESSIONS} sessions that ignore signals were stopped in {took:?}, including 1 s of grace");
}

fn more_processes_than_files() {
    let status = role("few files").status().unwrap();
    assert!(status.success(), "{status}");
}

/// Role: a process that may open 40 files and must stop 200 others.
pub fn end_a_crowd_with_few_files() {
    let files = Rlimit { current: Some(40), maximum: Some(40) };
    rustix::process::setrlimit(Resource::Nofile, files).unwrap();
    // Half of the descriptors are in use, so that the handle limit is higher than what is available.
    let taken: Vec<File> = (0..20).map(|_| File::open("/dev/null").unwrap()).collect();
    let session = SessionId::random();
    let start = |_| {
        let mut command = Command::new("/bin/sleep");
        command.arg("600").env(COOKIE, session.as_str()).stdin(Stdio::null()).stdout(Stdio::null());
        TestProcess(command.spawn().unwrap())
    };
    let mut processes: Vec<TestProcess> = (0..200).map(start).collect();
    let ended = end(&[group(&session)], &policy(Duration::from_millis(200)));
    assert_eq!((ended[0].signalled.len(), ended[0].survivors.len()), (200, 0));
    assert!(processes.iter_mut().all(|process| !process.is_alive()));
    drop(taken);
}

/// Each process forks the next and exits without an `execve`: the shortest possible lifetime.
fn chain_of_forks() {
    let leash = tempfile::NamedTempFile::new().unwrap();
    let session = SessionId::random();
    let script = "link() { [ -e \"$LEASH\" ] || exit; link & exit; }; echo ready; link";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).env(COOKIE, session.as_str()).env("LEASH", leash.path());
    let mut first = TestProcess::start(&mut command);
    for grace in [Duration::from_millis(100), Duration::ZERO] {
        let ended = end(&[group(&session)], &policy(grace));
        assert_eq!(ended[0].survivors, []);
    }
    // All processes of the chain share the first one's output: it is closed when the last one exits.
    assert_eq!(first.read_line(), "");
}

fn child_outlives_its_parent() {
    // It exits at the latest with this test, which holds its standard input.
    let stubborn = "trap '' INT TERM; echo ready; read line";
    let script = "exec 3<&0; /bin/sh -c \"$STUBBORN\" <&3 & wait";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).env("STUBBORN", stubborn).env_remove(COOKIE);
    let mut parent = TestProcess::start(&mut command);
    let group = Group { process: Some(parent.identity()), ..group(&SessionId::random()) };
    let ended = end(&[group], &policy(Duration::from_millis(400)));
    let signals: Vec<i32> = ended[0].signalled.iter().map(|(_, signal)| *signal).collect();
    // The child is signalled first, because only its descent proves that it is a member.
    assert_eq!(signals, [SIGKILL, libc::SIGINT], "{ended:?}");
    assert_eq!(ended[0].survivors, []);
    assert_eq!(parent.read_line(), "");
}

fn stopped_process_exits() {
    let session = SessionId::random();
    let process = TestProcess::start(idle().env(COOKIE, session.as_str()));
    let pid = rustix::process::Pid::from_child(&process.0);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let stopped = rustix::process::WaitIdOptions::STOPPED | rustix::process::WaitIdOptions::NOWAIT;
    rustix::process::waitid(rustix::process::WaitId::Pid(pid), stopped).unwrap();
    let ended = end(&[group(&session)], &policy(TIMEOUT));
    assert_eq!(ended[0].signalled[0].1, libc::SIGINT);
    assert_eq!(ended[0].survivors, []);
}
