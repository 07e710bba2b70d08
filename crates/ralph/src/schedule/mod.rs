//! Deciding: what is to be done next, from what has happened. It does nothing itself and reads no clock; the
//! same events at the same times make the same decisions.
//!
//! A ticket goes through [`Stage`]s, and each stage that is not final has one action that brings it further:
//! `Scheduler::advance` issues it wherever it is not under way. So a loop that takes over another's state has
//! nothing to replay: it issues what is missing.

mod event;
mod outcome;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sexton_core::{OsText, SessionId, Time};

pub use event::{Action, Asked, Ending, Event, Fault, MergeOutcome, Sealed};

use crate::notice::{Notice, Row, Summary};
use crate::settings::Settings;
use crate::state::{Phase, Progress, Stage, State, Then};
use crate::ticket::Ticket;

/// How often the query may fail in a row before the loop gives up.
const MAX_QUERY_FAILURES: u32 = 3;

/// How often at least the query is asked again where it named nothing new and something still runs.
const MIN_ASK_PAUSE: Duration = Duration::from_secs(1);

/// How often a merge that had to wait is tried when nothing else is left to do, and how long to pause between.
const LAST_TRIES: usize = 3;
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// How often a ticket may be interrupted by the end of its loop before it is suspected of causing that.
const MAX_INTERRUPTIONS: u64 = 100;

/// How many texts that are no tickets are remembered as told.
const MAX_REFUSED: usize = 100;

/// The rules, as far as decisions depend on them.
#[derive(Clone, Debug)]
pub struct Rules {
    /// How many tickets at once.
    pub parallel: usize,
    /// How many tickets in all.
    pub max_iterations: u64,
    /// How often one ticket.
    pub max_iterations_per_ticket: u64,
    /// How long to pause before the next ticket.
    pub pause_between_tickets: Duration,
    /// How long to pause before a ticket, or a merge, is tried again.
    pub pause_between_retries: Duration,
    /// How often a ticket is tried again.
    pub max_restarts: u64,
    /// Whether finished work is merged.
    pub merge: bool,
    /// Whether there is a check that says when nothing is left.
    pub has_check: bool,
    /// What is printed when nothing is left to do.
    pub promise: Option<String>,
    /// The only ticket there is, where one was named.
    pub only: Option<Ticket>,
}

impl Rules {
    /// The rules that the settings make.
    pub fn new(settings: &Settings, only: Option<Ticket>) -> Rules {
        Rules {
            parallel: settings.parallel,
            max_iterations: settings.max_iterations,
            max_iterations_per_ticket: settings.max_iterations_per_ticket,
            pause_between_tickets: settings.pause_between_tickets,
            pause_between_retries: settings.pause_between_retries,
            max_restarts: settings.max_restarts,
            merge: settings.merge,
            has_check: settings.check.is_some(),
            promise: settings.promise.clone().filter(|_| only.is_none()),
            only,
        }
    }
}

/// What decides.
#[derive(Clone, Debug)]
pub struct Scheduler {
    rules: Rules,
    /// The memory.
    pub state: State,
    notices: Vec<Notice>,
    /// Tickets for which an action is under way.
    busy: BTreeSet<Ticket>,
    /// The ticket that is being merged: only one at a time.
    merging: Option<Ticket>,
    /// When merges that had to wait are tried again.
    merge_at: BTreeMap<Ticket, Time>,
    /// How often merges that had to wait were tried since nothing else is left to do.
    last_tries: usize,
    /// Whether the query is being asked.
    asking: bool,
    ask_at: Option<Time>,
    query_failures: u32,
    /// Whether the query was asked since anything changed, and named nothing that could be taken on.
    dry: bool,
    /// Whether it named nothing but what is done.
    all_done: bool,
    checking: bool,
    refused: BTreeSet<String>,
    /// Whether the only ticket was taken on.
    only_taken: bool,
    /// Tickets whose sessions the last loop was stopping: nobody else did.
    stopped: BTreeSet<Ticket>,
    /// How often the loop was told to stop.
    interrupts: u32,
    failure: Option<String>,
    finished: bool,
}

impl Scheduler {
    /// Goes on with `state`.
    pub fn new(rules: Rules, mut state: State) -> Scheduler {
        let was_stopping = matches!(state.phase, Phase::Stopping | Phase::Interrupted);
        let running =
            state.tickets.iter().filter(|(_, progress)| matches!(progress.stage, Stage::Running { .. }));
        let stopped = running.filter(|_| was_stopping).map(|(ticket, _)| ticket.clone()).collect();
        state.phase = Phase::Running;
        Scheduler {
            stopped,
            rules,
            state,
            notices: Vec::new(),
            busy: BTreeSet::new(),
            merging: None,
            merge_at: BTreeMap::new(),
            last_tries: 0,
            asking: false,
            ask_at: None,
            query_failures: 0,
            dry: false,
            all_done: false,
            checking: false,
            refused: BTreeSet::new(),
            only_taken: false,
            interrupts: 0,
            failure: None,
            finished: false,
        }
    }

    /// What is to be done now that `event` has happened.
    pub fn handle(&mut self, event: Event, now: Time) -> Vec<Action> {
        let mut actions = self.take_in(event, now);
        actions.extend(self.advance(now));
        actions
    }

    /// What was to be told since this was last asked.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Whether the loop is over.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// When there is something to do even if nothing happens.
    pub fn next_moment(&self) -> Option<Time> {
        if self.finished {
            return None;
        }
        let waiting = self.state.tickets.iter().filter_map(|(ticket, progress)| match progress.stage {
            Stage::Waiting { not_before } if self.goes_on() && !self.busy.contains(ticket) => {
                Some(not_before)
            }
            _ => None,
        });
        let merges = self.merge_at.values().copied().filter(|_| self.goes_on() && self.merging.is_none());
        let ask = self.ask_at.filter(|_| self.wants_more());
        waiting.chain(merges).chain(ask).min()
    }

    /// Whether anything new is begun.
    fn goes_on(&self) -> bool {
        self.interrupts == 0 && self.failure.is_none()
    }

    /// Everything that can be done now.
    fn advance(&mut self, now: Time) -> Vec<Action> {
        if self.finished {
            return Vec::new();
        }
        let mut actions = self.advance_tickets(now);
        if self.rules.only.is_some() {
            actions.extend(self.take_on_only(now));
        } else if self.wants_more() && !self.asking && self.ask_at.is_none_or(|at| at <= now) {
            self.asking = true;
            actions.push(Action::Ask);
        }
        if actions.is_empty() && !self.is_occupied() {
            actions.extend(self.conclude(now));
        }
        actions
    }

    /// The next step of every ticket that has one, and is not taking it.
    fn advance_tickets(&mut self, now: Time) -> Vec<Action> {
        let mut actions = Vec::new();
        let idle: Vec<_> =
            self.state.tickets.keys().filter(|ticket| !self.busy.contains(*ticket)).cloned().collect();
        for ticket in idle {
            let progress = &self.state.tickets[&ticket];
            let (stage, session) = (progress.stage.clone(), progress.session.clone());
            let action = match (stage, session) {
                (Stage::Waiting { not_before }, _) if self.goes_on() && not_before <= now => {
                    self.begin_attempt(&ticket)
                }
                (Stage::Running { serial }, _) => Action::Find { ticket: ticket.clone(), serial },
                (Stage::Sealing, Some(session)) if self.goes_on() => {
                    Action::Seal { ticket: ticket.clone(), session }
                }
                (Stage::Merging { tip, .. }, Some(session)) if self.may_merge(&ticket, now) => {
                    self.merge_at.remove(&ticket);
                    self.merging = Some(ticket.clone());
                    Action::Merge { ticket: ticket.clone(), session, tip }
                }
                (Stage::Clearing { .. }, Some(session)) if self.interrupts < 2 => {
                    Action::Clear { ticket: ticket.clone(), session }
                }
                _ => continue,
            };
            self.busy.insert(ticket);
            actions.push(action);
        }
        actions
    }

    fn may_merge(&self, ticket: &Ticket, now: Time) -> bool {
        self.goes_on() && self.merging.is_none() && self.merge_at.get(ticket).is_none_or(|at| *at <= now)
    }

    fn begin_attempt(&mut self, ticket: &Ticket) -> Action {
        self.state.serial += 1;
        let serial = self.state.serial;
        let progress = self.progress(ticket);
        progress.stage = Stage::Running { serial };
        progress.session = None;
        Action::Start { ticket: ticket.clone(), serial, attempt: progress.failures + 1 }
    }

    /// How many tickets are worked on. A merge that waits for its user holds nobody up.
    fn occupied(&self) -> usize {
        let tickets = self.state.tickets.values();
        tickets.filter(|progress| !progress.stage.is_final() && !progress.stage.is_deferred()).count()
    }

    /// Whether anything is under way, so that the loop is not over.
    fn is_occupied(&self) -> bool {
        let waits = |progress: &Progress| match progress.stage {
            // Nothing of this goes on any more.
            Stage::Waiting { .. } | Stage::Sealing | Stage::Merging { .. } => self.goes_on(),
            Stage::Clearing { .. } => self.interrupts < 2,
            Stage::Running { .. } => true,
            _ => false,
        };
        let tickets = self.state.tickets.values();
        self.asking
            || self.checking
            || !self.busy.is_empty()
            || tickets.filter(|progress| !progress.stage.is_deferred()).any(waits)
    }

    /// Whether there is room for another ticket.
    fn wants_more(&self) -> bool {
        self.goes_on()
            && self.rules.only.is_none()
            && self.state.iteration < self.rules.max_iterations
            && self.occupied() < self.rules.parallel
            && !(self.dry && self.occupied() == 0)
    }

    fn take_on_only(&mut self, now: Time) -> Vec<Action> {
        let Some(ticket) = self.rules.only.clone().filter(|_| !self.only_taken && self.goes_on()) else {
            return Vec::new();
        };
        self.only_taken = true;
        // One that another loop was cut off at goes on; any other is wished for once more.
        if self.state.tickets.get(&ticket).is_some_and(|progress| !progress.stage.is_final()) {
            return Vec::new();
        }
        self.state.tickets.remove(&ticket);
        self.take_on(ticket, now);
        self.advance_tickets(now)
    }

    fn take_on(&mut self, ticket: Ticket, now: Time) {
        self.state.iteration += 1;
        let progress = self.state.tickets.entry(ticket).or_insert_with(|| Progress::new(now));
        progress.iterations += 1;
        progress.failures = 0;
        progress.stage = Stage::Waiting { not_before: now };
    }

    /// Nothing is under way: ends the loop, or finds out whether it may end.
    fn conclude(&mut self, now: Time) -> Vec<Action> {
        if self.interrupts > 0 {
            return self.finish(Phase::Interrupted);
        }
        if self.failure.is_some() {
            return self.finish(Phase::Failed);
        }
        let takes_more = self.rules.only.is_none() && self.state.iteration < self.rules.max_iterations;
        if takes_more && !self.dry {
            // A pause before the next ticket.
            return Vec::new();
        }
        if self.last_tries < LAST_TRIES * self.merge_at.len() {
            // Only its user's changes are in the way: perhaps they are gone in a moment.
            let soon = now.saturating_add(LAST_PAUSE);
            self.merge_at.values_mut().for_each(|at| *at = soon.min(*at));
            return Vec::new();
        }
        if self.rules.only.is_some() {
            return self.finish(Phase::Complete);
        }
        if !takes_more {
            return self.finish(Phase::Exhausted);
        }
        if self.rules.has_check {
            self.checking = true;
            return vec![Action::Check];
        }
        self.finish(if self.all_done { Phase::Complete } else { Phase::Stuck })
    }

    fn finish(&mut self, phase: Phase) -> Vec<Action> {
        self.finished = true;
        self.state.phase = phase;
        let summary = self.summary();
        self.notices.push(Notice::Finished(summary));
        vec![Action::Finish]
    }

    /// What became of everything.
    pub fn summary(&self) -> Summary {
        let row = |(ticket, progress): (&Ticket, &Progress)| Row {
            ticket: ticket.clone(),
            iterations: progress.iterations,
            stage: progress.stage.clone(),
            session: progress.session.clone(),
            log: progress.log.as_ref().map(|log| log.as_path().to_owned()),
        };
        let mut summary = Summary {
            phase: self.state.phase,
            iteration: self.state.iteration,
            tickets: self.state.tickets.iter().map(row).collect(),
            promise: None,
            error: self.failure.clone(),
        };
        // What waits for a person is not complete, whatever the query says of it.
        if summary.phase == Phase::Complete && summary.is_whole() {
            summary.promise.clone_from(&self.rules.promise);
        }
        summary
    }

    fn progress(&mut self, ticket: &Ticket) -> &mut Progress {
        self.state.tickets.get_mut(ticket).expect("only tickets that were taken on are worked on")
    }

    /// A ticket came to rest: there is room, after a pause.
    fn make_room(&mut self, now: Time) {
        self.dry = false;
        self.last_tries = 0;
        self.ask_at = Some(now.saturating_add(self.rules.pause_between_tickets));
    }

    fn remember(&mut self, ticket: &Ticket, session: &SessionId, log: Option<OsText>) {
        let progress = self.progress(ticket);
        progress.session = Some(session.clone());
        progress.log = log;
    }

    fn clear(&mut self, ticket: &Ticket, then: Then) {
        self.progress(ticket).stage = Stage::Clearing { then };
    }
}
