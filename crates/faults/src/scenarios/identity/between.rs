//! A pid that is given to a stranger: before the program looks, in what seems to be the same tick; and at any
//! moment between its looks and its signals.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;
use sexton_field::records::edit_record;
use sexton_field::strace::{Family, calls_in, every_line};
use sexton_field::{Yard, eventually, send_signal};

use super::SETTINGS;
use super::stranger::{NAMES, make_free, require_spared, start_as, start_ticks};
use crate::bystanders::Bystanders;

/// A session that the command is to end, with nobody but us to notice the end of its processes.
struct Doomed {
    yard: Yard,
    bystanders: Bystanders,
    id: String,
    /// The process that the command will want to signal.
    victim: u64,
}

impl Doomed {
    /// For `stop`, the session's command is alive; for `recover`, only something that it left behind is.
    fn start(command: &str) -> Doomed {
        let yard = Yard::new().with_settings(SETTINGS);
        let bystanders = Bystanders::plant(&yard);
        let left = yard.path().join("left");
        let begin = if command == "stop" { "echo $$" } else { "sleep 600 & echo $!" };
        let script = format!("{begin} > {0}.new; mv {0}.new {0}; exec sleep 600", left.display());
        let id = yard.ok(&["run", "-d", "--", "sh", "-c", &script]);
        eventually("it is complete", || left.exists());
        let victim: u64 = std::fs::read_to_string(&left).unwrap().trim().parse().unwrap();
        let record = yard.record(&id);
        let pid = |whose: &str| record[whose]["pid"].as_u64().unwrap();
        make_free(pid("supervisor"));
        if victim != pid("process") {
            make_free(pid("process"));
        }
        Doomed { yard, bystanders, id, victim }
    }

    fn arguments<'a>(&'a self, command: &str) -> Vec<&'a str> {
        if command == "stop" { vec!["stop", "--force", &self.id] } else { vec!["recover"] }
    }
}

/// The pid is somebody else's before the program begins, and the ticks do not tell.
pub(super) fn in_one_tick(command: &str, rounds: usize) -> u64 {
    for round in 0..rounds {
        let Doomed { yard, bystanders, id, victim } = Doomed::start("stop");
        make_free(victim);
        let stranger = start_as(victim, NAMES[round % NAMES.len()], yard.path());
        let ticks = start_ticks(victim);
        edit_record(&yard, &id, |session| {
            if let Some(process) = &mut session.process {
                process.start_ticks = Some(ticks);
            }
        });
        let arguments: &[&str] = if command == "stop" { &["stop", "--force", &id] } else { &["recover"] };
        let ran = yard.sexton(arguments);
        assert!(ran.code == 0 || ran.code == 3, "{}{}", ran.stdout, ran.stderr);
        require_spared(stranger);
        bystanders.require_untouched(&yard);
    }
    rounds as u64
}

/// The calls of the command after which the pid can change hands, as `name:nth`: those from the first look at
/// the victim on, or only those just before a signal.
pub(super) fn points(command: &str, which: &str) -> Vec<String> {
    let doomed = Doomed::start(command);
    let trace = every_line(&doomed.yard, Family::Threads, &doomed.arguments(command));
    let calls = calls_in(&trace);
    let signals = |name: &str| ["pidfd_send_signal", "kill", "tgkill"].contains(&name);
    let at: Vec<usize> = (0..calls.len()).filter(|at| signals(&calls[*at].0.name)).collect();
    assert!(!at.is_empty(), "{command} sends no signal here");
    let looks = |line: &str| line.contains(&format!("/{}/", doomed.victim)) || line.contains("pidfd_open(");
    let first = calls.iter().position(|(_, line)| looks(line)).unwrap_or(0);
    let chosen: Vec<usize> = match which {
        "all" => (first..*at.last().unwrap()).collect(),
        _ => at.iter().flat_map(|at| at.saturating_sub(4)..*at).collect(),
    };
    let point = |at: usize| format!("{}:{}", calls[at].0.name, calls[at].0.nth);
    // A call that waits is begun again when its process goes on; so a signal is held back as well, when
    // nothing is left to be looked at.
    let held = at.iter().map(|at| format!("{HELD}{}", point(*at)));
    held.chain(chosen.into_iter().map(point)).collect()
}

/// The pid changes hands when the program has just made this call. Says whether it came so far.
pub(super) fn at_point(command: &str, point: &str) -> u64 {
    if let Some(signal) = point.strip_prefix(HELD) {
        return at_signal(command, signal);
    }
    let (name, nth) = point.split_once(':').unwrap();
    let doomed = Doomed::start(command);
    let output = doomed.yard.path().join("trace-of-a-swap");
    let how = format!("signal=SIGSTOP:when={nth}");
    let mut strace = disturb(&doomed, command, name, &how, &output);
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
    make_free(doomed.victim);
    let which: usize = nth.parse().unwrap();
    let stranger = start_as(doomed.victim, NAMES[which % NAMES.len()], doomed.yard.path());
    send_signal(process, Signal::CONT);
    strace.wait().unwrap();
    require_spared(stranger);
    doomed.bystanders.require_untouched(&doomed.yard);
    1
}

/// What a point begins with where a signal is held back just before it is sent.
const HELD: &str = "held:";

/// How long it is held back, in microseconds: long enough to give a pid to somebody else.
const HOLD: u64 = 2_000_000;

/// The pid changes hands when the program has asked the kernel to send the signal and the kernel has not begun.
fn at_signal(command: &str, signal: &str) -> u64 {
    let (name, nth) = signal.split_once(':').unwrap();
    let doomed = Doomed::start(command);
    let output = doomed.yard.path().join("trace-of-a-swap");
    let how = format!("delay_enter={HOLD}:when={nth}");
    let mut strace = disturb(&doomed, command, name, &how, &output);
    let mut held = false;
    eventually("the signal is about to be sent, or all is over", || {
        held = is_in_call(strace.id().into(), name);
        held || strace.try_wait().unwrap().is_some()
    });
    if held {
        make_free(doomed.victim);
        let stranger = start_as(doomed.victim, NAMES[0], doomed.yard.path());
        let in_time = is_in_call(strace.id().into(), name);
        strace.wait().unwrap();
        require_spared(stranger);
        held = in_time;
    }
    doomed.bystanders.require_untouched(&doomed.yard);
    held.into()
}

/// Whether what this strace started is in this call. The numbers are those of the kernel.
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

/// The command under strace, which disturbs its calls of this name.
fn disturb(doomed: &Doomed, command: &str, name: &str, how: &str, output: &Path) -> Child {
    let mut strace = Command::new("strace");
    doomed.yard.enclose(&mut strace);
    strace.args(["--quiet=attach,personality", "-f", "-b", "execve", "-o"]).arg(output);
    strace.args(["-e", &format!("trace={name}")]);
    strace.args(["-e", &format!("inject={name}:{how}")]);
    strace.arg(sexton_field::program()).args(doomed.arguments(command));
    strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}
