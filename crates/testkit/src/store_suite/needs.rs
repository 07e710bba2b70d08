//! What a case may need from a store. A store without it must refuse clearly or, for fields that it declares as
//! forgotten, omit exactly those.

use pollster::block_on;
use serde_json::{Map, Value};
use sexton_core::store::{Capabilities, Fields, KNOWN, Reach, Revisions, UNKNOWN};
use sexton_core::{Batch, Query, Session, StoreError};

use super::Subject;
use super::samples::{completed, everything, id, running};
use super::test_env::{Handle, TestEnv};
use crate::trials::Need;

/// Sessions have names.
pub(super) const NAMES: Need<Subject> = field("name");
/// Sessions have tickets.
pub(super) const TICKETS: Need<Subject> = field("ticket");
/// Worktrees have repositories.
pub(super) const REPOSITORIES: Need<Subject> = field("worktree.repo");
/// A worktree can wait for recovery.
pub(super) const PENDING_WORKTREES: Need<Subject> = field("recovery.worktree");
/// Sessions have commands.
pub(super) const COMMANDS: Need<Subject> = field("command");
/// Sessions carry loops.
pub(super) const LOOPS: Need<Subject> = field("loop");
/// Unknown fields are kept.
pub(super) const UNKNOWN_FIELDS: Need<Subject> = field(UNKNOWN);

/// Every known field is kept.
pub(super) const EVERY_FIELD: Need<Subject> = Need {
    what: "every_field",
    is_met: |subject, _| {
        subject.capabilities.fields == Fields::All && subject.capabilities.forgotten.is_empty()
    },
    require_refusal: |subject, _| {
        let absent = KNOWN.into_iter().filter(|field| !subject.capabilities.keeps(field));
        let absent: Vec<_> = absent.filter(|field| !matches!(*field, "schema" | "revision")).collect();
        assert!(!absent.is_empty(), "the store keeps every field, and must declare that");
        absent.into_iter().for_each(|field| require_refusal(subject, field));
    },
};

/// Commits add to counters.
pub(super) const COUNTERS: Need<Subject> = Need {
    what: "counters",
    is_met: |subject, _| subject.capabilities.counters,
    require_refusal: |subject, _| {
        let test_env = TestEnv::with(subject, [completed("there")]);
        let store = test_env.writer();
        let before = test_env.bytes();
        for batch in [Batch::new(), Batch::new().insert(store.fit(completed("new")))] {
            let outcome = block_on(store.0.commit(batch.count("seen", 1)));
            require_unsupported(outcome, subject, "counters");
        }
        assert_eq!(test_env.bytes(), before, "a refused batch changed something");
        assert_eq!(store.counters().len(), 0, "there are no counters");
    },
};

/// No two commits give the same revision.
pub(super) const COMMIT_REVISIONS: Need<Subject> = Need {
    what: "commit_revisions",
    is_met: |subject, _| subject.capabilities.revisions == Revisions::Commits,
    // There is nothing to refuse, but different contents must still have different revisions.
    require_refusal: |subject, _| {
        let test_env = TestEnv::new(subject);
        let store = test_env.writer();
        let first = store.insert(completed("a"));
        let mut other = first.clone();
        store.mark(&mut other, "other");
        let other = store.replace(other);
        assert_ne!(other.revision, first.revision, "another content has another revision");
        store.commit(Batch::new().remove(&other));
        let again = store.insert(completed("a"));
        assert_eq!(again, first, "the same content has the same revision");
    },
};

/// Damage of one record reaches the whole store.
pub(super) const SHARED_DAMAGE: Need<Subject> = Need {
    what: "shared_damage",
    is_met: |subject, _| subject.capabilities.damage == Reach::Store,
    require_refusal: |subject, _| {
        let test_env = TestEnv::with(subject, ["a", "b", "c"].map(completed));
        let (there, gone) = (test_env.reader().require(&id("a")), test_env.reader().require(&id("b")));
        test_env.damage(&gone.id);
        let store = test_env.writer();
        let before = test_env.bytes();
        assert!(store.0.damage().iter().all(|damage| damage.harmless), "{:?}", store.0.damage());
        let other = || Batch::new().insert(running("new"));
        for batch in [other().insert(completed("b")), other().replace(gone.clone()), other().remove(&gone)] {
            let error = store.try_commit(batch).expect_err("one of its records is damaged");
            assert!(matches!(&error, StoreError::DamagedRecord { id, .. } if *id == gone.id), "{error:?}");
            assert_eq!(test_env.bytes(), before, "a refused batch changed something");
        }
        // Other records can be written, and the damaged one is not changed.
        store.commit(other().remove(&there));
        let after = test_env.bytes();
        let same = before.iter().filter(|(path, bytes)| after.get(*path) == Some(bytes)).count();
        assert_eq!(same, before.len() - 1, "only the record that was removed is gone");
        assert_ne!(store.listing(&Query::all()).damage, []);
        let ids: Vec<_> = store.listing(&Query::all()).sessions.into_iter().map(|found| found.id).collect();
        assert_eq!(ids, ["new", "c"].map(id));
    },
};

const fn field(name: &'static str) -> Need<Subject> {
    Need {
        what: name,
        is_met: |subject, name| subject.capabilities.keeps(name),
        require_refusal: |subject, name| require_refusal(subject, name),
    }
}

/// Checks that the refusal names `field` and that nothing is written or, if the field may be forgotten, that the record
/// is written without it.
pub(super) fn require_refusal(subject: &Subject, field: &str) {
    let field = match field.split_once('.') {
        // If the store keeps no field of the object, it refuses the whole object.
        Some((outer, _)) if needed(&subject.capabilities, outer, &everything_of(outer)).is_empty() => outer,
        _ => field,
    };
    let test_env = TestEnv::with(subject, [completed("there")]);
    let store = test_env.writer();
    let there = store.require(&id("there"));
    let extend = |session: &Session| with_field(&subject.capabilities, session, field);
    let inserted = extend(&store.fit(completed("new")));
    let before = test_env.bytes();
    let fitted = store.0.fit(&inserted).expect("the rest of the record can be kept");
    if fitted.lost.iter().all(|lost| subject.capabilities.forgets(lost)) {
        let _ = block_on(store.0.commit(Batch::new().insert(inserted))).expect("it may be forgotten");
        let kept = store.require(&id("new"));
        assert_eq!(kept, Session { revision: kept.revision, ..fitted.session });
        return;
    }
    for batch in [Batch::new().insert(inserted), Batch::new().replace(extend(&there))] {
        let name = if field == UNKNOWN { "from_tomorrow" } else { field };
        require_unsupported(block_on(store.0.commit(batch)), subject, name);
        assert_eq!(test_env.bytes(), before, "a refused batch changed something");
    }
    assert_eq!(store.all(), [there]);
}

fn require_unsupported(outcome: Result<impl std::fmt::Debug, StoreError>, subject: &Subject, named: &str) {
    match outcome {
        Err(StoreError::Unsupported { backend, what }) => {
            assert_eq!(backend, subject.name);
            assert!(what.contains(named), "the refusal does not name {named}: {what}");
        }
        other => panic!("{named} is not supported, but got: {other:?}"),
    }
}

/// Returns `session` with `field` from the record with every field, and no other field that the store does not keep.
fn with_field(capabilities: &Capabilities, session: &Session, field: &str) -> Session {
    let document = |session: &Session| serde_json::to_value(session).expect("a record has a JSON form");
    let (mut to, from) = (document(session), document(&everything()));
    let field = if field == UNKNOWN { "from_tomorrow" } else { field };
    match field.split_once('.') {
        None => to[field] = from[field].clone(),
        Some((outer, inner)) => {
            let object =
                to[outer].as_object().cloned().unwrap_or_else(|| needed(capabilities, outer, &from[outer]));
            to[outer] = Value::Object(object);
            to[outer][inner] = from[outer][inner].clone();
        }
    }
    serde_json::from_value(to).expect("the sample is a record")
}

/// Returns the field `name` of the record with every field.
fn everything_of(name: &str) -> Value {
    serde_json::to_value(everything()).expect("a record has a JSON form")[name].take()
}

/// Returns the fields of the object `outer` that the store accepts, so that another field can be added.
fn needed(capabilities: &Capabilities, outer: &str, from: &Value) -> Map<String, Value> {
    let fields = from.as_object().cloned().unwrap_or_default();
    let is_taken = |name: &String| {
        let path = format!("{outer}.{name}");
        capabilities.keeps(&path) || capabilities.forgets(&path)
    };
    fields.into_iter().filter(|(name, _)| is_taken(name)).collect()
}

/// Returns the fields that the store reports as lost for the record with every field.
pub(super) fn lost_of_everything(store: &Handle) -> Vec<String> {
    let dressed = (store.1.dress)(everything());
    store.0.fit(&dressed).expect("the sample can be kept in part").lost
}
