//! The fake store's own tests, for what the conformance suite does not ask.

use pollster::block_on;
use sexton_core::{Host, Session};

use super::*;

fn session(id: &str) -> Session {
    let host = Host::new("m", "h");
    Session::new(id.parse().unwrap(), host, "2026-01-02T03:04:05Z".parse().unwrap())
}

fn insert(store: &FakeStore, id: &str) -> Result<Committed, StoreError> {
    block_on(store.commit(Batch::new().insert(session(id))))
}

fn ids(store: &FakeStore) -> Vec<String> {
    let listing = block_on(store.list(&Query::all())).unwrap();
    listing.sessions.into_iter().map(|session| session.id.to_string()).collect()
}

#[test]
fn a_failed_commit_may_have_written_everything_or_nothing() {
    let store = FakeStore::new();
    store.fail_next_commit(FailedCommit::Lost);
    assert!(matches!(insert(&store, "lost"), Err(StoreError::Io { .. })));
    store.fail_next_commit(FailedCommit::Written);
    assert!(matches!(insert(&store, "written"), Err(StoreError::Io { .. })));
    insert(&store, "after").unwrap();
    assert_eq!(ids(&store), ["written", "after"]);
    assert_eq!(store.commits(), 2);
}

#[test]
fn a_refused_batch_does_not_use_up_the_failure_that_was_asked_for() {
    let store = FakeStore::new();
    insert(&store, "a").unwrap();
    store.fail_next_commit(FailedCommit::Lost);
    assert!(matches!(insert(&store, "a"), Err(StoreError::Exists { .. })));
    assert!(matches!(insert(&store, "b"), Err(StoreError::Io { .. })));
}

#[test]
fn a_handle_for_reading_sees_and_does_not_write() {
    let store = FakeStore::new();
    let reader = store.for_reading();
    insert(&store, "a").unwrap();
    assert_eq!(ids(&reader), ["a"]);
    assert!(matches!(insert(&reader, "b"), Err(StoreError::ReadOnly { .. })));
}

#[test]
fn i6_a_store_that_became_newer_under_an_open_handle_is_not_written() {
    let store = FakeStore::new();
    insert(&store, "a").unwrap();
    store.make_newer();
    assert!(matches!(insert(&store, "b"), Err(StoreError::NewerFormat { .. })));
}

#[test]
#[should_panic(expected = "finished at once")]
fn a_record_that_is_active_and_finished_is_a_panic() {
    let mut both = session("a");
    both.finished_at = Some(both.created_at);
    _ = block_on(FakeStore::new().commit(Batch::new().insert(both)));
}
