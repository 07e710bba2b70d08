//! Processes of our own user that may not be looked at, such as an agent that keeps keys. Root may.

use std::time::Duration;

use pollster::block_on;
use rustix::process::geteuid;
use sexton_core::probe::{EndPolicy, Group};
use sexton_core::{Liveness, SessionId};

use super::play::{Actor, Case, end, group, members, pids, policy, probe, role};

pub const CASES: &[Case] = &[
    ("i2_a_descendant_that_may_not_be_read_is_not_signalled_but_reported", a_descendant_is_reported),
    ("i3_a_process_that_may_not_be_read_counts_as_inside", it_counts_as_inside),
    ("a_process_that_may_not_be_read_can_be_identified", it_can_be_identified),
];

fn a_descendant_is_reported() {
    let actor = Actor::start(&mut role("parent of a private one"));
    let group = Group { process: Some(actor.identity()), ..group(&SessionId::random()) };
    let found = members(&group);
    if geteuid().is_root() {
        assert_eq!((found.processes.len(), found.unreadable.len()), (2, 0));
        return;
    }
    assert_eq!((pids(&found.processes), found.unreadable.len()), (vec![actor.pid()], 1));
    let private = block_on(probe().identify(found.unreadable[0])).unwrap();
    let ended = end(&[group], &EndPolicy { kill_wait: Duration::from_millis(50), ..policy(Duration::ZERO) });
    assert_eq!(ended[0].signalled.len(), 1);
    assert_eq!(block_on(probe().observe(&private)), Liveness::Alive);
    let survivors: Vec<_> =
        ended[0].survivors.iter().map(|one| (one.identity.pid, one.why.as_str())).collect();
    assert_eq!(survivors, [(private.pid, "its environment cannot be read, so it may not be the session's")]);
}

fn it_counts_as_inside() {
    let dir = tempfile::tempdir().unwrap();
    let actor = Actor::start(role("private").current_dir(dir.path()));
    let occupants = block_on(probe().occupants(dir.path())).unwrap();
    let counted = if geteuid().is_root() { pids(&occupants.processes) } else { occupants.unreadable };
    assert!(counted.contains(&actor.pid()), "{counted:?}");
}

fn it_can_be_identified() {
    let actor = Actor::start(&mut role("private"));
    let identity = actor.identity();
    assert!(identity.start_ticks.is_some());
    assert_eq!(identity.exe.is_some(), geteuid().is_root());
}
