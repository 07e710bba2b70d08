//! The model of a store: a map of records, and the rules for changes to it.

use std::collections::{BTreeMap, BTreeSet};

use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::{Index, select};
use proptest_state_machine::ReferenceStateMachine;
use sexton_core::{Query, Session, SessionId, Status};

use super::super::samples::{id, moment, varied, with_status};
use super::{fit, keeps_counters};

const KEYS: usize = 6;
const NAMES: usize = 3;

/// A change of one record in a batch.
#[derive(Clone, Debug)]
pub(super) struct Step {
    key: usize,
    pub(super) kind: Kind,
    status: Status,
    name: Option<usize>,
    /// Whether it has a wrong revision.
    pub(super) stale: bool,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Kind {
    Insert,
    Replace,
    Remove,
}

/// An operation on the store and the model.
#[derive(Clone, Debug)]
pub(super) enum Transition {
    Commit { steps: Vec<Step>, count: Option<u64> },
    List(Query),
    Prune(u64),
    Reopen,
    BackUp,
    Restore(usize),
}

type Records = BTreeMap<SessionId, Session>;

/// The expected contents of the store.
#[derive(Clone, Debug, Default)]
pub(super) struct Model {
    /// The records, as the store represents them, without revisions.
    pub(super) records: Records,
    pub(super) counters: BTreeMap<String, u64>,
    backups: Vec<Records>,
    /// Whether anything was written. An empty store need not support backups.
    written: bool,
    /// The expected outcome of the last batch.
    pub(super) outcome: String,
}

impl Step {
    /// Returns the id of its record. Some ids are prefixes of others.
    pub(super) fn key(&self) -> String {
        format!("{}-{}", ["ab", "abc", "b"][self.key % 3], self.key)
    }
}

/// Returns the record that a step writes. Fields that queries filter by differ by key.
pub(super) fn content(step: &Step) -> Session {
    let base = Session { id: id(&step.key()), ..varied(step.key * 7 + 1) };
    let session = with_status(&Session { recovery: None, ..base }, step.status);
    let finished_at = session.finished_at.map(|_| moment(60 * (1 + step.key as u64)));
    Session { name: step.name.map(|name| format!("name {name}")), finished_at, ..session }
}

impl Model {
    /// Returns the records in no particular order.
    pub(super) fn sessions(&self) -> impl Iterator<Item = Session> + '_ {
        self.records.values().cloned()
    }

    /// Returns the number of records of each status.
    pub(super) fn tally(&self) -> BTreeMap<Status, u64> {
        let mut tally = BTreeMap::new();
        for session in self.records.values() {
            *tally.entry(session.status).or_default() += 1;
        }
        tally
    }

    /// Returns the records after a batch, or why the batch is refused.
    fn after(&self, steps: &[Step]) -> Result<Records, String> {
        let mut changed = BTreeSet::new();
        let written: Vec<_> = steps.iter().map(|step| (step, fit(content(step)))).collect();
        for (_, session) in &written {
            if !changed.insert(session.id.clone()) {
                return Err(format!("{} twice", session.id));
            }
        }
        for (step, session) in &written {
            let there = self.records.get(&session.id);
            match (step.kind, there) {
                (Kind::Insert, None) => {}
                (Kind::Insert, Some(_)) => return Err(format!("{} exists", session.id)),
                (_, Some(there)) if !step.stale => {
                    if matches!(step.kind, Kind::Replace) && !there.status.can_become(session.status) {
                        return Err(format!("transition of {}", session.id));
                    }
                }
                _ => return Err(format!("conflict on {}", session.id)),
            }
        }
        let mut records = self.records.clone();
        for (step, session) in &written {
            match step.kind {
                Kind::Remove => drop(records.remove(&session.id)),
                _ => drop(records.insert(session.id.clone(), session.clone())),
            }
        }
        // A restore can duplicate a name, so only the names that the batch writes are checked.
        for (_, session) in written.iter().filter(|(step, _)| !matches!(step.kind, Kind::Remove)) {
            let holds = |one: &&Session| one.status.is_active() && one.name == session.name;
            let is_active = session.status.is_active() && session.name.is_some();
            if let Some(name) = session.name.as_ref().filter(|_| is_active)
                && records.values().filter(holds).count() > 1
            {
                return Err(format!("{name} is taken"));
            }
        }
        Ok(records)
    }
}

/// The model as a state machine.
pub(super) struct Reference;

impl ReferenceStateMachine for Reference {
    type State = Model;
    type Transition = Transition;

    fn init_state() -> BoxedStrategy<Model> {
        Just(Model::default()).boxed()
    }

    fn transitions(model: &Model) -> BoxedStrategy<Transition> {
        let commit = (vec(any_step(), 0..4), option::of(1_u64..5))
            .prop_map(|(steps, count)| Transition::Commit { steps, count });
        let backups = model.backups.len();
        let restore = any::<Index>().prop_map(move |at| match backups {
            0 => Transition::Reopen,
            some => Transition::Restore(at.index(some)),
        });
        let back_up = Just(if model.written { Transition::BackUp } else { Transition::Reopen });
        prop_oneof![
            12 => commit,
            3 => any_query().prop_map(Transition::List),
            1 => (0_u64..500).prop_map(Transition::Prune),
            1 => Just(Transition::Reopen),
            1 => back_up,
            1 => restore,
        ]
        .boxed()
    }

    fn apply(mut model: Model, transition: &Transition) -> Model {
        match transition {
            Transition::Commit { steps, count } => match model.after(steps) {
                Err(refusal) => model.outcome = refusal,
                Ok(records) => {
                    model.written |= model.records != records;
                    (model.records, model.outcome) = (records, "committed".to_owned());
                    if let Some(by) = count.filter(|_| keeps_counters()) {
                        *model.counters.entry("counted".to_owned()).or_default() += by;
                    }
                }
            },
            Transition::Prune(seconds) => {
                model.records.retain(|_, session| !session.finished_before(moment(*seconds)));
            }
            Transition::BackUp => model.backups.push(model.records.clone()),
            Transition::Restore(number) => {
                let mut records = model.backups[*number].clone();
                records.extend(model.records.into_iter().filter(|(_, one)| !one.status.is_finished()));
                model.records = records;
            }
            Transition::List(_) | Transition::Reopen => {}
        }
        model
    }

    /// Rejects transitions whose backup was removed by shrinking.
    fn preconditions(model: &Model, transition: &Transition) -> bool {
        match transition {
            Transition::BackUp => model.written,
            Transition::Restore(number) => *number < model.backups.len(),
            _ => true,
        }
    }
}

fn any_step() -> impl Strategy<Value = Step> {
    let kind = prop_oneof![3 => Just(Kind::Insert), 4 => Just(Kind::Replace), 1 => Just(Kind::Remove)];
    let stale = prop_oneof![9 => Just(false), 1 => Just(true)];
    (0..KEYS, kind, select(Status::ALL.to_vec()), option::of(0..NAMES), stale)
        .prop_map(|(key, kind, status, name, stale)| Step { key, kind, status, name, stale })
}

/// Queries with any combination of filters.
fn any_query() -> impl Strategy<Value = Query> {
    let statuses = option::of(vec(select(Status::ALL.to_vec()), 0..4));
    let ticket = option::weighted(0.2, (0..5).prop_map(|n| format!("T-{n}")));
    let name = option::weighted(0.2, (0..=NAMES).prop_map(|n| format!("name {n}")));
    let prefix = option::weighted(0.2, select(vec!["a", "ab", "abc", "abc-1", "b", "z"]));
    let repo = option::weighted(0.2, select(vec!["/src/one", "/src/one/nested", "/none"]));
    let finished_before = option::weighted(0.2, 0_u64..500);
    let limit = option::weighted(0.3, 0_usize..4);
    let switches = (prop::bool::weighted(0.2), prop::bool::weighted(0.2));
    (statuses, ticket, name, prefix, repo, switches, finished_before, limit).prop_map(
        |(statuses, ticket, name, prefix, repo, (unsettled, active_loop), finished_before, limit)| Query {
            statuses,
            ticket,
            name,
            id_prefix: prefix.map(str::to_owned),
            repo: repo.map(Into::into),
            unsettled,
            active_loop,
            finished_before: finished_before.map(moment),
            limit,
        },
    )
}
