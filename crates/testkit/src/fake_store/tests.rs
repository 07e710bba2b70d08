//! Tests of the fake store that the conformance suite does not cover.

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
fn failed_commit_wrote_everything_or_nothing() {
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
fn refused_batch_does_not_consume_the_injected_failure() {
    let store = FakeStore::new();
    insert(&store, "a").unwrap();
    store.fail_next_commit(FailedCommit::Lost);
    assert!(matches!(insert(&store, "a"), Err(StoreError::Exists { .. })));
    assert!(matches!(insert(&store, "b"), Err(StoreError::Io { .. })));
}

#[test]
fn read_handle_sees_commits_and_cannot_write() {
    let store = FakeStore::new();
    let reader = store.for_reading();
    insert(&store, "a").unwrap();
    assert_eq!(ids(&reader), ["a"]);
    assert!(matches!(insert(&reader, "b"), Err(StoreError::ReadOnly { .. })));
}

#[test]
fn i6_store_made_newer_under_an_open_handle_is_not_written() {
    let store = FakeStore::new();
    insert(&store, "a").unwrap();
    store.make_newer();
    assert!(matches!(insert(&store, "b"), Err(StoreError::NewerFormat { .. })));
}

#[test]
#[should_panic(expected = "but has an end time")]
fn active_record_with_end_time_panics() {
    let mut both = session("a");
    both.finished_at = Some(both.created_at);
    _ = block_on(FakeStore::new().commit(Batch::new().insert(both)));
}
