//! Locks: exclusive, independent by name, and gone with their holder, however it went.

use std::thread;
use std::time::{Duration, Instant};

use sexton_core::StoreError;
use sexton_core::store::Durability;

use super::Subject;
use super::site::Site;
use super::worker;
use crate::role::LIMIT;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("locks":
    a_held_lock_is_not_given_to_another_handle,
    a_lock_is_exclusive_within_one_handle_too,
    a_lock_that_stays_held_times_out_with_its_name,
    dropping_the_guard_gives_the_lock_back,
    a_waiter_gets_the_lock_when_it_is_given_back,
    locks_of_different_names_are_independent,
    a_lock_does_not_stop_commits,
);

/// The cases that need a holder with a life of its own.
pub(super) const BETWEEN_PROCESSES: Theme<Subject> = theme!("locks":
    i7_a_lock_excludes_another_process,
    i7_the_lock_of_a_killed_holder_is_free,
    a_stopped_holder_keeps_its_lock,
);

const NO_WAIT: Duration = Duration::ZERO;

fn require_held(outcome: Result<impl Sized, StoreError>, expected: &str) {
    match outcome.err() {
        Some(StoreError::LockTimeout { name, .. }) => assert_eq!(name, expected),
        other => panic!("the lock is held, yet: {other:?}"),
    }
}

fn a_held_lock_is_not_given_to_another_handle(subject: &Subject) {
    let site = Site::new(subject);
    let (one, two) = (site.writer(), site.writer());
    let guard = one.lock("recover", NO_WAIT).expect("the lock is free");
    require_held(two.lock("recover", NO_WAIT), "recover");
    drop(guard);
    two.lock("recover", NO_WAIT).expect("the lock is free again");
}

fn a_lock_is_exclusive_within_one_handle_too(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
    let _guard = store.lock("recover", NO_WAIT).expect("the lock is free");
    require_held(store.lock("recover", NO_WAIT), "recover");
}

fn a_lock_that_stays_held_times_out_with_its_name(subject: &Subject) {
    let site = Site::new(subject);
    let (one, two) = (site.writer(), site.writer());
    let _guard = one.lock("a.b:c-d_E", NO_WAIT).expect("the lock is free");
    let (wait, start) = (Duration::from_millis(200), Instant::now());
    require_held(two.lock("a.b:c-d_E", wait), "a.b:c-d_E");
    assert!(start.elapsed() >= wait, "it gave up after {:?}", start.elapsed());
}

fn dropping_the_guard_gives_the_lock_back(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
    for _ in 0..20 {
        let guard = store.lock("recover", NO_WAIT).expect("the lock is free");
        require_held(site.writer().lock("recover", NO_WAIT), "recover");
        drop(guard);
    }
    // The store may be closed while the lock is held: the guard is what holds it.
    let guard = site.writer().lock("recover", NO_WAIT).expect("the lock is free");
    require_held(store.lock("recover", NO_WAIT), "recover");
    drop(guard);
}

fn a_waiter_gets_the_lock_when_it_is_given_back(subject: &Subject) {
    let site = Site::new(subject);
    let (one, two) = (site.writer(), site.writer());
    let guard = one.lock("recover", NO_WAIT).expect("the lock is free");
    thread::scope(|scope| {
        let waiter = scope.spawn(|| two.lock("recover", LIMIT).map(drop));
        drop(guard);
        waiter.join().expect("the waiter does not panic").expect("the waiter gets the lock");
    });
    // Nor does one that gave up keep it: its place in the queue is given up with it.
    let guard = one.lock("recover", NO_WAIT).expect("the lock is free");
    require_held(two.lock("recover", Duration::from_millis(10)), "recover");
    drop(guard);
    two.lock("recover", LIMIT).expect("nobody has the lock");
}

fn locks_of_different_names_are_independent(subject: &Subject) {
    let site = Site::new(subject);
    let (one, two) = (site.writer(), site.writer());
    let _guard = one.lock("recover", NO_WAIT).expect("the lock is free");
    let _upper = two.lock("Recover", NO_WAIT).expect("another name is another lock");
    let _other = two.lock("loop-1", NO_WAIT).expect("another name is another lock");
}

fn a_lock_does_not_stop_commits(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
    let _guard = store.lock("recover", NO_WAIT).expect("the lock is free");
    store.insert(super::samples::running("a"));
    site.writer().insert(super::samples::running("b"));
    assert_eq!(site.reader().all().len(), 2);
}

fn i7_a_lock_excludes_another_process(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
    let holder = site.helper(worker::HOLD, Durability::Process, &["recover"]);
    assert_eq!(holder.line(), "held");
    require_held(store.lock("recover", NO_WAIT), "recover");
    let (status, _) = holder.finish();
    assert!(status.success());
    store.lock("recover", LIMIT).expect("the holder gave the lock back");
}

fn i7_the_lock_of_a_killed_holder_is_free(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
    for _ in 0..5 {
        let mut holder = site.helper(worker::HOLD, Durability::Process, &["recover"]);
        assert_eq!(holder.line(), "held");
        require_held(store.lock("recover", NO_WAIT), "recover");
        holder.kill();
        store.lock("recover", LIMIT).expect("the dead hold no lock");
    }
}

fn a_stopped_holder_keeps_its_lock(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
    let holder = site.helper(worker::HOLD, Durability::Process, &["recover"]);
    assert_eq!(holder.line(), "held");
    holder.signal(rustix::process::Signal::STOP);
    // Long enough that a lock judged by its age, or by a heartbeat, would be broken.
    require_held(store.lock("recover", Duration::from_secs(2)), "recover");
    holder.signal(rustix::process::Signal::CONT);
    drop(holder);
    store.lock("recover", LIMIT).expect("the dead hold no lock");
}
