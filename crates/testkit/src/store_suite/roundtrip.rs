//! Records are inserted, loaded, replaced and removed.

use sexton_core::{Batch, Query};

use super::Subject;
use super::needs::COMMIT_REVISIONS;
use super::samples::{completed, id, running};
use super::test_env::TestEnv;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("roundtrip":
    inserted_record_is_loaded_and_listed_unchanged,
    replaced_record_has_new_content_and_revision,
    removed_record_is_gone_and_its_id_is_free,
    missing_record_is_none,
    new_store_is_empty,
    every_commit_has_a_unique_revision: [COMMIT_REVISIONS],
    insert_ignores_the_revision_of_the_record,
);

fn inserted_record_is_loaded_and_listed_unchanged(subject: &Subject) {
    let store = TestEnv::new(subject);
    let store = store.writer();
    let stored = store.insert(running("a"));
    assert_eq!(store.require(&id("a")), stored);
    assert_eq!(store.all(), [stored]);
}

fn replaced_record_has_new_content_and_revision(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let mut session = store.insert(running("a"));
    let first = session.revision;
    store.mark(&mut session, "T-1");
    let stored = store.replace(session);
    assert_ne!(stored.revision, first);
    assert_eq!(store.require(&id("a")), stored);
    assert_eq!(store.all(), [stored]);
}

fn removed_record_is_gone_and_its_id_is_free(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let (gone, stays) = (store.insert(completed("gone")), store.insert(completed("stays")));
    store.commit(Batch::new().remove(&gone));
    assert_eq!(store.find(&gone.id), None);
    assert_eq!(store.all(), std::slice::from_ref(&stays));
    let again = store.insert(running("gone"));
    assert_ne!(again.revision, gone.revision, "a reader of the removed record must not match the new one");
    assert_eq!(store.all(), [stays, again]);
}

fn missing_record_is_none(subject: &Subject) {
    let test_env = TestEnv::with(subject, [running("a")]);
    assert_eq!(test_env.writer().find(&id("b")), None);
    assert_eq!(test_env.reader().find(&id("b")), None);
}

fn new_store_is_empty(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    assert_eq!(store.all(), []);
    assert_eq!(store.counters().len(), 0);
    assert_eq!(store.0.damage(), []);
    assert_eq!(store.find(&id("a")), None);
}

fn every_commit_has_a_unique_revision(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
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

fn insert_ignores_the_revision_of_the_record(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let store = test_env.writer();
    let mut session = running("a");
    session.revision = 4711;
    let stored = store.insert(session);
    assert_eq!(store.require(&id("a")).revision, stored.revision);
    store.replace(stored);
}
