//! Random sequences of batches, made to the store and to [`FakeStore`]: both must answer alike.

use std::collections::BTreeMap;

use pollster::block_on;
use proptest::collection::vec;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use sexton_core::store::Committed;
use sexton_core::{Batch, Query, Session, Status, StoreError};

use super::Subject;
use super::samples::{completed, id, running, with_status};
use super::site::{Handle, Site};
use crate::FakeStore;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("model":
    i6_any_sequence_of_batches_leaves_what_the_model_says,
);

const SEQUENCES: u32 = 48;
const KEYS: usize = 5;
const NAMES: usize = 3;

/// One thing that a batch does to one record.
#[derive(Clone, Debug)]
struct Step {
    key: usize,
    kind: Kind,
    status: Status,
    name: Option<usize>,
    /// Whether it names a revision that is not the record's.
    stale: bool,
}

#[derive(Clone, Copy, Debug)]
enum Kind {
    Insert,
    Replace,
    Remove,
}

/// What is done to both stores.
#[derive(Clone, Debug)]
enum Action {
    Commit { steps: Vec<Step>, count: Option<u64> },
    Reopen,
}

fn any_step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![3 => Just(Kind::Insert), 4 => Just(Kind::Replace), 1 => Just(Kind::Remove)];
    let status = proptest::sample::select(Status::ALL.to_vec());
    let name = proptest::option::of(0..NAMES);
    let stale = prop_oneof![9 => Just(false), 1 => Just(true)];
    (0..KEYS, kind, status, name, stale).prop_map(|(key, kind, status, name, stale)| Step {
        key,
        kind,
        status,
        name,
        stale,
    })
}

fn any_action() -> impl Strategy<Value = Action> {
    let commit = (vec(any_step(), 0..4), proptest::option::of(1_u64..5))
        .prop_map(|(steps, count)| Action::Commit { steps, count });
    prop_oneof![10 => commit, 1 => Just(Action::Reopen)]
}

fn key(step: &Step) -> String {
    format!("key-{}", step.key)
}

/// The batch that `steps` mean to `store`: revisions are each store's own.
fn batch_for(store: &Handle, steps: &[Step], count: Option<u64>) -> Batch {
    let mut batch = Batch::new();
    for step in steps {
        let there = store.find(&id(&key(step)));
        let revision =
            there.as_ref().map_or(1, |session| session.revision).wrapping_add(u64::from(step.stale));
        let content = with_status(&running(&key(step)), step.status);
        let name = step.name.map(|name| format!("name {name}"));
        let session = Session { name, revision, ..content };
        batch = match step.kind {
            Kind::Insert => batch.insert(session),
            Kind::Replace => batch.replace(session),
            Kind::Remove => batch.remove(&session),
        };
    }
    count.map_or(batch.clone(), |by| batch.count("counted", by))
}

/// An outcome in words that do not depend on a store's own revisions.
fn words(outcome: &Result<Committed, StoreError>) -> String {
    match outcome {
        Ok(_) => "committed".to_owned(),
        Err(StoreError::Conflict { id, .. }) => format!("conflict on {id}"),
        Err(refusal) => refusal.to_string(),
    }
}

type Picture = (Vec<Session>, BTreeMap<Status, u64>, BTreeMap<String, u64>);

/// Everything a store shows, without its revisions.
fn picture(store: &Handle) -> Picture {
    let sessions = store.all().into_iter().map(|session| Session { revision: 0, ..session }).collect();
    (sessions, block_on(store.0.tally()).expect("a tally"), store.counters())
}

fn run(subject: &Subject, actions: &[Action]) {
    let site = Site::new(subject);
    let model = Handle(Box::new(FakeStore::new()), *subject);
    let mut store = site.writer();
    for action in actions {
        let Action::Commit { steps, count } = action else {
            store = site.writer();
            continue;
        };
        let outcome = store.try_commit(batch_for(&store, steps, *count));
        // The model keeps everything; it is given what the store can represent.
        let expected = block_on(model.0.commit(store.fit_batch(batch_for(&model, steps, *count))));
        assert_eq!(words(&outcome), words(&expected), "{action:?}");
        assert_eq!(picture(&store), picture(&model), "{action:?}");
        for query in [Query::active(), Query::all().named("name 1").limit(2)] {
            let listed = store.listing(&query).sessions.len();
            assert_eq!(listed, model.listing(&query).sessions.len(), "{query:?}");
        }
    }
    assert_eq!(picture(&site.reader()), picture(&model));
    store.insert(completed("the-end"));
}

fn i6_any_sequence_of_batches_leaves_what_the_model_says(subject: &Subject) {
    let config = Config { cases: SEQUENCES, failure_persistence: None, ..Config::default() };
    let outcome = TestRunner::new(config).run(&vec(any_action(), 1..24), |actions| {
        run(subject, &actions);
        Ok(())
    });
    outcome.unwrap_or_else(|error| panic!("{error}"));
}
