//! Backups, and which records a restore replaces and keeps.

use std::path::{Path, PathBuf};

use pollster::block_on;
use sexton_core::store::{Backup, Restored};
use sexton_core::{Batch, Session, Status, StoreError};

use super::Subject;
use super::needs::COMMIT_REVISIONS;
use super::samples::{completed, everything, id, mark_of, moment, running, varied, with_status};
use super::test_env::{Handle, TestEnv};
use crate::trials::{Theme, theme};

pub(super) const THEME: Theme<Subject> = theme!("backups":
    backup_is_a_file_with_all_records,
    backups_in_one_directory_do_not_overwrite_each_other,
    backup_does_not_change_the_store,
    restore_reverts_changed_and_removed_records,
    restore_keeps_records_that_are_not_finished,
    restore_into_a_new_store_has_all_records,
    i6_revision_read_before_a_restore_is_stale,
    i6_restored_store_uses_new_revisions: [COMMIT_REVISIONS],
    i6_bad_backup_is_refused_and_changes_nothing,
    i6_truncated_backup_is_refused,
    i6_damaged_store_can_be_restored,
    restored_store_keeps_its_uuid,
);

fn back_up(store: &Handle, directory: &Path) -> Backup {
    block_on(store.0.backup(directory, moment(1000))).expect("a backup is made")
}

fn restore(store: &Handle, backup: &Path) -> Restored {
    block_on(store.0.restore(backup, moment(2000))).expect("the backup is restored")
}

/// Returns records of another store as `store` represents them: what a store adds may depend on its path.
fn moved(store: &Handle, sessions: Vec<Session>) -> Vec<Session> {
    contents(sessions.into_iter().map(|session| store.fit(session)).collect())
}

/// Returns records without revisions, which a restore may change.
fn contents(sessions: Vec<Session>) -> Vec<Session> {
    sessions.into_iter().map(|session| Session { revision: 0, ..session }).collect()
}

fn backup_is_a_file_with_all_records(subject: &Subject) {
    let test_env = TestEnv::with(subject, (0..30).map(varied));
    let store = test_env.writer();
    let stored = store.insert(everything());
    // Missing directories are created.
    let backup = back_up(&store, &test_env.elsewhere("deep/backups"));
    assert_eq!(backup.records, 31);
    assert!(backup.path.starts_with(test_env.elsewhere("deep/backups")), "{}", backup.path.display());
    assert!(std::fs::metadata(&backup.path).expect("the backup is there").len() > 0);
    let other = TestEnv::new(subject);
    restore(&other.writer(), &backup.path);
    assert_eq!(contents(other.reader().all()), moved(&other.reader(), store.all()));
    let restored = other.reader().require(&stored.id);
    assert_eq!(contents(vec![restored]), moved(&other.reader(), vec![stored]));
}

fn backups_in_one_directory_do_not_overwrite_each_other(subject: &Subject) {
    let test_env = TestEnv::with(subject, [completed("a")]);
    let store = test_env.writer();
    let directory = test_env.elsewhere("backups");
    let first = back_up(&store, &directory);
    store.insert(completed("b"));
    let second = block_on(store.0.backup(&directory, moment(1001))).expect("a second backup");
    assert_ne!(first.path, second.path);
    // Backups with the same time must not overwrite each other either.
    let third = block_on(store.0.backup(&directory, moment(1001)));
    let kept: Vec<PathBuf> = [Some(&first), Some(&second), third.as_ref().ok()]
        .into_iter()
        .flatten()
        .map(|backup| backup.path.clone())
        .collect();
    assert!(kept.iter().all(|path| path.exists()));
    restore(&store, &first.path);
    assert_eq!(store.all().len(), 1, "the first backup is unchanged");
}

fn backup_does_not_change_the_store(subject: &Subject) {
    let test_env = TestEnv::with(subject, (0..10).map(varied));
    let store = test_env.writer();
    let before = store.all();
    back_up(&store, &test_env.elsewhere("backups"));
    back_up(&test_env.reader(), &test_env.elsewhere("from a reader"));
    assert_eq!(store.all(), before);
    store.insert(completed("after"));
}

fn restore_reverts_changed_and_removed_records(subject: &Subject) {
    let test_env = TestEnv::with(subject, ["changed", "removed", "same"].map(completed));
    let store = test_env.writer();
    let backup = back_up(&store, &test_env.elsewhere("backups"));
    let before = contents(store.all());
    let mut changed = store.require(&id("changed"));
    store.mark(&mut changed, "T-9");
    store.replace(changed);
    store.commit(Batch::new().remove(&store.require(&id("removed"))));
    store.insert(completed("later"));
    let report = restore(&store, &backup.path);
    assert_eq!(report, Restored { restored: 3, kept: 0 });
    for handle in [store, test_env.writer(), test_env.reader()] {
        assert_eq!(contents(handle.all()), before);
        assert_eq!(handle.find(&id("later")), None);
    }
}

fn restore_keeps_records_that_are_not_finished(subject: &Subject) {
    let test_env = TestEnv::with(subject, [running("going"), running("ended"), completed("old")]);
    let store = test_env.writer();
    let unfinished = store.insert(with_status(&running("unfinished"), Status::CleanupFailed));
    let backup = back_up(&store, &test_env.elsewhere("backups"));
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
    assert_eq!(store.require(&unfinished.id).status, unfinished.status);
    // Records that are finished now are replaced by those of the backup.
    assert_eq!(store.require(&id("ended")).status, Status::Running);
    assert_eq!(store.require(&id("old")).status, Status::Completed);
    assert_eq!(store.all().len(), 5);
}

fn restore_into_a_new_store_has_all_records(subject: &Subject) {
    let test_env = TestEnv::with(subject, (0..25).map(varied));
    let backup = back_up(&test_env.reader(), &test_env.elsewhere("backups"));
    let other = TestEnv::new(subject);
    let report = restore(&other.writer(), &backup.path);
    assert_eq!(report, Restored { restored: 25, kept: 0 });
    assert_eq!(contents(other.writer().all()), moved(&other.writer(), test_env.reader().all()));
    other.writer().insert(completed("after"));
}

fn i6_revision_read_before_a_restore_is_stale(subject: &Subject) {
    let test_env = TestEnv::with(subject, [completed("a")]);
    let store = test_env.writer();
    let backup = back_up(&store, &test_env.elsewhere("backups"));
    let mut newer = store.require(&id("a"));
    store.mark(&mut newer, "T-1");
    let newer = store.replace(newer);
    restore(&store, &backup.path);
    let error = store.try_commit(Batch::new().replace(newer)).expect_err("it was read before the restore");
    assert!(matches!(error, StoreError::Conflict { .. }), "{error:?}");
    let restored = test_env.writer().require(&id("a"));
    assert_ne!(mark_of(&restored), Some("T-1"));
    test_env.writer().replace(restored);
}

fn i6_restored_store_uses_new_revisions(subject: &Subject) {
    let test_env = TestEnv::with(subject, [completed("a")]);
    let store = test_env.writer();
    let backup = back_up(&store, &test_env.elsewhere("backups"));
    let mut used: Vec<u64> = store.all().into_iter().map(|session| session.revision).collect();
    for n in 0..5 {
        used.push(store.insert(completed(&format!("b{n}"))).revision);
    }
    restore(&store, &backup.path);
    let next = test_env.writer().insert(completed("b3")).revision;
    assert!(!used.contains(&next), "revision {next} was reused: a stale reader would match");
}

fn require_refused(test_env: &TestEnv, backup: &Path) {
    let store = test_env.writer();
    let (before, bytes) = (store.all(), test_env.bytes());
    let error = block_on(store.0.restore(backup, moment(2000))).expect_err("the backup is bad");
    assert!(matches!(error, StoreError::BadBackup { .. }), "{error:?}");
    assert_eq!(test_env.bytes(), bytes, "a refused restore changed the store's files");
    assert_eq!(store.all(), before);
    if test_env.counts() {
        store.commit(Batch::new().count("still writable", 1));
    }
}

fn i6_bad_backup_is_refused_and_changes_nothing(subject: &Subject) {
    let test_env = TestEnv::with(subject, (0..10).map(varied));
    let directory = test_env.elsewhere("bad");
    std::fs::create_dir(&directory).expect("a directory can be made");
    let bad: [(&str, &[u8]); 3] = [("empty", b""), ("text", b"plain text\n"), ("bytes", &[0xA5; 9000])];
    for (name, bytes) in bad {
        std::fs::write(directory.join(name), bytes).expect("a file can be written");
        require_refused(&test_env, &directory.join(name));
    }
    require_refused(&test_env, &directory.join("missing"));
    require_refused(&test_env, &directory);
}

fn i6_truncated_backup_is_refused(subject: &Subject) {
    const CUTS: usize = 40;
    let test_env = TestEnv::with(subject, (0..10).map(varied));
    let backup = back_up(&test_env.writer(), &test_env.elsewhere("backups"));
    let whole = std::fs::read(&backup.path).expect("the backup can be read");
    let cut = test_env.elsewhere("cut");
    let evenly = (0..CUTS).map(|n| whole.len() * n / CUTS);
    // A text format without its last lines looks complete to a reader that does not count them.
    let after_lines = whole.iter().enumerate().filter(|(_, byte)| **byte == b'\n').map(|(at, _)| at + 1);
    let last = [whole.len() - 1, whole.len() - 2];
    for length in evenly.chain(after_lines.filter(|length| *length < whole.len()).take(CUTS)).chain(last) {
        std::fs::write(&cut, &whole[..length]).expect("a file can be written");
        require_refused(&test_env, &cut);
    }
}

fn i6_damaged_store_can_be_restored(subject: &Subject) {
    let test_env = TestEnv::with(subject, ["a", "b", "c"].map(completed));
    let backup = back_up(&test_env.writer(), &test_env.elsewhere("backups"));
    let going = test_env.writer().insert(running("going"));
    test_env.damage(&id("b"));
    let store = test_env.writer();
    assert_ne!(store.0.damage(), []);
    restore(&store, &backup.path);
    drop(store);
    let store = test_env.writer();
    assert_eq!(store.0.damage(), []);
    assert_eq!(store.all().len(), 4);
    assert_eq!(contents(vec![store.require(&going.id)]), contents(vec![going]));
    store.insert(completed("after"));
}

fn restored_store_keeps_its_uuid(subject: &Subject) {
    let test_env = TestEnv::with(subject, [completed("a")]);
    let uuid = test_env.reader().0.describe().uuid;
    let backup = back_up(&test_env.writer(), &test_env.elsewhere("backups"));
    test_env.writer().insert(completed("b"));
    restore(&test_env.writer(), &backup.path);
    // Files outside of the store are marked with its uuid and must still belong to it.
    assert_eq!(test_env.reader().0.describe().uuid, uuid);
}
