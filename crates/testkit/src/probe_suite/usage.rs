//! Resource usage of sessions. The figures are for display, so the cases check only the order of magnitude.

use std::time::Duration;

use pollster::block_on;
use sexton_core::SessionId;
use sexton_core::probe::{Group, Usage};

use super::ProbeSubject;
use super::test_env::TestEnv;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<ProbeSubject> = theme!("usage":
    cpu_time_and_memory_are_summed_over_members,
    session_without_processes_uses_nothing,
    usage_is_reported_per_session_in_request_order,
);

const MEBIBYTE: u64 = 1 << 20;

fn measure(test_env: &TestEnv, groups: &[Group]) -> Vec<Usage> {
    block_on(test_env.probe.usage(groups)).expect("the processes can be measured")
}

fn cpu_time_and_memory_are_summed_over_members(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let acts =
        ["burn", "300", "hold", "32", "say", "command", "fork", "burn", "300", "hold", "32", "say", "child"];
    let actor = test_env.member(acts);
    actor.pids(["command", "child"]);
    let usage = measure(&test_env, &[test_env.group(Some(test_env.identify(actor.pid())))])[0];
    assert_eq!(usage.processes, 2);
    // A tick is at most 10 ms, and each process may be one tick short.
    assert!(usage.cpu >= Duration::from_millis(580), "{usage:?}");
    assert!(usage.memory >= 64 * MEBIBYTE, "{usage:?}");
}

fn session_without_processes_uses_nothing(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    assert_eq!(measure(&test_env, &[test_env.group(None)]), [Usage::default()]);
    assert_eq!(measure(&test_env, &[]), []);
}

fn usage_is_reported_per_session_in_request_order(subject: &ProbeSubject) {
    let (busy, idle) = (TestEnv::new(subject), TestEnv::new(subject));
    let actor = busy.member(["burn", "500", "say", "busy"]);
    actor.pids(["busy"]);
    let other = idle.member(["say", "idle", "fork", "say", "child"]);
    other.pids(["idle", "child"]);
    let empty = Group { session: SessionId::random(), ..busy.group(None) };
    let usage = measure(&busy, &[idle.group(None), empty, busy.group(None)]);
    assert_eq!(usage.iter().map(|usage| usage.processes).collect::<Vec<_>>(), [2, 0, 1]);
    assert!(usage[2].cpu >= Duration::from_millis(480), "{usage:?}");
    assert!(usage[0].cpu < usage[2].cpu, "{usage:?}");
}
