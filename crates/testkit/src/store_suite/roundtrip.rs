//! A record goes in and comes out again, is replaced, is removed.

use sexton_core::{Batch, Query};

use super::Subject;
use super::needs::COMMIT_REVISIONS;
use super::samples::{completed, id, running};
use super::site::Site;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("roundtrip":
    an_inserted_record_is_loaded_and_listed_as_it_was,
    a_replaced_record_has_its_new_content_and_a_new_revision,
    a_removed_record_is_gone_and_its_id_is_free,
    a_record_that_never_was_is_none,
    a_new_store_is_empty,
    every_commit_has_a_revision_of_its_own: [COMMIT_REVISIONS],
    an_insert_says_nothing_about_its_revision,
);

fn an_inserted_record_is_loaded_and_listed_as_it_was(subject: &Subject) {
    let store = Site::new(subject);
    let store = store.writer();
    let stored = store.insert(running("a"));
    assert_eq!(store.require(&id("a")), stored);
    assert_eq!(store.all(), [stored]);
}

fn a_replaced_record_has_its_new_content_and_a_new_revision(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
    let mut session = store.insert(running("a"));
    let first = session.revision;
    store.mark(&mut session, "T-1");
    let stored = store.replace(session);
    assert_ne!(stored.revision, first);
    assert_eq!(store.require(&id("a")), stored);
    assert_eq!(store.all(), [stored]);
}

fn a_removed_record_is_gone_and_its_id_is_free(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
    let (gone, stays) = (store.insert(completed("gone")), store.insert(completed("stays")));
    store.commit(Batch::new().remove(&gone));
    assert_eq!(store.find(&gone.id), None);
    assert_eq!(store.all(), std::slice::from_ref(&stays));
    let again = store.insert(running("gone"));
    assert_ne!(again.revision, gone.revision, "whoever read the removed record must not match the new one");
    assert_eq!(store.all(), [stays, again]);
}

fn a_record_that_never_was_is_none(subject: &Subject) {
    let site = Site::with(subject, [running("a")]);
    assert_eq!(site.writer().find(&id("b")), None);
    assert_eq!(site.reader().find(&id("b")), None);
}

fn a_new_store_is_empty(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
    assert_eq!(store.all(), []);
    assert_eq!(store.counters().len(), 0);
    assert_eq!(store.0.damage(), []);
    assert_eq!(store.find(&id("a")), None);
}

fn every_commit_has_a_revision_of_its_own(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
    let mut seen = std::collections::BTreeSet::new();
    for n in 0..20 {
        let batch = Batch::new().insert(completed(&format!("a{n}"))).insert(completed(&format!("b{n}")));
        let committed = store.commit(batch);
        let revision = committed.revision_of(&id(&format!("a{n}")));
        assert!(seen.insert(revision), "revision {revision} was given twice");
        for half in ["a", "b"] {
            assert_eq!(store.require(&id(&format!("{half}{n}"))).revision, revision);
        }
    }
    assert_eq!(store.listing(&Query::all()).sessions.len(), 40);
}

fn an_insert_says_nothing_about_its_revision(subject: &Subject) {
    let site = Site::new(subject);
    let store = site.writer();
    let mut session = running("a");
    session.revision = 4711;
    let stored = store.insert(session);
    assert_eq!(store.require(&id("a")).revision, stored.revision);
    store.replace(stored);
}
