//! What a case may need of a store, and what a store without it must do instead: refuse clearly, or, for
//! what it declares that it forgets, leave that out and nothing else.

use pollster::block_on;
use serde_json::{Map, Value};
use sexton_core::store::{Capabilities, Fields, KNOWN, Reach, Revisions, UNKNOWN};
use sexton_core::{Batch, Query, Session, StoreError};

use super::Subject;
use super::samples::{completed, everything, id, running};
use super::site::{Handle, Site};
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
/// Fields that nobody knows are kept.
pub(super) const UNKNOWN_FIELDS: Need<Subject> = field(UNKNOWN);

/// Every field that there is.
pub(super) const EVERY_FIELD: Need<Subject> = Need {
    what: "every_field",
    is_met: |subject, _| {
        subject.capabilities.fields == Fields::All && subject.capabilities.forgotten.is_empty()
    },
    require_refusal: |subject, _| {
        let absent = KNOWN.into_iter().filter(|field| !subject.capabilities.keeps(field));
        let absent: Vec<_> = absent.filter(|field| !matches!(*field, "schema" | "revision")).collect();
        assert!(!absent.is_empty(), "the store keeps every field, and should say so");
        absent.into_iter().for_each(|field| require_refusal(subject, field));
    },
};

/// Commits add to counters.
pub(super) const COUNTERS: Need<Subject> = Need {
    what: "counters",
    is_met: |subject, _| subject.capabilities.counters,
    require_refusal: |subject, _| {
        let site = Site::with(subject, [completed("there")]);
        let store = site.writer();
        let before = site.bytes();
        for batch in [Batch::new(), Batch::new().insert(store.fit(completed("new")))] {
            let outcome = block_on(store.0.commit(batch.count("seen", 1)));
            require_unsupported(outcome, subject, "counters");
        }
        assert_eq!(site.bytes(), before, "a refused batch left something behind");
        assert_eq!(store.counters().len(), 0, "it has none to show");
    },
};

/// No two commits give the same revision.
pub(super) const COMMIT_REVISIONS: Need<Subject> = Need {
    what: "commit_revisions",
    is_met: |subject, _| subject.capabilities.revisions == Revisions::Commits,
    // There is nothing to refuse: what such a revision must do all the same is to tell contents apart.
    require_refusal: |subject, _| {
        let site = Site::new(subject);
        let store = site.writer();
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
        let site = Site::with(subject, ["a", "b", "c"].map(completed));
        let (there, gone) = (site.reader().require(&id("a")), site.reader().require(&id("b")));
        site.damage(&gone.id);
        let store = site.writer();
        let before = site.bytes();
        assert!(store.0.damage().iter().all(|damage| damage.harmless), "{:?}", store.0.damage());
        let other = || Batch::new().insert(running("new"));
        for batch in [other().insert(completed("b")), other().replace(gone.clone()), other().remove(&gone)] {
            let error = store.try_commit(batch).expect_err("one of its records is damaged");
            assert!(matches!(&error, StoreError::DamagedRecord { id, .. } if *id == gone.id), "{error:?}");
            assert_eq!(site.bytes(), before, "a refused batch left something behind");
        }
        // What it does not reach is written, and it is not touched by a byte.
        store.commit(other().remove(&there));
        let after = site.bytes();
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

/// Checks that `field` is refused by its name and that nothing is written; or, where it may be forgotten,
/// that the record is written without it.
pub(super) fn require_refusal(subject: &Subject, field: &str) {
    let field = match field.split_once('.') {
        // Without a place for anything inside, it is the whole that is refused.
        Some((outer, _)) if needed(&subject.capabilities, outer, &everything_of(outer)).is_empty() => outer,
        _ => field,
    };
    let site = Site::with(subject, [completed("there")]);
    let store = site.writer();
    let there = store.require(&id("there"));
    let with_field = |session: &Session| give(&subject.capabilities, session, field);
    let inserted = with_field(&store.fit(completed("new")));
    let before = site.bytes();
    let fitted = store.0.fit(&inserted).expect("the rest of it can be kept");
    if fitted.lost.iter().all(|lost| subject.capabilities.forgets(lost)) {
        let _ = block_on(store.0.commit(Batch::new().insert(inserted))).expect("it may be forgotten");
        let kept = store.require(&id("new"));
        assert_eq!(kept, Session { revision: kept.revision, ..fitted.session });
        return;
    }
    for batch in [Batch::new().insert(inserted), Batch::new().replace(with_field(&there))] {
        let name = if field == UNKNOWN { "from_tomorrow" } else { field };
        require_unsupported(block_on(store.0.commit(batch)), subject, name);
        assert_eq!(site.bytes(), before, "a refused batch left something behind");
    }
    assert_eq!(store.all(), [there]);
}

fn require_unsupported(outcome: Result<impl std::fmt::Debug, StoreError>, subject: &Subject, named: &str) {
    match outcome {
        Err(StoreError::Unsupported { backend, what }) => {
            assert_eq!(backend, subject.name);
            assert!(what.contains(named), "the refusal does not name {named}: {what}");
        }
        other => panic!("{named} cannot be kept, yet: {other:?}"),
    }
}

/// `session` with `field` as the record that has every field has it, and nothing else that the store
/// does not keep.
fn give(capabilities: &Capabilities, session: &Session, field: &str) -> Session {
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

/// The field `name` of the record that has every field.
fn everything_of(name: &str) -> Value {
    serde_json::to_value(everything()).expect("a record has a JSON form")[name].take()
}

/// What the store takes of the object `outer`, so that a field can be put into it.
fn needed(capabilities: &Capabilities, outer: &str, from: &Value) -> Map<String, Value> {
    let fields = from.as_object().cloned().unwrap_or_default();
    let is_taken = |name: &String| {
        let path = format!("{outer}.{name}");
        capabilities.keeps(&path) || capabilities.forgets(&path)
    };
    fields.into_iter().filter(|(name, _)| is_taken(name)).collect()
}

/// The fields that a record of every field would lose here, as the store says.
pub(super) fn lost_of_everything(store: &Handle) -> Vec<String> {
    let dressed = (store.1.dress)(everything());
    store.0.fit(&dressed).expect("the sample can be kept in part").lost
}
