//! Ending processes: all members, in one shared grace period, and no other process.

use std::time::{Duration, Instant};

use sexton_core::probe::{EndPolicy, Ended, Group};
use sexton_core::{Liveness, ProcessIdentity};

use super::ProbeSubject;
use super::test_env::{Actor, INT, KILL, TERM, TestEnv, sorted, within};
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<ProbeSubject> = theme!("ending":
    cooperative_process_ends_at_the_first_signal,
    first_signal_is_configurable,
    process_that_ignores_the_first_signal_gets_sigterm_at_half_of_the_grace,
    process_that_ignores_signals_is_killed_at_the_end_of_the_grace,
    without_grace_all_are_killed_at_once,
    grace_shorter_than_a_scan_still_ends_all,
    many_processes_share_one_grace,
    i10_daemons_and_processes_without_cookie_are_ended,
    i10_continuously_forking_chain_leaves_no_survivor,
    i10_stopped_process_is_ended,
    i10_successor_started_on_the_first_signal_is_ended,
    i2_spared_process_is_not_signalled,
    i2_mismatched_identity_is_never_signalled,
    i2_process_with_unknown_liveness_is_never_signalled,
    i2_supervisor_is_not_signalled,
    ending_a_session_without_processes_returns_at_once,
    second_ending_signals_no_process,
);

/// Longer than a cooperative process needs, even on a loaded machine.
const AMPLE: Duration = Duration::from_secs(60);
/// Long enough to be measurable.
const SHORT: Duration = Duration::from_millis(600);

/// Returns the signalled processes with the last signal of each, sorted by pid.
fn signals(ended: &Ended) -> Vec<(u32, i32)> {
    let mut signals: Vec<_> =
        ended.signalled.iter().map(|(process, signal)| (process.pid, *signal)).collect();
    signals.sort_unstable();
    signals
}

/// Starts a member that ignores the signals `ignored`, and waits until it is ready.
fn member_ignoring(test_env: &TestEnv, ignored: &[i32]) -> Actor {
    let mut acts: Vec<String> = Vec::new();
    for signal in ignored {
        acts.extend(["ignore".to_owned(), signal.to_string()]);
    }
    acts.extend(["say".to_owned(), "ready".to_owned()]);
    let actor = test_env.member(acts);
    actor.pids(["ready"]);
    actor
}

fn group_of(test_env: &TestEnv, actor: &Actor) -> Group {
    test_env.group(Some(test_env.identify(actor.pid())))
}

/// Ends the session of `actor` and returns the report and the duration.
fn end(test_env: &TestEnv, actor: &Actor, policy: &EndPolicy) -> (Ended, Duration) {
    let start = Instant::now();
    let ended = test_env.terminate_one(&group_of(test_env, actor), policy);
    assert_eq!(ended.survivors, [], "no process survives");
    actor.wait_until_all_gone();
    (ended, start.elapsed())
}

fn cooperative_process_ends_at_the_first_signal(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let actor = member_ignoring(&test_env, &[]);
    let identity = test_env.identify(actor.pid());
    let (ended, took) = end(&test_env, &actor, &within(AMPLE));
    assert_eq!(signals(&ended), [(actor.pid(), INT)]);
    assert_eq!(ended.spared, []);
    assert!(took < AMPLE / 2, "it took {took:?}");
    assert_eq!(test_env.observe(&identity), Liveness::Gone);
}

fn first_signal_is_configurable(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let actor = member_ignoring(&test_env, &[INT, TERM]);
    const HUP: i32 = 1;
    let (ended, _) = end(&test_env, &actor, &EndPolicy { first_signal: HUP, ..within(AMPLE) });
    assert_eq!(signals(&ended), [(actor.pid(), HUP)]);
}

fn process_that_ignores_the_first_signal_gets_sigterm_at_half_of_the_grace(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let actor = member_ignoring(&test_env, &[INT]);
    let grace = Duration::from_secs(4);
    let (ended, took) = end(&test_env, &actor, &within(grace));
    assert_eq!(signals(&ended), [(actor.pid(), TERM)]);
    assert!(took >= grace / 2, "SIGTERM came after {took:?}");
}

fn process_that_ignores_signals_is_killed_at_the_end_of_the_grace(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let actor = member_ignoring(&test_env, &[INT, TERM]);
    let (ended, took) = end(&test_env, &actor, &within(SHORT));
    assert_eq!(signals(&ended), [(actor.pid(), KILL)]);
    assert!(took >= SHORT, "SIGKILL came after {took:?}");
}

fn grace_shorter_than_a_scan_still_ends_all(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let actor = member_ignoring(&test_env, &[INT, TERM]);
    // Shorter than any scan of the processes, like every grace period on a busy machine.
    let policy = EndPolicy { kill_wait: AMPLE, ..within(Duration::from_micros(200)) };
    let (ended, took) = end(&test_env, &actor, &policy);
    assert_eq!(signals(&ended), [(actor.pid(), KILL)]);
    assert!(took < AMPLE / 2, "it was killed after {took:?}");
}

fn without_grace_all_are_killed_at_once(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let actor = member_ignoring(&test_env, &[INT, TERM]);
    let (ended, _) = end(&test_env, &actor, &within(Duration::ZERO));
    assert_eq!(signals(&ended), [(actor.pid(), KILL)]);
}

fn many_processes_share_one_grace(subject: &ProbeSubject) {
    const MANY: usize = 20;
    let grace = Duration::from_secs(1);
    let test_envs: Vec<TestEnv> = (0..MANY).map(|_| TestEnv::new(subject)).collect();
    let actors: Vec<Actor> =
        test_envs.iter().map(|test_env| member_ignoring(test_env, &[INT, TERM])).collect();
    let groups: Vec<Group> =
        test_envs.iter().zip(&actors).map(|(test_env, actor)| group_of(test_env, actor)).collect();
    let start = Instant::now();
    let ended = test_envs[0].terminate(&groups, &within(grace));
    let took = start.elapsed();
    for (ended, actor) in ended.iter().zip(&actors) {
        assert_eq!((signals(ended), ended.survivors.len()), (vec![(actor.pid(), KILL)], 0));
        actor.wait_until_all_gone();
    }
    assert!(took >= grace && took < grace * 5, "{MANY} processes took {took:?}");
}

fn i10_daemons_and_processes_without_cookie_are_ended(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let daemon =
        test_env.member(["leave", "setsid", "leave", "ignore", "2", "ignore", "15", "say", "daemon"]);
    let tree = test_env
        .member(["say", "command", "fork", "forget", "setsid", "say", "forgot", "fork", "say", "deep"]);
    let [orphan] = daemon.pids(["daemon"]);
    let [command, forgot, deep] = tree.pids(["command", "forgot", "deep"]);
    let (ended, _) = end(&test_env, &tree, &within(SHORT));
    daemon.wait_until_all_gone();
    let signalled = sorted(signals(&ended).into_iter().map(|(pid, _)| pid));
    assert_eq!(signalled, sorted([orphan, command, forgot, deep]));
    assert!(signals(&ended).contains(&(orphan, KILL)));
}

fn i10_continuously_forking_chain_leaves_no_survivor(subject: &ProbeSubject) {
    for grace in [SHORT, Duration::ZERO] {
        let test_env = TestEnv::new(subject);
        let chains: Vec<Actor> = (0..2).map(|_| test_env.member(["say", "first", "chain"])).collect();
        for chain in &chains {
            chain.pids(["first"]);
        }
        let ended = test_env.terminate_one(&test_env.group(None), &within(grace));
        assert_eq!(ended.survivors, [], "{grace:?}");
        for chain in &chains {
            chain.wait_until_all_gone();
        }
    }
}

fn i10_stopped_process_is_ended(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let actor = test_env.member(["stop"]);
    actor.wait_until_stopped();
    let (ended, _) = end(&test_env, &actor, &within(SHORT));
    assert_eq!(ended.signalled.len(), 1);
}

fn i10_successor_started_on_the_first_signal_is_ended(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let actor = test_env.member(["respawn", "say", "successor"]);
    actor.pids(["ready"]);
    let ended = test_env.terminate_one(&group_of(&test_env, &actor), &within(SHORT));
    assert_eq!(ended.survivors, []);
    let successors = signals(&ended).into_iter().filter(|(pid, _)| *pid != actor.pid()).count();
    assert_eq!(successors, 1, "{ended:?}");
    // The successor may or may not have printed its label before it was ended.
    actor.wait_until_all_gone();
}

fn i2_spared_process_is_not_signalled(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let mut spared = member_ignoring(&test_env, &[]);
    let ended_one = member_ignoring(&test_env, &[]);
    let spare = vec![test_env.identify(spared.pid()), test_env.identify(std::process::id())];
    let group = group_of(&test_env, &ended_one);
    let ended = test_env.terminate_one(&group, &EndPolicy { spare, ..within(SHORT) });
    ended_one.wait_until_all_gone();
    assert!(spared.is_running());
    assert_eq!(signals(&ended).iter().map(|(pid, _)| *pid).collect::<Vec<_>>(), [ended_one.pid()]);
    assert_eq!(ended.spared.iter().map(|process| process.pid).collect::<Vec<_>>(), [spared.pid()]);
    assert_eq!(ended.survivors, []);
}

/// Ends a group with the command `recorded`, which is not the bystander, and checks that the bystander still runs.
fn require_untouched(test_env: &TestEnv, bystander: &mut Actor, recorded: &ProcessIdentity) {
    let group = Group { supervisor: None, ..test_env.group(Some(recorded.clone())) };
    let ended = test_env.terminate_one(&group, &within(Duration::from_millis(100)));
    assert_eq!(ended.signalled, [], "{recorded:?}");
    assert!(bystander.is_running(), "a bystander was ended as {recorded:?}");
}

fn i2_mismatched_identity_is_never_signalled(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let mut bystander = test_env.stranger(["say", "bystander", "fork", "say", "child"]);
    bystander.pids(["bystander", "child"]);
    let identity = test_env.identify(bystander.pid());
    let mut recorded = super::identity::altered(&identity);
    recorded.push(ProcessIdentity { boot_id: Some("another boot".to_owned()), ..identity });
    for recorded in recorded {
        require_untouched(&test_env, &mut bystander, &recorded);
    }
}

fn i2_process_with_unknown_liveness_is_never_signalled(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let mut bystander = test_env.stranger(["say", "bystander"]);
    bystander.pids(["bystander"]);
    let identity = test_env.identify(bystander.pid());
    let namespace = |recorded: Option<u64>| Some(recorded.map_or(1, |inode| inode + 1));
    let unknown = [
        ProcessIdentity { pid_namespace: namespace(identity.pid_namespace), ..identity.clone() },
        ProcessIdentity { time_namespace: namespace(identity.time_namespace), ..identity.clone() },
        ProcessIdentity::of_pid(identity.pid),
    ];
    for recorded in unknown {
        require_untouched(&test_env, &mut bystander, &recorded);
    }
}

fn i2_supervisor_is_not_signalled(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let mut actor = test_env.member(["say", "supervisor", "fork", "say", "command"]);
    let [shim, command] = actor.pids(["supervisor", "command"]);
    let group = test_env.group(Some(test_env.identify(command)));
    let group = Group { supervisor: Some(test_env.identify(shim)), ..group };
    let ended = test_env.terminate_one(&group, &within(AMPLE));
    assert_eq!(signals(&ended), [(command, INT)]);
    assert!(actor.is_running());
}

fn ending_a_session_without_processes_returns_at_once(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let start = Instant::now();
    let ended = test_env.terminate_one(&test_env.group(None), &within(AMPLE));
    assert_eq!((ended.signalled, ended.survivors, ended.spared), (Vec::new(), Vec::new(), Vec::new()));
    assert!(start.elapsed() < AMPLE / 2, "it waited without a process");
    assert_eq!(test_env.terminate(&[], &within(AMPLE)), []);
}

fn second_ending_signals_no_process(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let actor = member_ignoring(&test_env, &[]);
    let group = group_of(&test_env, &actor);
    assert_eq!(test_env.terminate_one(&group, &within(AMPLE)).signalled.len(), 1);
    // Its zombie still exists, because it was not reaped.
    assert_eq!(test_env.terminate_one(&group, &within(AMPLE)).signalled, []);
}
