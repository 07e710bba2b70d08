//! Tests that the fake probe is as strict as documented.

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
        others: Others::none(),
    }
}

fn group(session: &SessionId) -> Group {
    Group::of_cookie(session)
}

fn end(probe: &FakeProbe, group: &Group, policy: &EndPolicy) -> Ended {
    block_on(probe.terminate(std::slice::from_ref(group), policy)).unwrap().remove(0)
}

#[test]
fn each_process_gets_only_the_signals_it_needs() {
    let (probe, session) = (FakeProbe::new(), SessionId::random());
    let cooperative = probe.start(FakeProcess::of(&session));
    let ignores_int = probe.start(FakeProcess::of(&session).ignoring(&[SIGINT]));
    let ignores_both = probe.start(FakeProcess::of(&session).ignoring(&[SIGINT, SIGTERM]));
    let ended = end(&probe, &group(&session), &policy());
    let last: Vec<_> = ended.signalled.iter().map(|(process, signal)| (process.pid, *signal)).collect();
    assert_eq!(last, [(cooperative.pid, SIGINT), (ignores_int.pid, SIGTERM), (ignores_both.pid, SIGKILL)]);
    assert_eq!(probe.signals().len(), 6);
}

#[test]
fn successor_is_ended_and_unkillable_process_survives() {
    let (probe, session) = (FakeProbe::new(), SessionId::random());
    probe.start(FakeProcess::of(&session).leaving(FakeProcess::of(&session)));
    let asleep = probe.start(FakeProcess::of(&session).unkillable());
    let ended = end(&probe, &group(&session), &policy());
    assert_eq!(
        ended.survivors.iter().map(|survivor| survivor.identity.pid).collect::<Vec<_>>(),
        [asleep.pid]
    );
    assert_eq!(block_on(probe.members(&group(&session), &Others::none())).unwrap().processes, [asleep]);
}

#[test]
fn nested_session_is_separate_only_if_recorded() {
    let (probe, session, other) = (FakeProbe::new(), SessionId::random(), SessionId::random());
    let command = probe.start(FakeProcess::of(&session));
    let forgot = probe.start(FakeProcess::new().child_of(&command));
    let elsewhere = probe.start(FakeProcess::of(&other).child_of(&forgot));
    let deep = probe.start(FakeProcess::new().child_of(&elsewhere));
    let recorded = Others::Known(vec![Group { process: Some(elsewhere.clone()), ..group(&other) }]);
    let beside = |others: &Others| block_on(probe.members(&group(&session), others)).unwrap();
    assert_eq!(beside(&recorded).processes, [command.clone(), forgot.clone()]);
    assert_eq!(beside(&Others::none()).processes, [&command, &forgot, &elsewhere, &deep].map(Clone::clone));
    assert_eq!(beside(&Others::Unknown).unreadable, [elsewhere.pid, deep.pid]);
}

#[test]
fn i2_reused_pid_is_detected_and_never_signalled() {
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
fn i2_hidden_process_is_unknown_and_never_signalled() {
    let (probe, session) = (FakeProbe::new(), SessionId::random());
    let command = probe.start(FakeProcess::of(&session));
    let child = probe.start(FakeProcess::new().child_of(&command));
    probe.hide(&child, "permission denied");
    assert_eq!(block_on(probe.observe(&child)), Liveness::Unknown("permission denied".to_owned()));
    assert_eq!(block_on(probe.members(&group(&session), &Others::none())).unwrap().unreadable, [child.pid]);
    let ended = end(&probe, &group(&session), &policy());
    assert_eq!(ended.signalled, [(command, SIGINT)]);
    assert!(!block_on(probe.occupants(Path::new("/anywhere"))).unwrap().is_empty());
}

#[test]
#[should_panic(expected = "which was not proved")]
fn i2_signalling_a_process_not_proved_alive_panics() {
    let probe = FakeProbe::new();
    let process = probe.start(FakeProcess::new());
    probe.end(&process);
    probe.machine().signal(&process, SIGKILL);
}

#[test]
fn occupants_are_matched_by_path_component() {
    let probe = FakeProbe::new();
    let inside = probe.start(FakeProcess::new().in_directory("/worktrees/a/src"));
    probe.start(FakeProcess::new().in_directory("/worktrees/ab"));
    assert_eq!(
        block_on(probe.occupants(Path::new("/worktrees/a"))).unwrap().processes,
        std::slice::from_ref(&inside)
    );
    probe.move_to(&inside, "/elsewhere");
    assert!(block_on(probe.occupants(Path::new("/worktrees/a"))).unwrap().is_empty());
}
