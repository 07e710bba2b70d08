//! Several handles of one store, in sequence and at the same time, for writing and reading.

use std::thread;

use sexton_core::store::{Access, Durability};
use sexton_core::{Batch, StoreError};

use super::Subject;
use super::samples::{completed, id, moment, number_of, running, varied};
use super::test_env::TestEnv;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("handles":
    i6_reopened_store_has_all_records,
    open_handles_see_each_others_commits_immediately,
    missing_store_reads_as_empty,
    read_handle_refuses_every_write,
    reader_sees_a_store_created_later,
    threads_can_share_one_handle,
    store_uuid_is_stable_and_unique,
    store_describes_its_path_and_backend,
);

fn i6_reopened_store_has_all_records(subject: &Subject) {
    let test_env = TestEnv::with(subject, (0..40).map(varied));
    test_env.writer().commit(Batch::new().count("seen", 40));
    let first = test_env.writer().all();
    assert_eq!(first.len(), 40);
    for durability in [Durability::Process, Durability::Power] {
        let again = test_env.try_open(Access::Write, durability).expect("a healthy store opens");
        assert_eq!(again.all(), first);
        assert_eq!(again.counters().get("seen"), subject.capabilities.counters.then_some(&40));
        assert_eq!(again.0.damage(), []);
    }
}

fn open_handles_see_each_others_commits_immediately(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let (one, two) = (test_env.writer(), test_env.writer());
    let reader = test_env.reader();
    for n in 0..50 {
        let (from, to) = if n % 2 == 0 { (&one, &two) } else { (&two, &one) };
        let mut session = from.insert(running(&format!("s{n}")));
        assert_eq!(to.require(&session.id), session);
        from.mark(&mut session, &format!("T-{n}"));
        let session = to.replace(session);
        for handle in [&one, &two, &reader] {
            assert_eq!(handle.require(&session.id), session);
        }
        if n % 5 == 0 {
            from.commit(Batch::new().remove(&session));
            assert_eq!((to.find(&session.id), reader.find(&session.id)), (None, None));
        }
    }
    assert_eq!(one.all(), two.all());
    assert_eq!(one.all(), reader.all());
    assert_eq!(one.all().len(), 40);
}

fn missing_store_reads_as_empty(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.reader();
    assert_eq!(store.all(), []);
    assert_eq!(store.find(&id("a")), None);
    assert_eq!(store.counters().len(), 0);
    assert_eq!(store.0.damage(), []);
    assert_eq!(store.0.describe().uuid, None);
}

fn read_handle_refuses_every_write(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let nowhere = test_env.reader();
    let error = nowhere.try_commit(Batch::new().insert(running("a"))).expect_err("it is open for reading");
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    let there = test_env.writer().insert(running("there"));
    let reader = test_env.reader();
    let batches = [
        Batch::new().insert(running("a")),
        Batch::new().replace(there.clone()),
        Batch::new().remove(&there),
        Batch::new().insert(running("a")).count("seen", 1),
    ];
    for batch in batches {
        let error = reader.try_commit(batch).expect_err("it is open for reading");
        assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    }
    let backup = test_env.elsewhere("backups");
    let backup =
        pollster::block_on(test_env.writer().0.backup(&backup, moment(0))).expect("a backup is made");
    let restored = pollster::block_on(reader.0.restore(&backup.path, moment(1)));
    assert!(matches!(restored, Err(StoreError::ReadOnly { .. })), "{restored:?}");
    assert_eq!(test_env.writer().all(), [there]);
}

fn reader_sees_a_store_created_later(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let reader = test_env.reader();
    assert_eq!(reader.all(), []);
    let stored = test_env.writer().insert(running("a"));
    assert_eq!(reader.all(), [stored]);
}

fn threads_can_share_one_handle(subject: &Subject) {
    const THREADS: usize = 4;
    const COMMITS: usize = 25;
    let test_env = TestEnv::with(subject, [running("shared")]);
    let store = &test_env.writer();
    thread::scope(|scope| {
        for thread in 0..THREADS {
            scope.spawn(move || {
                for n in 0..COMMITS {
                    let own = store.insert(completed(&format!("t{thread}-{n}")));
                    assert_eq!(store.require(&own.id), own);
                    store.update(&id("shared"), |session| {
                        store.count_up(session);
                        true
                    });
                }
            });
        }
    });
    let expected = THREADS * COMMITS;
    assert_eq!(test_env.reader().all().len(), expected + 1);
    let counted = number_of(&test_env.reader().require(&id("shared")));
    assert_eq!(counted, u64::try_from(expected).expect("a small number"));
}

fn store_uuid_is_stable_and_unique(subject: &Subject) {
    let (test_env, other) = (TestEnv::with(subject, [running("a")]), TestEnv::with(subject, [running("a")]));
    let uuid = test_env.writer().0.describe().uuid.expect("a store that was written has an identifier");
    assert_eq!(test_env.writer().0.describe().uuid.as_ref(), Some(&uuid));
    assert_eq!(test_env.reader().0.describe().uuid.as_ref(), Some(&uuid));
    test_env.writer().insert(running("b"));
    assert_eq!(test_env.reader().0.describe().uuid.as_ref(), Some(&uuid));
    assert_ne!(other.reader().0.describe().uuid, Some(uuid));
}

fn store_describes_its_path_and_backend(subject: &Subject) {
    let test_env = TestEnv::with(subject, [running("a")]);
    let info = test_env.reader().0.describe();
    assert_eq!(info.path, test_env.path());
    assert_eq!(info.backend, subject.name);
}
