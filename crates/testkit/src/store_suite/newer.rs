//! A store that a newer version wrote: nothing may write it, and whoever only reads is told.

use pollster::block_on;
use sexton_core::store::{Access, Durability};
use sexton_core::{Batch, Query, StoreError};

use super::Subject;
use super::samples::{completed, id, moment, running};
use super::site::Site;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("newer":
    i6_a_newer_store_does_not_open_for_writing,
    i6_a_newer_store_opens_for_reading_and_says_so,
    i6_nothing_repairs_or_restores_a_newer_store,
);

fn newer(subject: &Subject) -> Site {
    let site = Site::with(subject, ["a", "b", "c"].map(completed));
    site.make_newer();
    site
}

fn i6_a_newer_store_does_not_open_for_writing(subject: &Subject) {
    let site = newer(subject);
    let before = site.bytes();
    for durability in [Durability::Power, Durability::Process] {
        let error = site.try_open(Access::Write, durability).err().expect("it is newer than we are");
        let StoreError::NewerFormat { found, supported, .. } = error else { panic!("{error:?}") };
        assert!(found > supported, "{found} is not newer than {supported}");
    }
    assert_eq!(site.bytes(), before);
}

fn i6_a_newer_store_opens_for_reading_and_says_so(subject: &Subject) {
    let site = newer(subject);
    let before = site.bytes();
    let reader = site.reader();
    let damage = reader.0.damage();
    assert!(damage.iter().any(|damage| !damage.harmless), "{damage:?}");
    let listing = reader.listing(&Query::all());
    assert!(listing.sessions.len() <= 3);
    assert_ne!(listing.damage, [], "part of the records was taken for all of them in silence");
    // The record may be readable or not; it is never taken for one that does not exist.
    assert!(!matches!(block_on(reader.0.load(&id("a"))), Ok(None)), "a record vanished");
    let error = reader.try_commit(Batch::new().insert(running("d"))).expect_err("it is newer than we are");
    assert!(matches!(error, StoreError::ReadOnly { .. } | StoreError::NewerFormat { .. }), "{error:?}");
    drop(reader);
    assert_eq!(site.bytes(), before);
}

fn i6_nothing_repairs_or_restores_a_newer_store(subject: &Subject) {
    let site = Site::with(subject, [completed("a")]);
    let backup = block_on(site.writer().0.backup(&site.elsewhere("backups"), moment(0))).expect("a backup");
    site.make_newer();
    let before = site.bytes();
    let reader = site.reader();
    _ = block_on(reader.0.repair(moment(1))).expect_err("it is not damaged, it is newer");
    _ = block_on(reader.0.restore(&backup.path, moment(1))).expect_err("it is newer than we are");
    drop(reader);
    assert_eq!(site.bytes(), before);
}
