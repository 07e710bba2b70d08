//! Backups, and what a restore brings back and leaves alone.

use std::path::{Path, PathBuf};

use pollster::block_on;
use sexton_core::store::{Backup, Restored};
use sexton_core::{Batch, Session, Status, StoreError};

use super::Subject;
use super::needs::COMMIT_REVISIONS;
use super::samples::{completed, everything, id, mark_of, moment, running, varied, with_status};
use super::site::{Handle, Site};
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("backups":
    a_backup_is_a_file_that_holds_everything,
    backups_of_one_directory_do_not_replace_each_other,
    a_backup_makes_no_difference_to_the_store,
    a_restore_brings_back_what_was_changed_and_removed,
    a_restore_keeps_the_present_record_of_what_is_not_finished,
    a_restore_into_a_new_store_brings_everything,
    i6_a_revision_read_before_a_restore_is_stale_after_it,
    i6_a_restored_store_goes_on_with_new_revisions: [COMMIT_REVISIONS],
    i6_a_bad_backup_is_refused_and_changes_nothing,
    i6_a_backup_is_refused_wherever_it_is_cut_off,
    i6_a_damaged_store_can_be_restored,
    a_restored_store_is_the_same_store,
);

fn back_up(store: &Handle, directory: &Path) -> Backup {
    block_on(store.0.backup(directory, moment(1000))).expect("a backup is made")
}

fn restore(store: &Handle, backup: &Path) -> Restored {
    block_on(store.0.restore(backup, moment(2000))).expect("the backup is restored")
}

/// Records of another place as `store` has them: what it adds by itself may depend on where it lies.
fn moved(store: &Handle, sessions: Vec<Session>) -> Vec<Session> {
    contents(sessions.into_iter().map(|session| store.fit(session)).collect())
}

/// Records without their revisions: a restore may give new ones.
fn contents(sessions: Vec<Session>) -> Vec<Session> {
    sessions.into_iter().map(|session| Session { revision: 0, ..session }).collect()
}

fn a_backup_is_a_file_that_holds_everything(subject: &Subject) {
    let site = Site::with(subject, (0..30).map(varied));
    let store = site.writer();
    let stored = store.insert(everything());
    // The directory is made where it is missing, with those above it.
    let backup = back_up(&store, &site.elsewhere("deep/backups"));
    assert_eq!(backup.records, 31);
    assert!(backup.path.starts_with(site.elsewhere("deep/backups")), "{}", backup.path.display());
    assert!(std::fs::metadata(&backup.path).expect("the backup is there").len() > 0);
    let other = Site::new(subject);
    restore(&other.writer(), &backup.path);
    assert_eq!(contents(other.reader().all()), moved(&other.reader(), store.all()));
    let restored = other.reader().require(&stored.id);
    assert_eq!(contents(vec![restored]), moved(&other.reader(), vec![stored]));
}

fn backups_of_one_directory_do_not_replace_each_other(subject: &Subject) {
    let site = Site::with(subject, [completed("a")]);
    let store = site.writer();
    let directory = site.elsewhere("backups");
    let first = back_up(&store, &directory);
    store.insert(completed("b"));
    let second = block_on(store.0.backup(&directory, moment(1001))).expect("a second backup");
    assert_ne!(first.path, second.path);
    // Within the same moment too: a fast caller must not lose its first backup to its second.
    let third = block_on(store.0.backup(&directory, moment(1001)));
    let kept: Vec<PathBuf> = [Some(&first), Some(&second), third.as_ref().ok()]
        .into_iter()
        .flatten()
        .map(|backup| backup.path.clone())
        .collect();
    assert!(kept.iter().all(|path| path.exists()));
    restore(&store, &first.path);
    assert_eq!(store.all().len(), 1, "the first backup holds what it held");
}

fn a_backup_makes_no_difference_to_the_store(subject: &Subject) {
    let site = Site::with(subject, (0..10).map(varied));
    let store = site.writer();
    let before = store.all();
    back_up(&store, &site.elsewhere("backups"));
    back_up(&site.reader(), &site.elsewhere("from a reader"));
    assert_eq!(store.all(), before);
    store.insert(completed("after"));
}

fn a_restore_brings_back_what_was_changed_and_removed(subject: &Subject) {
    let site = Site::with(subject, ["changed", "removed", "same"].map(completed));
    let store = site.writer();
    let backup = back_up(&store, &site.elsewhere("backups"));
    let before = contents(store.all());
    let mut changed = store.require(&id("changed"));
    store.mark(&mut changed, "T-9");
    store.replace(changed);
    store.commit(Batch::new().remove(&store.require(&id("removed"))));
    store.insert(completed("later"));
    let report = restore(&store, &backup.path);
    assert_eq!(report, Restored { restored: 3, kept: 0 });
    for handle in [store, site.writer(), site.reader()] {
        assert_eq!(contents(handle.all()), before);
        assert_eq!(handle.find(&id("later")), None);
    }
}

fn a_restore_keeps_the_present_record_of_what_is_not_finished(subject: &Subject) {
    let site = Site::with(subject, [running("going"), running("ended"), completed("old")]);
    let store = site.writer();
    let owed = store.insert(with_status(&running("owed"), Status::CleanupFailed));
    let backup = back_up(&store, &site.elsewhere("backups"));
    let mut going = store.require(&id("going"));
    store.mark(&mut going, "now");
    store.replace(going);
    let ended = store.require(&id("ended"));
    store.replace(with_status(&ended, Status::Completed));
    store.commit(Batch::new().remove(&store.require(&id("old"))));
    store.insert(running("young"));
    let report = restore(&store, &backup.path);
    assert_eq!(report, Restored { restored: 2, kept: 3 });
    assert_eq!(mark_of(&store.require(&id("going"))), Some("now"));
    assert_eq!(store.require(&id("young")).status, Status::Running);
    assert_eq!(store.require(&owed.id).status, owed.status);
    // What is finished by now goes back to what the backup says of it, as asked.
    assert_eq!(store.require(&id("ended")).status, Status::Running);
    assert_eq!(store.require(&id("old")).status, Status::Completed);
    assert_eq!(store.all().len(), 5);
}

fn a_restore_into_a_new_store_brings_everything(subject: &Subject) {
    let site = Site::with(subject, (0..25).map(varied));
    let backup = back_up(&site.reader(), &site.elsewhere("backups"));
    let other = Site::new(subject);
    let report = restore(&other.writer(), &backup.path);
    assert_eq!(report, Restored { restored: 25, kept: 0 });
    assert_eq!(contents(other.writer().all()), moved(&other.writer(), site.reader().all()));
    other.writer().insert(completed("after"));
}

fn i6_a_revision_read_before_a_restore_is_stale_after_it(subject: &Subject) {
    let site = Site::with(subject, [completed("a")]);
    let store = site.writer();
    let backup = back_up(&store, &site.elsewhere("backups"));
    let mut newer = store.require(&id("a"));
    store.mark(&mut newer, "T-1");
    let newer = store.replace(newer);
    restore(&store, &backup.path);
    let error = store.try_commit(Batch::new().replace(newer)).expect_err("it was read before the restore");
    assert!(matches!(error, StoreError::Conflict { .. }), "{error:?}");
    let restored = site.writer().require(&id("a"));
    assert_ne!(mark_of(&restored), Some("T-1"));
    site.writer().replace(restored);
}

fn i6_a_restored_store_goes_on_with_new_revisions(subject: &Subject) {
    let site = Site::with(subject, [completed("a")]);
    let store = site.writer();
    let backup = back_up(&store, &site.elsewhere("backups"));
    let mut used: Vec<u64> = store.all().into_iter().map(|session| session.revision).collect();
    for n in 0..5 {
        used.push(store.insert(completed(&format!("b{n}"))).revision);
    }
    restore(&store, &backup.path);
    let next = site.writer().insert(completed("b3")).revision;
    assert!(!used.contains(&next), "revision {next} was given twice: a stale reader would match");
}

fn require_refused(site: &Site, backup: &Path) {
    let store = site.writer();
    let (before, bytes) = (store.all(), site.bytes());
    let error = block_on(store.0.restore(backup, moment(2000))).expect_err("the backup is bad");
    assert!(matches!(error, StoreError::BadBackup { .. }), "{error:?}");
    assert_eq!(site.bytes(), bytes, "a refused restore changed the store's files");
    assert_eq!(store.all(), before);
    if site.counts() {
        store.commit(Batch::new().count("still writable", 1));
    }
}

fn i6_a_bad_backup_is_refused_and_changes_nothing(subject: &Subject) {
    let site = Site::with(subject, (0..10).map(varied));
    let directory = site.elsewhere("bad");
    std::fs::create_dir(&directory).expect("a directory can be made");
    let bad: [(&str, &[u8]); 3] = [("empty", b""), ("text", b"my dear friend\n"), ("bytes", &[0xA5; 9000])];
    for (name, bytes) in bad {
        std::fs::write(directory.join(name), bytes).expect("a file can be written");
        require_refused(&site, &directory.join(name));
    }
    require_refused(&site, &directory.join("missing"));
    require_refused(&site, &directory);
}

fn i6_a_backup_is_refused_wherever_it_is_cut_off(subject: &Subject) {
    const CUTS: usize = 40;
    let site = Site::with(subject, (0..10).map(varied));
    let backup = back_up(&site.writer(), &site.elsewhere("backups"));
    let whole = std::fs::read(&backup.path).expect("the backup can be read");
    let cut = site.elsewhere("cut");
    let evenly = (0..CUTS).map(|n| whole.len() * n / CUTS);
    // Where a text format has a line less, it looks whole to a reader that counts nothing.
    let after_lines = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let last = [whole.len() - 1, whole.len() - 2];
    for length in evenly.chain(after_lines.filter(|length| *length < whole.len()).take(CUTS)).chain(last) {
        std::fs::write(&cut, &whole[..length]).expect("a file can be written");
        require_refused(&site, &cut);
    }
}

fn i6_a_damaged_store_can_be_restored(subject: &Subject) {
    let site = Site::with(subject, ["a", "b", "c"].map(completed));
    let backup = back_up(&site.writer(), &site.elsewhere("backups"));
    let going = site.writer().insert(running("going"));
    site.damage(&id("b"));
    let store = site.writer();
    assert_ne!(store.0.damage(), []);
    restore(&store, &backup.path);
    drop(store);
    let store = site.writer();
    assert_eq!(store.0.damage(), []);
    assert_eq!(store.all().len(), 4);
    assert_eq!(contents(vec![store.require(&going.id)]), contents(vec![going]));
    store.insert(completed("after"));
}

fn a_restored_store_is_the_same_store(subject: &Subject) {
    let site = Site::with(subject, [completed("a")]);
    let uuid = site.reader().0.describe().uuid;
    let backup = back_up(&site.writer(), &site.elsewhere("backups"));
    site.writer().insert(completed("b"));
    restore(&site.writer(), &backup.path);
    // What is marked with the store's identifier outside of it must stay its own.
    assert_eq!(site.reader().0.describe().uuid, uuid);
}
