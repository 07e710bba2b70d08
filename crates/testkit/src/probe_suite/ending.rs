//! How processes are ended: all of them, in one shared grace period, and never a wrong one.

use std::time::{Duration, Instant};

use sexton_core::probe::{EndPolicy, Ended, Group};
use sexton_core::{Liveness, ProcessIdentity, SessionId};

use super::ProbeSubject;
use super::scene::{Actor, INT, KILL, Scene, TERM, sorted, within};
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<ProbeSubject> = theme!("ending":
    a_polite_process_ends_at_the_first_signal,
    the_first_signal_is_the_callers_choice,
    one_that_ignores_the_first_signal_gets_another_at_half_of_the_grace,
    a_stubborn_process_is_killed_at_the_end_of_the_grace,
    without_a_grace_everyone_is_killed_at_once,
    a_grace_that_is_over_before_everybody_was_told_ends_all_the_same,
    many_stubborn_processes_share_one_grace,
    i10_daemons_and_those_that_forgot_the_cookie_are_ended,
    i10_a_chain_that_keeps_forking_leaves_no_survivor,
    i10_a_stopped_process_is_ended,
    i10_an_heir_that_a_process_leaves_when_it_is_told_to_end_is_ended_too,
    i2_a_spared_process_is_left_alone,
    i2_an_identity_that_does_not_match_is_never_signalled,
    i2_what_cannot_be_judged_is_never_signalled,
    i2_another_session_is_never_signalled,
    i2_the_supervisor_is_not_signalled,
    a_session_without_processes_is_ended_already,
    ending_twice_signals_nobody_the_second_time,
);

/// Longer than any polite process needs, however loaded the machine is.
const AMPLE: Duration = Duration::from_secs(60);
/// Long enough to be told from nothing.
const SHORT: Duration = Duration::from_millis(600);

/// Who was signalled, with the last signal each got, sorted by pid.
fn signals(ended: &Ended) -> Vec<(u32, i32)> {
    let mut signals: Vec<_> =
        ended.signalled.iter().map(|(process, signal)| (process.pid, *signal)).collect();
    signals.sort_unstable();
    signals
}

/// A member that outlives `ignored`, once it is ready to.
fn member_ignoring(scene: &Scene, ignored: &[i32]) -> Actor {
    let mut acts: Vec<String> = Vec::new();
    for signal in ignored {
        acts.extend(["ignore".to_owned(), signal.to_string()]);
    }
    acts.extend(["say".to_owned(), "ready".to_owned()]);
    let play = scene.member(acts);
    play.pids(["ready"]);
    play
}

fn group_of(scene: &Scene, play: &Actor) -> Group {
    scene.group(Some(scene.identify(play.pid())))
}

/// Ends the session of `play` and gives what was done and how long it took.
fn end(scene: &Scene, play: &Actor, policy: &EndPolicy) -> (Ended, Duration) {
    let start = Instant::now();
    let ended = scene.terminate_one(&group_of(scene, play), policy);
    assert_eq!(ended.survivors, [], "nobody survives");
    play.wait_until_all_gone();
    (ended, start.elapsed())
}

fn a_polite_process_ends_at_the_first_signal(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let play = member_ignoring(&scene, &[]);
    let identity = scene.identify(play.pid());
    let (ended, took) = end(&scene, &play, &within(AMPLE));
    assert_eq!(signals(&ended), [(play.pid(), INT)]);
    assert_eq!(ended.spared, []);
    assert!(took < AMPLE / 2, "it took {took:?}");
    assert_eq!(scene.observe(&identity), Liveness::Gone);
}

fn the_first_signal_is_the_callers_choice(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let play = member_ignoring(&scene, &[INT, TERM]);
    const HUP: i32 = 1;
    let (ended, _) = end(&scene, &play, &EndPolicy { first_signal: HUP, ..within(AMPLE) });
    assert_eq!(signals(&ended), [(play.pid(), HUP)]);
}

fn one_that_ignores_the_first_signal_gets_another_at_half_of_the_grace(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let play = member_ignoring(&scene, &[INT]);
    let grace = Duration::from_secs(4);
    let (ended, took) = end(&scene, &play, &within(grace));
    assert_eq!(signals(&ended), [(play.pid(), TERM)]);
    assert!(took >= grace / 2, "it was told after {took:?}");
}

fn a_stubborn_process_is_killed_at_the_end_of_the_grace(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let play = member_ignoring(&scene, &[INT, TERM]);
    let (ended, took) = end(&scene, &play, &within(SHORT));
    assert_eq!(signals(&ended), [(play.pid(), KILL)]);
    assert!(took >= SHORT, "it had only {took:?}");
}

fn a_grace_that_is_over_before_everybody_was_told_ends_all_the_same(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let play = member_ignoring(&scene, &[INT, TERM]);
    // Shorter than any look at a machine, as any grace is on one that is busy enough.
    let policy = EndPolicy { kill_wait: AMPLE, ..within(Duration::from_micros(200)) };
    let (ended, took) = end(&scene, &play, &policy);
    assert_eq!(signals(&ended), [(play.pid(), KILL)]);
    assert!(took < AMPLE / 2, "it was killed after {took:?}");
}

fn without_a_grace_everyone_is_killed_at_once(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let play = member_ignoring(&scene, &[INT, TERM]);
    let (ended, _) = end(&scene, &play, &within(Duration::ZERO));
    assert_eq!(signals(&ended), [(play.pid(), KILL)]);
}

fn many_stubborn_processes_share_one_grace(subject: &ProbeSubject) {
    const MANY: usize = 20;
    let grace = Duration::from_secs(1);
    let scenes: Vec<Scene> = (0..MANY).map(|_| Scene::new(subject)).collect();
    let plays: Vec<Actor> = scenes.iter().map(|scene| member_ignoring(scene, &[INT, TERM])).collect();
    let groups: Vec<Group> = scenes.iter().zip(&plays).map(|(scene, play)| group_of(scene, play)).collect();
    let start = Instant::now();
    let ended = scenes[0].terminate(&groups, &within(grace));
    let took = start.elapsed();
    for (ended, play) in ended.iter().zip(&plays) {
        assert_eq!((signals(ended), ended.survivors.len()), (vec![(play.pid(), KILL)], 0));
        play.wait_until_all_gone();
    }
    assert!(took >= grace && took < grace * 5, "{MANY} processes took {took:?}");
}

fn i10_daemons_and_those_that_forgot_the_cookie_are_ended(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let daemon = scene.member(["leave", "setsid", "leave", "ignore", "2", "ignore", "15", "say", "daemon"]);
    let tree =
        scene.member(["say", "command", "fork", "forget", "setsid", "say", "forgot", "fork", "say", "deep"]);
    let [orphan] = daemon.pids(["daemon"]);
    let [command, forgot, deep] = tree.pids(["command", "forgot", "deep"]);
    let (ended, _) = end(&scene, &tree, &within(SHORT));
    daemon.wait_until_all_gone();
    let signalled = sorted(signals(&ended).into_iter().map(|(pid, _)| pid));
    assert_eq!(signalled, sorted([orphan, command, forgot, deep]));
    assert!(signals(&ended).contains(&(orphan, KILL)));
}

fn i10_a_chain_that_keeps_forking_leaves_no_survivor(subject: &ProbeSubject) {
    for grace in [SHORT, Duration::ZERO] {
        let scene = Scene::new(subject);
        let chains: Vec<Actor> = (0..2).map(|_| scene.member(["say", "first", "chain"])).collect();
        for chain in &chains {
            chain.pids(["first"]);
        }
        let ended = scene.terminate_one(&scene.group(None), &within(grace));
        assert_eq!(ended.survivors, [], "{grace:?}");
        for chain in &chains {
            chain.wait_until_all_gone();
        }
    }
}

fn i10_a_stopped_process_is_ended(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let play = scene.member(["stop"]);
    play.wait_until_stopped();
    let (ended, _) = end(&scene, &play, &within(SHORT));
    assert_eq!(ended.signalled.len(), 1);
}

fn i10_an_heir_that_a_process_leaves_when_it_is_told_to_end_is_ended_too(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let play = scene.member(["bequeath", "say", "heir"]);
    play.pids(["ready"]);
    let ended = scene.terminate_one(&group_of(&scene, &play), &within(SHORT));
    assert_eq!(ended.survivors, []);
    let heirs = signals(&ended).into_iter().filter(|(pid, _)| *pid != play.pid()).count();
    assert_eq!(heirs, 1, "{ended:?}");
    // Whether the heir came to say anything before it was ended is nobody's business.
    play.wait_until_all_gone();
}

fn i2_a_spared_process_is_left_alone(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let mut spared = member_ignoring(&scene, &[]);
    let ended_one = member_ignoring(&scene, &[]);
    let spare = vec![scene.identify(spared.pid()), scene.identify(std::process::id())];
    let group = group_of(&scene, &ended_one);
    let ended = scene.terminate_one(&group, &EndPolicy { spare, ..within(SHORT) });
    ended_one.wait_until_all_gone();
    assert!(spared.is_running());
    assert_eq!(signals(&ended).iter().map(|(pid, _)| *pid).collect::<Vec<_>>(), [ended_one.pid()]);
    assert_eq!(ended.spared.iter().map(|process| process.pid).collect::<Vec<_>>(), [spared.pid()]);
    assert_eq!(ended.survivors, []);
}

/// Ends a group that begins at `recorded`, which is not the bystander, and checks that it lives on.
fn require_untouched(scene: &Scene, bystander: &mut Actor, recorded: &ProcessIdentity) {
    let group = Group { supervisor: None, ..scene.group(Some(recorded.clone())) };
    let ended = scene.terminate_one(&group, &within(Duration::from_millis(100)));
    assert_eq!(ended.signalled, [], "{recorded:?}");
    assert!(bystander.is_running(), "a bystander was ended as {recorded:?}");
}

fn i2_an_identity_that_does_not_match_is_never_signalled(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let mut bystander = scene.stranger(["say", "bystander", "fork", "say", "child"]);
    bystander.pids(["bystander", "child"]);
    let identity = scene.identify(bystander.pid());
    let mut recorded = super::identity::altered(&identity);
    recorded.push(ProcessIdentity { boot_id: Some("another boot".to_owned()), ..identity });
    for recorded in recorded {
        require_untouched(&scene, &mut bystander, &recorded);
    }
}

fn i2_what_cannot_be_judged_is_never_signalled(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let mut bystander = scene.stranger(["say", "bystander"]);
    bystander.pids(["bystander"]);
    let identity = scene.identify(bystander.pid());
    let namespace = |recorded: Option<u64>| Some(recorded.map_or(1, |inode| inode + 1));
    let unknown = [
        ProcessIdentity { pid_namespace: namespace(identity.pid_namespace), ..identity.clone() },
        ProcessIdentity { time_namespace: namespace(identity.time_namespace), ..identity.clone() },
        ProcessIdentity::of_pid(identity.pid),
    ];
    for recorded in unknown {
        require_untouched(&scene, &mut bystander, &recorded);
    }
}

fn i2_another_session_is_never_signalled(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let other = SessionId::random();
    let play = scene.member(["say", "command", "fork", "carry", other.as_str(), "say", "other"]);
    let [command, elsewhere] = play.pids(["command", "other"]);
    let survivor = scene.identify(elsewhere);
    let ended = scene.terminate_one(&group_of(&scene, &play), &within(SHORT));
    assert_eq!(signals(&ended).iter().map(|(pid, _)| *pid).collect::<Vec<_>>(), [command]);
    assert_eq!(scene.observe(&survivor), Liveness::Alive);
}

fn i2_the_supervisor_is_not_signalled(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let mut play = scene.member(["say", "supervisor", "fork", "say", "command"]);
    let [shim, command] = play.pids(["supervisor", "command"]);
    let group = scene.group(Some(scene.identify(command)));
    let group = Group { supervisor: Some(scene.identify(shim)), ..group };
    let ended = scene.terminate_one(&group, &within(AMPLE));
    assert_eq!(signals(&ended), [(command, INT)]);
    assert!(play.is_running());
}

fn a_session_without_processes_is_ended_already(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let start = Instant::now();
    let ended = scene.terminate_one(&scene.group(None), &within(AMPLE));
    assert_eq!((ended.signalled, ended.survivors, ended.spared), (Vec::new(), Vec::new(), Vec::new()));
    assert!(start.elapsed() < AMPLE / 2, "it waited for nobody");
    assert_eq!(scene.terminate(&[], &within(AMPLE)), []);
}

fn ending_twice_signals_nobody_the_second_time(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let play = member_ignoring(&scene, &[]);
    let group = group_of(&scene, &play);
    assert_eq!(scene.terminate_one(&group, &within(AMPLE)).signalled.len(), 1);
    // Its zombie is still there: nobody has reaped it.
    assert_eq!(scene.terminate_one(&group, &within(AMPLE)).signalled, []);
}
