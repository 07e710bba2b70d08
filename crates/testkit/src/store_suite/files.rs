//! What a store does to its files, and what it leaves alone.

use std::os::unix::fs::PermissionsExt;

use sexton_core::plugin::Registry;
use sexton_core::store::{Access, Durability};
use sexton_core::{Batch, Query, StoreError};

use super::Subject;
use super::samples::{completed, id, moment, running, varied};
use super::site::{Site, open_at};
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("files":
    a_plugin_says_before_it_is_opened_how_its_stores_speak,
    opening_for_reading_creates_nothing,
    reading_changes_no_byte,
    an_empty_batch_changes_no_byte,
    a_refused_batch_changes_no_byte,
    records_are_private_to_their_user,
    i6_what_a_repair_sets_aside_is_kept_in_a_file,
    i6_a_file_of_another_kind_is_refused_and_left_alone,
    a_store_without_its_directory_is_an_error_that_names_it,
);

fn a_plugin_says_before_it_is_opened_how_its_stores_speak(subject: &Subject) {
    let site = Site::with(subject, [completed("a")]);
    let store = site.reader();
    let linked = Registry::linked().expect("every name is there once");
    let backend = store.0.describe().backend;
    let plugin = linked.stores.iter().find(|plugin| plugin.name == backend).expect("it is linked in");
    assert_eq!(plugin.dialect, store.0.dialect());
    if !plugin.dialect.names_current {
        let current = pollster::block_on(store.0.current_session()).expect("it can be asked");
        assert_eq!(current, None);
    }
}

fn opening_for_reading_creates_nothing(subject: &Subject) {
    let site = Site::new(subject);
    let missing = site.elsewhere("missing").join(subject.file_name);
    let nowhere = open_at(subject, &missing, Access::Read, Durability::Power).expect("it reads as empty");
    assert_eq!(nowhere.all(), []);
    assert!(!site.elsewhere("missing").exists());
    let reader = site.reader();
    assert_eq!((reader.all(), reader.find(&id("a"))), (Vec::new(), None));
    _ = reader.try_commit(Batch::new().insert(running("a"))).expect_err("it is open for reading");
    let entries = std::fs::read_dir(site.directory()).expect("the directory can be listed").count();
    assert_eq!(entries, 0, "a reader made a file");
}

fn reading_changes_no_byte(subject: &Subject) {
    let site = Site::with(subject, (0..20).map(varied));
    let before = site.bytes();
    let reader = site.reader();
    assert_eq!(reader.all().len(), 20);
    assert_eq!(reader.listing(&Query::active().limit(3)).sessions.len(), 3);
    pollster::block_on(async {
        reader.0.tally().await.expect("a tally");
        reader.0.counters().await.expect("the counters");
        reader.0.check().await.expect("a check");
    });
    drop(reader);
    assert_eq!(site.bytes(), before);
}

fn an_empty_batch_changes_no_byte(subject: &Subject) {
    let site = Site::with(subject, [running("a")]);
    let store = site.writer();
    let before = site.bytes();
    store.commit(Batch::new());
    assert_eq!(site.bytes(), before);
}

fn a_refused_batch_changes_no_byte(subject: &Subject) {
    let site = Site::with(subject, [running("a")]);
    let store = site.writer();
    let before = site.bytes();
    _ = store
        .try_commit(Batch::new().insert(running("b")).insert(running("a")))
        .expect_err("the id is taken");
    assert_eq!(site.bytes(), before);
}

fn records_are_private_to_their_user(subject: &Subject) {
    let site = Site::with(subject, [running("a")]);
    let store = site.writer();
    drop(store.lock("recover", std::time::Duration::ZERO).expect("the lock is free"));
    let backup = pollster::block_on(store.0.backup(&site.elsewhere("backups"), moment(0))).expect("a backup");
    for path in site.files().into_iter().chain([backup.path]) {
        let mode = std::fs::metadata(&path).expect("the file is there").permissions().mode() & 0o777;
        assert_eq!(mode & 0o077, 0, "{} has mode {mode:o}", path.display());
    }
}

fn i6_what_a_repair_sets_aside_is_kept_in_a_file(subject: &Subject) {
    let site = Site::with(subject, ["a", "b", "c"].map(completed));
    site.damage(&id("b"));
    let store = site.writer();
    let report = pollster::block_on(store.0.repair(moment(0))).expect("the store is repaired");
    let quarantine = report.quarantine.expect("something was set aside");
    let kept = std::fs::metadata(&quarantine).expect("what was set aside is there");
    assert!(kept.is_dir() || kept.len() > 0, "{} is empty", quarantine.display());
}

fn i6_a_file_of_another_kind_is_refused_and_left_alone(subject: &Subject) {
    let texts: [&[u8]; 3] = [b"a letter to a friend\nwith two lines\n", &[0xff; 5000], subject.stranger];
    for text in texts {
        let site = Site::new(subject);
        std::fs::create_dir_all(site.directory()).expect("a directory can be made");
        std::fs::write(site.path(), text).expect("a file can be written");
        for access in [Access::Write, Access::Read] {
            // Opening may succeed where the store shows what is wrong as damage; writing may not.
            let outcome = site.try_open(access, Durability::Process).map(|store| {
                assert_ne!(store.0.damage(), [], "a stranger's file was taken for a sound store");
                _ = store.try_commit(Batch::new().insert(running("a"))).expect_err("it is not ours to write");
            });
            if let Err(error) = outcome {
                let expected = matches!(error, StoreError::NotAStore { .. } | StoreError::Damaged { .. });
                assert!(expected, "{error:?}");
            }
            assert_eq!(std::fs::read(site.path()).expect("the file is there"), text);
        }
    }
}

fn a_store_without_its_directory_is_an_error_that_names_it(subject: &Subject) {
    let site = Site::new(subject);
    let not_a_directory = site.elsewhere("file");
    std::fs::write(&not_a_directory, "x").expect("a file can be written");
    let path = not_a_directory.join(subject.file_name);
    let error =
        open_at(subject, &path, Access::Write, Durability::Power).err().expect("there is no directory");
    assert!(error.to_string().contains(&*path.to_string_lossy()), "{error}");
}
