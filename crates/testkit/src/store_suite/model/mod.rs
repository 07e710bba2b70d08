//! Any sequence of what can be done to a store, done to the store and to a model of it: both must answer alike,
//! and show the same after every step. A failure is shrunk to the shortest sequence that shows it.

mod reference;

use std::cell::RefCell;
use std::path::PathBuf;
use std::rc::Rc;

use pollster::block_on;
use proptest::test_runner::{Config, TestRunner};
use proptest_state_machine::{ReferenceStateMachine, StateMachineTest};
use sexton_core::store::Committed;
use sexton_core::{Batch, Query, Session, StoreError};

use super::Subject;
use super::samples::{id, moment};
use super::site::{Handle, Site};
use crate::trials::{Theme, theme};
use reference::{Kind, Model, Reference, Step, Transition, content};

pub(super) const THEME: Theme<Subject> = theme!("model":
    i6_any_sequence_of_changes_leaves_what_the_model_says,
);

const SEQUENCES: u32 = 32;
const LONGEST: usize = 24;
const BACKUPS: &str = "backups";

thread_local! {
    /// The store under test. A state machine is given no argument, and a case is one thread.
    static BENCH: RefCell<Option<Bench>> = const { RefCell::new(None) };
}

/// Where every sequence takes place, one after the other: what a store adds to a record by itself may depend on
/// where it lies.
struct Bench {
    site: Rc<Site>,
    /// A handle of it that is asked what can be represented, and nothing else.
    fitter: Handle,
}

fn with_bench<T>(ask: impl FnOnce(&Bench) -> T) -> T {
    BENCH.with_borrow(|bench| ask(bench.as_ref().expect("a case is under way")))
}

/// `session` as the store under test represents it.
fn fit(session: Session) -> Session {
    with_bench(|bench| bench.fitter.fit(session))
}

/// Whether the store under test keeps counters.
fn keeps_counters() -> bool {
    with_bench(|bench| bench.site.counts())
}

/// The store, and what was made of it.
struct Yard {
    site: Rc<Site>,
    store: Handle,
    backups: Vec<PathBuf>,
}

impl Yard {
    /// The batch that `steps` mean: revisions are the store's own.
    fn batch(&self, steps: &[Step], count: Option<u64>) -> Batch {
        let present = self.store.all();
        let mut batch = Batch::new();
        for step in steps {
            let there = present.iter().find(|session| session.id == id(&step.key()));
            let revision = there.map_or(1, |session| session.revision).wrapping_add(u64::from(step.stale));
            let session = Session { revision, ..fit(content(step)) };
            batch = match step.kind {
                Kind::Insert => batch.insert(session),
                Kind::Replace => batch.replace(session),
                Kind::Remove => batch.remove(&session),
            };
        }
        match count.filter(|_| keeps_counters()) {
            Some(by) => batch.count("counted", by),
            None => batch,
        }
    }

    /// Removes what finished before `seconds`, as retention does.
    fn prune(&self, seconds: u64) {
        let old = self.store.listing(&Query::all().finished_before(moment(seconds))).sessions;
        self.store.commit(old.iter().fold(Batch::new(), Batch::remove));
    }
}

/// An outcome in words that do not depend on a store's own revisions.
fn words(outcome: &Result<Committed, StoreError>) -> String {
    match outcome {
        Ok(_) => "committed".to_owned(),
        Err(StoreError::Conflict { id, .. }) => format!("conflict on {id}"),
        Err(StoreError::Exists { id }) => format!("{id} exists"),
        Err(StoreError::ChangedTwice { id }) => format!("{id} twice"),
        Err(StoreError::Transition { id, .. }) => format!("transition of {id}"),
        Err(StoreError::NameTaken { name, .. }) => format!("{name} is taken"),
        Err(other) => panic!("no batch here can be refused so: {other}"),
    }
}

struct Machine;

impl StateMachineTest for Machine {
    type SystemUnderTest = Yard;
    type Reference = Reference;

    fn init_test(_: &Model) -> Yard {
        let site = with_bench(|bench| Rc::clone(&bench.site));
        for left in [site.directory(), site.elsewhere(BACKUPS)].iter().filter(|left| left.exists()) {
            std::fs::remove_dir_all(left).expect("what the last sequence left can be removed");
        }
        let store = site.writer();
        Yard { site, store, backups: Vec::new() }
    }

    fn apply(mut yard: Yard, model: &Model, transition: Transition) -> Yard {
        match &transition {
            Transition::Commit { steps, count } => {
                let outcome = block_on(yard.store.0.commit(yard.batch(steps, *count)));
                assert_eq!(words(&outcome), model.answer, "{transition:?}");
            }
            Transition::List(query) => {
                let listed = yard.store.listing(query).sessions;
                assert_eq!(without_revisions(listed), query.select(model.sessions()), "{query:?}");
            }
            Transition::Prune(seconds) => yard.prune(*seconds),
            Transition::Reopen => yard.store = yard.site.writer(),
            Transition::BackUp => {
                let made = block_on(yard.store.0.backup(&yard.site.elsewhere(BACKUPS), moment(1000)));
                yard.backups.push(made.expect("a backup is made").path);
            }
            Transition::Restore(number) => {
                let restored = block_on(yard.store.0.restore(&yard.backups[*number], moment(2000)));
                let restored = restored.expect("a backup is restored");
                assert_eq!(restored.kept + restored.restored, model.records.len() as u64);
            }
        }
        yard
    }

    fn check_invariants(yard: &Yard, model: &Model) {
        assert_eq!(without_revisions(yard.store.all()), Query::all().select(model.sessions()));
        assert_eq!(block_on(yard.store.0.tally()).expect("a tally"), model.tally());
        assert_eq!(yard.store.counters(), model.counters);
        for session in model.sessions() {
            assert_eq!(Session { revision: 0, ..yard.store.require(&session.id) }, session);
        }
    }

    fn teardown(yard: Yard, model: Model) {
        // What another process would see.
        drop(yard.store);
        let reader = yard.site.reader();
        assert_eq!(without_revisions(reader.all()), Query::all().select(model.sessions()));
    }
}

fn without_revisions(sessions: Vec<Session>) -> Vec<Session> {
    sessions.into_iter().map(|session| Session { revision: 0, ..session }).collect()
}

fn i6_any_sequence_of_changes_leaves_what_the_model_says(subject: &Subject) {
    let site = Rc::new(Site::new(subject));
    BENCH.set(Some(Bench { fitter: site.reader(), site }));
    // A failure is printed, whole and shrunk: no file is left in the tree.
    let config = Config { cases: SEQUENCES, failure_persistence: None, ..Config::default() };
    let sequences = Reference::sequential_strategy(1..LONGEST);
    let outcome = TestRunner::new(config.clone()).run(&sequences, |(initial, transitions, seen)| {
        Machine::test_sequential(config.clone(), initial, transitions, seen);
        Ok(())
    });
    BENCH.set(None);
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
