//! Entry points of the fuzz target `stores`. Compiled only with `--cfg fuzzing`.

use std::collections::BTreeMap;

use sexton_core::{Session, SessionId};
use sexton_durable::Mark;

use crate::format::{self, ChangeLine, Line, LineChange};
use crate::health::{Contents, Health};
use crate::image::{Image, Lines, Rest};
use crate::index::Span;
use crate::snapshot::Snapshot;

/// Sets the correct checksum in every line, except those whose checksum begins with `x`.
pub fn seal(journal: &mut [u8]) {
    format::seal_all(journal);
}

/// Decodes one line, without its line break, and asserts that everything decoded is part of the line.
pub fn line(line: &[u8]) {
    let Ok(decoded) = format::decode(line) else { return };
    assert!(serde_json::from_slice::<serde::de::IgnoredAny>(line).is_ok(), "what is accepted is JSON");
    if let (Line::Change(_), Ok(document)) = (decoded, format::decode_record(line)) {
        let document = document.as_bytes();
        assert!(line.windows(document.len()).any(|part| part == document), "a record is a part of its line");
    }
}

/// Interprets a whole journal with a mark that claims the commit `claimed` of this or another store.
pub fn journal(bytes: &[u8], claimed: Option<(u64, bool)>) {
    let store = Image::read(bytes).map_or_else(|_| "s".to_owned(), |(image, _)| image.header.store);
    let mark = claimed.map(|(sequence, own)| Mark {
        store: if own { store } else { "another".to_owned() },
        sequence,
        stamp: None,
    });
    let Ok(contents) = Contents::interpret(bytes, mark.as_ref()) else {
        assert!(
            mark.is_none() && !bytes.starts_with(format::OPENING),
            "a journal is never rejected as not a journal"
        );
        return;
    };
    assert!(
        bytes.is_empty() || contents.health != Health::Absent,
        "a journal with content is never reported as absent"
    );
    if contents.health == Health::Damaged {
        assert!(contents.damage.iter().any(|damage| !damage.harmless), "damage is reported");
    }
    for (id, (_, span)) in records_of(&contents.image) {
        let document =
            format::decode_record(part(bytes, span)).expect("a listed record has a valid checksum");
        if let Ok(session) = Session::from_json(document) {
            assert_eq!(session.id, id);
        }
    }
    if contents.health == Health::Whole {
        written_anew(bytes, &contents.image);
    }
}

/// Asserts that a journal rewritten from the live records of another is intact and has the same content.
fn written_anew(bytes: &[u8], image: &Image) {
    let document = |span| format::decode_record(part(bytes, span)).expect("it was read before").to_owned();
    let entries = image.index.in_file_order().into_iter();
    let snapshot = Snapshot {
        store: image.header.store.clone(),
        format: image.header.format,
        seq: image.seq,
        records: entries.map(|(_, entry)| (entry.seq, document(entry.span))).collect(),
        counters: image.index.counters().clone(),
    };
    let encoded = snapshot.encode();
    let (again, rest) = Image::read(&encoded).unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!((rest, again.seq, &again.header.store), (Rest::Nothing, image.seq, &image.header.store));
    assert_eq!(again.index.counters(), image.index.counters());
    let found = records_of(&again);
    let before = records_of(image);
    assert!(found.keys().eq(before.keys()), "the same records");
    for (id, (seq, span)) in before {
        assert_eq!(found[&id].0, seq, "{id}");
        let again = format::decode_record(part(&encoded, found[&id].1));
        assert_eq!(again.as_deref(), Ok(document(span).as_str()), "{id} comes back byte for byte");
    }
}

/// Flips one bit of an intact journal and asserts that records outside that line are unchanged.
pub fn flipped(bytes: &[u8], position: usize) {
    let Ok((whole, Rest::Nothing)) = Image::read(bytes) else { return };
    let mut flipped = bytes.to_vec();
    let position = position % bytes.len();
    flipped[position] ^= 1;
    let mark = Mark { store: whole.header.store.clone(), sequence: whole.seq, stamp: None };
    let contents = Contents::interpret(&flipped, Some(&mark)).expect("with a mark it is a journal");
    assert_eq!(contents.health, Health::Damaged, "bit 0 of byte {position}");
    // A line that lost only its line break is intact.
    let spoiled = if bytes[position] == b'\n' { None } else { find_subject(bytes, position) };
    let found = records_of(&contents.image);
    for (id, (seq, _)) in records_of(&whole).into_iter().filter(|(id, _)| spoiled.as_ref() != Some(id)) {
        assert_eq!(
            found.get(&id).map(|(seq, _)| *seq),
            Some(seq),
            "{id} is outside the damage at {position}"
        );
    }
}

/// Returns the session that the line at `position` is about.
fn find_subject(bytes: &[u8], position: usize) -> Option<SessionId> {
    let (_, line) = Lines { bytes, at: 0 }
        .find(|(span, _)| (span.offset..=span.offset + span.length as u64).contains(&(position as u64)))?;
    match format::decode(line).expect("a whole journal has whole lines") {
        Line::Change(ChangeLine { change: LineChange::Put(summary), .. }) => Some(summary.id),
        Line::Change(ChangeLine { change: LineChange::Del(id), .. }) => Some(id),
        _ => None,
    }
}

fn records_of(image: &Image) -> BTreeMap<SessionId, (u64, Span)> {
    image.index.in_file_order().into_iter().map(|(id, entry)| (id.clone(), (entry.seq, entry.span))).collect()
}

fn part(bytes: &[u8], span: Span) -> &[u8] {
    let start = usize::try_from(span.offset).expect("a span lies in memory");
    &bytes[start..start + span.length]
}
