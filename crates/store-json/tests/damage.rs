//! Truncates and flips journals through files: nothing panics, no journal is reset, no loss goes unreported,
//! data outside the damage is unchanged, and a repair or a restore fixes it. src/every_byte.rs tries every
//! byte in memory; these tests try some bytes and both ends of every line.

#![allow(clippy::unwrap_used, reason = "test helpers may panic")]

use std::collections::{BTreeMap, BTreeSet};
use std::fs;

use pollster::block_on;
use sexton_core::store::Access;
use sexton_core::{Batch, Session, SessionId, Status};

mod support;
use support::{TestEnv, all, insert, moment, open, session};

/// A journal with every kind of line: base lines, counters, commits of one line and of several, replaced and
/// removed records. 50 records remain.
struct Specimen {
    bytes: Vec<u8>,
    mark: Vec<u8>,
    backup: Vec<u8>,
    records: BTreeMap<SessionId, Session>,
    /// The start of each line, and the session it is about.
    lines: Vec<(usize, Option<SessionId>)>,
}

impl Specimen {
    fn new() -> Specimen {
        let test_env = TestEnv::new();
        let store = test_env.writer();
        for n in 0..20 {
            insert(store.as_ref(), &format!("base-{n:02}"));
        }
        block_on(store.commit(Batch::new().count("started", 20))).unwrap();
        let backup = block_on(store.backup(&test_env.file("backups"), moment(1))).unwrap();
        block_on(store.restore(&backup.path, moment(2))).unwrap();
        for n in 0..10 {
            let several = (0..3).map(|part| session(&format!("part-{n}-{part}"), Status::Running));
            block_on(store.commit(several.fold(Batch::new().count("started", 3), Batch::insert))).unwrap();
        }
        for n in 0..2 {
            let id = format!("gone-{n}");
            insert(store.as_ref(), &id);
            let gone = block_on(store.load(&id.parse().unwrap())).unwrap().unwrap();
            block_on(store.commit(Batch::new().remove(&gone))).unwrap();
        }
        for n in 0..3 {
            let mut changed =
                block_on(store.load(&format!("base-{n:02}").parse().unwrap())).unwrap().unwrap();
            changed.ticket = Some("changed".to_owned());
            block_on(store.commit(Batch::new().replace(changed))).unwrap();
        }
        let records = all(store.as_ref()).sessions.into_iter().map(|session| (session.id.clone(), session));
        let (records, bytes) = (records.collect(), test_env.bytes());
        let lines = lines_of(&bytes);
        let mark = fs::read(test_env.mark()).unwrap();
        let specimen = Specimen { lines, bytes, mark, backup: fs::read(backup.path).unwrap(), records };
        assert_eq!(specimen.records.len(), 50);
        specimen
    }

    /// Returns the session that the line at `position` is about; `None` for a line break.
    fn affected_session(&self, position: usize) -> Option<&SessionId> {
        let line = self.lines.partition_point(|(start, _)| *start <= position) - 1;
        self.lines[line].1.as_ref().filter(|_| self.bytes[position] != b'\n')
    }

    fn flipped(&self, position: usize) -> Vec<u8> {
        let mut bytes = self.bytes.clone();
        bytes[position] ^= 0x01;
        bytes
    }

    fn put_into(&self, test_env: &TestEnv, bytes: &[u8]) {
        fs::write(test_env.path(), bytes).unwrap();
        fs::write(test_env.mark(), &self.mark).unwrap();
    }

    /// Opens the journal in `test_env` and asserts that any loss is reported and that every record not in
    /// `spoiled` is unchanged. Returns whether damage was reported.
    fn require_damage_reported(
        &self,
        test_env: &TestEnv,
        what: &str,
        spoiled: impl Fn(&SessionId) -> bool,
    ) -> bool {
        let store = open(&test_env.path(), Access::Read).unwrap_or_else(|error| panic!("{what}: {error}"));
        let listing = all(store.as_ref());
        let found: BTreeMap<_, _> =
            listing.sessions.into_iter().map(|session| (session.id.clone(), session)).collect();
        let whole = found == self.records;
        assert!(
            whole || listing.damage.iter().any(|damage| !damage.harmless),
            "{what}: the loss is not reported"
        );
        assert_eq!(listing.damage, store.damage(), "{what}");
        for (id, session) in &self.records {
            assert!(spoiled(id) || found.get(id) == Some(session), "{what}: {id} is outside the damage");
        }
        for id in found.keys().filter(|id| !self.records.contains_key(*id)) {
            assert!(spoiled(id), "{what}: {id} was removed, and no line about it is damaged");
        }
        !listing.damage.is_empty()
    }

    /// Repairs the journal in `test_env` and asserts that the readable records are kept and that it is
    /// writable.
    fn require_repairable(&self, test_env: &TestEnv, what: &str) {
        let before = all(test_env.reader().as_ref()).sessions;
        let store = test_env.writer();
        let damaged = store.damage().iter().any(|damage| !damage.harmless);
        if damaged {
            let refused = block_on(store.commit(Batch::new().insert(session("new", Status::Running))));
            assert!(
                refused.is_err_and(|error| error.is_store_unusable()),
                "{what}: a damaged store was written"
            );
        }
        let report = block_on(store.repair(moment(9))).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(report.quarantine.is_some(), damaged, "{what}");
        assert_eq!(all(store.as_ref()).sessions, before, "{what}: the repair lost something");
        insert(store.as_ref(), "new");
        let reader = test_env.reader();
        assert_eq!(reader.damage(), [], "{what}");
        assert_eq!(all(reader.as_ref()).sessions.len(), before.len() + 1, "{what}");
        assert_eq!(block_on(store.repair(moment(9))).unwrap().quarantine, None, "{what}: a second repair");
    }

    /// Restores the backup over the journal in `test_env`.
    fn require_restorable(&self, test_env: &TestEnv, what: &str) {
        let backup = test_env.file("backup.jsonl");
        fs::write(&backup, &self.backup).unwrap();
        let store = test_env.writer();
        block_on(store.restore(&backup, moment(9))).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert_eq!(store.damage(), [], "{what}");
        let found = all(store.as_ref());
        for n in 0..20 {
            let id: SessionId = format!("base-{n:02}").parse().unwrap();
            assert!(found.sessions.iter().any(|session| session.id == id), "{what}: {id} was not restored");
        }
        insert(store.as_ref(), "new");
    }
}

fn lines_of(bytes: &[u8]) -> Vec<(usize, Option<SessionId>)> {
    let mut at = 0;
    let mut lines = Vec::new();
    for line in bytes.split_inclusive(|byte| *byte == b'\n') {
        let value: serde_json::Value = serde_json::from_slice(line).unwrap();
        let id = value["put"]["id"].as_str().or(value["del"].as_str());
        lines.push((at, id.map(|id| id.parse().unwrap())));
        at += line.len();
    }
    lines
}

/// Returns positions at every `stride`, and those around both ends of every line.
fn positions(specimen: &Specimen, stride: usize) -> BTreeSet<usize> {
    let around = specimen.lines.iter().flat_map(|(start, _)| start.saturating_sub(2)..=*start);
    let length = specimen.bytes.len();
    around.chain((0..length).step_by(stride)).chain([length - 1]).filter(|at| *at < length).collect()
}

/// Returns whether truncation at `cut` loses the record of `id`: its last line does not end before `cut`.
fn lost_by_cut(specimen: &Specimen, cut: usize, id: &SessionId) -> bool {
    let last = specimen.lines.iter().rposition(|(_, about)| about.as_ref() == Some(id));
    last.is_none_or(|line| specimen.lines.get(line + 1).map_or(specimen.bytes.len(), |next| next.0) > cut + 1)
}

#[test]
fn i6_truncation_is_reported_and_keeps_earlier_records() {
    let specimen = Specimen::new();
    let test_env = TestEnv::new();
    for cut in positions(&specimen, 211) {
        specimen.put_into(&test_env, &specimen.bytes[..cut]);
        let what = format!("cut at {cut}");
        let reported =
            specimen.require_damage_reported(&test_env, &what, |id| lost_by_cut(&specimen, cut, id));
        assert!(reported, "{what}: no damage reported");
    }
}

#[test]
fn i6_a_flipped_byte_is_detected_and_damages_only_its_record() {
    let specimen = Specimen::new();
    let test_env = TestEnv::new();
    for position in positions(&specimen, 211) {
        specimen.put_into(&test_env, &specimen.flipped(position));
        let what = format!("byte {position} flipped");
        let reported = specimen
            .require_damage_reported(&test_env, &what, |id| specimen.affected_session(position) == Some(id));
        assert!(reported, "{what}: no damage reported");
    }
}

#[test]
fn i6_a_flipped_or_truncated_mark_loses_no_record() {
    let specimen = Specimen::new();
    let test_env = TestEnv::new();
    // After its text, the mark is padded with blanks.
    for position in (0..specimen.mark.len()).filter(|at| *at < 64 || at % 16 == 0) {
        let mut mark = specimen.mark.clone();
        mark[position] ^= 0x01;
        for mark in [&mark[..], &specimen.mark[..position]] {
            specimen.put_into(&test_env, &specimen.bytes);
            fs::write(test_env.mark(), mark).unwrap();
            assert!(!specimen.require_damage_reported(&test_env, &format!("mark at {position}"), |_| false));
        }
        if position % 16 == 0 {
            insert(test_env.writer().as_ref(), "new");
            assert_eq!(all(test_env.reader().as_ref()).sessions.len(), 51);
        }
    }
}

#[test]
fn i6_every_damaged_journal_can_be_repaired_and_restored() {
    let specimen = Specimen::new();
    for position in positions(&specimen, 1999) {
        for (bytes, what) in [
            (specimen.flipped(position), format!("byte {position} flipped")),
            (specimen.bytes[..position].to_vec(), format!("cut at {position}")),
        ] {
            let test_env = TestEnv::new();
            specimen.put_into(&test_env, &bytes);
            specimen.require_repairable(&test_env, &what);
            let test_env = TestEnv::new();
            specimen.put_into(&test_env, &bytes);
            specimen.require_restorable(&test_env, &what);
        }
    }
}
