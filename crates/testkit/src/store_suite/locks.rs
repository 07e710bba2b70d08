//! Locks are exclusive, independent by name, and released when their holder ends in any way.

use std::thread;
use std::time::{Duration, Instant};

use sexton_core::StoreError;
use sexton_core::store::Durability;

use super::Subject;
use super::test_env::TestEnv;
use super::worker;
use crate::role::LIMIT;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("locks":
    held_lock_excludes_another_handle,
    lock_is_exclusive_within_one_handle,
    timeout_error_names_the_lock,
    dropping_the_guard_releases_the_lock,
    waiter_gets_the_lock_when_it_is_released,
    locks_with_different_names_are_independent,
    lock_does_not_block_commits,
);

/// The cases in which another process holds the lock.
pub(super) const BETWEEN_PROCESSES: Theme<Subject> = theme!("locks":
    i7_lock_excludes_another_process,
    i7_lock_of_a_killed_holder_is_free,
    stopped_holder_keeps_its_lock,
);

const NO_WAIT: Duration = Duration::ZERO;

fn require_held(outcome: Result<impl Sized, StoreError>, expected: &str) {
    match outcome.err() {
        Some(StoreError::LockTimeout { name, .. }) => assert_eq!(name, expected),
        other => panic!("the lock is held, but got: {other:?}"),
    }
}

fn held_lock_excludes_another_handle(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let (one, two) = (test_env.writer(), test_env.writer());
    let guard = one.lock("recover", NO_WAIT).expect("the lock is free");
    require_held(two.lock("recover", NO_WAIT), "recover");
    drop(guard);
    two.lock("recover", NO_WAIT).expect("the lock is free again");
}

fn lock_is_exclusive_within_one_handle(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let _guard = store.lock("recover", NO_WAIT).expect("the lock is free");
    require_held(store.lock("recover", NO_WAIT), "recover");
}

fn timeout_error_names_the_lock(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let (one, two) = (test_env.writer(), test_env.writer());
    let _guard = one.lock("a.b:c-d_E", NO_WAIT).expect("the lock is free");
    let (wait, start) = (Duration::from_millis(200), Instant::now());
    require_held(two.lock("a.b:c-d_E", wait), "a.b:c-d_E");
    assert!(start.elapsed() >= wait, "it gave up after {:?}", start.elapsed());
}

fn dropping_the_guard_releases_the_lock(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    for _ in 0..20 {
        let guard = store.lock("recover", NO_WAIT).expect("the lock is free");
        require_held(test_env.writer().lock("recover", NO_WAIT), "recover");
        drop(guard);
    }
    // Closing the store does not release the lock; only the guard does.
    let guard = test_env.writer().lock("recover", NO_WAIT).expect("the lock is free");
    require_held(store.lock("recover", NO_WAIT), "recover");
    drop(guard);
}

fn waiter_gets_the_lock_when_it_is_released(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let (one, two) = (test_env.writer(), test_env.writer());
    let guard = one.lock("recover", NO_WAIT).expect("the lock is free");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| two.lock("recover", LIMIT).map(drop));
        drop(guard);
        waiter.join().expect("the waiter does not panic").expect("the waiter gets the lock");
    });
    // A waiter that timed out does not get the lock later.
    let guard = one.lock("recover", NO_WAIT).expect("the lock is free");
    require_held(two.lock("recover", Duration::from_millis(10)), "recover");
    drop(guard);
    two.lock("recover", LIMIT).expect("the lock is free");
}

fn locks_with_different_names_are_independent(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let (one, two) = (test_env.writer(), test_env.writer());
    let _guard = one.lock("recover", NO_WAIT).expect("the lock is free");
    let _upper = two.lock("Recover", NO_WAIT).expect("another name is another lock");
    let _other = two.lock("loop-1", NO_WAIT).expect("another name is another lock");
}

fn lock_does_not_block_commits(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let _guard = store.lock("recover", NO_WAIT).expect("the lock is free");
    store.insert(super::samples::running("a"));
    test_env.writer().insert(super::samples::running("b"));
    assert_eq!(test_env.reader().all().len(), 2);
}

fn i7_lock_excludes_another_process(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let holder = test_env.helper(worker::HOLD, Durability::Process, &["recover"]);
    assert_eq!(holder.line(), "held");
    require_held(store.lock("recover", NO_WAIT), "recover");
    let (status, _) = holder.finish();
    assert!(status.success());
    store.lock("recover", LIMIT).expect("the holder released the lock");
}

fn i7_lock_of_a_killed_holder_is_free(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    for _ in 0..5 {
        let mut holder = test_env.helper(worker::HOLD, Durability::Process, &["recover"]);
        assert_eq!(holder.line(), "held");
        require_held(store.lock("recover", NO_WAIT), "recover");
        holder.kill();
        store.lock("recover", LIMIT).expect("the lock of a dead holder is free");
    }
}

fn stopped_holder_keeps_its_lock(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let holder = test_env.helper(worker::HOLD, Durability::Process, &["recover"]);
    assert_eq!(holder.line(), "held");
    holder.signal(rustix::process::Signal::STOP);
    // Long enough that a lock with an age limit or a heartbeat would be broken.
    require_held(store.lock("recover", Duration::from_secs(2)), "recover");
    holder.signal(rustix::process::Signal::CONT);
    drop(holder);
    store.lock("recover", LIMIT).expect("the lock of a dead holder is free");
}
