//! Ending the processes of many sessions within one grace period.
//!
//! Round after round, the whole machine is looked at once, and then every member that was found is told
//! what the hour demands, through the handle it was proved by. Nobody is told before all are found: the
//! end of a parent can take away the evidence for its children. Between rounds we sleep on the handles. A
//! session is done when two rounds in a row find nobody.

mod targets;

use std::io;
use std::time::{Duration, Instant};

use rustix::io::Errno;
use rustix::process::Signal;
use sexton_core::ProcessIdentity;
use sexton_core::identity::Match;
use sexton_core::membership::Evidence;
use sexton_core::probe::{EndPolicy, Ended, Group, SIGKILL, SIGTERM, Survivor};

use crate::LinuxProbe;
use crate::prove::Proved;
use crate::sweep::{Contained, Found, Swept, Wanted};
use targets::Targets;

/// How many rounds in a row must find nobody.
const QUIET_ROUNDS: u32 = 2;
/// The least and the most time that a look at the machine is given; a usual one takes some milliseconds.
const LEAST_PASS: Duration = Duration::from_millis(500);
const MOST_PASS: Duration = Duration::from_secs(2);
/// How long those who may not be signalled have, after the grace, to follow the others by themselves.
const REFUSED_WAIT: Duration = Duration::from_secs(1);

pub(crate) fn terminate(probe: &LinuxProbe, groups: &[Group], policy: &EndPolicy) -> io::Result<Vec<Ended>> {
    // Before anybody is told anything: a policy that cannot be carried out changes nothing.
    for number in [policy.first_signal, SIGTERM, SIGKILL] {
        require_signal(number)?;
    }
    let mut ending = Ending {
        probe,
        groups,
        policy,
        begun: Instant::now(),
        targets: Targets::new(),
        saw_everything: false,
        killed_at: None,
        standing: groups.iter().map(|_| Standing::default()).collect(),
    };
    loop {
        let elapsed = ending.begun.elapsed();
        ending.play_round(elapsed)?;
        if ending.standing.iter().all(|group| group.quiet_rounds >= QUIET_ROUNDS) {
            break;
        }
        // What has just been found empty deserves the second look that proves it.
        let is_settled = ending.standing.iter().all(|group| group.quiet_rounds != 1);
        let over_at = ending.over_at();
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
        .ok_or_else(|| io::Error::new(io::ErrorKind::InvalidInput, format!("there is no signal {number}")))
}

struct Ending<'a> {
    probe: &'a LinuxProbe,
    groups: &'a [Group],
    policy: &'a EndPolicy,
    begun: Instant,
    targets: Targets,
    /// The last round came to the end of the machine.
    saw_everything: bool,
    /// When SIGKILL was first told. A machine that stood still meanwhile gives nobody less time to die.
    killed_at: Option<Duration>,
    standing: Vec<Standing>,
}

/// How one group stands.
#[derive(Default)]
struct Standing {
    quiet_rounds: u32,
    /// Somebody was there in this round.
    seen: bool,
    /// Those of this round that had changed when they were to be proved.
    slipped: Vec<ProcessIdentity>,
    spared: Vec<ProcessIdentity>,
}

impl Ending<'_> {
    /// When nothing is left but to report who survived. Those who may not be told anything can end only by
    /// themselves; they are not waited for as those are whom SIGKILL is about to end.
    fn over_at(&self) -> Duration {
        let kill_wait = self.policy.kill_wait;
        let is_hopeless =
            self.targets.are_all_refused() && self.standing.iter().all(|group| group.slipped.is_empty());
        let killed_at = self.killed_at.unwrap_or(self.policy.grace);
        killed_at + if is_hopeless { kill_wait.min(REFUSED_WAIT) } else { kill_wait }
    }

    /// Looks at everything once, and tells every member what is due.
    fn play_round(&mut self, elapsed: Duration) -> io::Result<()> {
        let due = self.policy.signal_at(elapsed);
        if due == SIGKILL {
            self.killed_at.get_or_insert(elapsed);
        }
        let swept = self.look(elapsed)?;
        self.tell_all(due)?;
        if due == SIGKILL {
            for contained in swept.cgroups.iter().flatten() {
                self.kill_whole(contained)?;
            }
        }
        self.saw_everything = swept.complete;
        self.targets.notice_exits()?;
        let living = self.targets.find_living_groups();
        for (number, group) in self.standing.iter_mut().enumerate() {
            let is_quiet = self.saw_everything && !group.seen && !living.contains(&number);
            group.quiet_rounds = if is_quiet { group.quiet_rounds + 1 } else { 0 };
        }
        Ok(())
    }

    /// Finds everybody there is.
    fn look(&mut self, elapsed: Duration) -> io::Result<Swept> {
        // A pass that somebody forks away from must not make the next signal late.
        let left = self.policy.next_change(elapsed).map_or(MOST_PASS, |at| at.saturating_sub(elapsed));
        let until = self.begun + elapsed + left.clamp(LEAST_PASS, MOST_PASS);
        let (probe, groups) = (self.probe, self.groups);
        loop {
            for group in &mut self.standing {
                group.seen = false;
                group.slipped.clear();
            }
            let members = self.targets.find_living_members(groups.len());
            let known = members.iter().map(|identities| identities.iter().collect());
            let wanted: Vec<Wanted> =
                groups.iter().zip(known).map(|(group, known)| Wanted { group, known }).collect();
            let mut on_find = |numbers: &[usize], found| self.meet(numbers, found);
            match probe.sweep(&wanted, until, &mut on_find) {
                // Handles are for waiting. Without them a process is found again.
                Err(error) if is_out_of_files(&error) && self.targets.let_go() => {}
                result => return result,
            }
        }
    }

    /// Notes that a process is there.
    fn meet(&mut self, numbers: &[usize], found: Found) {
        let (process, evidence) = match found {
            Found::Member(process, evidence) => (process, Some(evidence)),
            Found::Doubtful(process) => (process, None),
            Found::Slipped(identity) => {
                for number in numbers {
                    self.standing[*number].seen = true;
                    self.standing[*number].slipped.push(identity.clone());
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
        self.targets.find_or_add(&process.identity, numbers).note(evidence);
        self.targets.hold(process.handle);
    }

    /// Tells everybody who was met in this round and does not know yet.
    fn tell_all(&mut self, due: i32) -> io::Result<()> {
        for target in self.targets.take_met() {
            if target.last_signal == Some(due) || target.refused.is_some() {
                continue;
            }
            let known = target.identity.clone();
            // Some milliseconds have passed: it may have gone, or joined another session.
            let sessions: Vec<&str> =
                target.groups.iter().map(|number| self.groups[*number].session.as_str()).collect();
            let is_recorded = target.is_recorded;
            let check = |process: &Proved| {
                let is_same = known.compare(&process.identity) == Match::Same;
                Ok(is_same && (is_recorded || self.probe.is_in_no_other(process, &sessions)?))
            };
            if let Some(process) = self.probe.prove(known.pid, check)? {
                target.tell(&process, due)?;
            }
        }
        Ok(())
    }

    /// Where the evidence does not say whether somebody is to be spared, he is.
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

    /// Ends a control group as a whole, unless there is somebody in it who must live.
    fn kill_whole(&self, contained: &Contained) -> io::Result<()> {
        let holds_spared = self.policy.spare.iter().any(|spared| contained.processes.contains(&spared.pid));
        if contained.processes.is_empty() || !contained.is_ours || holds_spared {
            return Ok(());
        }
        match contained.cgroup.kill() {
            // Kernels before 5.14 cannot; what was found in it has been told one by one.
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
        for target in self.targets.iter() {
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
            // Nobody was caught, but somebody was there to the last: the session has not ended.
            if standing.quiet_rounds < QUIET_ROUNDS && report.survivors.is_empty() {
                let why = "new processes appeared faster than they could be ended";
                let survivors = standing.slipped.into_iter();
                report.survivors.extend(survivors.map(|identity| Survivor { identity, why: why.to_owned() }));
                if !self.saw_everything && report.survivors.is_empty() {
                    let why = "processes fork faster than they are read";
                    return Err(io::Error::new(io::ErrorKind::TimedOut, why));
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
    /// Notes by what evidence it was found now; without any it is to be left alone.
    fn note(&mut self, evidence: Option<Evidence>) {
        self.is_met = true;
        self.is_member |= evidence.is_some();
        self.is_recorded |= evidence == Some(Evidence::Recorded);
        self.refused = match evidence {
            Some(_) => None,
            None => Some("its environment cannot be read, so it may not be the session's".to_owned()),
        };
    }

    /// Signals a process that was just proved, once for each kind of signal.
    fn tell(&mut self, process: &Proved, number: i32) -> io::Result<()> {
        if self.last_signal == Some(number) {
            return Ok(());
        }
        let signal = require_signal(number)?;
        match process.handle.signal(signal) {
            Ok(true) => {
                self.last_signal = Some(number);
                self.refused = None;
                // One that is stopped hears nothing but SIGKILL until it goes on.
                if process.stat.is_stopped() && number != SIGKILL {
                    process.handle.signal(Signal::CONT)?;
                }
            }
            Ok(false) => {}
            Err(error) => self.refused = Some(error.to_string()),
        }
        Ok(())
    }

    /// Why it is still there; `None` where it is not.
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
            (None, _) => "it had not ended when the time was over".to_owned(),
        }))
    }
}
