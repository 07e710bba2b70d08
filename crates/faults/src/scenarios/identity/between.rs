//! A pid that is reused by an unrelated process: before the program checks it, in what looks like the same
//! tick; and at any moment between its checks and its signals.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use sexton_test_harness::records::edit_record;
use sexton_test_harness::strace::{Family, calls_in, every_line};
use sexton_test_harness::{TestEnv, eventually, send_signal};

use super::SETTINGS;
use super::stranger::{NAMES, kill_and_reap, require_spared, start_as, start_ticks};
use crate::bystanders::Bystanders;

/// A session that the command is to stop. Only this program reaps its processes, so it controls when their
/// pids are free.
struct TargetSession {
    test_env: TestEnv,
    bystanders: Bystanders,
    id: String,
    /// The process that the command is expected to signal.
    victim: u64,
}

impl TargetSession {
    /// For `stop`, the session's command is alive; for `recover`, only a process that it left behind.
    fn start(command: &str) -> TargetSession {
        let test_env = TestEnv::new().with_settings(SETTINGS);
        let bystanders = Bystanders::plant(&test_env);
        let left = test_env.path().join("left");
        let begin = if command == "stop" { "echo $$" } else { "sleep 600 & echo $!" };
        let script = format!("{begin} > {0}.new; mv {0}.new {0}; exec sleep 600", left.display());
        let id = test_env.ok(&["run", "-d", "--", "sh", "-c", &script]);
        eventually("it is complete", || left.exists());
        let victim: u64 = std::fs::read_to_string(&left).unwrap().trim().parse().unwrap();
        let record = test_env.record(&id);
        let pid = |whose: &str| record[whose]["pid"].as_u64().unwrap();
        kill_and_reap(pid("supervisor"));
        if victim != pid("process") {
            kill_and_reap(pid("process"));
        }
        TargetSession { test_env, bystanders, id, victim }
    }

    fn arguments<'a>(&'a self, command: &str) -> Vec<&'a str> {
        if command == "stop" { vec!["stop", "--force", &self.id] } else { vec!["recover"] }
    }
}

/// Reuses the pid before the program starts, with the same start ticks.
pub(super) fn in_one_tick(command: &str, rounds: usize) -> u64 {
    for round in 0..rounds {
        let TargetSession { test_env, bystanders, id, victim } = TargetSession::start("stop");
        kill_and_reap(victim);
        let stranger = start_as(victim, NAMES[round % NAMES.len()], test_env.path());
        let ticks = start_ticks(victim);
        edit_record(&test_env, &id, |session| {
            if let Some(process) = &mut session.process {
                process.start_ticks = Some(ticks);
            }
        });
        let arguments: &[&str] = if command == "stop" { &["stop", "--force", &id] } else { &["recover"] };
        let ran = test_env.sexton(arguments);
        assert!(ran.code == 0 || ran.code == 3, "{}{}", ran.stdout, ran.stderr);
        require_spared(stranger);
        bystanders.require_untouched(&test_env);
    }
    rounds as u64
}

/// Returns the calls of the command after which the pid can be reused, as `name:nth`: all from the first read
/// of the victim on, or only those just before a signal.
pub(super) fn points(command: &str, which: &str) -> Vec<String> {
    let target = TargetSession::start(command);
    let trace = every_line(&target.test_env, Family::Threads, &target.arguments(command));
    let calls = calls_in(&trace);
    let signals = |name: &str| ["pidfd_send_signal", "kill", "tgkill"].contains(&name);
    let at: Vec<usize> = (0..calls.len()).filter(|at| signals(&calls[*at].0.name)).collect();
    assert!(!at.is_empty(), "{command} sends no signal here");
    let reads_victim =
        |line: &str| line.contains(&format!("/{}/", target.victim)) || line.contains("pidfd_open(");
    let first = calls.iter().position(|(_, line)| reads_victim(line)).unwrap_or(0);
    let chosen: Vec<usize> = match which {
        "all" => (first..*at.last().unwrap()).collect(),
        _ => at.iter().flat_map(|at| at.saturating_sub(4)..*at).collect(),
    };
    let point = |at: usize| format!("{}:{}", calls[at].0.name, calls[at].0.nth);
    // A call that waits is restarted when its process continues. Therefore a signal is also delayed, when no
    // check is left.
    let delayed = at.iter().map(|at| format!("{DELAYED}{}", point(*at)));
    delayed.chain(chosen.into_iter().map(point)).collect()
}

/// Reuses the pid when the program has just made this call. Returns whether the call was reached.
pub(super) fn at_point(command: &str, point: &str) -> u64 {
    if let Some(signal) = point.strip_prefix(DELAYED) {
        return at_signal(command, signal);
    }
    let (name, nth) = point.split_once(':').unwrap();
    let target = TargetSession::start(command);
    let output = target.test_env.path().join("trace-of-a-swap");
    let how = format!("signal=SIGSTOP:when={nth}");
    let mut strace = disturb(&target, command, name, &how, &output);
    let stopped = || {
        let trace = std::fs::read_to_string(&output).unwrap_or_default();
        let line = trace.lines().find(|line| line.contains("--- stopped by SIGSTOP"))?;
        line.split(' ').next()?.parse::<u64>().ok()
    };
    let mut process = None;
    eventually("it stops or ends", || {
        process = stopped();
        process.is_some() || strace.try_wait().unwrap().is_some()
    });
    let Some(process) = process else { return 0 };
    kill_and_reap(target.victim);
    let which: usize = nth.parse().unwrap();
    let stranger = start_as(target.victim, NAMES[which % NAMES.len()], target.test_env.path());
    send_signal(process, Signal::CONT);
    strace.wait().unwrap();
    require_spared(stranger);
    target.bystanders.require_untouched(&target.test_env);
    1
}

/// The prefix of a point where a signal is delayed just before it is sent.
const DELAYED: &str = "delayed:";

/// How long it is delayed, in microseconds: long enough to reuse a pid.
const DELAY: u64 = 2_000_000;

/// Reuses the pid when the program has entered the call that sends the signal, before the kernel executes it.
fn at_signal(command: &str, signal: &str) -> u64 {
    let (name, nth) = signal.split_once(':').unwrap();
    let target = TargetSession::start(command);
    let output = target.test_env.path().join("trace-of-a-swap");
    let how = format!("delay_enter={DELAY}:when={nth}");
    let mut strace = disturb(&target, command, name, &how, &output);
    let mut delayed = false;
    eventually("the signal is about to be sent, or the command has exited", || {
        delayed = is_in_call(strace.id().into(), name);
        delayed || strace.try_wait().unwrap().is_some()
    });
    if delayed {
        kill_and_reap(target.victim);
        let stranger = start_as(target.victim, NAMES[0], target.test_env.path());
        let in_time = is_in_call(strace.id().into(), name);
        strace.wait().unwrap();
        require_spared(stranger);
        delayed = in_time;
    }
    target.bystanders.require_untouched(&target.test_env);
    delayed.into()
}

/// Returns whether a child of this strace is in this call. The numbers are the kernel's.
fn is_in_call(strace: u64, name: &str) -> bool {
    let number = match name {
        "pidfd_send_signal" => "424",
        "kill" if cfg!(target_arch = "aarch64") => "129",
        _ => "62",
    };
    let started =
        std::fs::read_to_string(format!("/proc/{strace}/task/{strace}/children")).unwrap_or_default();
    let calls = started.split_whitespace();
    let mut calls =
        calls.map(|pid| std::fs::read_to_string(format!("/proc/{pid}/syscall")).unwrap_or_default());
    calls.any(|call| call.split(' ').next() == Some(number))
}

/// Starts the command under strace, which disturbs its calls of this name.
fn disturb(target: &TargetSession, command: &str, name: &str, how: &str, output: &Path) -> Child {
    let mut strace = Command::new("strace");
    target.test_env.enclose(&mut strace);
    strace.args(["--quiet=attach,personality", "-f", "-b", "execve", "-o"]).arg(output);
    strace.args(["-e", &format!("trace={name}")]);
    strace.args(["-e", &format!("inject={name}:{how}")]);
    strace.arg(sexton_test_harness::program()).args(target.arguments(command));
    strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}
