//! A store that a newer version wrote: it is never written, and reading reports it.

use pollster::block_on;
use sexton_core::store::{Access, Durability};
use sexton_core::{Batch, Query, StoreError};

use super::Subject;
use super::samples::{completed, id, moment, running};
use super::test_env::TestEnv;
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("newer":
    i6_newer_store_does_not_open_for_writing,
    i6_newer_store_opens_for_reading_with_damage,
    i6_newer_store_cannot_be_repaired_or_restored,
);

fn newer(subject: &Subject) -> TestEnv {
    let test_env = TestEnv::with(subject, ["a", "b", "c"].map(completed));
    test_env.make_newer();
    test_env
}

fn i6_newer_store_does_not_open_for_writing(subject: &Subject) {
    let test_env = newer(subject);
    let before = test_env.bytes();
    for durability in [Durability::Power, Durability::Process] {
        let error = test_env.try_open(Access::Write, durability).err().expect("the format is newer");
        let StoreError::NewerFormat { found, supported, .. } = error else { panic!("{error:?}") };
        assert!(found > supported, "{found} is not newer than {supported}");
    }
    assert_eq!(test_env.bytes(), before);
}

fn i6_newer_store_opens_for_reading_with_damage(subject: &Subject) {
    let test_env = newer(subject);
    let before = test_env.bytes();
    let reader = test_env.reader();
    let damage = reader.0.damage();
    assert!(damage.iter().any(|damage| !damage.harmless), "{damage:?}");
    let listing = reader.listing(&Query::all());
    assert!(listing.sessions.len() <= 3);
    assert_ne!(listing.damage, [], "an incomplete listing has no damage");
    // The record may be readable or not, but it is never reported as missing.
    assert!(!matches!(block_on(reader.0.load(&id("a"))), Ok(None)), "a record is reported as missing");
    let error = reader.try_commit(Batch::new().insert(running("d"))).expect_err("the format is newer");
    assert!(matches!(error, StoreError::ReadOnly { .. } | StoreError::NewerFormat { .. }), "{error:?}");
    drop(reader);
    assert_eq!(test_env.bytes(), before);
}

fn i6_newer_store_cannot_be_repaired_or_restored(subject: &Subject) {
    let test_env = TestEnv::with(subject, [completed("a")]);
    let backup =
        block_on(test_env.writer().0.backup(&test_env.elsewhere("backups"), moment(0))).expect("a backup");
    test_env.make_newer();
    let before = test_env.bytes();
    let reader = test_env.reader();
    _ = block_on(reader.0.repair(moment(1))).expect_err("the format is newer, not damaged");
    _ = block_on(reader.0.restore(&backup.path, moment(1))).expect_err("the format is newer");
    drop(reader);
    assert_eq!(test_env.bytes(), before);
}
