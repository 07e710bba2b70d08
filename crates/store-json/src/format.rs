//! Encoding and decoding of one line of the journal, with its checksum.
//!
//! The checksum covers the raw bytes that follow it, so that programs need not agree on a JSON spelling. This
//! module knows nothing about files or the order of lines.

use std::collections::BTreeMap;
use std::io::Write;

use serde::Deserialize;
use serde_json::value::RawValue;
use sexton_core::SessionId;

use crate::summary::{self, Summary};

/// The oldest format, which every release reads.
pub(crate) const OLDEST: u64 = 1;

/// The first release that supports each format, oldest first. The last one is not released; only tests use
/// it.
const RELEASES: [&str; 2] = ["0.1.0", sexton_mutant::TRIAL_RELEASE];

/// Returns the newest format that this program writes.
pub(crate) fn newest() -> u64 {
    releases().len() as u64
}

/// Returns the first release that supports the newest format.
pub(crate) fn since() -> &'static str {
    releases().last().copied().unwrap_or_default()
}

fn releases() -> &'static [&'static str] {
    if sexton_mutant::has_trial_format() { &RELEASES } else { &RELEASES[..RELEASES.len() - 1] }
}

/// The largest number allowed in a line: more commits than can ever be made, and small enough that sums of
/// such numbers do not overflow.
pub(crate) const LARGEST: u64 = 1 << 60;

/// The start of every line. JSON escapes quotes inside strings, so no text in a record contains it; an object
/// in a record may.
pub(crate) const OPENING: &[u8] = b"{\"crc\":\"";
const DIGITS: usize = 8;
const BEHIND_DIGITS: &[u8] = b"\",";
const HEADER_OPENING: &[u8] = b"\"sexton\":\"journal\"";

/// The first line: the store's identity and the commit number that it starts from.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub(crate) struct Header {
    /// The format of the lines that follow.
    pub(crate) format: u64,
    /// The store's identifier.
    pub(crate) store: String,
    /// The commit that the base lines represent; the next commit has the next number.
    #[serde(default)]
    pub(crate) seq: u64,
    /// The number of base lines that follow.
    #[serde(default)]
    pub(crate) base: u64,
}

/// The position of a line in its commit or among the base lines.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// One of the lines at the start of a rewritten journal.
    Base { number: u64, of: u64 },
    /// One of the lines of the commit `seq`.
    Part { seq: u64, number: u64, of: u64 },
}

/// The change that a line records.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum LineChange {
    /// The new content of a record.
    Put(Box<Summary>),
    /// The removal of a record.
    Del(SessionId),
    /// Increments of counters.
    Add(BTreeMap<String, u64>),
}

/// A line after the header.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ChangeLine {
    /// The commit that made the change; also the revision of a record that the line puts.
    pub(crate) seq: u64,
    /// The position of the line.
    pub(crate) place: Place,
    /// The change.
    pub(crate) change: LineChange,
}

/// A valid line.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Line {
    /// The first line.
    Header(Header),
    /// Any other line.
    Change(ChangeLine),
}

/// Why a line cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum LineError {
    /// The bytes are not the ones that were written.
    Checksum,
    /// The bytes are as written, but this version cannot interpret them.
    Meaningless(String),
}

impl std::fmt::Display for LineError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            LineError::Checksum => f.write_str("the checksum does not match"),
            LineError::Meaningless(why) => write!(f, "this version cannot interpret it ({why})"),
        }
    }
}

/// The fields of a line after the header; `P` is the part of a record that is read.
#[derive(Deserialize)]
struct Fields<P> {
    seq: u64,
    part: Option<(u64, u64)>,
    base: Option<(u64, u64)>,
    put: Option<P>,
    del: Option<SessionId>,
    add: Option<BTreeMap<String, u64>>,
}

/// Appends the header's line to `out`.
pub(crate) fn write_header(out: &mut Vec<u8>, header: &Header) {
    let Header { format, store, seq, base } = header;
    let store = json(store);
    seal(
        out,
        &format!(
            "\"sexton\":\"journal\",\"format\":{format},\"store\":{store},\"seq\":{seq},\"base\":{base}}}"
        ),
    );
}

/// Appends to `out` the line that puts `record`, a JSON document on one line, at `place`.
pub(crate) fn write_put(out: &mut Vec<u8>, seq: u64, place: Place, record: &str) {
    seal(out, &format!("{},\"put\":{record}}}", position(seq, place)));
}

/// Appends to `out` the line that removes the record of `id`.
pub(crate) fn write_del(out: &mut Vec<u8>, seq: u64, place: Place, id: &SessionId) {
    seal(out, &format!("{},\"del\":\"{id}\"}}", position(seq, place)));
}

/// Appends to `out` the line that adds to `counters`.
pub(crate) fn write_add(out: &mut Vec<u8>, seq: u64, place: Place, counters: &BTreeMap<String, u64>) {
    seal(out, &format!("{},\"add\":{}}}", position(seq, place), json(counters)));
}

fn position(seq: u64, place: Place) -> String {
    match place {
        Place::Base { number, of } => format!("\"seq\":{seq},\"base\":[{number},{of}]"),
        Place::Part { number, of, .. } => format!("\"seq\":{seq},\"part\":[{number},{of}]"),
    }
}

fn json(value: &impl serde::Serialize) -> String {
    serde_json::to_string(value).expect("strings and numbers can be serialized")
}

fn seal(out: &mut Vec<u8>, rest: &str) {
    let crc = crc32fast::hash(rest.as_bytes());
    writeln!(out, "{{\"crc\":\"{crc:08x}\",{rest}").expect("writing to memory does not fail");
}

/// Returns the bytes after the checksum of `line` (without its line break) if the checksum matches.
fn unseal(line: &[u8]) -> Option<&[u8]> {
    let behind = line.strip_prefix(OPENING)?;
    let (digits, rest) = if sexton_mutant::is("believe_lines") {
        behind.split_at(DIGITS)
    } else {
        behind.split_at_checked(DIGITS)?
    };
    let rest = rest.strip_prefix(BEHIND_DIGITS)?;
    // Only one spelling is accepted: a flipped bit that turns `a` into `A` is damage too.
    (hexadecimal(crc32fast::hash(rest)) == digits || sexton_mutant::is("no_checksum")).then_some(rest)
}

/// Sets the correct checksum in every line of `bytes` that has one, so that a fuzzer's changes reach the
/// parser. A line whose checksum begins with `x` keeps its wrong checksum.
#[cfg(fuzzing)]
pub(crate) fn seal_all(bytes: &mut [u8]) {
    for line in bytes.split_mut(|byte| *byte == b'\n') {
        let from = OPENING.len();
        if unsealed(line).is_some_and(|digits| !digits.starts_with(b"x")) {
            let crc = crc32fast::hash(&line[from + DIGITS + BEHIND_DIGITS.len()..]);
            line[from..from + DIGITS].copy_from_slice(&hexadecimal(crc));
        }
    }
}

#[cfg(fuzzing)]
fn unsealed(line: &[u8]) -> Option<&[u8]> {
    let (digits, rest) = line.strip_prefix(OPENING)?.split_at_checked(DIGITS)?;
    rest.starts_with(BEHIND_DIGITS).then_some(digits)
}

/// Returns the eight digits of a checksum. Called for every line that is read, so it does not allocate.
fn hexadecimal(crc: u32) -> [u8; DIGITS] {
    let mut digits = [0; DIGITS];
    for (digit, shift) in digits.iter_mut().zip((0..u32::BITS).step_by(4).rev()) {
        *digit = b"0123456789abcdef"[(crc >> shift & 0xf) as usize];
    }
    digits
}

/// Decodes a line, given without its line break.
pub(crate) fn decode(line: &[u8]) -> Result<Line, LineError> {
    let rest = unseal(line).ok_or(LineError::Checksum)?;
    // The parser does not validate the skipped parts of a record, and they must be UTF-8 too.
    let text = str::from_utf8(line).map_err(|error| LineError::Meaningless(error.to_string()))?;
    if rest.starts_with(HEADER_OPENING) {
        let header: Header = serde_json::from_str(text).map_err(meaningless)?;
        require_countable([header.seq, header.base])?;
        return Ok(Line::Header(header));
    }
    let fields = match serde_json::from_str::<Fields<Summary>>(text) {
        Ok(fields) => fields,
        Err(error) => decode_newer(text).ok_or_else(|| meaningless(error))?,
    };
    fields.into_line().map(Line::Change)
}

fn require_countable(numbers: [u64; 2]) -> Result<(), LineError> {
    let countable = numbers.into_iter().all(|number| number <= LARGEST);
    countable.then_some(()).ok_or_else(|| LineError::Meaningless("a number is too large".to_owned()))
}

/// Decodes a line with a record of a newer version, of which only a few fields are known.
fn decode_newer(line: &str) -> Option<Fields<Summary>> {
    let Fields { seq, part, base, put, del, add } =
        serde_json::from_str::<Fields<summary::Newer>>(line).ok()?;
    let put = Some(put?.into_summary()?);
    Some(Fields { seq, part, base, put, del, add })
}

/// Returns the record's document in a line that puts one, exactly as it was written.
pub(crate) fn decode_record(line: &[u8]) -> Result<&str, LineError> {
    unseal(line).ok_or(LineError::Checksum)?;
    let fields: Fields<&RawValue> = serde_json::from_slice(line).map_err(meaningless)?;
    let record = fields.put.ok_or_else(|| LineError::Meaningless("it contains no record".to_owned()))?;
    Ok(record.get())
}

#[allow(clippy::needless_pass_by_value, reason = "the signature that map_err requires")]
fn meaningless(error: serde_json::Error) -> LineError {
    LineError::Meaningless(error.to_string())
}

impl Fields<Summary> {
    fn into_line(self) -> Result<ChangeLine, LineError> {
        let seq = self.seq;
        let place = match (self.part, self.base) {
            (Some((number, of)), None) => Place::Part { seq, number, of },
            (None, Some((number, of))) => Place::Base { number, of },
            _ => return Err(LineError::Meaningless("it has no position".to_owned())),
        };
        let (
            Place::Part { of, .. } | Place::Base { of, .. },
            Place::Part { number, .. } | Place::Base { number, .. },
        ) = (place, place);
        require_countable([seq, of.max(number)])?;
        let change = match (self.put, self.del, self.add) {
            (Some(summary), None, None) => LineChange::Put(Box::new(summary)),
            (None, Some(id), None) => LineChange::Del(id),
            (None, None, Some(counters)) => LineChange::Add(counters),
            _ => return Err(LineError::Meaningless("it does not contain exactly one change".to_owned())),
        };
        Ok(ChangeLine { seq, place, change })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::summary::NewerRecord;

    const PLACE: Place = Place::Part { seq: 12, number: 1, of: 3 };
    const RECORD: &str =
        r#"{"schema":1,"id":"abc","status":"running","created_at":"2026-01-02T03:04:05Z","new":[1]}"#;

    fn put() -> Vec<u8> {
        let mut line = Vec::new();
        write_put(&mut line, 12, PLACE, RECORD);
        assert_eq!(line.pop(), Some(b'\n'));
        line
    }

    #[test]
    fn a_line_is_plain_json_and_begins_with_its_checksum() {
        let line = String::from_utf8(put()).unwrap();
        let value: serde_json::Value = serde_json::from_str(&line).unwrap();
        assert!(line.starts_with("{\"crc\":\""), "{line}");
        assert_eq!(value["seq"], 12);
        assert_eq!(value["put"]["id"], "abc");
    }

    #[test]
    fn a_record_is_decoded_byte_for_byte() {
        assert_eq!(decode_record(&put()).unwrap(), RECORD);
        let Line::Change(line) = decode(&put()).unwrap() else { panic!("not a change") };
        assert_eq!((line.seq, line.place), (12, PLACE));
    }

    #[test]
    fn header_removal_and_counters_round_trip() {
        let header = Header { format: 1, store: "a\"b".into(), seq: 7, base: 2 };
        let counters = BTreeMap::from([("odd \n name".to_owned(), 3)]);
        let mut out = Vec::new();
        write_header(&mut out, &header);
        write_del(&mut out, 8, Place::Part { seq: 8, number: 1, of: 1 }, &"abc".parse().unwrap());
        write_add(&mut out, 7, Place::Base { number: 2, of: 2 }, &counters);
        let lines: Vec<_> = out.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()).collect();
        let [first, second, third] = lines[..] else { panic!("{} lines", lines.len()) };
        assert_eq!(decode(first), Ok(Line::Header(header)));
        let Ok(Line::Change(ChangeLine { change: LineChange::Del(id), .. })) = decode(second) else {
            panic!()
        };
        assert_eq!(id.as_str(), "abc");
        let Ok(Line::Change(ChangeLine { change: LineChange::Add(found), .. })) = decode(third) else {
            panic!()
        };
        assert_eq!(found, counters);
    }

    #[test]
    fn i6_every_flipped_bit_in_a_line_is_detected() {
        let whole = put();
        for at in 0..whole.len() {
            for bit in 0..8 {
                let mut flipped = whole.clone();
                flipped[at] ^= 1 << bit;
                assert_eq!(decode(&flipped), Err(LineError::Checksum), "byte {at}, bit {bit}");
            }
            assert_eq!(decode(&whole[..at]), Err(LineError::Checksum), "cut at {at}");
        }
    }

    #[test]
    fn a_line_with_a_record_of_a_newer_schema_is_valid() {
        let mut line = Vec::new();
        write_put(&mut line, 1, PLACE, r#"{"schema":9,"id":"abc","status":{"asleep":true},"name":["x"]}"#);
        line.pop();
        let Ok(Line::Change(ChangeLine { change: LineChange::Put(summary), .. })) = decode(&line) else {
            panic!()
        };
        assert_eq!(summary.id.as_str(), "abc");
        assert_eq!(summary.newer(), Some(&NewerRecord::Schema(9)));
    }

    #[test]
    fn a_line_with_an_unknown_status_is_valid() {
        let mut line = Vec::new();
        let record = r#"{"schema":1,"id":"abc","status":"asleep","created_at":"2026-01-02T03:04:05Z"}"#;
        write_put(&mut line, 1, PLACE, record);
        line.pop();
        let Ok(Line::Change(ChangeLine { change: LineChange::Put(summary), .. })) = decode(&line) else {
            panic!()
        };
        assert_eq!(summary.newer(), Some(&NewerRecord::Status("asleep".to_owned())));
    }

    #[test]
    fn the_trial_format_is_not_released() {
        assert_eq!((newest(), since()), (1, "0.1.0"));
    }

    #[test]
    fn a_record_with_invalid_utf8_is_rejected() {
        let mut line = put();
        let place = line.windows(5).position(|window| window == b"[1]}}").unwrap();
        line.splice(place..place + 3, *b"\"\xff\"");
        let rest = line.split_off(OPENING.len() + DIGITS + BEHIND_DIGITS.len());
        let mut sealed = format!("{{\"crc\":\"{:08x}\",", crc32fast::hash(&rest)).into_bytes();
        sealed.extend(rest);
        assert!(matches!(decode(&sealed), Err(LineError::Meaningless(_))));
        assert!(decode_record(&sealed).is_err());
    }

    #[test]
    fn a_line_with_valid_checksum_but_invalid_content_is_rejected() {
        for rest in [
            r#""seq":1,"part":[1,1]}"#,
            r#""seq":1,"del":"abc"}"#,
            r#""seq":1,"part":[1,1],"put":{}}"#,
            r#""seq":18446744073709551615,"part":[1,1],"del":"abc"}"#,
            r#""seq":1,"part":[1,18446744073709551615],"del":"abc"}"#,
            r#""sexton":"journal","format":1,"store":"s","seq":18446744073709551615,"base":0}"#,
            "}",
            "x",
        ] {
            let mut line = Vec::new();
            seal(&mut line, rest);
            line.pop();
            assert!(matches!(decode(&line), Err(LineError::Meaningless(_))), "{rest}");
        }
    }
}
