//! Processes of our own user that may not be read, such as an agent that keeps keys. Root may read them.

use std::time::Duration;

use pollster::block_on;
use rustix::process::geteuid;
use sexton_core::probe::Group;
use sexton_core::{Liveness, SessionId};

use super::play::{Case, TestProcess, end, group, members, pids, policy, probe, role};

pub const CASES: &[Case] = &[
    ("i10_unreadable_descendant_is_stopped", unreadable_descendant_is_stopped),
    ("i10_unreadable_process_is_found_by_its_limit_mark", found_by_its_mark),
    ("i10_child_hidden_by_proc_is_stopped", hidden_child_is_stopped),
    ("i3_unreadable_process_counts_as_inside", counts_as_inside),
    ("unreadable_process_can_be_identified", can_be_identified),
];

fn unreadable_descendant_is_stopped() {
    let process = TestProcess::start(&mut role("parent of a private one"));
    let group = Group { process: Some(process.identity()), ..group(&SessionId::random()) };
    let found = members(&group);
    assert_eq!((found.processes.len(), found.unreadable.len()), (2, 0));
    let ended = end(&[group], &policy(Duration::ZERO));
    // The parent may exit by itself after its child was killed.
    let private = found.processes.iter().find(|found| found.pid != process.pid()).unwrap();
    assert!(ended[0].signalled.iter().any(|(signalled, _)| signalled.pid == private.pid), "{ended:?}");
    assert_eq!(ended[0].survivors, []);
    for process in &found.processes {
        assert_eq!(block_on(probe().observe(process)), Liveness::Gone);
    }
}

/// Its limit is the only evidence for its session.
fn found_by_its_mark() {
    let mark = choose_mark();
    let mut process = TestProcess::start(role("private and marked").env(MARK, mark.to_string()));
    let group = Group { limit_mark: Some(mark), ..group(&SessionId::random()) };
    assert_eq!(pids(&members(&group).processes), [process.pid()]);
    let ended = end(&[group], &policy(Duration::ZERO));
    assert_eq!((ended[0].signalled.len(), ended[0].survivors.len()), (1, 0), "{ended:?}");
    assert!(!process.is_alive());
}

/// Holds the mark that a process is to set for itself.
pub const MARK: &str = "SEXTON_TEST_MARK";

/// Returns a mark that no other test uses at the same time, below the inherited limit.
fn choose_mark() -> u64 {
    let own = u64::from(std::process::id());
    let inherited = rustix::process::getrlimit(rustix::process::Resource::Locks).maximum;
    sexton_core::membership::choose_limit_mark(inherited, own * 7919).expect("there is space for a mark")
}

fn counts_as_inside() {
    let dir = tempfile::tempdir().unwrap();
    let process = TestProcess::start(role("private").current_dir(dir.path()));
    let occupants = block_on(probe().occupants(dir.path())).unwrap();
    let counted = if geteuid().is_root() { pids(&occupants.processes) } else { occupants.unreadable };
    assert!(counted.contains(&process.pid()), "{counted:?}");
}

fn can_be_identified() {
    let process = TestProcess::start(&mut role("private"));
    let identity = process.identity();
    assert!(identity.start_ticks.is_some());
    assert_eq!(identity.exe.is_some(), geteuid().is_root());
}

/// With `hidepid=2` a process that may not be examined is not listed. Only root can mount such a `/proc`.
fn hidden_child_is_stopped() {
    if !geteuid().is_root() {
        return;
    }
    let status = super::namespaces::role_in_pid_namespace("hiding proc", &["--mount-proc"]).status().unwrap();
    assert!(status.success(), "{status}");
}

/// Role: makes `/proc` hide processes, and starts a process as an ordinary user.
pub fn hide_processes() {
    use std::os::unix::process::CommandExt;
    let mount = ["-o", "remount,hidepid=2", "/proc"];
    assert!(std::process::Command::new("mount").args(mount).status().unwrap().success());
    let status = role("ordinary user with a hidden child").uid(65534).gid(65534).status().unwrap();
    assert!(status.success(), "{status}");
}

/// Role: a supervisor whose child `/proc` hides.
pub fn end_a_hidden_child() {
    let mut child = TestProcess::start(&mut role("private"));
    let shown = std::path::Path::new("/proc").join(child.pid().to_string()).exists();
    assert!(!shown, "the child must be hidden");
    let supervisor = Some(block_on(probe().identify(std::process::id())).unwrap());
    let group = Group { supervisor, ..group(&SessionId::random()) };
    let found = members(&group);
    assert_eq!((pids(&found.processes), found.unreadable), (vec![child.pid()], vec![]));
    assert_eq!(block_on(probe().observe(&found.processes[0])), Liveness::Alive);
    let ended = end(&[group], &policy(Duration::ZERO));
    assert_eq!((ended[0].signalled.len(), ended[0].survivors.len()), (1, 0), "{ended:?}");
    assert!(!child.is_alive());
}
