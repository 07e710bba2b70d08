//! What a store does to its files, and what it must not change.

use std::os::unix::fs::PermissionsExt;

use sexton_core::plugin::Registry;
use sexton_core::store::{Access, Durability};
use sexton_core::{Batch, Query, StoreError};

use super::Subject;
use super::samples::{completed, id, moment, running, varied};
use super::test_env::{TestEnv, open_at};
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("files":
    plugin_declares_the_dialect_of_its_stores,
    opening_for_reading_creates_nothing,
    reading_changes_no_byte,
    empty_batch_changes_no_byte,
    refused_batch_changes_no_byte,
    files_are_private_to_the_user,
    i6_quarantined_records_are_kept_in_a_file,
    i6_file_of_another_kind_is_refused_and_unchanged,
    missing_directory_error_names_the_path,
);

fn plugin_declares_the_dialect_of_its_stores(subject: &Subject) {
    let test_env = TestEnv::with(subject, [completed("a")]);
    let store = test_env.reader();
    let linked = Registry::linked().expect("every name is unique");
    let backend = store.0.describe().backend;
    let plugin = linked.stores.iter().find(|plugin| plugin.name == backend).expect("the plugin is linked");
    assert_eq!(plugin.dialect, store.0.dialect());
    if !plugin.dialect.names_current {
        let current = pollster::block_on(store.0.current_session()).expect("the current session can be read");
        assert_eq!(current, None);
    }
}

fn opening_for_reading_creates_nothing(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let missing = test_env.elsewhere("missing").join(subject.file_name);
    let nowhere = open_at(subject, &missing, Access::Read, Durability::Power).expect("it reads as empty");
    assert_eq!(nowhere.all(), []);
    assert!(!test_env.elsewhere("missing").exists());
    let reader = test_env.reader();
    assert_eq!((reader.all(), reader.find(&id("a"))), (Vec::new(), None));
    _ = reader.try_commit(Batch::new().insert(running("a"))).expect_err("it is open for reading");
    let entries = std::fs::read_dir(test_env.directory()).expect("the directory can be listed").count();
    assert_eq!(entries, 0, "a reader created a file");
}

fn reading_changes_no_byte(subject: &Subject) {
    let test_env = TestEnv::with(subject, (0..20).map(varied));
    let before = test_env.bytes();
    let reader = test_env.reader();
    assert_eq!(reader.all().len(), 20);
    assert_eq!(reader.listing(&Query::active().limit(3)).sessions.len(), 3);
    pollster::block_on(async {
        reader.0.tally().await.expect("a tally");
        reader.0.counters().await.expect("the counters");
        reader.0.check().await.expect("a check");
    });
    drop(reader);
    assert_eq!(test_env.bytes(), before);
}

fn empty_batch_changes_no_byte(subject: &Subject) {
    let test_env = TestEnv::with(subject, [running("a")]);
    let store = test_env.writer();
    let before = test_env.bytes();
    store.commit(Batch::new());
    assert_eq!(test_env.bytes(), before);
}

fn refused_batch_changes_no_byte(subject: &Subject) {
    let test_env = TestEnv::with(subject, [running("a")]);
    let store = test_env.writer();
    let before = test_env.bytes();
    _ = store
        .try_commit(Batch::new().insert(running("b")).insert(running("a")))
        .expect_err("the id is taken");
    assert_eq!(test_env.bytes(), before);
}

fn files_are_private_to_the_user(subject: &Subject) {
    let test_env = TestEnv::with(subject, [running("a")]);
    let store = test_env.writer();
    drop(store.lock("recover", std::time::Duration::ZERO).expect("the lock is free"));
    let backup =
        pollster::block_on(store.0.backup(&test_env.elsewhere("backups"), moment(0))).expect("a backup");
    for path in test_env.files().into_iter().chain([backup.path]) {
        let mode = std::fs::metadata(&path).expect("the file is there").permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
    }
}

fn i6_quarantined_records_are_kept_in_a_file(subject: &Subject) {
    let test_env = TestEnv::with(subject, ["a", "b", "c"].map(completed));
    test_env.damage(&id("b"));
    let store = test_env.writer();
    let report = pollster::block_on(store.0.repair(moment(0))).expect("the store is repaired");
    let quarantine = report.quarantine.expect("something was set aside");
    let kept = std::fs::metadata(&quarantine).expect("what was set aside is there");
    assert!(kept.is_dir() || kept.len() > 0, "{} is empty", quarantine.display());
}

fn i6_file_of_another_kind_is_refused_and_unchanged(subject: &Subject) {
    let texts: [&[u8]; 3] = [b"plain text\nwith two lines\n", &[0xff; 5000], subject.stranger];
    for text in texts {
        let test_env = TestEnv::new(subject);
        std::fs::create_dir_all(test_env.directory()).expect("a directory can be made");
        std::fs::write(test_env.path(), text).expect("a file can be written");
        for access in [Access::Write, Access::Read] {
            // Opening may succeed if the store reports damage; writing must fail.
            let outcome = test_env.try_open(access, Durability::Process).map(|store| {
                assert_ne!(store.0.damage(), [], "a file of another kind was opened as a healthy store");
                _ = store.try_commit(Batch::new().insert(running("a"))).expect_err("the file is not a store");
            });
            if let Err(error) = outcome {
                let expected = matches!(error, StoreError::NotAStore { .. } | StoreError::Damaged { .. });
                assert!(expected, "{error:?}");
            }
            assert_eq!(std::fs::read(test_env.path()).expect("the file is there"), text);
        }
    }
}

fn missing_directory_error_names_the_path(subject: &Subject) {
    let test_env = TestEnv::new(subject);
    let not_a_directory = test_env.elsewhere("file");
    std::fs::write(&not_a_directory, "x").expect("a file can be written");
    let path = not_a_directory.join(subject.file_name);
    let error =
        open_at(subject, &path, Access::Write, Durability::Power).err().expect("there is no directory");
    assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
}
