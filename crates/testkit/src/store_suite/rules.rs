//! What a batch must not do. Each refusal names the violated rule.

use sexton_core::{Batch, Session, Status, StoreError};

use super::Subject;
use super::needs::NAMES;
use super::samples::{completed, id, mark_of, named, running, with_status};
use super::test_env::TestEnv;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("rules":
    i6_stale_revision_is_a_conflict,
    i6_replacing_a_removed_record_is_a_conflict,
    i6_of_two_writers_with_the_same_revision_one_wins,
    id_can_be_inserted_only_once,
    batch_can_change_a_record_only_once,
    name_is_unique_among_active_sessions: [NAMES],
    name_is_free_after_its_session_ended: [NAMES],
    name_can_be_transferred_within_one_batch: [NAMES],
    records_of_one_batch_cannot_share_a_name: [NAMES],
    session_cannot_be_renamed_to_a_taken_name: [NAMES],
    only_allowed_transitions_are_written,
);

fn require_conflict(outcome: Result<impl std::fmt::Debug, StoreError>, session: &Session) {
    match outcome {
        Err(StoreError::Conflict { id, expected }) => {
            assert_eq!((&id, expected), (&session.id, session.revision));
        }
        other => panic!("expected a conflict, got {other:?}"),
    }
}

fn i6_stale_revision_is_a_conflict(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let stale = store.insert(running("a"));
    let mut newer = stale.clone();
    store.mark(&mut newer, "newer");
    let current = store.replace(newer);
    require_conflict(store.try_commit(Batch::new().replace(stale.clone())), &stale);
    require_conflict(store.try_commit(Batch::new().remove(&stale)), &stale);
    let ahead = Session { revision: current.revision.wrapping_add(1), ..current.clone() };
    require_conflict(store.try_commit(Batch::new().replace(ahead.clone())), &ahead);
    assert_eq!(store.require(&id("a")), current);
}

fn i6_replacing_a_removed_record_is_a_conflict(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let gone = store.insert(completed("gone"));
    store.commit(Batch::new().remove(&gone));
    require_conflict(store.try_commit(Batch::new().replace(gone.clone())), &gone);
    require_conflict(store.try_commit(Batch::new().remove(&gone)), &gone);
    let never = running("never");
    require_conflict(store.try_commit(Batch::new().replace(never.clone())), &never);
    assert_eq!(store.all(), []);
}

fn i6_of_two_writers_with_the_same_revision_one_wins(subject: &Subject) {
    let test_env = TestEnv::with(subject, [running("a")]);
    let (one, two) = (test_env.writer(), test_env.writer());
    let (mut mine, mut theirs) = (one.require(&id("a")), two.require(&id("a")));
    one.mark(&mut mine, "mine");
    two.mark(&mut theirs, "theirs");
    one.commit(Batch::new().replace(mine));
    require_conflict(two.try_commit(Batch::new().replace(theirs.clone())), &theirs);
    assert_eq!(mark_of(&two.require(&id("a"))), Some("mine"));
}

fn id_can_be_inserted_only_once(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let first = store.insert(completed("a"));
    let error = test_env.writer().try_commit(Batch::new().insert(running("a"))).expect_err("the id is taken");
    assert!(matches!(&error, StoreError::Exists { id } if *id == first.id), "{error:?}");
    assert_eq!(store.all(), [first]);
}

fn batch_can_change_a_record_only_once(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let there = store.insert(running("a"));
    let batches = [
        Batch::new().insert(running("b")).insert(running("b")),
        Batch::new().replace(there.clone()).replace(there.clone()),
        Batch::new().replace(there.clone()).remove(&there),
        Batch::new().remove(&there).insert(running("a")),
    ];
    for batch in batches {
        let error = store.try_commit(batch.clone()).expect_err("the order would matter");
        assert!(matches!(error, StoreError::ChangedTwice { .. }), "{batch:?}: {error:?}");
    }
    assert_eq!(store.all(), [there]);
}

fn require_name_taken(outcome: Result<impl std::fmt::Debug, StoreError>, holder: &str) {
    match outcome {
        Err(StoreError::NameTaken { name, by }) => assert_eq!((name.as_str(), by.as_str()), ("red", holder)),
        other => panic!("the name is taken, but got: {other:?}"),
    }
}

fn name_is_unique_among_active_sessions(subject: &Subject) {
    let test_env = TestEnv::with(subject, [named("holder", "red")]);
    let store = test_env.writer();
    require_name_taken(store.try_commit(Batch::new().insert(named("late", "red"))), "holder");
    let starting = with_status(&named("late", "red"), Status::Starting);
    require_name_taken(store.try_commit(Batch::new().insert(starting)), "holder");
    let finished = Session { name: Some("red".to_owned()), ..completed("late") };
    store.insert(finished);
    store.insert(named("other", "RED"));
    store.insert(named("longer", "red "));
    assert_eq!(store.all().len(), 4);
}

fn name_is_free_after_its_session_ended(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let holder = store.insert(named("first", "red"));
    store.replace(with_status(&holder, Status::Failed));
    let second = store.insert(named("second", "red"));
    store.commit(Batch::new().remove(&second));
    store.insert(named("third", "red"));
    // A changed record can keep its own name.
    let third = store.require(&id("third"));
    store.replace(third);
}

fn name_can_be_transferred_within_one_batch(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let first = store.insert(named("first", "red"));
    let ended = with_status(&first, Status::Stopped);
    store.commit(Batch::new().insert(named("second", "red")).replace(ended));
    let second = store.require(&id("second"));
    store.commit(Batch::new().insert(named("third", "red")).remove(&second));
    let renamed = Session { name: Some("blue".to_owned()), ..store.require(&id("third")) };
    store.commit(Batch::new().replace(renamed).insert(named("fourth", "red")));
    require_name_taken(store.try_commit(Batch::new().insert(named("fifth", "red"))), "fourth");
}

fn records_of_one_batch_cannot_share_a_name(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let batch = Batch::new().insert(named("a", "red")).insert(named("b", "red"));
    require_name_taken(store.try_commit(batch), "a");
    assert_eq!(store.all(), []);
}

fn session_cannot_be_renamed_to_a_taken_name(subject: &Subject) {
    let test_env = TestEnv::with(subject, [named("holder", "red"), named("other", "blue")]);
    let store = test_env.writer();
    let renamed = Session { name: Some("red".to_owned()), ..store.require(&id("other")) };
    require_name_taken(store.try_commit(Batch::new().replace(renamed)), "holder");
    assert_eq!(store.require(&id("other")).name.as_deref(), Some("blue"));
}

fn only_allowed_transitions_are_written(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    for (n, from) in Status::ALL.into_iter().enumerate() {
        for (m, next) in Status::ALL.into_iter().enumerate() {
            let before = store.insert(with_status(&running(&format!("s{n}-{m}")), from));
            let after = store.fit(with_status(&before, next));
            // A store may write another status; compare the written ones.
            let (from, next) = (before.status, after.status);
            let outcome = store.try_commit(Batch::new().replace(after));
            if from.can_become(next) {
                outcome.unwrap_or_else(|error| panic!("{from} → {next}: {error}"));
                assert_eq!(store.require(&before.id).status, next);
                continue;
            }
            let error = outcome.err().unwrap_or_else(|| panic!("{from} → {next} was written"));
            let expected =
                matches!(error, StoreError::Transition { from: was, to, .. } if (was, to) == (from, next));
            assert!(expected, "{from} → {next}: {error:?}");
            assert_eq!(store.require(&before.id), before);
        }
    }
}
