//! What the processes of sessions use. Figures for people: the cases ask for their order of magnitude.

use std::time::Duration;

use pollster::block_on;
use sexton_core::SessionId;
use sexton_core::probe::{Group, Usage};

use super::ProbeSubject;
use super::scene::Scene;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<ProbeSubject> = theme!("usage":
    processor_time_and_memory_are_summed_over_the_members,
    a_session_without_processes_uses_nothing,
    each_session_gets_its_own_figures_in_the_order_asked_for,
);

const MEBIBYTE: u64 = 1 << 20;

fn measure(scene: &Scene, groups: &[Group]) -> Vec<Usage> {
    block_on(scene.probe.usage(groups)).expect("the processes can be measured")
}

fn processor_time_and_memory_are_summed_over_the_members(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let acts =
        ["burn", "300", "hold", "32", "say", "command", "fork", "burn", "300", "hold", "32", "say", "child"];
    let play = scene.member(acts);
    play.pids(["command", "child"]);
    let usage = measure(&scene, &[scene.group(Some(scene.identify(play.pid())))])[0];
    assert_eq!(usage.processes, 2);
    // A tick is at most 10 ms, and each process may be one short.
    assert!(usage.cpu >= Duration::from_millis(580), "{usage:?}");
    assert!(usage.memory >= 64 * MEBIBYTE, "{usage:?}");
}

fn a_session_without_processes_uses_nothing(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    assert_eq!(measure(&scene, &[scene.group(None)]), [Usage::default()]);
    assert_eq!(measure(&scene, &[]), []);
}

fn each_session_gets_its_own_figures_in_the_order_asked_for(subject: &ProbeSubject) {
    let (busy, idle) = (Scene::new(subject), Scene::new(subject));
    let play = busy.member(["burn", "500", "say", "busy"]);
    play.pids(["busy"]);
    let other = idle.member(["say", "idle", "fork", "say", "child"]);
    other.pids(["idle", "child"]);
    let nobody = Group { session: SessionId::random(), ..busy.group(None) };
    let usage = measure(&busy, &[idle.group(None), nobody, busy.group(None)]);
    assert_eq!(usage.iter().map(|usage| usage.processes).collect::<Vec<_>>(), [2, 0, 1]);
    assert!(usage[2].cpu >= Duration::from_millis(480), "{usage:?}");
    assert!(usage[0].cpu < usage[2].cpu, "{usage:?}");
}
