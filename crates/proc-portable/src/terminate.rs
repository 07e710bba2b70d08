//! Stops the processes of many sessions within one grace period, without handles.
//!
//! As in every probe, no signal is sent before all members are found, because the exit of a parent can remove
//! the evidence for its children; and a session is done when two consecutive rounds find no process. Each
//! process is checked again immediately before it is signalled, and left alone unless everything matches.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use sexton_core::identity::Match;
use sexton_core::membership::Doubt;
use sexton_core::probe::{EndPolicy, Ended, Group, SIGKILL, SIGTERM, Survivor};
use sexton_core::{Liveness, ProbeError, ProcessIdentity};

use crate::look::{Inspection, Seen, inspect};
use crate::sweep::{Search, Unanswered, too_many_forks};
use crate::{PortableProbe, failed};

const QUIET_ROUNDS: u32 = 2;
/// How often to check whether a process has exited.
const PAUSE: Duration = Duration::from_millis(20);
/// Minimum and maximum time for a pass over all processes.
const MIN_PASS: Duration = Duration::from_millis(500);
const MAX_PASS: Duration = Duration::from_secs(2);
/// How long processes that may not be signalled have, after the grace period, to exit by themselves.
const REFUSED_WAIT: Duration = Duration::from_secs(1);

pub(crate) fn terminate(
    probe: &PortableProbe,
    groups: &[Group],
    policy: &EndPolicy,
) -> Result<Vec<Ended>, ProbeError> {
    // Checked before the first signal: an invalid policy must change nothing.
    let signals = [policy.first_signal, SIGTERM, SIGKILL].into_iter().map(require_signal);
    let ended =
        signals.collect::<io::Result<Vec<_>>>().and_then(|_| Ending::new(probe, groups, policy).run());
    ended.map_err(|error| failed("stopping the processes of a session", error))
}

fn require_signal(number: i32) -> io::Result<Signal> {
    Signal::from_named_raw(number)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("unknown signal {number}")))
}

/// Sends a signal to one recorded process, immediately after checking its identity.
pub(crate) fn signal_process(
    probe: &PortableProbe,
    recorded: &ProcessIdentity,
    number: i32,
) -> io::Result<Liveness> {
    let signal = require_signal(number)?;
    let seen = probe.observe_process(recorded);
    let pid = i32::try_from(recorded.pid).ok().and_then(Pid::from_raw);
    let Some(pid) = pid.filter(|_| seen == Liveness::Alive) else { return Ok(seen) };
    match rustix::process::kill_process(pid, signal) {
        Ok(()) => Ok(Liveness::Alive),
        Err(Errno::SRCH) => Ok(Liveness::Gone),
        Err(errno) => Err(errno.into()),
    }
}

/// One process to stop.
struct Target {
    identity: ProcessIdentity,
    groups: Vec<usize>,
    last_signal: Option<i32>,
    refused: Option<String>,
    is_member: bool,
    has_exited: bool,
}

/// State of one group.
#[derive(Clone, Default)]
struct Standing {
    quiet_rounds: u32,
    /// The process that was found last.
    last_seen: Option<ProcessIdentity>,
    spared: Vec<ProcessIdentity>,
}

struct Ending<'a> {
    probe: &'a PortableProbe,
    groups: &'a [Group],
    policy: &'a EndPolicy,
    begun: Instant,
    unanswered: Unanswered,
    targets: Vec<Target>,
    /// Whether the last round saw all processes.
    saw_everything: bool,
    /// When SIGKILL was first sent. A suspended machine must not shorten the time that processes have to
    /// exit.
    killed_at: Option<Duration>,
    standing: Vec<Standing>,
}

impl<'a> Ending<'a> {
    fn new(probe: &'a PortableProbe, groups: &'a [Group], policy: &'a EndPolicy) -> Ending<'a> {
        let standing = vec![Standing::default(); groups.len()];
        Ending {
            probe,
            groups,
            policy,
            begun: Instant::now(),
            unanswered: Unanswered::default(),
            targets: Vec::new(),
            saw_everything: false,
            killed_at: None,
            standing,
        }
    }

    fn run(mut self) -> io::Result<Vec<Ended>> {
        loop {
            let elapsed = self.begun.elapsed();
            self.run_round(elapsed)?;
            if self.standing.iter().all(|group| group.quiet_rounds >= QUIET_ROUNDS) {
                break;
            }
            let is_settled = self.standing.iter().all(|group| group.quiet_rounds != 1);
            let over_at = self.over_at();
            if elapsed >= over_at && is_settled {
                break;
            }
            let next = self.policy.next_change(elapsed).unwrap_or(over_at);
            self.wait(self.begun + next.min(over_at))?;
        }
        self.report()
    }

    /// Returns when to stop waiting and report the survivors. Processes that may not be signalled can only
    /// exit by themselves, so they are given less time than those that SIGKILL is about to end.
    fn over_at(&self) -> Duration {
        let kill_wait = self.policy.kill_wait;
        let mut living = self.targets.iter().filter(|target| !target.has_exited).peekable();
        let only_refused_left = living.peek().is_some() && living.all(|target| target.refused.is_some());
        let killed_at = self.killed_at.unwrap_or(self.policy.grace);
        killed_at + if only_refused_left { kill_wait.min(REFUSED_WAIT) } else { kill_wait }
    }

    /// Searches all processes once, and sends every member the signal that is due.
    fn run_round(&mut self, elapsed: Duration) -> io::Result<()> {
        let due = self.policy.signal_at(elapsed);
        if due == SIGKILL {
            self.killed_at.get_or_insert(elapsed);
        }
        let mut seen = vec![false; self.groups.len()];
        self.saw_everything = true;
        // The pass without environments comes first: those can be slow to read. If the other sessions are not
        // known, an unread cookie may be one of theirs, and the exit of the command could remove the evidence
        // for that.
        let passes = self.policy.others.is_complete().then_some(false).into_iter().chain([true]);
        for reads_environments in passes {
            self.run_pass(elapsed, reads_environments, due, &mut seen)?;
        }
        for (group, seen) in self.standing.iter_mut().zip(seen) {
            group.quiet_rounds = if seen || !self.saw_everything { 0 } else { group.quiet_rounds + 1 };
        }
        Ok(())
    }

    fn run_pass(
        &mut self,
        elapsed: Duration,
        reads_environments: bool,
        due: i32,
        seen: &mut [bool],
    ) -> io::Result<()> {
        let mut known = vec![Vec::new(); self.groups.len()];
        for target in self.targets.iter().filter(|target| target.is_member && !target.has_exited) {
            target.groups.iter().for_each(|number| known[*number].push(target.identity.clone()));
        }
        // A pass that cannot complete because processes keep forking must not delay the next signal.
        let left = self.policy.next_change(elapsed).map_or(MAX_PASS, |at| at.saturating_sub(elapsed));
        let until = self.begun + elapsed + left.clamp(MIN_PASS, MAX_PASS);
        let sweep = self.probe.sweep(&Search {
            groups: self.groups,
            known: &known,
            others: &self.policy.others,
            unanswered: reads_environments.then_some(&self.unanswered),
            until: if reads_environments { until.max(Instant::now() + MIN_PASS) } else { until },
            hold_except: Some(&self.policy.spare),
        })?;
        for (number, roster) in sweep.rosters.iter().enumerate() {
            let parent_of = |pid: u32| sweep.seen.get(&pid)?.parent;
            let members = match self.groups[number].limit_mark {
                Some(_) => roster.members.clone(),
                None => roster.children_first(parent_of),
            };
            for (pid, _) in &members {
                self.handle_found(number, &sweep.seen[pid], None, due, seen)?;
            }
            for (pid, doubt) in &roster.doubtful {
                self.handle_found(number, &sweep.seen[pid], Some(*doubt), due, seen)?;
            }
        }
        self.saw_everything &= sweep.complete;
        Ok(())
    }

    /// Records a process that was found, and signals it if it is a member.
    fn handle_found(
        &mut self,
        number: usize,
        process: &Seen,
        doubt: Option<Doubt>,
        due: i32,
        seen: &mut [bool],
    ) -> io::Result<()> {
        let may_be = |known: &ProcessIdentity| known.compare(&process.identity) != Match::Different;
        if self.groups[number].supervisor.as_ref().is_some_and(may_be) {
            return Ok(());
        }
        // If the evidence is unclear, the process is spared.
        if self.policy.spare.iter().any(may_be) {
            let spared = &mut self.standing[number].spared;
            if !spared.iter().any(|known| known.compare(&process.identity) == Match::Same) {
                spared.push(process.identity.clone());
            }
            return Ok(());
        }
        seen[number] = true;
        self.standing[number].last_seen = Some(process.identity.clone());
        let index = self.find_or_add(number, &process.identity);
        let target = &mut self.targets[index];
        if let Some(doubt) = doubt.filter(|_| !target.is_member) {
            target.refused = Some(doubt.why().to_owned());
            return Ok(());
        }
        target.is_member = true;
        if target.last_signal != Some(due) { self.send(index, due) } else { Ok(()) }
    }

    fn find_or_add(&mut self, number: usize, identity: &ProcessIdentity) -> usize {
        let known = self.targets.iter().position(|target| target.identity.compare(identity) == Match::Same);
        let index = known.unwrap_or_else(|| {
            self.targets.push(Target {
                identity: identity.clone(),
                groups: Vec::new(),
                last_signal: None,
                refused: None,
                is_member: false,
                has_exited: false,
            });
            self.targets.len() - 1
        });
        let target = &mut self.targets[index];
        target.has_exited = false;
        if !target.groups.contains(&number) {
            target.groups.push(number);
        }
        index
    }

    /// Checks the identity again, and sends the signal at once.
    fn send(&mut self, index: usize, number: i32) -> io::Result<()> {
        let target = &self.targets[index];
        let signal = require_signal(number)?;
        let identity = target.identity.clone();
        let Some(pid) = i32::try_from(identity.pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
        let Inspection::Alive(process) = inspect(&self.probe.here, identity.pid)? else { return Ok(()) };
        if identity.compare(&process.identity) != Match::Same {
            return Ok(());
        }
        let target = &mut self.targets[index];
        match rustix::process::kill_process(pid, signal) {
            Ok(()) => {
                target.last_signal = Some(number);
                target.refused = None;
                // A stopped process handles only SIGKILL until it is continued.
                if process.is_stopped && number != SIGKILL {
                    let _ = rustix::process::kill_process(pid, Signal::CONT);
                }
            }
            Err(Errno::SRCH) => {}
            Err(errno) => target.refused = Some(errno.to_string()),
        }
        Ok(())
    }

    /// Waits until all targets have exited, or until `deadline`.
    fn wait(&mut self, deadline: Instant) -> io::Result<()> {
        loop {
            self.notice_exits()?;
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || self.targets.iter().all(|target| target.has_exited) {
                return Ok(());
            }
            thread::sleep(left.min(PAUSE));
        }
    }

    fn notice_exits(&mut self) -> io::Result<()> {
        for target in self.targets.iter_mut().filter(|target| !target.has_exited) {
            target.has_exited = match inspect(&self.probe.here, target.identity.pid)? {
                Inspection::Absent => true,
                Inspection::Hidden => false,
                Inspection::Alive(process) => target.identity.compare(&process.identity) != Match::Same,
            };
        }
        Ok(())
    }

    fn report(mut self) -> io::Result<Vec<Ended>> {
        self.notice_exits()?;
        let blank = |(group, standing): (&Group, &Standing)| Ended {
            session: group.session.clone(),
            signalled: Vec::new(),
            survivors: Vec::new(),
            spared: standing.spared.clone(),
        };
        let mut ended: Vec<Ended> = self.groups.iter().zip(&self.standing).map(blank).collect();
        for target in self.targets {
            let why_alive = if target.has_exited { None } else { Some(why_alive(self.probe, &target)?) };
            for number in target.groups {
                let report = &mut ended[number];
                if let Some(signal) = target.last_signal {
                    report.signalled.push((target.identity.clone(), signal));
                }
                if let Some(why) = &why_alive {
                    report.survivors.push(Survivor { identity: target.identity.clone(), why: why.clone() });
                }
            }
        }
        for (report, standing) in ended.iter_mut().zip(self.standing) {
            // No process was proved, but one was found to the end: the session has not ended.
            if standing.quiet_rounds < QUIET_ROUNDS && report.survivors.is_empty() {
                let why = "new processes appeared faster than they could be stopped".to_owned();
                report.survivors.extend(standing.last_seen.map(|identity| Survivor { identity, why }));
                if !self.saw_everything && report.survivors.is_empty() {
                    return Err(too_many_forks());
                }
            }
        }
        Ok(ended)
    }
}

fn why_alive(probe: &PortableProbe, target: &Target) -> io::Result<String> {
    if let Some(refused) = &target.refused {
        return Ok(refused.clone());
    }
    Ok(match inspect(&probe.here, target.identity.pid)? {
        Inspection::Alive(process) if process.is_stuck => "it is in uninterruptible sleep".to_owned(),
        _ => "it had not exited when the time limit was reached".to_owned(),
    })
}
