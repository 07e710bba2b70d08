//! Decides the next actions from events. The scheduler has no side effects and reads no clock: the same events at the
//! same times lead to the same decisions.
//!
//! A ticket goes through [`Stage`]s. Each stage that is not final has one action that advances it, and
//! `Scheduler::advance` issues that action unless it is in progress. So a loop that takes over another loop's state
//! does not replay anything: it issues the missing actions.

mod event;
mod outcome;
#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use sexton_core::{OsText, SessionId, Time};

pub use event::{Action, Ending, Event, Fault, MergeOutcome, QueryOutput, Sealed};

use crate::notice::{Notice, Row, Summary};
use crate::settings::Settings;
use crate::state::{Phase, Progress, Stage, State, Then};
use crate::ticket::Ticket;

/// Number of consecutive query failures after which the loop fails.
const MAX_QUERY_FAILURES: u32 = 3;

/// Minimum pause between two runs of the query.
const MIN_QUERY_PAUSE: Duration = Duration::from_secs(1);

/// Number of tries of a deferred merge when nothing else is left to do, and the pause between them.
const LAST_TRIES: usize = 3;
const LAST_PAUSE: Duration = Duration::from_secs(1);

/// Number of interruptions by the end of the loop after which a ticket is suspected of causing them.
const MAX_INTERRUPTIONS: u64 = 100;

/// Maximum number of invalid tickets that are remembered as reported.
const MAX_REFUSED: usize = 100;

/// The settings that decisions depend on.
#[derive(Clone, Debug)]
pub struct Rules {
    /// Maximum number of tickets in progress.
    pub parallel: usize,
    /// Maximum number of iterations.
    pub max_iterations: u64,
    /// Maximum number of iterations per ticket.
    pub max_iterations_per_ticket: u64,
    /// Pause before the next ticket.
    pub pause_between_tickets: Duration,
    /// Pause before a ticket or a merge is retried.
    pub pause_between_retries: Duration,
    /// Maximum number of retries of a ticket.
    pub max_restarts: u64,
    /// Whether finished work is merged.
    pub merge: bool,
    /// Whether a completion check is configured.
    pub has_check: bool,
    /// Text to print when nothing is left to do.
    pub promise: Option<String>,
    /// The only ticket to work on, if one was given.
    pub only: Option<Ticket>,
}

impl Rules {
    /// Creates the rules from the settings.
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

/// The scheduler.
#[derive(Clone, Debug)]
pub struct Scheduler {
    rules: Rules,
    /// The state to save.
    pub state: State,
    notices: Vec<Notice>,
    /// Tickets with an action in progress.
    busy: BTreeSet<Ticket>,
    /// The ticket being merged. Only one merge runs at a time.
    merging: Option<Ticket>,
    /// When deferred merges are retried.
    merge_at: BTreeMap<Ticket, Time>,
    /// Number of tries of deferred merges since nothing else is left to do.
    last_tries: usize,
    /// Whether the query is running.
    querying: bool,
    query_at: Option<Time>,
    query_failures: u32,
    /// Whether the query returned nothing that can be taken on, and nothing has changed since.
    dry: bool,
    /// Whether the query returned only tickets that are done.
    all_done: bool,
    checking: bool,
    refused: BTreeSet<String>,
    /// Whether `rules.only` was taken on.
    only_taken: bool,
    /// Tickets whose sessions the previous loop was stopping, so that the user did not stop them.
    stopped: BTreeSet<Ticket>,
    /// Number of requests to stop the loop.
    interrupts: u32,
    failure: Option<String>,
    finished: bool,
}

impl Scheduler {
    /// Creates a scheduler that continues from `state`.
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
            querying: false,
            query_at: None,
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

    /// Applies `event` and returns the actions to perform.
    pub fn handle(&mut self, event: Event, now: Time) -> Vec<Action> {
        let mut actions = self.apply(event, now);
        actions.extend(self.advance(now));
        actions
    }

    /// Returns the notices since the last call.
    pub fn take_notices(&mut self) -> Vec<Notice> {
        std::mem::take(&mut self.notices)
    }

    /// Returns whether the loop has finished.
    pub fn is_finished(&self) -> bool {
        self.finished
    }

    /// Returns the next time at which there is something to do even without an event.
    pub fn next_moment(&self) -> Option<Time> {
        if self.finished {
            return None;
        }
        let waiting = self.state.tickets.iter().filter_map(|(ticket, progress)| match progress.stage {
            Stage::Waiting { not_before } if self.is_continuing() && !self.busy.contains(ticket) => {
                Some(not_before)
            }
            _ => None,
        });
        let merges =
            self.merge_at.values().copied().filter(|_| self.is_continuing() && self.merging.is_none());
        let query = self.query_at.filter(|_| self.wants_more());
        waiting.chain(merges).chain(query).min()
    }

    /// Returns whether the loop still starts new actions.
    fn is_continuing(&self) -> bool {
        self.interrupts == 0 && self.failure.is_none()
    }

    /// Returns all actions that can be performed now.
    fn advance(&mut self, now: Time) -> Vec<Action> {
        if self.finished {
            return Vec::new();
        }
        let mut actions = self.advance_tickets(now);
        if self.rules.only.is_some() {
            actions.extend(self.take_on_only(now));
        } else if self.wants_more() && !self.querying && self.query_at.is_none_or(|at| at <= now) {
            self.querying = true;
            actions.push(Action::Query);
        }
        if actions.is_empty() && !self.is_occupied() {
            actions.extend(self.conclude(now));
        }
        actions
    }

    /// Returns the next action of every ticket that has no action in progress.
    fn advance_tickets(&mut self, now: Time) -> Vec<Action> {
        let mut actions = Vec::new();
        let idle: Vec<_> =
            self.state.tickets.keys().filter(|ticket| !self.busy.contains(*ticket)).cloned().collect();
        for ticket in idle {
            let progress = &self.state.tickets[&ticket];
            let (stage, session) = (progress.stage.clone(), progress.session.clone());
            let action = match (stage, session) {
                (Stage::Waiting { not_before }, _) if self.is_continuing() && not_before <= now => {
                    self.begin_attempt(&ticket)
                }
                (Stage::Running { serial }, _) => Action::Find { ticket: ticket.clone(), serial },
                (Stage::Sealing, Some(session)) if self.is_continuing() => {
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
        self.is_continuing()
            && self.merging.is_none()
            && self.merge_at.get(ticket).is_none_or(|at| *at <= now)
    }

    fn begin_attempt(&mut self, ticket: &Ticket) -> Action {
        self.state.serial += 1;
        let serial = self.state.serial;
        let progress = self.progress(ticket);
        progress.stage = Stage::Running { serial };
        progress.session = None;
        Action::Start { ticket: ticket.clone(), serial, attempt: progress.failures + 1 }
    }

    /// Returns the number of tickets in progress. Deferred merges do not count.
    fn occupied(&self) -> usize {
        let tickets = self.state.tickets.values();
        tickets.filter(|progress| !progress.stage.is_final() && !progress.stage.is_deferred()).count()
    }

    /// Returns whether anything is in progress.
    fn is_occupied(&self) -> bool {
        let waits = |progress: &Progress| match progress.stage {
            // These do not continue once the loop is stopping.
            Stage::Waiting { .. } | Stage::Sealing | Stage::Merging { .. } => self.is_continuing(),
            Stage::Clearing { .. } => self.interrupts < 2,
            Stage::Running { .. } => true,
            _ => false,
        };
        let tickets = self.state.tickets.values();
        self.querying
            || self.checking
            || !self.busy.is_empty()
            || tickets.filter(|progress| !progress.stage.is_deferred()).any(waits)
    }

    /// Returns whether another ticket can be taken on.
    fn wants_more(&self) -> bool {
        self.is_continuing()
            && self.rules.only.is_none()
            && self.state.iteration < self.rules.max_iterations
            && self.occupied() < self.rules.parallel
            && !(self.dry && self.occupied() == 0)
    }

    fn take_on_only(&mut self, now: Time) -> Vec<Action> {
        let Some(ticket) = self.rules.only.clone().filter(|_| !self.only_taken && self.is_continuing())
        else {
            return Vec::new();
        };
        self.only_taken = true;
        // A ticket that another loop did not finish continues; any other starts again.
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

    /// Finishes the loop when nothing is in progress, or checks whether it may finish.
    fn conclude(&mut self, now: Time) -> Vec<Action> {
        if self.interrupts > 0 {
            return self.finish(Phase::Interrupted);
        }
        if self.failure.is_some() {
            return self.finish(Phase::Failed);
        }
        let takes_more = self.rules.only.is_none() && self.state.iteration < self.rules.max_iterations;
        if takes_more && !self.dry {
            // The loop waits for the pause before the next ticket.
            return Vec::new();
        }
        if self.last_tries < LAST_TRIES * self.merge_at.len() {
            // Only the user's uncommitted changes block the merges, and may be committed soon.
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

    /// Returns the summary of all tickets.
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
        // A ticket that needs the user is not complete, whatever the query returns.
        if summary.phase == Phase::Complete && summary.is_whole() {
            summary.promise.clone_from(&self.rules.promise);
        }
        summary
    }

    fn progress(&mut self, ticket: &Ticket) -> &mut Progress {
        self.state.tickets.get_mut(ticket).expect("only tickets that were taken on have actions")
    }

    /// Schedules the next query after a ticket has finished or is deferred.
    fn schedule_query(&mut self, now: Time) {
        self.dry = false;
        self.last_tries = 0;
        self.query_at = Some(now.saturating_add(self.rules.pause_between_tickets));
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
