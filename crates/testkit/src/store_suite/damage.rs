//! One record that cannot be read: the rest stays readable, nothing is written, and a repair mends it.

use pollster::block_on;
use sexton_core::store::Reach;
use sexton_core::{Batch, Query, Session, StoreError};

use super::Subject;
use super::needs::{COMMIT_REVISIONS, SHARED_DAMAGE};
use super::samples::{completed, id, moment, running, varied};
use super::site::{Handle, Site};
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("damage":
    i6_everything_around_the_damage_stays_readable,
    i6_a_damaged_record_is_never_taken_for_one_that_does_not_exist,
    i6_a_damaged_store_refuses_to_be_written: [SHARED_DAMAGE],
    i6_not_one_byte_changes_before_a_repair: [SHARED_DAMAGE],
    i6_a_repair_keeps_the_rest_and_makes_the_store_writable,
    a_second_repair_does_nothing,
    a_repair_of_a_healthy_store_does_nothing,
    a_check_counts_what_is_whole_and_names_what_is_not,
    i6_a_repaired_store_goes_on_with_new_revisions: [COMMIT_REVISIONS],
);

const RECORDS: usize = 20;

/// A store of [`RECORDS`] records of which one, in the middle, is damaged: the site, the others, that one.
fn damaged(subject: &Subject) -> (Site, Vec<Session>, Session) {
    let site = Site::with(subject, (0..RECORDS).map(varied));
    let mut others = site.reader().all();
    let victim = others.remove(RECORDS / 2);
    site.damage(&victim.id);
    (site, others, victim)
}

fn handles(site: &Site) -> [Handle; 2] {
    [site.reader(), site.writer()]
}

fn i6_everything_around_the_damage_stays_readable(subject: &Subject) {
    let (site, others, _) = damaged(subject);
    for store in handles(&site) {
        assert_ne!(store.0.damage(), [], "the store says that it is damaged");
        let listing = store.listing(&Query::all());
        assert_eq!(listing.sessions, others);
        assert_ne!(listing.damage, [], "the listing says that something is left out");
        for other in &others {
            assert_eq!(store.require(&other.id), *other);
        }
        let active = store.listing(&Query::active().limit(3));
        assert_eq!(active.sessions, Query::active().limit(3).select(others.clone()));
    }
}

fn i6_a_damaged_record_is_never_taken_for_one_that_does_not_exist(subject: &Subject) {
    let (site, _, victim) = damaged(subject);
    for store in handles(&site) {
        match block_on(store.0.load(&victim.id)) {
            // A store that cannot tell which record the damage hit has said so for the whole of it.
            Ok(None) => {
                let listing = store.listing(&Query::all().id_prefix(victim.id.as_str()));
                assert_ne!(listing.damage, [], "the record vanished in silence");
            }
            Ok(Some(session)) => panic!("a damaged record was read: {session:?}"),
            Err(error) => assert!(error.is_store_unusable(), "{error:?}"),
        }
    }
}

fn i6_a_damaged_store_refuses_to_be_written(subject: &Subject) {
    let (site, others, victim) = damaged(subject);
    let store = site.writer();
    let batches = [
        Batch::new().insert(running("new")),
        Batch::new().insert(running(victim.id.as_str())),
        Batch::new().replace(others[0].clone()),
        Batch::new().remove(&others[1]),
        Batch::new().insert(running("another")).count("seen", 1),
    ];
    for batch in batches {
        let error = store.try_commit(batch).expect_err("the store is damaged");
        let StoreError::Damaged { damage, .. } = &error else { panic!("{error:?}") };
        assert_ne!(*damage, [], "the refusal says what is wrong");
    }
    let error = site.reader().try_commit(Batch::new().insert(running("new"))).expect_err("it is damaged");
    assert!(matches!(error, StoreError::Damaged { .. } | StoreError::ReadOnly { .. }), "{error:?}");
}

fn i6_not_one_byte_changes_before_a_repair(subject: &Subject) {
    let (site, others, victim) = damaged(subject);
    let before = site.bytes();
    for store in handles(&site) {
        assert_eq!(store.listing(&Query::all()).sessions, others);
        _ = block_on(store.0.load(&victim.id));
        _ = block_on(store.0.check()).expect("a damaged store can be checked");
        _ = store.try_commit(Batch::new().insert(running("new"))).expect_err("the store is damaged");
    }
    drop(site.writer().lock("recover", std::time::Duration::ZERO).expect("locks do not depend on records"));
    assert_eq!(site.bytes(), before);
}

fn i6_a_repair_keeps_the_rest_and_makes_the_store_writable(subject: &Subject) {
    let (site, others, victim) = damaged(subject);
    let store = site.writer();
    let report = block_on(store.0.repair(moment(0))).expect("the store is repaired");
    assert_eq!(report.kept, u64::try_from(others.len()).expect("a small number"));
    assert_ne!(report.quarantined, [], "the report says what was set aside");
    assert!(report.quarantine.is_some(), "the report says where it is");
    for store in [store, site.writer(), site.reader()] {
        assert_eq!(store.0.damage(), []);
        assert_eq!(store.all(), others);
        assert_eq!(store.find(&victim.id), None);
    }
    site.writer().insert(completed(victim.id.as_str()));
    assert_eq!(site.reader().all().len(), RECORDS);
}

fn a_second_repair_does_nothing(subject: &Subject) {
    let (site, others, _) = damaged(subject);
    _ = block_on(site.writer().0.repair(moment(0))).expect("the store is repaired");
    let before = site.bytes();
    let again = block_on(site.writer().0.repair(moment(1))).expect("a healthy store is left alone");
    assert_eq!((again.quarantined, again.quarantine), (Vec::new(), None));
    assert_eq!(again.kept, u64::try_from(others.len()).expect("a small number"));
    assert_eq!(site.bytes(), before);
}

fn a_repair_of_a_healthy_store_does_nothing(subject: &Subject) {
    let site = Site::with(subject, (0..10).map(varied));
    let (before, all) = (site.bytes(), site.reader().all());
    let report = block_on(site.writer().0.repair(moment(0))).expect("a healthy store is left alone");
    assert_eq!((report.kept, report.quarantined, report.quarantine), (10, Vec::new(), None));
    assert_eq!(site.bytes(), before);
    assert_eq!(site.reader().all(), all);
}

fn a_check_counts_what_is_whole_and_names_what_is_not(subject: &Subject) {
    let site = Site::with(subject, (0..RECORDS).map(varied));
    let report = block_on(site.reader().0.check()).expect("a store can be checked");
    let records = u64::try_from(RECORDS).expect("a small number");
    assert_eq!((report.records, report.damage), (records, Vec::new()));
    let victim = site.reader().all().remove(3);
    site.damage(&victim.id);
    let report = block_on(site.reader().0.check()).expect("a damaged store can be checked");
    assert_eq!(report.records, records - 1);
    let harmless = subject.capabilities.damage == Reach::Record;
    assert!(report.damage.iter().any(|damage| damage.harmless == harmless), "{:?}", report.damage);
}

fn i6_a_repaired_store_goes_on_with_new_revisions(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
    let revisions: Vec<u64> = (0..5).map(|n| store.insert(completed(&format!("s{n}"))).revision).collect();
    drop(store);
    // The newest record goes: with it the only trace of the highest revision in the records themselves.
    site.damage(&id("s4"));
    let store = site.writer();
    _ = block_on(store.0.repair(moment(0))).expect("the store is repaired");
    let next = store.insert(completed("s4")).revision;
    assert!(!revisions.contains(&next), "revision {next} was given twice: a stale reader would match");
}
