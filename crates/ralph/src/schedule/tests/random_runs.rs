//! Property test: random outcomes of actions, and random kills of the loop.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// One step of a random run.
#[derive(Clone, Debug)]
enum Step {
    /// Complete a pending action with the outcome that the number selects.
    Complete(usize, u8),
    /// Let this many seconds pass.
    Wait(u64),
    /// Kill the loop and start another from the saved state.
    Kill,
    Interrupt,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        12 => (0..8_usize, any::<u8>()).prop_map(|(which, how)| Step::Complete(which, how)),
        4 => (0..20_u64).prop_map(Step::Wait),
        1 => Just(Step::Kill),
        1 => Just(Step::Interrupt),
    ];
    prop::collection::vec(step, 0..200)
}

/// The simulated environment of the loop.
struct Simulation {
    scheduler: Scheduler,
    rules: Rules,
    saved: State,
    pending: Vec<Action>,
    /// Ending of each started attempt, by serial.
    attempts: BTreeMap<u64, Option<Ending>>,
    /// Number of merges of each ticket.
    merged: BTreeMap<Ticket, usize>,
    succeeded: BTreeMap<Ticket, usize>,
    now: u64,
}

const NAMES: [&str; 5] = ["T-1", "T-2", "T-3", "T-4", "T-5"];

impl Simulation {
    fn new(rules: Rules) -> Simulation {
        let state = State::new("/repo".into(), "main".to_owned());
        let scheduler = Scheduler::new(rules.clone(), state.clone());
        let mut simulation = Simulation {
            scheduler,
            rules,
            saved: state,
            pending: Vec::new(),
            attempts: BTreeMap::new(),
            merged: BTreeMap::new(),
            succeeded: BTreeMap::new(),
            now: 0,
        };
        simulation.apply(Event::Begin);
        simulation
    }

    fn apply(&mut self, event: Event) {
        let actions = self.scheduler.handle(event, at(self.now));
        if actions.iter().any(Action::needs_saved_state) {
            self.saved = self.scheduler.state.clone();
        }
        self.pending.extend(actions);
        self.check();
    }

    /// Checks the invariants that hold at all times.
    fn check(&self) {
        let stages = || self.scheduler.state.tickets.values().map(|progress| &progress.stage);
        let running = stages().filter(|stage| matches!(stage, Stage::Running { .. })).count();
        assert!(running <= self.rules.parallel, "more at once than allowed");
        let merging = self.pending.iter().filter(|action| matches!(action, Action::Merge { .. })).count();
        assert!(merging <= 1, "two merges at once");
        assert!(self.scheduler.state.iteration <= self.rules.max_iterations);
        for progress in self.scheduler.state.tickets.values() {
            assert!(progress.failures <= self.rules.max_restarts + 1, "tried too often");
        }
    }

    fn check_alive(&self) {
        let finished = self.scheduler.is_finished();
        let alive = !self.pending.is_empty() || self.scheduler.next_moment().is_some();
        assert!(finished || alive, "nothing is pending: {:?}", self.scheduler);
    }

    fn ending(how: u8) -> Ending {
        match how % 6 {
            0..3 => Ending::Succeeded,
            3 => Ending::Failed("exit code 1".to_owned()),
            4 => Ending::TimedOut,
            _ => Ending::Interrupted,
        }
    }

    fn complete(&mut self, which: usize, how: u8) {
        if self.pending.is_empty() {
            return;
        }
        let action = self.pending.remove(which % self.pending.len());
        match action {
            Action::Query if how % 8 == 7 => self.apply(Event::Queried(Err("failed".to_owned()))),
            Action::Query => {
                let undone = NAMES.iter().filter(|name| !self.merged.contains_key(&ticket(name)));
                let lines = undone.map(|name| (*name).to_owned()).collect();
                self.apply(Event::Queried(Ok(QueryOutput { lines })));
            }
            Action::Check => self.apply(Event::Checked { left: how.is_multiple_of(2) }),
            Action::Start { ticket, serial, .. } => {
                if how % 11 == 10 {
                    let fault = Fault::Attempt("no".to_owned());
                    return self.apply(Event::NotStarted { ticket, fault });
                }
                self.attempts.insert(serial, None);
                let (session, log) = (self.session_of(&ticket, serial), None);
                self.apply(Event::Started {
                    ticket: ticket.clone(),
                    session: session.clone(),
                    worktree: None,
                    log: log.clone(),
                    rescue: None,
                });
                let ending = Simulation::ending(how);
                self.end(&ticket, serial, &ending);
                self.apply(Event::Ended { ticket, session, log, ending });
            }
            Action::Find { ticket, serial } => match self.attempts.get(&serial).cloned() {
                None => self.apply(Event::NotStarted { ticket, fault: Fault::NeverBegun }),
                Some(ending) => {
                    let session = self.session_of(&ticket, serial);
                    let ending = ending.unwrap_or(Ending::Interrupted);
                    self.apply(Event::Ended { ticket, session, log: None, ending });
                }
            },
            Action::Seal { ticket, .. } => {
                let tip = "tip".to_owned();
                self.apply(Event::Sealed { ticket, result: Ok(Sealed::Work { tip }) });
            }
            Action::Merge { ticket, .. } if how % 4 == 3 => {
                let outcome = MergeOutcome::Deferred { why: format!("reason {}", how % 2) };
                self.apply(Event::Merged { ticket, outcome });
            }
            Action::Merge { ticket, .. } => {
                *self.merged.entry(ticket.clone()).or_default() += 1;
                let outcome = MergeOutcome::Merged { commit: "c".to_owned(), how: How::FastForward };
                self.apply(Event::Merged { ticket, outcome });
            }
            Action::Clear { ticket, .. } => self.apply(Event::Cleared { ticket, kept: None }),
            Action::Stop { at_once: true, .. } => self.apply(Event::Killed),
            Action::Stop { .. } | Action::Finish => {}
        }
    }

    fn session_of(&self, ticket: &Ticket, serial: u64) -> SessionId {
        format!("{ticket}-{serial}").parse().unwrap()
    }

    fn end(&mut self, ticket: &Ticket, serial: u64, ending: &Ending) {
        self.attempts.insert(serial, Some(ending.clone()));
        if *ending == Ending::Succeeded {
            *self.succeeded.entry(ticket.clone()).or_default() += 1;
        }
    }

    fn restart(&mut self) {
        let state = self.saved.clone().into_next(false);
        self.scheduler = Scheduler::new(self.rules.clone(), state);
        self.pending.clear();
        self.apply(Event::Begin);
    }

    fn play(&mut self, step: &Step) {
        match step {
            Step::Complete(which, how) => self.complete(*which, *how),
            Step::Wait(seconds) => {
                self.now += seconds;
                self.apply(Event::Tick);
            }
            Step::Kill => self.restart(),
            Step::Interrupt => self.apply(Event::Interrupt),
        }
        self.check_alive();
        if self.scheduler.is_finished() && self.scheduler.state.phase == Phase::Interrupted {
            self.restart();
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(400))]

    #[test]
    fn loop_never_hangs_and_merges_only_successful_work(
        steps in steps(), parallel in 1..4_usize,
    ) {
        let rules = Rules {
            parallel, max_iterations: 20, max_iterations_per_ticket: 2,
            pause_between_tickets: Duration::ZERO, ..rules()
        };
        let mut simulation = Simulation::new(rules);
        for step in &steps {
            simulation.play(step);
        }
        // Without further disturbance, the loop finishes.
        for _ in 0..2000 {
            if simulation.scheduler.is_finished() {
                if simulation.scheduler.state.phase != Phase::Interrupted {
                    break;
                }
                simulation.restart();
            } else if simulation.pending.is_empty() {
                let moment = simulation.scheduler.next_moment().unwrap();
                while at(simulation.now) < moment {
                    simulation.now += 1;
                }
                simulation.apply(Event::Tick);
            } else {
                simulation.complete(0, 0);
            }
        }
        prop_assert!(simulation.scheduler.is_finished(), "the loop does not finish");
        for (ticket, progress) in &simulation.scheduler.state.tickets {
            if let Stage::Done { work: Work::Merged { .. }, .. } = progress.stage {
                prop_assert!(simulation.succeeded.contains_key(ticket), "{ticket} was merged and never succeeded");
                prop_assert!(simulation.merged.contains_key(ticket), "{ticket} is recorded as merged but was not");
            }
        }
        if simulation.scheduler.state.phase != Phase::Failed {
            // A merge that is still deferred is left to the next loop.
            let is_settled = |stage: &Stage| stage.is_final() || stage.is_deferred();
            let undone = simulation.scheduler.state.tickets.values().filter(|progress| !is_settled(&progress.stage));
            prop_assert_eq!(undone.count(), 0, "every ticket reaches a final stage");
        }
    }
}
