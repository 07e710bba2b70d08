//! Batches are atomic.

use sexton_core::{Batch, StoreError};

use super::Subject;
use super::needs::COUNTERS;
use super::samples::{completed, id, running};
use super::test_env::{Handle, TestEnv};
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("batches":
    i6_batch_changes_many_records_atomically,
    i6_conflict_refuses_the_whole_batch,
    i6_existing_id_refuses_the_whole_batch,
    empty_batch_changes_nothing,
    batch_can_contain_only_counters: [COUNTERS],
    large_batch_is_atomic,
);

fn i6_batch_changes_many_records_atomically(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let (kept, removed) = (store.insert(running("kept")), store.insert(completed("removed")));
    let mut changed = kept;
    store.mark(&mut changed, "T-1");
    let batch =
        Batch::new().insert(running("new")).replace(changed.clone()).remove(&removed).count("changes", 3);
    let committed = store.commit(batch);
    assert_eq!(store.find(&removed.id), None);
    assert_eq!(store.require(&id("new")).revision, committed.revision_of(&id("new")));
    changed.revision = committed.revision_of(&changed.id);
    assert_eq!(store.require(&id("kept")), changed);
    let counted = subject.capabilities.counters.then_some(&3);
    assert_eq!(store.counters().get("changes"), counted);
}

/// Commits `batch`, which must be refused, and checks that no record or counter changed.
fn require_unchanged(
    test_env: &TestEnv,
    store: &Handle,
    batch: Batch,
    is_expected: impl FnOnce(&StoreError) -> bool,
) {
    let before = (store.all(), store.counters());
    let error = store.try_commit(batch).expect_err("the batch is refused");
    assert!(is_expected(&error), "{error:?}");
    assert_eq!((store.all(), store.counters()), before, "a refused batch changed something");
    let reopened = test_env.writer();
    assert_eq!((reopened.all(), reopened.counters()), before, "a refused batch changed something");
}

fn i6_conflict_refuses_the_whole_batch(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let stale = store.insert(running("raced"));
    let mut newer = stale.clone();
    store.mark(&mut newer, "newer");
    store.replace(newer);
    let (free, gone) = (store.insert(running("free")), store.insert(completed("gone")));
    let batch =
        Batch::new().insert(running("new")).replace(free).remove(&gone).replace(stale).count("changes", 1);
    require_unchanged(&test_env, &store, batch, |error| matches!(error, StoreError::Conflict { .. }));
}

fn i6_existing_id_refuses_the_whole_batch(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    store.insert(running("there"));
    let batch = Batch::new().insert(running("new")).count("changes", 1).insert(running("there"));
    require_unchanged(&test_env, &store, batch, |error| matches!(error, StoreError::Exists { .. }));
}

fn empty_batch_changes_nothing(subject: &Subject) {
    let test_env = TestEnv::with(subject, [running("a")]);
    let store = test_env.writer();
    let before = store.all();
    store.commit(Batch::new());
    assert_eq!(store.all(), before);
}

fn batch_can_contain_only_counters(subject: &Subject) {
    let test_env = TestEnv::with(subject, [running("a")]);
    let store = test_env.writer();
    let before = store.all();
    store.commit(Batch::new().count("seen", 2));
    assert_eq!(store.all(), before);
    assert_eq!(test_env.reader().counters().get("seen"), Some(&2));
}

fn large_batch_is_atomic(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let sessions = (0..1000).map(|n| completed(&format!("s{n:04}")));
    let committed = store.commit(sessions.fold(Batch::new(), Batch::insert));
    let listed = test_env.reader().all();
    assert_eq!(listed.len(), 1000);
    assert!(listed.iter().all(|session| session.revision == committed.revision_of(&session.id)));
    let removal = listed.iter().fold(Batch::new(), Batch::remove);
    store.commit(removal);
    assert_eq!(test_env.reader().all(), []);
}
