//! The fake probe's own tests: it must be as strict as it says.

use std::time::Duration;

use pollster::block_on;

use super::*;

const SIGINT: i32 = 2;

fn policy() -> EndPolicy {
    EndPolicy {
        grace: Duration::from_secs(5),
        first_signal: SIGINT,
        kill_wait: Duration::from_secs(1),
        spare: Vec::new(),
    }
}

fn group(session: &SessionId) -> Group {
    Group { session: session.clone(), process: None, supervisor: None, cgroup: None }
}

fn end(probe: &FakeProbe, group: &Group, policy: &EndPolicy) -> Ended {
    block_on(probe.terminate(std::slice::from_ref(group), policy)).unwrap().remove(0)
}

#[test]
fn each_process_gets_the_signals_it_needs_and_no_more() {
    let (probe, session) = (FakeProbe::new(), SessionId::random());
    let polite = probe.start(FakeProcess::of(&session));
    let deaf = probe.start(FakeProcess::of(&session).ignoring(&[SIGINT]));
    let stubborn = probe.start(FakeProcess::of(&session).ignoring(&[SIGINT, SIGTERM]));
    let ended = end(&probe, &group(&session), &policy());
    let last: Vec<_> = ended.signalled.iter().map(|(process, signal)| (process.pid, *signal)).collect();
    assert_eq!(last, [(polite.pid, SIGINT), (deaf.pid, SIGTERM), (stubborn.pid, SIGKILL)]);
    assert_eq!(probe.signals().len(), 6);
}

#[test]
fn an_heir_is_ended_too_and_an_unkillable_process_survives() {
    let (probe, session) = (FakeProbe::new(), SessionId::random());
    probe.start(FakeProcess::of(&session).leaving(FakeProcess::of(&session)));
    let asleep = probe.start(FakeProcess::of(&session).unkillable());
    let ended = end(&probe, &group(&session), &policy());
    assert_eq!(
        ended.survivors.iter().map(|survivor| survivor.identity.pid).collect::<Vec<_>>(),
        [asleep.pid]
    );
    assert_eq!(block_on(probe.members(&group(&session))).unwrap().processes, [asleep]);
}

#[test]
fn descent_decides_only_for_those_without_a_cookie() {
    let (probe, session, other) = (FakeProbe::new(), SessionId::random(), SessionId::random());
    let command = probe.start(FakeProcess::of(&session));
    let forgot = probe.start(FakeProcess::new().child_of(&command));
    let elsewhere = probe.start(FakeProcess::of(&other).child_of(&forgot));
    probe.start(FakeProcess::new().child_of(&elsewhere));
    let members = block_on(probe.members(&group(&session))).unwrap();
    assert_eq!(members.processes, [command, forgot]);
}

#[test]
fn i2_a_reused_pid_is_told_apart_and_never_signalled() {
    let (probe, session) = (FakeProbe::new(), SessionId::random());
    let recorded = probe.start(FakeProcess::new());
    probe.end(&recorded);
    assert_eq!(block_on(probe.observe(&recorded)), Liveness::Gone);
    let stranger = probe.start_in_place_of(&recorded, FakeProcess::new());
    assert_eq!(block_on(probe.observe(&recorded)), Liveness::Reused);
    let group = Group { process: Some(recorded), ..group(&session) };
    assert_eq!(end(&probe, &group, &policy()).signalled, []);
    assert!(probe.is_alive(&stranger));
}

#[test]
fn i2_a_hidden_process_is_unknown_unreadable_and_never_signalled() {
    let (probe, session) = (FakeProbe::new(), SessionId::random());
    let command = probe.start(FakeProcess::of(&session));
    let child = probe.start(FakeProcess::new().child_of(&command));
    probe.hide(&child, "permission denied");
    assert_eq!(block_on(probe.observe(&child)), Liveness::Unknown("permission denied".to_owned()));
    assert_eq!(block_on(probe.members(&group(&session))).unwrap().unreadable, [child.pid]);
    let ended = end(&probe, &group(&session), &policy());
    assert_eq!(ended.signalled, [(command, SIGINT)]);
    assert!(!block_on(probe.occupants(Path::new("/anywhere"))).unwrap().is_empty());
}

#[test]
#[should_panic(expected = "which was not proved")]
fn i2_signalling_what_was_not_proved_alive_is_a_panic() {
    let probe = FakeProbe::new();
    let process = probe.start(FakeProcess::new());
    probe.end(&process);
    probe.machine().signal(&process, SIGKILL);
}

#[test]
fn occupants_are_counted_by_whole_path_components() {
    let probe = FakeProbe::new();
    let inside = probe.start(FakeProcess::new().in_directory("/yard/a/src"));
    probe.start(FakeProcess::new().in_directory("/yard/ab"));
    assert_eq!(
        block_on(probe.occupants(Path::new("/yard/a"))).unwrap().processes,
        std::slice::from_ref(&inside)
    );
    probe.move_to(&inside, "/elsewhere");
    assert!(block_on(probe.occupants(Path::new("/yard/a"))).unwrap().is_empty());
}
