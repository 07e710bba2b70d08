//! A process whose first thread has ended lives on in the others.

use std::time::Duration;

use pollster::block_on;
use sexton_core::probe::COOKIE;
use sexton_core::{Liveness, SessionId};

use super::play::{Actor, Case, end, group, members, pids, policy, probe, role};

pub const CASES: &[Case] = &[
    ("i2_a_process_without_its_first_thread_is_alive_and_a_member", is_alive_and_a_member),
    ("i3_a_process_without_its_first_thread_is_still_inside_its_directory", is_inside_its_directory),
    ("i10_a_process_without_its_first_thread_is_ended", is_ended),
];

fn is_alive_and_a_member() {
    let session = SessionId::random();
    let actor = Actor::start(role("leaderless").env(COOKIE, session.as_str()));
    assert_eq!(block_on(probe().observe(&actor.identity())), Liveness::Alive);
    assert_eq!(pids(&members(&group(&session)).processes), [actor.pid()]);
}

fn is_inside_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let actor = Actor::start(role("leaderless").current_dir(dir.path()));
    let occupants = block_on(probe().occupants(dir.path())).unwrap();
    assert_eq!(pids(&occupants.processes), [actor.pid()]);
}

fn is_ended() {
    let session = SessionId::random();
    let mut actor = Actor::start(role("leaderless").env(COOKIE, session.as_str()));
    let ended = end(&[group(&session)], &policy(Duration::ZERO));
    assert_eq!((ended[0].signalled.len(), ended[0].survivors.len()), (1, 0));
    assert!(!actor.is_alive());
}
