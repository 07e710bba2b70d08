//! One unreadable record: the others stay readable, nothing is written, and a repair makes the store usable.

use pollster::block_on;
use sexton_core::store::Reach;
use sexton_core::{Batch, Query, Session, StoreError};

use super::Subject;
use super::needs::{COMMIT_REVISIONS, SHARED_DAMAGE};
use super::samples::{completed, id, moment, running, varied};
use super::test_env::{Handle, TestEnv};
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("damage":
    i6_other_records_stay_readable,
    i6_damaged_record_is_not_reported_as_missing,
    i6_damaged_store_refuses_commits: [SHARED_DAMAGE],
    i6_no_byte_changes_before_a_repair: [SHARED_DAMAGE],
    i6_repair_keeps_other_records_and_makes_the_store_writable,
    second_repair_does_nothing,
    repair_of_a_healthy_store_does_nothing,
    check_counts_readable_records_and_reports_damage,
    i6_repaired_store_uses_new_revisions: [COMMIT_REVISIONS],
);

const RECORDS: usize = 20;

/// Creates a store of [`RECORDS`] records and damages one of them. Returns the test environment, the other records, and
/// the damaged one.
fn damaged(subject: &Subject) -> (TestEnv, Vec<Session>, Session) {
    let test_env = TestEnv::with(subject, (0..RECORDS).map(varied));
    let mut others = test_env.reader().all();
    let damaged = others.remove(RECORDS / 2);
    test_env.damage(&damaged.id);
    (test_env, others, damaged)
}

fn handles(test_env: &TestEnv) -> [Handle; 2] {
    [test_env.reader(), test_env.writer()]
}

fn i6_other_records_stay_readable(subject: &Subject) {
    let (test_env, others, _) = damaged(subject);
    for store in handles(&test_env) {
        assert_ne!(store.0.damage(), [], "the store reports damage");
        let listing = store.listing(&Query::all());
        assert_eq!(listing.sessions, others);
        assert_ne!(listing.damage, [], "the listing reports damage");
        for other in &others {
            assert_eq!(store.require(&other.id), *other);
        }
        let active = store.listing(&Query::active().limit(3));
        assert_eq!(active.sessions, Query::active().limit(3).select(others.clone()));
    }
}

fn i6_damaged_record_is_not_reported_as_missing(subject: &Subject) {
    let (test_env, _, damaged) = damaged(subject);
    for store in handles(&test_env) {
        match block_on(store.0.load(&damaged.id)) {
            // A store that does not know which record is damaged reports damage of the whole store.
            Ok(None) => {
                let listing = store.listing(&Query::all().id_prefix(damaged.id.as_str()));
                assert_ne!(listing.damage, [], "the record is reported as missing without damage");
            }
            Ok(Some(session)) => panic!("a damaged record was read: {session:?}"),
            Err(error) => assert!(error.is_store_unusable(), "{error:?}"),
        }
    }
}

fn i6_damaged_store_refuses_commits(subject: &Subject) {
    let (test_env, others, damaged) = damaged(subject);
    let store = test_env.writer();
    let batches = [
        Batch::new().insert(running("new")),
        Batch::new().insert(running(damaged.id.as_str())),
        Batch::new().replace(others[0].clone()),
        Batch::new().remove(&others[1]),
        Batch::new().insert(running("another")).count("seen", 1),
    ];
    for batch in batches {
        let error = store.try_commit(batch).expect_err("the store is damaged");
        let StoreError::Damaged { damage, .. } = &error else { panic!("{error:?}") };
        assert_ne!(*damage, [], "the refusal lists the damage");
    }
    let error = test_env.reader().try_commit(Batch::new().insert(running("new"))).expect_err("it is damaged");
    assert!(matches!(error, StoreError::Damaged { .. } | StoreError::ReadOnly { .. }), "{error:?}");
}

fn i6_no_byte_changes_before_a_repair(subject: &Subject) {
    let (test_env, others, damaged) = damaged(subject);
    let before = test_env.bytes();
    for store in handles(&test_env) {
        assert_eq!(store.listing(&Query::all()).sessions, others);
        _ = block_on(store.0.load(&damaged.id));
        _ = block_on(store.0.check()).expect("a damaged store can be checked");
        _ = store.try_commit(Batch::new().insert(running("new"))).expect_err("the store is damaged");
    }
    drop(
        test_env.writer().lock("recover", std::time::Duration::ZERO).expect("locks do not depend on records"),
    );
    assert_eq!(test_env.bytes(), before);
}

fn i6_repair_keeps_other_records_and_makes_the_store_writable(subject: &Subject) {
    let (test_env, others, damaged) = damaged(subject);
    let store = test_env.writer();
    let report = block_on(store.0.repair(moment(0))).expect("the store is repaired");
    assert_eq!(report.kept, u64::try_from(others.len()).expect("a small number"));
    assert_ne!(report.quarantined, [], "the report lists quarantined records");
    assert!(report.quarantine.is_some(), "the report has the quarantine path");
    for store in [store, test_env.writer(), test_env.reader()] {
        assert_eq!(store.0.damage(), []);
        assert_eq!(store.all(), others);
        assert_eq!(store.find(&damaged.id), None);
    }
    test_env.writer().insert(completed(damaged.id.as_str()));
    assert_eq!(test_env.reader().all().len(), RECORDS);
}

fn second_repair_does_nothing(subject: &Subject) {
    let (test_env, others, _) = damaged(subject);
    _ = block_on(test_env.writer().0.repair(moment(0))).expect("the store is repaired");
    let before = test_env.bytes();
    let again = block_on(test_env.writer().0.repair(moment(1))).expect("a healthy store is left alone");
    assert_eq!((again.quarantined, again.quarantine), (Vec::new(), None));
    assert_eq!(again.kept, u64::try_from(others.len()).expect("a small number"));
    assert_eq!(test_env.bytes(), before);
}

fn repair_of_a_healthy_store_does_nothing(subject: &Subject) {
    let test_env = TestEnv::with(subject, (0..10).map(varied));
    let (before, all) = (test_env.bytes(), test_env.reader().all());
    let report = block_on(test_env.writer().0.repair(moment(0))).expect("a healthy store is left alone");
    assert_eq!((report.kept, report.quarantined, report.quarantine), (10, Vec::new(), None));
    assert_eq!(test_env.bytes(), before);
    assert_eq!(test_env.reader().all(), all);
}

fn check_counts_readable_records_and_reports_damage(subject: &Subject) {
    let test_env = TestEnv::with(subject, (0..RECORDS).map(varied));
    let report = block_on(test_env.reader().0.check()).expect("a store can be checked");
    let records = u64::try_from(RECORDS).expect("a small number");
    assert_eq!((report.records, report.damage), (records, Vec::new()));
    let damaged = test_env.reader().all().remove(3);
    test_env.damage(&damaged.id);
    let report = block_on(test_env.reader().0.check()).expect("a damaged store can be checked");
    assert_eq!(report.records, records - 1);
    let harmless = subject.capabilities.damage == Reach::Record;
    assert!(report.damage.iter().any(|damage| damage.harmless == harmless), "{:?}", report.damage);
}

fn i6_repaired_store_uses_new_revisions(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let revisions: Vec<u64> = (0..5).map(|n| store.insert(completed(&format!("s{n}"))).revision).collect();
    drop(store);
    // The damaged record is the only one with the highest revision.
    test_env.damage(&id("s4"));
    let store = test_env.writer();
    _ = block_on(store.0.repair(moment(0))).expect("the store is repaired");
    let next = store.insert(completed("s4")).revision;
    assert!(!revisions.contains(&next), "revision {next} was reused: a stale reader would match");
}
