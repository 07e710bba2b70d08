//! Any story at all: a world that answers by chance, and kills the loop by chance.

use std::collections::BTreeMap;

use proptest::prelude::*;

use super::*;

/// A world that answers actions by chance, and kills the loop by chance.
#[derive(Clone, Debug)]
enum Turn {
    /// The next action that waits is answered, in the way that the number says.
    Answer(usize, u8),
    /// Time passes.
    Pass(u64),
    /// The loop is killed, and another goes on with what was durable.
    Kill,
    Interrupt,
}

fn turns() -> impl Strategy<Value = Vec<Turn>> {
    let turn = prop_oneof![
        12 => (0..8_usize, any::<u8>()).prop_map(|(which, how)| Turn::Answer(which, how)),
        4 => (0..20_u64).prop_map(Turn::Pass),
        1 => Just(Turn::Kill),
        1 => Just(Turn::Interrupt),
    ];
    prop::collection::vec(turn, 0..200)
}

/// What is true of the world, whatever the loop believes.
struct World {
    scheduler: Scheduler,
    rules: Rules,
    durable: State,
    waiting: Vec<Action>,
    /// How each attempt ended, by its number; one that is in here was really begun.
    attempts: BTreeMap<u64, Option<Ending>>,
    /// How often the work of a ticket was merged that was not merged before.
    merged: BTreeMap<Ticket, usize>,
    succeeded: BTreeMap<Ticket, usize>,
    now: u64,
}

const NAMES: [&str; 5] = ["T-1", "T-2", "T-3", "T-4", "T-5"];

impl World {
    fn new(rules: Rules) -> World {
        let state = State::new("/repo".into(), "main".to_owned());
        let scheduler = Scheduler::new(rules.clone(), state.clone());
        let mut world = World {
            scheduler,
            rules,
            durable: state,
            waiting: Vec::new(),
            attempts: BTreeMap::new(),
            merged: BTreeMap::new(),
            succeeded: BTreeMap::new(),
            now: 0,
        };
        world.happen(Event::Begin);
        world
    }

    fn happen(&mut self, event: Event) {
        let actions = self.scheduler.handle(event, at(self.now));
        if actions.iter().any(Action::needs_memory) {
            self.durable = self.scheduler.state.clone();
        }
        self.waiting.extend(actions);
        self.check();
    }

    /// What must hold at every moment.
    fn check(&self) {
        let stages = || self.scheduler.state.tickets.values().map(|progress| &progress.stage);
        let running = stages().filter(|stage| matches!(stage, Stage::Running { .. })).count();
        assert!(running <= self.rules.parallel, "more at once than allowed");
        let merging = self.waiting.iter().filter(|action| matches!(action, Action::Merge { .. })).count();
        assert!(merging <= 1, "two merges at once");
        assert!(self.scheduler.state.iteration <= self.rules.max_iterations);
        for progress in self.scheduler.state.tickets.values() {
            assert!(progress.failures <= self.rules.max_restarts + 1, "tried too often");
        }
    }

    fn check_alive(&self) {
        let over = self.scheduler.is_finished();
        let alive = !self.waiting.is_empty() || self.scheduler.next_moment().is_some();
        assert!(over || alive, "it waits for nothing: {:?}", self.scheduler);
    }

    fn ending(how: u8) -> Ending {
        match how % 6 {
            0..3 => Ending::Succeeded,
            3 => Ending::Failed("exit code 1".to_owned()),
            4 => Ending::TimedOut,
            _ => Ending::Interrupted,
        }
    }

    fn answer(&mut self, which: usize, how: u8) {
        if self.waiting.is_empty() {
            return;
        }
        let action = self.waiting.remove(which % self.waiting.len());
        match action {
            Action::Ask if how % 8 == 7 => self.happen(Event::Asked(Err("failed".to_owned()))),
            Action::Ask => {
                let undone = NAMES.iter().filter(|name| !self.merged.contains_key(&ticket(name)));
                let lines = undone.map(|name| (*name).to_owned()).collect();
                self.happen(Event::Asked(Ok(Asked { lines })));
            }
            Action::Check => self.happen(Event::Checked { left: how.is_multiple_of(2) }),
            Action::Start { ticket, serial, .. } => {
                if how % 11 == 10 {
                    let fault = Fault::Attempt("no".to_owned());
                    return self.happen(Event::NotStarted { ticket, fault });
                }
                self.attempts.insert(serial, None);
                let (session, log) = (self.session_of(&ticket, serial), None);
                self.happen(Event::Started {
                    ticket: ticket.clone(),
                    session: session.clone(),
                    worktree: None,
                    log: log.clone(),
                    rescue: None,
                });
                let ending = World::ending(how);
                self.end(&ticket, serial, &ending);
                self.happen(Event::Ended { ticket, session, log, ending });
            }
            Action::Find { ticket, serial } => match self.attempts.get(&serial).cloned() {
                None => self.happen(Event::NotStarted { ticket, fault: Fault::NeverBegun }),
                Some(ending) => {
                    let session = self.session_of(&ticket, serial);
                    let ending = ending.unwrap_or(Ending::Interrupted);
                    self.happen(Event::Ended { ticket, session, log: None, ending });
                }
            },
            Action::Seal { ticket, .. } => {
                let tip = "tip".to_owned();
                self.happen(Event::Sealed { ticket, result: Ok(Sealed::Work { tip }) });
            }
            Action::Merge { ticket, .. } if how % 4 == 3 => {
                let outcome = MergeOutcome::Deferred { why: format!("reason {}", how % 2) };
                self.happen(Event::Merged { ticket, outcome });
            }
            Action::Merge { ticket, .. } => {
                *self.merged.entry(ticket.clone()).or_default() += 1;
                let outcome = MergeOutcome::Merged { commit: "c".to_owned(), how: How::FastForward };
                self.happen(Event::Merged { ticket, outcome });
            }
            Action::Clear { ticket, .. } => self.happen(Event::Cleared { ticket, kept: None }),
            Action::Stop { at_once: true, .. } => self.happen(Event::Killed),
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
        let state = self.durable.clone().into_next(false);
        self.scheduler = Scheduler::new(self.rules.clone(), state);
        self.waiting.clear();
        self.happen(Event::Begin);
    }

    fn play(&mut self, turn: &Turn) {
        match turn {
            Turn::Answer(which, how) => self.answer(*which, *how),
            Turn::Pass(seconds) => {
                self.now += seconds;
                self.happen(Event::Tick);
            }
            Turn::Kill => self.restart(),
            Turn::Interrupt => self.happen(Event::Interrupt),
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
    fn whatever_happens_nothing_is_merged_that_did_not_succeed_and_the_loop_never_hangs(
        turns in turns(), parallel in 1..4_usize,
    ) {
        let rules = Rules {
            parallel, max_iterations: 20, max_iterations_per_ticket: 2,
            pause_between_tickets: Duration::ZERO, ..rules()
        };
        let mut world = World::new(rules);
        for turn in &turns {
            world.play(turn);
        }
        // Left in peace, it comes to its end.
        for _ in 0..2000 {
            if world.scheduler.is_finished() {
                if world.scheduler.state.phase != Phase::Interrupted {
                    break;
                }
                world.restart();
            } else if world.waiting.is_empty() {
                let moment = world.scheduler.next_moment().unwrap();
                while at(world.now) < moment {
                    world.now += 1;
                }
                world.happen(Event::Tick);
            } else {
                world.answer(0, 0);
            }
        }
        prop_assert!(world.scheduler.is_finished(), "it never ends");
        for (ticket, progress) in &world.scheduler.state.tickets {
            if let Stage::Done { work: Work::Merged { .. }, .. } = progress.stage {
                prop_assert!(world.succeeded.contains_key(ticket), "{ticket} was merged and never succeeded");
                prop_assert!(world.merged.contains_key(ticket), "{ticket} is said to be merged");
            }
        }
        if world.scheduler.state.phase != Phase::Failed {
            // A merge that its user's changes were in the way of to the last waits for the next loop.
            let rests = |stage: &Stage| stage.is_final() || stage.is_deferred();
            let undone = world.scheduler.state.tickets.values().filter(|progress| !rests(&progress.stage));
            prop_assert_eq!(undone.count(), 0, "left in peace, every ticket comes to rest");
        }
    }
}
