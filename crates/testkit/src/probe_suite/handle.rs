//! How signals are sent, checked by tracing a process that ends others.

use std::time::Duration;

use sexton_core::SessionId;

use super::ProbeSubject;
use super::test_env::{TestEnv, within};
use crate::role::{self, Helper, print_line};
use crate::strace::traced;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<ProbeSubject> = theme!("handle":
    i2_signals_use_a_handle_if_declared,
);

/// The role of a process that ends the session in its argument, without a grace period.
pub(super) const ENDER: &str = "probe-ender";

/// Ends `session` and prints the number of signalled processes.
pub(super) fn end(subject: &ProbeSubject, session: SessionId) {
    let test_env = TestEnv { session, ..TestEnv::new(subject) };
    let ended = test_env.terminate_one(&test_env.group(None), &within(Duration::ZERO));
    print_line(ended.signalled.len());
}

fn i2_signals_use_a_handle_if_declared(subject: &ProbeSubject) {
    let test_env = TestEnv::new(subject);
    let actor = test_env.member(["say", "command", "fork", "say", "child"]);
    actor.pids(["command", "child"]);
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let output = directory.path().join("trace");
    let mut plain = role::command(ENDER);
    plain.arg(test_env.session.as_str());
    let calls = "trace=kill,tkill,tgkill,rt_sigqueueinfo,rt_tgsigqueueinfo,pidfd_send_signal";
    let ender = Helper::spawn(&mut traced(&plain, &output, &[calls]));
    assert_eq!(ender.line(), "2", "it ends both");
    assert!(ender.finish().0.success(), "strace could not run the ender: is it installed?");
    actor.wait_until_all_gone();
    let trace = std::fs::read_to_string(&output).expect("the trace can be read");
    // The trace has the names of signals; signal 0, which only checks existence, has none.
    let signals: Vec<&str> = trace.lines().filter(|line| line.contains(", SIG")).collect();
    assert!(signals.len() >= 2, "{trace}");
    let by_pid: Vec<&&str> = signals.iter().filter(|line| !line.contains("pidfd_send_signal(")).collect();
    if test_env.probe.capabilities().handle {
        assert!(by_pid.is_empty(), "a pid can be reused before the signal is sent: {by_pid:?}");
    } else {
        // Without a handle, each signal goes to one process, never to a group or to all processes.
        let to_many =
            |line: &&&&str| line.contains("kill(-") || line.contains("kill(0,") || line.contains("kill(1,");
        assert_eq!(by_pid.iter().find(to_many), None);
    }
}
