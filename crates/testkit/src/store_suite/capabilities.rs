//! What a store says it can represent is what it does. These cases go past the fitting that the others
//! rely on, and hold it to its word.

use pollster::block_on;
use sexton_core::{Batch, Session, Status, StoreError};

use super::Subject;
use super::needs::{COUNTERS, EVERY_FIELD, lost_of_everything};
use super::samples::{completed, everything, id, running, varied, with_status};
use super::site::Site;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("capabilities":
    a_store_declares_what_it_is_measured_by,
    nothing_is_lost_that_is_not_declared,
    what_was_fitted_once_fits_and_is_given_back_as_it_is,
    a_record_of_every_field_is_committed_as_it_is: [EVERY_FIELD],
    a_batch_with_counters_is_committed: [COUNTERS],
    every_status_is_written_as_declared_or_refused,
);

fn a_store_declares_what_it_is_measured_by(subject: &Subject) {
    let site = Site::new(subject);
    for store in [site.reader(), site.writer(), site.reader()] {
        assert_eq!(store.0.describe().capabilities, subject.capabilities);
    }
}

fn nothing_is_lost_that_is_not_declared(subject: &Subject) {
    let site = Site::new(subject);
    for field in lost_of_everything(&site.writer()) {
        assert!(!subject.capabilities.keeps(&field), "`{field}` is lost, and declared as kept");
    }
}

fn what_was_fitted_once_fits_and_is_given_back_as_it_is(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
    for sample in (0..30).map(varied).chain([everything()]) {
        let fitted = store.fit(sample);
        let again = store.0.fit(&fitted).expect("what fits can be kept");
        assert_eq!((&again.session, again.lost.as_slice()), (&fitted, &[][..]), "fitting twice is no more");
        let committed = block_on(store.0.commit(Batch::new().insert(fitted.clone()))).expect("it fits");
        let revision = committed.revision_of(&fitted.id);
        assert_eq!(site.reader().require(&fitted.id), Session { revision, ..fitted });
    }
}

fn a_record_of_every_field_is_committed_as_it_is(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
    let sample = everything();
    let committed = block_on(store.0.commit(Batch::new().insert(sample.clone()))).expect("it is kept");
    let revision = committed.revision_of(&sample.id);
    assert_eq!(store.require(&sample.id), Session { revision, ..sample });
    assert_eq!(lost_of_everything(&store), [""; 0]);
}

fn a_batch_with_counters_is_committed(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
    let _ = block_on(store.0.commit(Batch::new().insert(running("a")).count("seen", 1))).expect("it is kept");
    assert_eq!(store.counters().get("seen"), Some(&1));
}

fn every_status_is_written_as_declared_or_refused(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
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
