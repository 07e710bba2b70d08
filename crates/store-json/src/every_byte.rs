//! Truncates a journal of fifty records at every byte, flips every byte, and turns bytes into line breaks, in
//! memory. A journal either reads as before or reports the damage, and everything outside the damage is
//! unchanged. tests/damage.rs does the same through files, with repair and restore.

use std::collections::{BTreeMap, BTreeSet};

use sexton_core::SessionId;
use sexton_durable::Mark;

use crate::format::{self, Header, OLDEST, Place};
use crate::health::{Contents, Health};
use crate::image::{Image, Rest};
use crate::index::Span;

/// The records of a journal: each record's revision and line.
type Records = BTreeMap<SessionId, (u64, Span)>;

/// A journal with every kind of line, and its expected records.
struct Specimen {
    bytes: Vec<u8>,
    mark: Mark,
    records: Records,
    /// The start of each line, and the session it is about.
    lines: Vec<(usize, Option<SessionId>)>,
}

fn record(id: &str) -> String {
    format!(r#"{{"schema":1,"id":"{id}","status":"running","created_at":"2026-01-02T03:04:05Z"}}"#)
}

impl Specimen {
    /// Creates a journal of 20 base lines and the counters, ten commits of four lines, and three that
    /// replace, insert and remove.
    fn new() -> Specimen {
        let mut bytes = Vec::new();
        format::write_header(&mut bytes, &Header { format: OLDEST, store: "s".into(), seq: 30, base: 21 });
        for number in 1..=20 {
            format::write_put(
                &mut bytes,
                number,
                Place::Base { number, of: 21 },
                &record(&format!("base-{number}")),
            );
        }
        let counters = BTreeMap::from([("started".to_owned(), 20)]);
        format::write_add(&mut bytes, 30, Place::Base { number: 21, of: 21 }, &counters);
        for seq in 31..=40 {
            for number in 1..=3 {
                let place = Place::Part { seq, number, of: 4 };
                format::write_put(&mut bytes, seq, place, &record(&format!("part-{seq}-{number}")));
            }
            format::write_add(&mut bytes, seq, Place::Part { seq, number: 4, of: 4 }, &counters);
        }
        let alone = |seq| Place::Part { seq, number: 1, of: 1 };
        format::write_put(&mut bytes, 41, alone(41), &record("base-1"));
        format::write_put(&mut bytes, 42, alone(42), &record("gone"));
        format::write_del(&mut bytes, 43, alone(43), &"gone".parse().unwrap());
        let (image, rest) = Image::read(&bytes).unwrap();
        assert_eq!((image.seq, rest), (43, Rest::Nothing));
        let records = records_of(&image);
        assert_eq!(records.len(), 50);
        let mark = Mark { store: "s".into(), sequence: 43, stamp: None };
        Specimen { lines: lines_of(&bytes), bytes, mark, records }
    }

    fn line_around(&self, position: usize) -> usize {
        self.lines.partition_point(|(start, _)| *start <= position) - 1
    }

    /// Asserts that `bytes` is reported as damaged and that only records in `spoiled` are affected.
    fn require_damage_reported(&self, bytes: &[u8], what: &str, spoiled: &BTreeSet<&SessionId>) -> Contents {
        let contents = Contents::interpret(bytes, Some(&self.mark)).unwrap();
        assert_eq!(contents.health, Health::Damaged, "{what}: no damage reported");
        assert!(contents.damage.iter().any(|damage| !damage.harmless), "{what}: no damage reported");
        let found = records_of(&contents.image);
        for (id, record) in &self.records {
            assert!(
                spoiled.contains(id) || found.get(id) == Some(record),
                "{what}: {id} is outside the damage"
            );
        }
        for id in found.keys().filter(|id| !self.records.contains_key(*id)) {
            assert!(spoiled.contains(id), "{what}: {id} was removed, and no line about it is damaged");
        }
        contents
    }
}

fn records_of(image: &Image) -> Records {
    image.index.in_file_order().into_iter().map(|(id, entry)| (id.clone(), (entry.seq, entry.span))).collect()
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

#[test]
fn i6_truncation_at_any_byte_is_reported_and_keeps_earlier_records() {
    let specimen = Specimen::new();
    for cut in 1..specimen.bytes.len() {
        let line = specimen.line_around(cut);
        // A line that lost only its line break is intact.
        let first_lost = if specimen.bytes[cut] == b'\n' { line + 1 } else { line };
        let spoiled = specimen.lines[first_lost..].iter().filter_map(|(_, id)| id.as_ref()).collect();
        specimen.require_damage_reported(&specimen.bytes[..cut], &format!("cut at {cut}"), &spoiled);
    }
}

#[test]
fn i6_a_flipped_byte_is_detected_and_damages_only_its_line() {
    let specimen = Specimen::new();
    let mut bytes = specimen.bytes.clone();
    for position in 0..bytes.len() {
        let original = bytes[position];
        let line_break = original == b'\n';
        // Every byte is flipped; every third one is also replaced by a line break, which splits a line.
        let line_broken = Some(b'\n').filter(|_| position % 3 == 0 && !line_break);
        for spoiled_byte in [Some(original ^ 0x01), line_broken].into_iter().flatten() {
            bytes[position] = spoiled_byte;
            let about = specimen.lines[specimen.line_around(position)].1.as_ref();
            let spoiled = about.filter(|_| !line_break).into_iter().collect();
            let what = format!("byte {position} made {spoiled_byte:#x}");
            let contents = specimen.require_damage_reported(&bytes, &what, &spoiled);
            assert!(line_break || contents.damage.len() <= 2, "{what}: {:?}", contents.damage);
        }
        bytes[position] = original;
    }
}

#[test]
fn i6_a_deleted_line_is_detected() {
    let specimen = Specimen::new();
    for (line, (start, about)) in specimen.lines.iter().enumerate() {
        let end = specimen.lines.get(line + 1).map_or(specimen.bytes.len(), |next| next.0);
        let without = [&specimen.bytes[..*start], &specimen.bytes[end..]].concat();
        let contents = Contents::interpret(&without, Some(&specimen.mark)).unwrap();
        assert_eq!(contents.health, Health::Damaged, "line {}", line + 1);
        let found = records_of(&contents.image);
        for (id, (seq, _)) in &specimen.records {
            let kept = found.get(id).is_some_and(|(found, _)| found == seq);
            assert!(kept || about.as_ref() == Some(id), "line {} is not about {id}", line + 1);
        }
    }
}

#[test]
fn i6_a_truncated_journal_without_mark_shows_only_complete_commits() {
    let specimen = Specimen::new();
    for cut in specimen.lines[22].0..specimen.bytes.len() {
        let contents = Contents::interpret(&specimen.bytes[..cut], None).unwrap();
        assert!(matches!(contents.health, Health::Whole | Health::Torn), "cut at {cut}");
        let per_commit = |seq: u64| {
            let of_it = |(_, (revision, _)): &(&SessionId, &(u64, Span))| *revision == seq;
            records_of(&contents.image).iter().filter(of_it).count()
        };
        assert!(
            (31..=40).all(|seq| [0, 3].contains(&per_commit(seq))),
            "cut at {cut}: an incomplete commit is shown"
        );
    }
}
