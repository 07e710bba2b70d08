//! Ending the processes of many sessions within one grace period, without handles.
//!
//! As in every probe, nobody is told before all are found, because the end of a parent can take away the
//! evidence for its children; and a session is done when two looks in a row find nobody. Each process is
//! looked at again immediately before it is signalled, and left alone unless everything matches.

use std::io;
use std::thread;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::{Pid, Signal};
use sexton_core::identity::Match;
use sexton_core::membership::{Cookie, Evidence};
use sexton_core::probe::{EndPolicy, Ended, Group, SIGKILL, SIGTERM, Survivor};
use sexton_core::{Liveness, ProbeError, ProcessIdentity};

use crate::cookie::load_cookie;
use crate::look::{Glance, Seen, look_at};
use crate::sweep::too_many_forks;
use crate::{PortableProbe, failed};

const QUIET_ROUNDS: u32 = 2;
/// How often we look whether somebody has ended.
const PAUSE: Duration = Duration::from_millis(20);
/// The least and the most time that a look at the machine is given.
const LEAST_LOOK: Duration = Duration::from_millis(500);
const MOST_LOOK: Duration = Duration::from_secs(2);
/// How long those who may not be signalled have, after the grace, to follow the others by themselves.
const REFUSED_WAIT: Duration = Duration::from_secs(1);

pub(crate) fn terminate(
    probe: &PortableProbe,
    groups: &[Group],
    policy: &EndPolicy,
) -> Result<Vec<Ended>, ProbeError> {
    // Before anybody is told anything: a policy that cannot be carried out changes nothing.
    let signals = [policy.first_signal, SIGTERM, SIGKILL].into_iter().map(require_signal);
    let ended =
        signals.collect::<io::Result<Vec<_>>>().and_then(|_| Ending::new(probe, groups, policy).run());
    ended.map_err(|error| failed("ending the processes of a session", error))
}

fn require_signal(number: i32) -> io::Result<Signal> {
    Signal::from_named_raw(number)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("there is no signal {number}")))
}

/// Signals one recorded process: looks at it, and signals at once.
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

/// One process that somebody wants ended.
struct Target {
    identity: ProcessIdentity,
    groups: Vec<usize>,
    last_signal: Option<i32>,
    refused: Option<String>,
    is_member: bool,
    is_recorded: bool,
    has_exited: bool,
}

/// How one group stands.
#[derive(Clone, Default)]
struct Standing {
    quiet_rounds: u32,
    /// Who was there last.
    last_seen: Option<ProcessIdentity>,
    spared: Vec<ProcessIdentity>,
}

struct Ending<'a> {
    probe: &'a PortableProbe,
    groups: &'a [Group],
    policy: &'a EndPolicy,
    begun: Instant,
    targets: Vec<Target>,
    /// The last round came to the end of the machine.
    saw_everything: bool,
    /// When SIGKILL was first told. A machine that stood still meanwhile gives nobody less time to die.
    killed_at: Option<Duration>,
    standing: Vec<Standing>,
}

impl<'a> Ending<'a> {
    fn new(probe: &'a PortableProbe, groups: &'a [Group], policy: &'a EndPolicy) -> Ending<'a> {
        let standing = vec![Standing::default(); groups.len()];
        let (begun, targets) = (Instant::now(), Vec::new());
        Ending { probe, groups, policy, begun, targets, saw_everything: false, killed_at: None, standing }
    }

    fn run(mut self) -> io::Result<Vec<Ended>> {
        loop {
            let elapsed = self.begun.elapsed();
            self.play_round(elapsed)?;
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

    /// When nothing is left but to report who survived. Those who may not be told anything can end only by
    /// themselves; they are not waited for as those are whom SIGKILL is about to end.
    fn over_at(&self) -> Duration {
        let kill_wait = self.policy.kill_wait;
        let mut living = self.targets.iter().filter(|target| !target.has_exited).peekable();
        let is_hopeless = living.peek().is_some() && living.all(|target| target.refused.is_some());
        let killed_at = self.killed_at.unwrap_or(self.policy.grace);
        killed_at + if is_hopeless { kill_wait.min(REFUSED_WAIT) } else { kill_wait }
    }

    /// Looks at everybody once, and tells every member what is due.
    fn play_round(&mut self, elapsed: Duration) -> io::Result<()> {
        let due = self.policy.signal_at(elapsed);
        if due == SIGKILL {
            self.killed_at.get_or_insert(elapsed);
        }
        let mut seen = vec![false; self.groups.len()];
        let mut known = vec![Vec::new(); self.groups.len()];
        for target in self.targets.iter().filter(|target| target.is_member && !target.has_exited) {
            target.groups.iter().for_each(|number| known[*number].push(target.identity.clone()));
        }
        // A look that somebody forks away from must not make the next signal late.
        let left = self.policy.next_change(elapsed).map_or(MOST_LOOK, |at| at.saturating_sub(elapsed));
        let until = self.begun + elapsed + left.clamp(LEAST_LOOK, MOST_LOOK);
        let sweep = self.probe.sweep(self.groups, &known, until)?;
        for (number, roster) in sweep.rosters.iter().enumerate() {
            for (pid, evidence) in &roster.members {
                self.meet(number, &sweep.seen[pid], Some(*evidence), due, &mut seen)?;
            }
            for pid in &roster.doubtful {
                self.meet(number, &sweep.seen[pid], None, due, &mut seen)?;
            }
        }
        self.saw_everything = sweep.complete;
        for (group, seen) in self.standing.iter_mut().zip(seen) {
            group.quiet_rounds = if seen || !sweep.complete { 0 } else { group.quiet_rounds + 1 };
        }
        Ok(())
    }

    /// Deals with a process that was found.
    fn meet(
        &mut self,
        number: usize,
        process: &Seen,
        evidence: Option<Evidence>,
        due: i32,
        seen: &mut [bool],
    ) -> io::Result<()> {
        let may_be = |known: &ProcessIdentity| known.compare(&process.identity) != Match::Different;
        if self.groups[number].supervisor.as_ref().is_some_and(may_be) {
            return Ok(());
        }
        // Where the evidence does not say whether somebody is to be spared, he is.
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
        if evidence.is_none() {
            let why = "its environment cannot be read, so it may not be the session's";
            target.refused = Some(why.to_owned());
            return Ok(());
        }
        target.is_member = true;
        target.is_recorded |= evidence == Some(Evidence::Recorded);
        if target.last_signal != Some(due) { self.tell(index, due) } else { Ok(()) }
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
                is_recorded: false,
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

    /// Takes the identity again, and signals at once.
    fn tell(&mut self, index: usize, number: i32) -> io::Result<()> {
        let target = &self.targets[index];
        let signal = require_signal(number)?;
        let (identity, is_recorded) = (target.identity.clone(), target.is_recorded);
        let sessions: Vec<&str> =
            target.groups.iter().map(|number| self.groups[*number].session.as_str()).collect();
        let Some(pid) = i32::try_from(identity.pid).ok().and_then(Pid::from_raw) else { return Ok(()) };
        let Glance::Alive(process) = look_at(&self.probe.here, identity.pid)? else { return Ok(()) };
        let cookie = load_cookie(&self.probe.here, &process)?;
        let is_elsewhere = matches!(&cookie, Cookie::Session(id) if !sessions.contains(&id.as_str()));
        if identity.compare(&process.identity) != Match::Same || is_elsewhere && !is_recorded {
            return Ok(());
        }
        let target = &mut self.targets[index];
        match rustix::process::kill_process(pid, signal) {
            Ok(()) => {
                target.last_signal = Some(number);
                target.refused = None;
                // One that is stopped hears nothing but SIGKILL until it goes on.
                if process.is_stopped && number != SIGKILL {
                    let _ = rustix::process::kill_process(pid, Signal::CONT);
                }
            }
            Err(Errno::SRCH) => {}
            Err(errno) => target.refused = Some(errno.to_string()),
        }
        Ok(())
    }

    /// Waits until none of the targets is left, or until `deadline`.
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
            target.has_exited = match look_at(&self.probe.here, target.identity.pid)? {
                Glance::Nobody => true,
                Glance::Hidden => false,
                Glance::Alive(process) => target.identity.compare(&process.identity) != Match::Same,
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
            // Nobody was caught, but somebody was there to the last: the session has not ended.
            if standing.quiet_rounds < QUIET_ROUNDS && report.survivors.is_empty() {
                let why = "new processes appeared faster than they could be ended".to_owned();
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
    Ok(match look_at(&probe.here, target.identity.pid)? {
        Glance::Alive(process) if process.is_stuck => "it is in uninterruptible sleep".to_owned(),
        _ => "it had not ended when the time was over".to_owned(),
    })
}
