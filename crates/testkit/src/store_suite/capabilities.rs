//! A store represents exactly what it declares. These cases bypass the fitting that other cases use.

use pollster::block_on;
use sexton_core::{Batch, Session, Status, StoreError};

use super::Subject;
use super::needs::{COUNTERS, EVERY_FIELD, lost_of_everything};
use super::samples::{completed, everything, id, running, varied, with_status};
use super::test_env::TestEnv;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("capabilities":
    declared_capabilities_match_the_subject,
    only_declared_fields_are_lost,
    fitted_record_is_stored_unchanged,
    record_with_every_field_is_committed_unchanged: [EVERY_FIELD],
    batch_with_counters_is_committed: [COUNTERS],
    every_status_is_written_as_declared_or_refused,
);

fn declared_capabilities_match_the_subject(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    for store in [test_env.reader(), test_env.writer(), test_env.reader()] {
        assert_eq!(store.0.describe().capabilities, subject.capabilities);
    }
}

fn only_declared_fields_are_lost(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    for field in lost_of_everything(&test_env.writer()) {
        assert!(!subject.capabilities.keeps(&field), "`{field}` is lost but declared as kept");
    }
}

fn fitted_record_is_stored_unchanged(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    for sample in (0..30).map(varied).chain([everything()]) {
        let fitted = store.fit(sample);
        let again = store.0.fit(&fitted).expect("what fits can be kept");
        assert_eq!((&again.session, again.lost.as_slice()), (&fitted, &[][..]), "fitting is idempotent");
        let committed = block_on(store.0.commit(Batch::new().insert(fitted.clone()))).expect("it fits");
        let revision = committed.revision_of(&fitted.id);
        assert_eq!(test_env.reader().require(&fitted.id), Session { revision, ..fitted });
    }
}

fn record_with_every_field_is_committed_unchanged(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let sample = everything();
    let committed = block_on(store.0.commit(Batch::new().insert(sample.clone()))).expect("it is kept");
    let revision = committed.revision_of(&sample.id);
    assert_eq!(store.require(&sample.id), Session { revision, ..sample });
    assert_eq!(lost_of_everything(&store), [""; 0]);
}

fn batch_with_counters_is_committed(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let _ = block_on(store.0.commit(Batch::new().insert(running("a")).count("seen", 1))).expect("it is kept");
    assert_eq!(store.counters().get("seen"), Some(&1));
}

fn every_status_is_written_as_declared_or_refused(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    for status in Status::ALL {
        let text = format!("s-{}", status.as_str());
        let base = if status.is_finished() { completed(&text) } else { running(&text) };
        let mut session = store.fit(with_status(&base, status));
        session.status = status;
        let kept = subject.capabilities.statuses.contains(&status);
        match block_on(store.0.commit(Batch::new().insert(session))) {
            Ok(_) if kept => assert_eq!(store.require(&id(&text)).status, status),
            Ok(_) => {
                let written = store.require(&id(&text)).status;
                assert!(subject.capabilities.forgets("status"), "{status} became {written} undeclared");
                assert!(subject.capabilities.statuses.contains(&written), "{status} became {written}");
                assert_eq!(written.is_finished(), status.is_finished(), "{status} became {written}");
            }
            Err(StoreError::Unsupported { what, .. }) if !kept => {
                assert!(what.contains(status.as_str()), "the refusal does not name {status}: {what}");
            }
            Err(error) => panic!("{status}: {error}"),
        }
    }
}
