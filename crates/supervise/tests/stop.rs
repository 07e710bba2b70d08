//! Stopping sessions whose processes do what they are told, refuse, or cannot be judged.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::time::Duration;

use sexton_core::{Batch, Host, ProcessIdentity, Session, SessionId, Status, Store, Time};
use sexton_supervise::{PendingExits, StopPolicy, Stopped, stop_sessions};
use sexton_testkit::fake_probe::{FakeProbe, FakeProcess};
use sexton_testkit::fake_store::FakeStore;

/// A machine, a store, and nothing else.
struct Scene {
    probe: FakeProbe,
    store: FakeStore,
    state_dir: tempfile::TempDir,
}

fn now() -> Time {
    "2026-01-02T03:04:05Z".parse().unwrap()
}

impl Scene {
    fn new() -> Scene {
        let state_dir = tempfile::tempdir().unwrap();
        Scene { probe: FakeProbe::new(), store: FakeStore::new(), state_dir }
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
fn a_session_without_a_supervisor_is_ended_and_recorded() {
    let scene = Scene::new();
    let (polite, first) = scene.running(|process| process);
    let (stubborn, second) = scene.running(|process| process.ignoring(&[2, 15]));
    let stopped = scene.stop(&[polite.clone(), stubborn.clone()]);
    assert!(stopped.iter().all(|one| one.survivors.is_empty() && !one.had_ended));
    assert!(!scene.probe.is_alive(&first) && !scene.probe.is_alive(&second));
    assert_eq!([scene.status(&polite), scene.status(&stubborn)], [Status::Stopped; 2]);
}

#[test]
fn i2_a_session_that_cannot_be_judged_is_neither_signalled_nor_recorded_as_ended() {
    let scene = Scene::new();
    let (id, process) = scene.running(|process| process);
    scene.probe.hide(&process, "it is in another pid namespace");
    let stopped = scene.stop(std::slice::from_ref(&id));
    assert_eq!(stopped[0].survivors.len(), 1, "{stopped:?}");
    assert_eq!(scene.probe.signals(), []);
    assert_eq!(scene.status(&id), Status::Running);
}

#[test]
fn a_process_that_cannot_be_ended_keeps_its_session_open() {
    let scene = Scene::new();
    let (id, _) = scene.running(FakeProcess::unkillable);
    let stopped = scene.stop(std::slice::from_ref(&id));
    assert_eq!(stopped[0].survivors.len(), 1, "{stopped:?}");
    assert_eq!(scene.status(&id), Status::Running);
}

#[test]
fn what_has_ended_is_left_as_it_ended() {
    let scene = Scene::new();
    let (id, _) = scene.running(|process| process);
    scene.stop(std::slice::from_ref(&id));
    let commits = scene.store.commits();
    let again = scene.stop(std::slice::from_ref(&id));
    assert!(again[0].had_ended);
    assert_eq!(scene.store.commits(), commits, "stopping what has ended wrote something");
}
