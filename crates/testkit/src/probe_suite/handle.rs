//! How a signal is sent, seen from outside by tracing a process that ends others.

use std::time::Duration;

use sexton_core::SessionId;

use super::ProbeSubject;
use super::scene::{Scene, within};
use crate::role::{self, Helper, say};
use crate::strace::traced;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<ProbeSubject> = theme!("handle":
    i2_every_signal_goes_through_a_handle_where_that_is_promised,
);

/// The role of a process that ends a session: its argument, without a grace.
pub(super) const ENDER: &str = "probe-ender";

/// Ends `session` and says how many it signalled.
pub(super) fn end(subject: &ProbeSubject, session: SessionId) {
    let scene = Scene { session, ..Scene::new(subject) };
    let ended = scene.terminate_one(&scene.group(None), &within(Duration::ZERO));
    say(ended.signalled.len());
}

fn i2_every_signal_goes_through_a_handle_where_that_is_promised(subject: &ProbeSubject) {
    let scene = Scene::new(subject);
    let play = scene.member(["say", "command", "fork", "say", "child"]);
    play.pids(["command", "child"]);
    let directory = tempfile::TempDir::new().expect("a temporary directory");
    let output = directory.path().join("trace");
    let mut plain = role::command(ENDER);
    plain.arg(scene.session.as_str());
    let calls = "trace=kill,tkill,tgkill,rt_sigqueueinfo,rt_tgsigqueueinfo,pidfd_send_signal";
    let ender = Helper::spawn(&mut traced(&plain, &output, &[calls]));
    assert_eq!(ender.line(), "2", "it ends both");
    assert!(ender.finish().0.success(), "strace could not run the ender: is it installed?");
    play.wait_until_all_gone();
    let trace = std::fs::read_to_string(&output).expect("the trace can be read");
    // Every signal that could end a process has its name in the trace; signal 0 only asks.
    let signals: Vec<&str> = trace.lines().filter(|line| line.contains(", SIG")).collect();
    assert!(signals.len() >= 2, "{trace}");
    let by_pid: Vec<&&str> = signals.iter().filter(|line| !line.contains("pidfd_send_signal(")).collect();
    if scene.probe.capabilities().handle {
        assert!(by_pid.is_empty(), "a pid can be another's by the time of the signal: {by_pid:?}");
    } else {
        // Without a handle each signal names one process, never a group and never everyone.
        let to_many =
            |line: &&&&str| line.contains("kill(-") || line.contains("kill(0,") || line.contains("kill(1,");
        assert_eq!(by_pid.iter().find(to_many), None);
    }
}
