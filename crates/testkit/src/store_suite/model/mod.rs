//! Applies random sequences of operations to the store and to a model. Both must return the same results and have the
//! same contents after every step. A failure is shrunk to a minimal sequence.

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
use super::test_env::{Handle, TestEnv};
use crate::trials::{Theme, theme};
use reference::{Kind, Model, Reference, Step, Transition, content};

pub(super) const THEME: Theme<Subject> = theme!("model":
    i6_random_sequences_match_the_model,
);

const SEQUENCES: u32 = 32;
const LONGEST: usize = 24;
const BACKUPS: &str = "backups";

thread_local! {
    /// The store under test. A state machine gets no arguments, and a case runs in one thread.
    static BENCH: RefCell<Option<Bench>> = const { RefCell::new(None) };
}

/// The test environment of all sequences. They share it because what a store adds to a record may depend on its path.
struct Bench {
    test_env: Rc<TestEnv>,
    /// A handle that is used only to fit records.
    fitter: Handle,
}

fn with_bench<T>(read: impl FnOnce(&Bench) -> T) -> T {
    BENCH.with_borrow(|bench| read(bench.as_ref().expect("a case is running")))
}

/// Returns `session` as the store under test represents it.
fn fit(session: Session) -> Session {
    with_bench(|bench| bench.fitter.fit(session))
}

/// Returns whether the store under test keeps counters.
fn keeps_counters() -> bool {
    with_bench(|bench| bench.test_env.counts())
}

/// The store and its backups.
struct StoreUnderTest {
    test_env: Rc<TestEnv>,
    store: Handle,
    backups: Vec<PathBuf>,
}

impl StoreUnderTest {
    /// Returns the batch for `steps`, with the store's revisions.
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

    /// Removes records that finished before `seconds`, as retention does.
    fn prune(&self, seconds: u64) {
        let old = self.store.listing(&Query::all().finished_before(moment(seconds))).sessions;
        self.store.commit(old.iter().fold(Batch::new(), Batch::remove));
    }
}

/// Formats an outcome without revisions, which depend on the store.
fn describe(outcome: &Result<Committed, StoreError>) -> String {
    match outcome {
        Ok(_) => "committed".to_owned(),
        Err(StoreError::Conflict { id, .. }) => format!("conflict on {id}"),
        Err(StoreError::Exists { id }) => format!("{id} exists"),
        Err(StoreError::ChangedTwice { id }) => format!("{id} twice"),
        Err(StoreError::Transition { id, .. }) => format!("transition of {id}"),
        Err(StoreError::NameTaken { name, .. }) => format!("{name} is taken"),
        Err(other) => panic!("unexpected refusal: {other}"),
    }
}

struct Machine;

impl StateMachineTest for Machine {
    type SystemUnderTest = StoreUnderTest;
    type Reference = Reference;

    fn init_test(_: &Model) -> StoreUnderTest {
        let test_env = with_bench(|bench| Rc::clone(&bench.test_env));
        for left in [test_env.directory(), test_env.elsewhere(BACKUPS)].iter().filter(|left| left.exists()) {
            std::fs::remove_dir_all(left).expect("files of the last sequence can be removed");
        }
        let store = test_env.writer();
        StoreUnderTest { test_env, store, backups: Vec::new() }
    }

    fn apply(mut under_test: StoreUnderTest, model: &Model, transition: Transition) -> StoreUnderTest {
        match &transition {
            Transition::Commit { steps, count } => {
                let outcome = block_on(under_test.store.0.commit(under_test.batch(steps, *count)));
                assert_eq!(describe(&outcome), model.outcome, "{transition:?}");
            }
            Transition::List(query) => {
                let listed = under_test.store.listing(query).sessions;
                assert_eq!(without_revisions(listed), query.select(model.sessions()), "{query:?}");
            }
            Transition::Prune(seconds) => under_test.prune(*seconds),
            Transition::Reopen => under_test.store = under_test.test_env.writer(),
            Transition::BackUp => {
                let made = block_on(
                    under_test.store.0.backup(&under_test.test_env.elsewhere(BACKUPS), moment(1000)),
                );
                under_test.backups.push(made.expect("a backup is made").path);
            }
            Transition::Restore(number) => {
                let restored =
                    block_on(under_test.store.0.restore(&under_test.backups[*number], moment(2000)));
                let restored = restored.expect("a backup is restored");
                assert_eq!(restored.kept + restored.restored, model.records.len() as u64);
            }
        }
        under_test
    }

    fn check_invariants(under_test: &StoreUnderTest, model: &Model) {
        assert_eq!(without_revisions(under_test.store.all()), Query::all().select(model.sessions()));
        assert_eq!(block_on(under_test.store.0.tally()).expect("a tally"), model.tally());
        assert_eq!(under_test.store.counters(), model.counters);
        for session in model.sessions() {
            assert_eq!(Session { revision: 0, ..under_test.store.require(&session.id) }, session);
        }
    }

    fn teardown(under_test: StoreUnderTest, model: Model) {
        // A new handle reads the files like another process.
        drop(under_test.store);
        let reader = under_test.test_env.reader();
        assert_eq!(without_revisions(reader.all()), Query::all().select(model.sessions()));
    }
}

fn without_revisions(sessions: Vec<Session>) -> Vec<Session> {
    sessions.into_iter().map(|session| Session { revision: 0, ..session }).collect()
}

fn i6_random_sequences_match_the_model(subject: &Subject) {
    let test_env = Rc::new(TestEnv::new(subject));
    BENCH.set(Some(Bench { fitter: test_env.reader(), test_env }));
    // A failure is printed after shrinking, and not persisted to a file.
    let config = Config { cases: SEQUENCES, failure_persistence: None, ..Config::default() };
    let sequences = Reference::sequential_strategy(1..LONGEST);
    let outcome = TestRunner::new(config.clone()).run(&sequences, |(initial, transitions, seen)| {
        Machine::test_sequential(config.clone(), initial, transitions, seen);
        Ok(())
    });
    BENCH.set(None);
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
