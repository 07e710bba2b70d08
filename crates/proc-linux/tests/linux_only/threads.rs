//! A process whose first thread has exited is alive while others run.

use std::time::Duration;

use pollster::block_on;
use sexton_core::probe::COOKIE;
use sexton_core::{Liveness, SessionId};

use super::play::{Case, TestProcess, end, group, members, pids, policy, probe, role};

pub const CASES: &[Case] = &[
    ("i2_process_without_leader_thread_is_alive_and_a_member", is_alive_and_a_member),
    ("i3_process_without_leader_thread_is_inside_its_directory", is_inside_its_directory),
    ("i10_process_without_leader_thread_is_stopped", is_stopped),
];

fn is_alive_and_a_member() {
    let session = SessionId::random();
    let process = TestProcess::start(role("leaderless").env(COOKIE, session.as_str()));
    assert_eq!(block_on(probe().observe(&process.identity())), Liveness::Alive);
    assert_eq!(pids(&members(&group(&session)).processes), [process.pid()]);
}

fn is_inside_its_directory() {
    let dir = tempfile::tempdir().unwrap();
    let process = TestProcess::start(role("leaderless").current_dir(dir.path()));
    let occupants = block_on(probe().occupants(dir.path())).unwrap();
    assert_eq!(pids(&occupants.processes), [process.pid()]);
}

fn is_stopped() {
    let session = SessionId::random();
    let mut process = TestProcess::start(role("leaderless").env(COOKIE, session.as_str()));
    let ended = end(&[group(&session)], &policy(Duration::ZERO));
    assert_eq!((ended[0].signalled.len(), ended[0].survivors.len()), (1, 0));
    assert!(!process.is_alive());
}
