//! All of a batch, or nothing of it.

use sexton_core::{Batch, StoreError};

use super::Subject;
use super::needs::COUNTERS;
use super::samples::{completed, id, running};
use super::site::{Handle, Site};
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("batches":
    i6_a_batch_changes_many_records_in_one_step,
    i6_one_conflict_leaves_everything_as_it_was,
    i6_one_existing_id_leaves_everything_as_it_was,
    an_empty_batch_is_no_write,
    a_batch_may_only_count: [COUNTERS],
    a_large_batch_is_whole,
);

fn i6_a_batch_changes_many_records_in_one_step(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
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

/// Commits `batch`, which must be refused, and checks that neither a record nor a counter changed.
fn require_no_trace(
    site: &Site,
    store: &Handle,
    batch: Batch,
    is_expected: impl FnOnce(&StoreError) -> bool,
) {
    let before = (store.all(), store.counters());
    let error = store.try_commit(batch).expect_err("the batch is refused");
    assert!(is_expected(&error), "{error:?}");
    assert_eq!((store.all(), store.counters()), before, "a refused batch left something behind");
    let reopened = site.writer();
    assert_eq!((reopened.all(), reopened.counters()), before, "a refused batch left something behind");
}

fn i6_one_conflict_leaves_everything_as_it_was(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
    let stale = store.insert(running("raced"));
    let mut newer = stale.clone();
    store.mark(&mut newer, "newer");
    store.replace(newer);
    let (free, gone) = (store.insert(running("free")), store.insert(completed("gone")));
    let batch =
        Batch::new().insert(running("new")).replace(free).remove(&gone).replace(stale).count("changes", 1);
    require_no_trace(&site, &store, batch, |error| matches!(error, StoreError::Conflict { .. }));
}

fn i6_one_existing_id_leaves_everything_as_it_was(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
    store.insert(running("there"));
    let batch = Batch::new().insert(running("new")).count("changes", 1).insert(running("there"));
    require_no_trace(&site, &store, batch, |error| matches!(error, StoreError::Exists { .. }));
}

fn an_empty_batch_is_no_write(subject: &Subject) {
    let site = Site::with(subject, [running("a")]);
    let store = site.writer();
    let before = store.all();
    store.commit(Batch::new());
    assert_eq!(store.all(), before);
}

fn a_batch_may_only_count(subject: &Subject) {
    let site = Site::with(subject, [running("a")]);
    let store = site.writer();
    let before = store.all();
    store.commit(Batch::new().count("seen", 2));
    assert_eq!(store.all(), before);
    assert_eq!(site.reader().counters().get("seen"), Some(&2));
}

fn a_large_batch_is_whole(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
    let sessions = (0..1000).map(|n| completed(&format!("s{n:04}")));
    let committed = store.commit(sessions.fold(Batch::new(), Batch::insert));
    let listed = site.reader().all();
    assert_eq!(listed.len(), 1000);
    assert!(listed.iter().all(|session| session.revision == committed.revision_of(&session.id)));
    let removal = listed.iter().fold(Batch::new(), Batch::remove);
    store.commit(removal);
    assert_eq!(site.reader().all(), []);
}
