//! Stops the processes of many sessions within one grace period.
//!
//! Each round searches all processes and then sends the signal that is due to every member found, through the
//! handle that proved it. No signal is sent before all members are found: the exit of a parent can remove the
//! evidence for its children. Between rounds it waits on the handles. A session is done when two consecutive
//! rounds find no process.
//!
//! Each round has two passes. The first reads nothing that a process could make slow, and finds the recorded
//! command, the control group, their descendants, and the limit mark. The second reads environments.

mod targets;

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Signal;
use sexton_core::ProcessIdentity;
use sexton_core::identity::Match;
use sexton_core::membership::{Doubt, Evidence};
use sexton_core::probe::{EndPolicy, Ended, Group, SIGKILL, SIGTERM, Survivor};

use crate::LinuxProbe;
use crate::neighbours::OtherGroups;
use crate::procfs_dir::too_many_forks;
use crate::prove::Proved;
use crate::reading::Reading;
use crate::sweep::{Contained, Found, Search, Swept, Wanted};
use targets::Targets;

/// How many consecutive rounds must find no process.
const QUIET_ROUNDS: u32 = 2;
/// Minimum and maximum time for a pass; usually it takes a few milliseconds.
const MIN_PASS: Duration = Duration::from_millis(500);
const MAX_PASS: Duration = Duration::from_secs(2);
/// Maximum time for a pass after earlier ones did not complete.
const MAX_EXTENDED_PASS: Duration = Duration::from_secs(8);
/// How long processes that may not be signalled have, after the grace period, to exit by themselves.
const REFUSED_WAIT: Duration = Duration::from_secs(1);

pub(crate) fn terminate(probe: &LinuxProbe, groups: &[Group], policy: &EndPolicy) -> io::Result<Vec<Ended>> {
    // Checked before the first signal: an invalid policy must change nothing.
    for number in [policy.first_signal, SIGTERM, SIGKILL] {
        require_signal(number)?;
    }
    let wanted: Vec<&Group> = groups.iter().collect();
    let mut ending = Ending {
        probe,
        groups,
        policy,
        others: &OtherGroups::new(&policy.others, &wanted),
        reading: &Reading::default(),
        begun: Instant::now(),
        targets: Targets::new(),
        saw_everything: false,
        read_first_listings: false,
        pass_limit: MIN_PASS,
        killed_at: None,
        standing: groups.iter().map(|_| Standing::default()).collect(),
    };
    loop {
        let elapsed = ending.begun.elapsed();
        ending.run_round(elapsed)?;
        if ending.standing.iter().all(|group| group.quiet_rounds >= QUIET_ROUNDS) {
            break;
        }
        // A group that was just found empty gets the second round that proves it.
        let is_settled = ending.standing.iter().all(|group| group.quiet_rounds != 1);
        let mut over_at = ending.over_at();
        // If all that was found has exited, more may have been started: only a round without a find proves the end.
        if ending.targets.find_living_groups().is_empty() && ending.standing.iter().any(|group| group.seen) {
            over_at += policy.kill_wait;
        }
        if elapsed >= over_at && is_settled {
            break;
        }
        let next = policy.next_change(elapsed).unwrap_or(over_at);
        ending.targets.wait(ending.begun + next.min(over_at))?;
    }
    ending.report()
}

fn require_signal(number: i32) -> io::Result<Signal> {
    Signal::from_named_raw(number)
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("unknown signal {number}")))
}

struct Ending<'a> {
    probe: &'a LinuxProbe,
    groups: &'a [Group],
    policy: &'a EndPolicy,
    others: &'a OtherGroups<'a>,
    reading: &'a Reading,
    begun: Instant,
    targets: Targets,
    /// Whether the last round saw all processes.
    saw_everything: bool,
    /// Whether its passes saw all processes that existed when they began.
    read_first_listings: bool,
    /// Minimum time limit of the next pass.
    pass_limit: Duration,
    /// When SIGKILL was first sent. A suspended machine must not shorten the time that processes have to
    /// exit.
    killed_at: Option<Duration>,
    standing: Vec<Standing>,
}

/// One of the two passes of a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pass {
    Structure,
    Environments,
}

/// Returns whether environments are read before anything is signalled: a deliberate defect.
fn is_scan_first() -> bool {
    sexton_mutant::is("scan_first") || sexton_mutant::is("foreign_cookie_exempts")
}

/// State of one group.
#[derive(Default)]
struct Standing {
    quiet_rounds: u32,
    /// Whether a process was found in this round.
    seen: bool,
    /// Candidates of this round that had changed when they were to be proved.
    changed: Vec<ProcessIdentity>,
    spared: Vec<ProcessIdentity>,
}

impl Ending<'_> {
    /// Returns when to stop waiting and report the survivors. Processes that may not be signalled can only
    /// exit by themselves, so they are given less time than those that SIGKILL is about to end.
    fn over_at(&self) -> Duration {
        let kill_wait = self.policy.kill_wait;
        let only_refused_left = self.saw_everything
            && self.targets.are_all_refused()
            && self.standing.iter().all(|group| group.changed.is_empty());
        let killed_at = self.killed_at.unwrap_or(self.policy.grace);
        killed_at + if only_refused_left { kill_wait.min(REFUSED_WAIT) } else { kill_wait }
    }

    /// Searches all processes once, and sends every member the signal that is due.
    fn run_round(&mut self, elapsed: Duration) -> io::Result<()> {
        let due = self.policy.signal_at(elapsed);
        if due == SIGKILL {
            self.killed_at.get_or_insert(elapsed);
        }
        self.targets.begin_round();
        for group in &mut self.standing {
            group.seen = false;
            group.changed.clear();
        }
        self.saw_everything = true;
        self.read_first_listings = true;
        // If the other sessions are not known, an unread cookie may be one of theirs, and the exit of the
        // command could remove the evidence for that.
        let is_structure_enough = self.policy.others.is_complete() && !is_scan_first();
        let passes = is_structure_enough.then_some(Pass::Structure).into_iter().chain([Pass::Environments]);
        for pass in passes {
            let swept = self.run_pass(pass, elapsed)?;
            self.signal_all(due)?;
            if due == SIGKILL {
                for contained in swept.cgroups.iter().flatten() {
                    self.kill_whole(contained)?;
                }
            }
            self.saw_everything &= swept.complete;
            self.read_first_listings &= swept.read_first_listing;
        }
        self.targets.notice_exits()?;
        let living = self.targets.find_living_groups();
        let mut saw_enough = true;
        for (number, group) in self.standing.iter_mut().enumerate() {
            let saw_all = self.saw_everything
                || self.read_first_listings && self.probe.is_vacated(&self.groups[number])?;
            saw_enough &= saw_all;
            let is_quiet = saw_all && !group.seen && !living.contains(&number);
            group.quiet_rounds = if is_quiet { group.quiet_rounds + 1 } else { 0 };
        }
        // With very many processes, or under load, a pass takes longer.
        self.pass_limit = if saw_enough { MIN_PASS } else { (self.pass_limit * 2).min(MAX_EXTENDED_PASS) };
        Ok(())
    }

    /// Searches for all members.
    fn run_pass(&mut self, pass: Pass, elapsed: Duration) -> io::Result<Swept> {
        // A pass that cannot complete because processes keep forking must not delay the next signal.
        let left = self.policy.next_change(elapsed).map_or(MAX_PASS, |at| at.saturating_sub(elapsed));
        let until = Instant::now() + left.clamp(MIN_PASS, MAX_PASS).max(self.pass_limit);
        let (probe, groups, others) = (self.probe, self.groups, self.others);
        let reading = (pass == Pass::Environments).then_some(self.reading);
        loop {
            let members = self.targets.find_living_members(groups.len());
            let known = members.iter().map(|identities| identities.iter().collect());
            let wanted: Vec<Wanted> =
                groups.iter().zip(known).map(|(group, known)| Wanted { group, known }).collect();
            let mut on_find = |numbers: &[usize], found| self.note_found(numbers, found);
            let search = Search { wanted: &wanted, others, reading, until };
            match probe.sweep(&search, &mut on_find) {
                // Handles only serve waiting. Without them a process is found again.
                Err(error) if is_out_of_files(&error) && self.targets.release_handles() => {}
                result => return result,
            }
        }
    }

    /// Records a process that was found.
    fn note_found(&mut self, numbers: &[usize], found: Found) {
        let (process, standing) = match found {
            Found::Member(process, evidence) => (process, Ok(evidence)),
            Found::Doubtful(process, doubt) => (process, Err(doubt)),
            Found::Changed(identity) => {
                for number in numbers {
                    self.standing[*number].seen = true;
                    self.standing[*number].changed.push(identity.clone());
                }
                return;
            }
        };
        if self.is_spared(&process.identity) {
            self.note_spared(numbers, &process.identity);
            return;
        }
        for number in numbers {
            self.standing[*number].seen = true;
        }
        self.targets.find_or_add(&process.identity, numbers).note(standing);
        self.targets.hold(process.handle);
    }

    /// Sends the signal to every process found in this round that has not received it.
    fn signal_all(&mut self, due: i32) -> io::Result<()> {
        for target in self.targets.take_pending() {
            if target.last_signal == Some(due) || target.refused.is_some() {
                continue;
            }
            let known = target.identity.clone();
            // It may have exited in the meantime. A member stays a member.
            let is_same = |process: &Proved| Ok(known.compare(&process.identity) == Match::Same);
            if let Some(process) = self.probe.prove(known.pid, is_same)? {
                target.send(&process, due)?;
            }
        }
        Ok(())
    }

    /// Returns whether a process is to be spared. If the evidence is unclear, it is.
    fn is_spared(&self, identity: &ProcessIdentity) -> bool {
        self.policy.spare.iter().any(|spared| spared.compare(identity) != Match::Different)
    }

    fn note_spared(&mut self, numbers: &[usize], identity: &ProcessIdentity) {
        for number in numbers {
            let spared = &mut self.standing[*number].spared;
            if !spared.iter().any(|known| known.compare(identity) == Match::Same) {
                spared.push(identity.clone());
            }
        }
    }

    /// Kills a control group as a whole, unless a process in it is to be spared.
    fn kill_whole(&self, contained: &Contained) -> io::Result<()> {
        let holds_spared = self.policy.spare.iter().any(|spared| contained.processes.contains(&spared.pid));
        if contained.processes.is_empty() || !contained.is_ours || holds_spared {
            return Ok(());
        }
        match contained.cgroup.kill() {
            // Not supported before Linux 5.14; the processes found in it have been signalled one by one.
            Err(error) if matches!(Errno::from_io_error(&error), Some(Errno::NOENT | Errno::NODEV)) => Ok(()),
            result => result,
        }
    }

    fn report(mut self) -> io::Result<Vec<Ended>> {
        self.targets.notice_exits()?;
        let blank = |group: &Group| Ended {
            session: group.session.clone(),
            signalled: Vec::new(),
            survivors: Vec::new(),
            spared: Vec::new(),
        };
        let mut ended: Vec<Ended> = self.groups.iter().map(blank).collect();
        for target in self.targets.iter().filter(|target| target.is_member || target.is_current) {
            let why_alive = target.why_alive(self.probe)?;
            for number in &target.groups {
                let report = &mut ended[*number];
                if let Some(signal) = target.last_signal {
                    report.signalled.push((target.identity.clone(), signal));
                }
                if let Some(why) = &why_alive
                    && !sexton_mutant::is("no_survivors")
                {
                    report.survivors.push(Survivor { identity: target.identity.clone(), why: why.clone() });
                }
            }
        }
        for (report, standing) in ended.iter_mut().zip(self.standing) {
            report.spared = standing.spared;
            // No process was proved, but candidates were found to the end: the session has not ended.
            if standing.quiet_rounds < QUIET_ROUNDS && report.survivors.is_empty() {
                let why = "new processes appeared faster than they could be stopped";
                let survivors = standing.changed.into_iter();
                report.survivors.extend(survivors.map(|identity| Survivor { identity, why: why.to_owned() }));
                if !self.saw_everything && report.survivors.is_empty() {
                    return Err(too_many_forks());
                }
            }
        }
        Ok(ended)
    }
}

fn is_out_of_files(error: &io::Error) -> bool {
    matches!(Errno::from_io_error(error), Some(Errno::MFILE | Errno::NFILE))
}

impl targets::Target {
    /// Records that it was found. If the membership is in doubt, it gets no signal, unless it was proved a
    /// member before.
    fn note(&mut self, standing: Result<Evidence, Doubt>) {
        self.is_pending = true;
        self.is_current = true;
        self.is_member |= standing.is_ok();
        match standing {
            Ok(_) => self.refused = None,
            Err(_) if self.is_member => {}
            Err(doubt) => {
                self.refused = Some(doubt.why().to_owned());
                self.is_temporary = doubt == Doubt::Unanswered;
            }
        }
    }

    /// Sends a signal to a process that was just proved, once per signal number.
    fn send(&mut self, process: &Proved, number: i32) -> io::Result<()> {
        if self.last_signal == Some(number) {
            return Ok(());
        }
        let signal = require_signal(number)?;
        match process.handle.signal(signal) {
            Ok(true) => {
                self.last_signal = Some(number);
                self.refused = None;
                // A stopped process handles only SIGKILL until it is continued.
                if process.stat.is_stopped() && number != SIGKILL {
                    process.handle.signal(Signal::CONT)?;
                }
            }
            Ok(false) => {}
            Err(error) => self.refused = Some(error.to_string()),
        }
        Ok(())
    }

    /// Returns why it is still alive; `None` if it is not.
    fn why_alive(&self, probe: &LinuxProbe) -> io::Result<Option<String>> {
        if self.has_exited {
            return Ok(None);
        }
        let known = &self.identity;
        let current =
            probe.prove(known.pid, |process| Ok(known.compare(&process.identity) == Match::Same))?;
        Ok(current.map(|process| match (&self.refused, process.stat.state) {
            (Some(refused), _) => refused.clone(),
            (None, 'D') => "it is in uninterruptible sleep".to_owned(),
            (None, _) => "it had not exited when the time limit was reached".to_owned(),
        }))
    }
}
