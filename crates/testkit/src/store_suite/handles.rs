//! One store through several handles, one after another and at once, for writing and for reading.

use std::thread;

use sexton_core::store::{Access, Durability};
use sexton_core::{Batch, StoreError};

use super::Subject;
use super::samples::{completed, id, moment, number_of, running, varied};
use super::site::Site;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("handles":
    i6_reopening_finds_everything,
    two_open_handles_see_each_others_commits_at_once,
    a_store_that_does_not_exist_reads_as_empty,
    a_handle_for_reading_refuses_every_write,
    a_reader_that_came_first_sees_the_store_appear,
    threads_may_share_one_handle,
    the_stores_identifier_is_stable_and_its_own,
    a_store_says_what_it_is,
);

fn i6_reopening_finds_everything(subject: &Subject) {
    let site = Site::with(subject, (0..40).map(varied));
    site.writer().commit(Batch::new().count("seen", 40));
    let first = site.writer().all();
    assert_eq!(first.len(), 40);
    for durability in [Durability::Process, Durability::Power] {
        let again = site.try_open(Access::Write, durability).expect("a healthy store opens");
        assert_eq!(again.all(), first);
        assert_eq!(again.counters().get("seen"), subject.capabilities.counters.then_some(&40));
        assert_eq!(again.0.damage(), []);
    }
}

fn two_open_handles_see_each_others_commits_at_once(subject: &Subject) {
    let site = Site::new(subject);
    let (one, two) = (site.writer(), site.writer());
    let reader = site.reader();
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

fn a_store_that_does_not_exist_reads_as_empty(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.reader();
    assert_eq!(store.all(), []);
    assert_eq!(store.find(&id("a")), None);
    assert_eq!(store.counters().len(), 0);
    assert_eq!(store.0.damage(), []);
    assert_eq!(store.0.describe().uuid, None);
}

fn a_handle_for_reading_refuses_every_write(subject: &Subject) {
    let site = Site::new(subject);
    let nowhere = site.reader();
    let error = nowhere.try_commit(Batch::new().insert(running("a"))).expect_err("it is open for reading");
    assert!(matches!(error, StoreError::ReadOnly { .. }), "{error:?}");
    let there = site.writer().insert(running("there"));
    let reader = site.reader();
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
    let backup = site.elsewhere("backups");
    let backup = pollster::block_on(site.writer().0.backup(&backup, moment(0))).expect("a backup is made");
    let restored = pollster::block_on(reader.0.restore(&backup.path, moment(1)));
    assert!(matches!(restored, Err(StoreError::ReadOnly { .. })), "{restored:?}");
    assert_eq!(site.writer().all(), [there]);
}

fn a_reader_that_came_first_sees_the_store_appear(subject: &Subject) {
    let site = Site::new(subject);
    let reader = site.reader();
    assert_eq!(reader.all(), []);
    let stored = site.writer().insert(running("a"));
    assert_eq!(reader.all(), [stored]);
}

fn threads_may_share_one_handle(subject: &Subject) {
    const THREADS: usize = 4;
    const COMMITS: usize = 25;
    let site = Site::with(subject, [running("shared")]);
    let store = &site.writer();
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
    assert_eq!(site.reader().all().len(), expected + 1);
    let counted = number_of(&site.reader().require(&id("shared")));
    assert_eq!(counted, u64::try_from(expected).expect("a small number"));
}

fn the_stores_identifier_is_stable_and_its_own(subject: &Subject) {
    let (site, other) = (Site::with(subject, [running("a")]), Site::with(subject, [running("a")]));
    let uuid = site.writer().0.describe().uuid.expect("a store that was written has an identifier");
    assert_eq!(site.writer().0.describe().uuid.as_ref(), Some(&uuid));
    assert_eq!(site.reader().0.describe().uuid.as_ref(), Some(&uuid));
    site.writer().insert(running("b"));
    assert_eq!(site.reader().0.describe().uuid.as_ref(), Some(&uuid));
    assert_ne!(other.reader().0.describe().uuid, Some(uuid));
}

fn a_store_says_what_it_is(subject: &Subject) {
    let site = Site::with(subject, [running("a")]);
    let info = site.reader().0.describe();
    assert_eq!(info.path, site.path());
    assert_eq!(info.backend, subject.name);
}
