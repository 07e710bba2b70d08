//! Stops sessions whose processes obey, refuse, or cannot be observed.

#![allow(clippy::unwrap_used, reason = "a test that cannot continue fails")]

use std::time::Duration;

use sexton_core::{Batch, Host, ProcessIdentity, Session, SessionId, Status, Store, Time};
use sexton_supervise::{PendingExits, StopPolicy, Stopped, stop_sessions};
use sexton_testkit::fake_probe::{FakeProbe, FakeProcess};
use sexton_testkit::fake_store::FakeStore;

/// A fake probe and a fake store.
struct TestEnv {
    probe: FakeProbe,
    store: FakeStore,
    state_dir: tempfile::TempDir,
}

fn now() -> Time {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

impl TestEnv {
    fn new() -> TestEnv {
        let state_dir = tempfile::tempdir().unwrap();
        TestEnv { probe: FakeProbe::new(), store: FakeStore::new(), state_dir }
    }

    fn running(&self, make: impl FnOnce(FakeProcess) -> FakeProcess) -> (SessionId, ProcessIdentity) {
        let host = Host::new("m", "h");
        let mut session = Session::new(SessionId::random(), host, now());
        let process = self.probe.start(make(FakeProcess::of(&session.id)));
        session.status = Status::Running;
        session.process = Some(process.clone());
        let id = session.id.clone();
        pollster::block_on(self.store.commit(Batch::new().insert(session))).unwrap();
        (id, process)
    }

    fn stop(&self, ids: &[SessionId]) -> Vec<Stopped> {
        let policy =
            StopPolicy { grace: Duration::from_secs(1), first_signal: 2, kill_wait: Duration::from_secs(1) };
        let exits = PendingExits::of(self.state_dir.path());
        pollster::block_on(stop_sessions(&self.store, &self.probe, &exits, ids, &policy, now)).unwrap()
    }

    fn status(&self, id: &SessionId) -> Status {
        pollster::block_on(self.store.load(id)).unwrap().unwrap().status
    }
}

#[test]
fn session_without_a_supervisor_is_stopped_and_recorded() {
    let test_env = TestEnv::new();
    let (polite, first) = test_env.running(|process| process);
    let (stubborn, second) = test_env.running(|process| process.ignoring(&[2, 15]));
    let stopped = test_env.stop(&[polite.clone(), stubborn.clone()]);
    assert!(stopped.iter().all(|one| one.survivors.is_empty() && !one.had_ended));
    assert!(!test_env.probe.is_alive(&first) && !test_env.probe.is_alive(&second));
    assert_eq!([test_env.status(&polite), test_env.status(&stubborn)], [Status::Stopped; 2]);
}

#[test]
fn i2_session_with_unknown_liveness_is_neither_signalled_nor_recorded_as_ended() {
    let test_env = TestEnv::new();
    let (id, process) = test_env.running(|process| process);
    test_env.probe.hide(&process, "it is in another pid namespace");
    let stopped = test_env.stop(std::slice::from_ref(&id));
    assert_eq!(stopped[0].survivors.len(), 1, "{stopped:?}");
    assert_eq!(test_env.probe.signals(), []);
    assert_eq!(test_env.status(&id), Status::Running);
}

#[test]
fn process_that_cannot_be_stopped_keeps_its_session_open() {
    let test_env = TestEnv::new();
    let (id, _) = test_env.running(FakeProcess::unkillable);
    let stopped = test_env.stop(std::slice::from_ref(&id));
    assert_eq!(stopped[0].survivors.len(), 1, "{stopped:?}");
    assert_eq!(test_env.status(&id), Status::Running);
}

#[test]
fn stopping_an_ended_session_changes_nothing() {
    let test_env = TestEnv::new();
    let (id, _) = test_env.running(|process| process);
    test_env.stop(std::slice::from_ref(&id));
    let commits = test_env.store.commits();
    let again = test_env.stop(std::slice::from_ref(&id));
    assert!(again[0].had_ended);
    assert_eq!(test_env.store.commits(), commits, "stopping an ended session wrote to the store");
}
