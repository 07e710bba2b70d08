//! Many processes at once.

use std::fs::File;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Resource, Rlimit};
use sexton_core::SessionId;
use sexton_core::probe::{COOKIE, Group, SIGKILL};

use super::play::{Actor, Case, PATIENCE, end, group, idle, policy, role, stubborn};

pub const CASES: &[Case] = &[
    ("i10_five_hundred_stubborn_sessions_share_one_grace_period", share_one_grace_period),
    ("i10_a_crowd_larger_than_the_limit_of_open_files_is_ended", outnumber_the_files),
    ("i10_a_chain_of_bare_forks_is_ended", outrun_by_a_chain),
    ("i10_a_stubborn_child_without_a_cookie_is_ended_after_its_parent", outlive_the_parent),
    ("a_stopped_process_that_is_polite_ends_at_the_first_signal", hear_while_stopped),
];

fn share_one_grace_period() {
    const SESSIONS: usize = 500;
    let sessions: Vec<SessionId> = (0..SESSIONS).map(|_| SessionId::random()).collect();
    let mut actors: Vec<Actor> =
        sessions.iter().map(|session| Actor::start(stubborn().env(COOKIE, session.as_str()))).collect();
    let groups: Vec<_> = sessions.iter().map(group).collect();
    let begun = Instant::now();
    let ended = end(&groups, &policy(Duration::from_secs(1)));
    let took = begun.elapsed();
    for ended in &ended {
        assert_eq!(ended.signalled.len(), 1);
        assert_eq!(ended.signalled[0].1, SIGKILL);
        assert_eq!(ended.survivors, []);
    }
    assert!(actors.iter_mut().all(|actor| !actor.is_alive()));
    // It takes some 300 ms beyond the grace here; the rest is for a machine that does much else.
    assert!(took >= Duration::from_secs(1) && took < Duration::from_secs(10), "{took:?}");
    eprintln!("{SESSIONS} stubborn sessions were ended in {took:?}, 1 s of it grace");
}

fn outnumber_the_files() {
    let status = role("few files").status().unwrap();
    assert!(status.success(), "{status}");
}

/// The role of a process that may open 40 files, and has 200 others to end.
pub fn end_a_crowd_with_few_files() {
    let files = Rlimit { current: Some(40), maximum: Some(40) };
    rustix::process::setrlimit(Resource::Nofile, files).unwrap();
    // Half of the files are taken, so that more handles seem to be allowed than there is room for.
    let taken: Vec<File> = (0..20).map(|_| File::open("/dev/null").unwrap()).collect();
    let session = SessionId::random();
    let start = |_| {
        let mut command = Command::new("/bin/sleep");
        command.arg("600").env(COOKIE, session.as_str()).stdin(Stdio::null()).stdout(Stdio::null());
        Actor(command.spawn().unwrap())
    };
    let mut actors: Vec<Actor> = (0..200).map(start).collect();
    let ended = end(&[group(&session)], &policy(Duration::from_millis(200)));
    assert_eq!((ended[0].signalled.len(), ended[0].survivors.len()), (200, 0));
    assert!(actors.iter_mut().all(|actor| !actor.is_alive()));
    drop(taken);
}

/// Each link forks the next and exits, without executing anything: the shortest life there is.
fn outrun_by_a_chain() {
    let leash = tempfile::NamedTempFile::new().unwrap();
    let session = SessionId::random();
    let script = "link() { [ -e \"$LEASH\" ] || exit; link & exit; }; echo ready; link";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).env(COOKIE, session.as_str()).env("LEASH", leash.path());
    let mut first = Actor::start(&mut command);
    for grace in [Duration::from_millis(100), Duration::ZERO] {
        let ended = end(&[group(&session)], &policy(grace));
        assert_eq!(ended[0].survivors, []);
    }
    // All links share the first one's output: it ends with the last of them.
    assert_eq!(first.read_line(), "");
}

fn outlive_the_parent() {
    // It ends at the latest with this case, which holds its input.
    let stubborn = "trap '' INT TERM; echo ready; read line";
    let script = "exec 3<&0; /bin/sh -c \"$STUBBORN\" <&3 & wait";
    let mut command = Command::new("/bin/sh");
    command.args(["-c", script]).env("STUBBORN", stubborn).env_remove(COOKIE);
    let mut parent = Actor::start(&mut command);
    let group = Group { process: Some(parent.identity()), ..group(&SessionId::random()) };
    let ended = end(&[group], &policy(Duration::from_millis(400)));
    let signals: Vec<i32> = ended[0].signalled.iter().map(|(_, signal)| *signal).collect();
    assert_eq!(signals, [libc::SIGINT, SIGKILL], "{ended:?}");
    assert_eq!(ended[0].survivors, []);
    assert_eq!(parent.read_line(), "");
}

fn hear_while_stopped() {
    let session = SessionId::random();
    let actor = Actor::start(idle().env(COOKIE, session.as_str()));
    let pid = rustix::process::Pid::from_child(&actor.0);
    rustix::process::kill_process(pid, rustix::process::Signal::STOP).unwrap();
    let stopped = rustix::process::WaitIdOptions::STOPPED | rustix::process::WaitIdOptions::NOWAIT;
    rustix::process::waitid(rustix::process::WaitId::Pid(pid), stopped).unwrap();
    let ended = end(&[group(&session)], &policy(PATIENCE));
    assert_eq!(ended[0].signalled[0].1, libc::SIGINT);
    assert_eq!(ended[0].survivors, []);
}
