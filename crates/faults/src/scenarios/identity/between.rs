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
    chosen.into_iter().map(|at| format!("{}:{}", calls[at].0.name, calls[at].0.nth)).collect()
}

/// The pid changes hands when the program has just made this call; each point with a new session.
pub(super) fn at_points(command: &str, points: &[&str]) -> u64 {
    let mut struck = 0;
    for (number, point) in points.iter().enumerate() {
        let (name, nth) = point.split_once(':').unwrap();
        let doomed = Doomed::start(command);
        let output = doomed.yard.path().join("trace-of-a-swap");
        let mut strace = stop_after(&doomed, command, name, nth, &output);
        // The program has stopped, or was over before it came so far.
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
        if let Some(process) = process {
            make_free(doomed.victim);
            let stranger = start_as(doomed.victim, NAMES[number % NAMES.len()], doomed.yard.path());
            send_signal(process, Signal::CONT);
            strace.wait().unwrap();
            require_spared(stranger);
            struck += 1;
        }
        doomed.bystanders.require_untouched(&doomed.yard);
    }
    struck
}

/// The command under strace, which stops it after its nth call of this name.
fn stop_after(doomed: &Doomed, command: &str, name: &str, nth: &str, output: &Path) -> Child {
    let mut strace = Command::new("strace");
    doomed.yard.enclose(&mut strace);
    strace.args(["--quiet=attach,personality", "-f", "-b", "execve", "-o"]).arg(output);
    strace.args(["-e", &format!("trace={name}")]);
    strace.args(["-e", &format!("inject={name}:signal=SIGSTOP:when={nth}")]);
    strace.arg(sexton_field::program()).args(doomed.arguments(command));
    strace.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}
