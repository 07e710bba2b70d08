//! Applies events. Events change the stages of tickets only here.

use std::path::PathBuf;

use sexton_core::{OsText, SessionId, Time};

use super::{
    Action, Ending, Event, Fault, MAX_INTERRUPTIONS, MAX_QUERY_FAILURES, MAX_REFUSED, MIN_QUERY_PAUSE,
    MergeOutcome, QueryOutput, Scheduler, Sealed,
};
use crate::notice::Notice;
use crate::state::{Phase, Stage, Then, Work};
use crate::ticket::Ticket;

impl Scheduler {
    /// Applies `event`. Returns the actions that it needs besides the next action of each ticket.
    pub(super) fn apply(&mut self, event: Event, now: Time) -> Vec<Action> {
        match event {
            Event::Begin | Event::Tick => {}
            Event::Queried(Ok(output)) => self.on_queried(&output, now),
            Event::Queried(Err(why)) => self.on_query_failure(&why, now),
            Event::Checked { left } => return self.on_checked(left),
            Event::Started { ticket, session, worktree, log, rescue } => {
                return self.on_started(ticket, session, worktree, log, rescue);
            }
            Event::NotStarted { ticket, fault } => self.on_not_started(&ticket, fault, now),
            Event::Ended { ticket, session, log, ending } => self.on_ended(&ticket, session, log, &ending),
            Event::Sealed { ticket, result } => self.on_sealed(&ticket, result),
            Event::Merged { ticket, outcome } => self.on_merged(&ticket, outcome, now),
            Event::Cleared { ticket, kept } => self.on_cleared(&ticket, kept, now),
            Event::Killed => return self.on_killed(),
            Event::Interrupt => return self.on_interrupt(),
        }
        Vec::new()
    }

    fn on_queried(&mut self, output: &QueryOutput, now: Time) {
        self.querying = false;
        self.query_failures = 0;
        self.all_done = true;
        let mut taken = false;
        for line in &output.lines {
            let ticket = match line.parse::<Ticket>() {
                Ok(ticket) => ticket,
                Err(error) => {
                    self.refuse(line, error.to_string());
                    self.all_done = false;
                    continue;
                }
            };
            if self.is_wanted(&ticket) && self.wants_more() {
                self.take_on(ticket.clone(), now);
                taken = true;
            }
            let progress = self.state.tickets.get(&ticket);
            self.all_done &= progress.is_some_and(|progress| matches!(progress.stage, Stage::Done { .. }));
        }
        self.dry = !taken && self.occupied() < self.rules.parallel;
        self.query_at = Some(now.saturating_add(self.rules.pause_between_tickets.max(MIN_QUERY_PAUSE)));
    }

    /// Returns whether a ticket from the query can be taken on. Sets aside a ticket that reached its iteration limit.
    fn is_wanted(&mut self, ticket: &Ticket) -> bool {
        let Some(progress) = self.state.tickets.get_mut(ticket) else { return true };
        if !matches!(progress.stage, Stage::Done { .. }) {
            return false;
        }
        let times = progress.iterations;
        if times < self.rules.max_iterations_per_ticket {
            return true;
        }
        // Its work is done, but the query does not reflect that.
        if times > 1 || self.rules.max_iterations_per_ticket > 1 {
            let why = format!("the query still returns it after it was done {times} times");
            let log = progress.log.as_ref().map(|log| log.as_path().to_owned());
            progress.stage = Stage::SetAside { why: why.clone() };
            self.notices.push(Notice::SetAside { ticket: ticket.clone(), why, log });
        }
        false
    }

    fn refuse(&mut self, line: &str, why: String) {
        if self.refused.len() < MAX_REFUSED && self.refused.insert(line.to_owned()) {
            self.notices.push(Notice::Refused { why });
        }
    }

    fn on_query_failure(&mut self, why: &str, now: Time) {
        self.querying = false;
        self.query_failures += 1;
        self.query_at = Some(now.saturating_add(self.rules.pause_between_tickets.max(MIN_QUERY_PAUSE)));
        if self.interrupts > 0 {
            return;
        }
        self.notices.push(Notice::QueryFailed { why: why.to_owned() });
        if self.query_failures >= MAX_QUERY_FAILURES {
            self.fail(format!("the ticket query failed {} times in a row: {why}", self.query_failures));
        }
    }

    fn fail(&mut self, why: String) {
        if self.failure.is_none() {
            self.notices.push(Notice::Failed { why: why.clone() });
            self.failure = Some(why);
        }
    }

    fn on_checked(&mut self, left: bool) -> Vec<Action> {
        self.checking = false;
        // A request to stop that arrived in the meantime takes precedence.
        if !self.is_continuing() {
            return Vec::new();
        }
        self.finish(if left { Phase::Stuck } else { Phase::Complete })
    }

    fn on_started(
        &mut self,
        ticket: Ticket,
        session: SessionId,
        worktree: Option<PathBuf>,
        log: Option<OsText>,
        rescue: Option<SessionId>,
    ) -> Vec<Action> {
        self.remember(&ticket, &session, log.clone());
        let attempt = self.progress(&ticket).failures + 1;
        let log = log.map(|log| log.as_path().to_owned());
        let shown = session.clone();
        self.notices.push(Notice::Started { ticket, attempt, session: shown, worktree, log, rescue });
        match self.interrupts {
            0 => Vec::new(),
            times => vec![Action::Stop { sessions: vec![session], at_once: times > 1 }],
        }
    }

    fn on_not_started(&mut self, ticket: &Ticket, fault: Fault, now: Time) {
        self.busy.remove(ticket);
        match fault {
            Fault::NeverBegun => self.progress(ticket).stage = Stage::Waiting { not_before: now },
            Fault::Everything(why) => {
                self.progress(ticket).stage = Stage::Waiting { not_before: now };
                if self.interrupts == 0 {
                    self.fail(why);
                }
            }
            Fault::Ticket(why) => self.set_aside(ticket, why, now),
            // A signal from the terminal may have reached the start; that is not a failure of the ticket.
            Fault::Attempt(_) if self.interrupts > 0 => {
                self.progress(ticket).stage = Stage::Waiting { not_before: now };
            }
            Fault::Attempt(why) => match self.count_failure(ticket, why) {
                Then::SetAside { why } => self.set_aside(ticket, why, now),
                _ => self.retry(ticket, now),
            },
        }
    }

    /// Counts a failed attempt. Returns whether the ticket is retried or set aside.
    fn count_failure(&mut self, ticket: &Ticket, why: String) -> Then {
        let most = self.rules.max_restarts;
        let progress = self.progress(ticket);
        progress.failures += 1;
        if progress.failures <= most {
            return Then::Retry;
        }
        let why = match progress.failures {
            1 => why,
            times => format!("failed {times} times, the last time: {why}"),
        };
        Then::SetAside { why }
    }

    fn on_ended(&mut self, ticket: &Ticket, session: SessionId, log: Option<OsText>, ending: &Ending) {
        self.busy.remove(ticket);
        self.remember(ticket, &session, log);
        let how = match ending {
            Ending::Succeeded => "succeeded".to_owned(),
            Ending::Failed(why) => why.clone(),
            Ending::TimedOut => "timed out".to_owned(),
            Ending::Stopped => "stopped".to_owned(),
            Ending::Interrupted => "interrupted".to_owned(),
            Ending::Unknown(why) => format!("unknown: {why}"),
        };
        let success = *ending == Ending::Succeeded;
        let stopped_before = self.stopped.remove(ticket);
        self.notices.push(Notice::Ended { ticket: ticket.clone(), session, how: how.clone(), success });
        let then = match ending {
            Ending::Succeeded => {
                self.progress(ticket).stage = Stage::Sealing;
                return;
            }
            Ending::Failed(_) | Ending::TimedOut => self.count_failure(ticket, how),
            Ending::Stopped if self.interrupts == 0 && !stopped_before => {
                Then::SetAside { why: "its session was stopped".to_owned() }
            }
            Ending::Stopped | Ending::Interrupted => self.count_interruption(ticket),
            Ending::Unknown(_) => Then::SetAside { why: how },
        };
        self.clear(ticket, then);
    }

    fn count_interruption(&mut self, ticket: &Ticket) -> Then {
        let progress = self.progress(ticket);
        progress.interruptions += 1;
        if progress.interruptions <= MAX_INTERRUPTIONS {
            return Then::Again;
        }
        Then::SetAside {
            why: format!("its loop ended {} times while it was in progress", progress.interruptions),
        }
    }

    fn on_sealed(&mut self, ticket: &Ticket, result: Result<Sealed, String>) {
        self.busy.remove(ticket);
        match result {
            Ok(Sealed::Nothing) => self.clear(ticket, Then::Finish { work: Work::Nothing }),
            Ok(Sealed::Work { tip }) if self.rules.merge => {
                self.progress(ticket).stage = Stage::Merging { tip, deferred: None };
            }
            Ok(Sealed::Work { tip }) => {
                self.clear(ticket, Then::Finish { work: Work::OnBranch { commit: tip } });
            }
            Err(why) => {
                let then = self.count_failure(ticket, why);
                self.clear(ticket, then);
            }
        }
    }

    fn on_merged(&mut self, ticket: &Ticket, outcome: MergeOutcome, now: Time) {
        self.busy.remove(ticket);
        self.merging = None;
        match outcome {
            MergeOutcome::Merged { commit, how } => {
                self.clear(ticket, Then::Finish { work: Work::Merged { commit, how } });
            }
            MergeOutcome::Conflict { paths, worktree } => {
                let (branch, shown) = (ticket.branch(), worktree.clone());
                self.progress(ticket).stage =
                    Stage::Conflict { paths: paths.clone(), worktree: worktree.map(Into::into) };
                let ticket = ticket.clone();
                self.notices.push(Notice::Conflict { ticket, branch, worktree: shown, paths });
                self.schedule_query(now);
            }
            MergeOutcome::Deferred { why } => self.defer(ticket, why, now),
        }
    }

    fn defer(&mut self, ticket: &Ticket, why: String, now: Time) {
        self.merge_at.insert(ticket.clone(), now.saturating_add(self.rules.pause_between_retries));
        if !self.is_occupied() {
            self.last_tries += 1;
        }
        let Stage::Merging { deferred, .. } = &mut self.progress(ticket).stage else { return };
        let (is_first, is_new) = (deferred.is_none(), deferred.as_ref() != Some(&why));
        *deferred = Some(why.clone());
        if is_new {
            self.notices.push(Notice::Deferred { ticket: ticket.clone(), why });
        }
        if is_first {
            self.schedule_query(now);
        }
    }

    fn on_cleared(&mut self, ticket: &Ticket, kept: Option<String>, now: Time) {
        self.busy.remove(ticket);
        let Stage::Clearing { then } = self.progress(ticket).stage.clone() else { return };
        match then {
            Then::Again => self.progress(ticket).stage = Stage::Waiting { not_before: now },
            Then::Retry => self.retry(ticket, now),
            Then::SetAside { why } => self.set_aside(ticket, why, now),
            Then::Finish { work } => {
                self.progress(ticket).stage = Stage::Done { work: work.clone(), kept: kept.clone() };
                self.notices.push(Notice::Done { ticket: ticket.clone(), work, kept });
                self.schedule_query(now);
            }
        }
    }

    fn retry(&mut self, ticket: &Ticket, now: Time) {
        let pause = self.rules.pause_between_retries;
        let progress = self.progress(ticket);
        progress.stage = Stage::Waiting { not_before: now.saturating_add(pause) };
        let attempt = progress.failures + 1;
        self.notices.push(Notice::Retrying { ticket: ticket.clone(), attempt, pause });
    }

    fn set_aside(&mut self, ticket: &Ticket, why: String, now: Time) {
        let progress = self.progress(ticket);
        progress.stage = Stage::SetAside { why: why.clone() };
        let log = progress.log.as_ref().map(|log| log.as_path().to_owned());
        self.notices.push(Notice::SetAside { ticket: ticket.clone(), why, log });
        self.schedule_query(now);
    }

    fn on_interrupt(&mut self) -> Vec<Action> {
        // The outcome is already reported.
        if self.finished {
            return Vec::new();
        }
        self.interrupts += 1;
        self.state.phase = Phase::Stopping;
        let running =
            self.state.tickets.values().filter(|progress| matches!(progress.stage, Stage::Running { .. }));
        let sessions: Vec<_> = running.filter_map(|progress| progress.session.clone()).collect();
        let at_once = self.interrupts > 1;
        self.notices.push(Notice::Stopping { sessions: sessions.len(), at_once });
        vec![Action::Stop { sessions, at_once }]
    }

    /// Finishes without waiting for anything else, after the second request to stop.
    fn on_killed(&mut self) -> Vec<Action> {
        if self.finished { Vec::new() } else { self.finish(Phase::Interrupted) }
    }
}
