//! Reads SQLite's pages without SQLite: the rows in a page, each as far as it can be decoded. The format is
//! documented (sqlite.org/fileformat.html) and stable.
//!
//! Architecture invariant: whatever the bytes are, nothing here panics, loops endlessly or trusts a length.
//! The checksum decides whether a row belongs to this store.

use std::collections::BTreeSet;

use rusqlite::types::Value;

/// The page size of every database that this crate creates.
pub(crate) const PAGE_SIZE: usize = 4096;

/// The start of the tree in page 1, after the file header.
const FILE_HEADER: usize = 100;

/// More than any payload of this store: a longer one is a broken length.
const MAX_PAYLOAD: usize = 64 << 20;

/// A source of pages.
pub(crate) trait Pages {
    /// Returns the page with the number `number`, counted from 1.
    fn find_page(&self, number: u32) -> Option<&[u8]>;
}

/// Returns whether the database header permits writing; an unknown version number there does not.
pub(crate) fn may_be_written(database: &[u8]) -> bool {
    database.get(18).is_some_and(|version| *version <= 2)
}

/// The kind of tree that a page belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A leaf of a table: its cells are rows.
    TableLeaf,
    /// A leaf of an index: its cells are keys.
    IndexLeaf,
    /// An inner page of an index: its cells are keys too.
    IndexInner,
}

/// Returns the kind of the page if its cells contain data.
pub(crate) fn kind_of(number: u32, page: &[u8]) -> Option<Kind> {
    match page.get(start_of(number))? {
        0x0d => Some(Kind::TableLeaf),
        0x0a => Some(Kind::IndexLeaf),
        0x02 => Some(Kind::IndexInner),
        _ => None,
    }
}

/// Returns the records in a page's cells; those that cannot be decoded are omitted.
pub(crate) fn records(number: u32, page: &[u8], kind: Kind, pages: &dyn Pages) -> Vec<Vec<Value>> {
    let start = start_of(number);
    let pointers = start + if kind == Kind::IndexInner { 12 } else { 8 };
    let count = be16(page, start + 3).unwrap_or(0);
    (0..usize::from(count))
        .filter_map(|cell| {
            let at = usize::from(be16(page, pointers + 2 * cell)?);
            decode_record(&payload(page, at, kind, pages)?)
        })
        .collect()
}

/// Returns the unused pages, as far as the list of free pages can be followed.
pub(crate) fn free_pages(pages: &dyn Pages) -> BTreeSet<u32> {
    let mut free = BTreeSet::new();
    let mut next = pages.find_page(1).and_then(|header| be32(header, 32)).unwrap_or(0);
    while next != 0 && free.insert(next) {
        let Some(trunk) = pages.find_page(next) else { break };
        let count = be32(trunk, 4).unwrap_or(0) as usize;
        free.extend((0..count.min(PAGE_SIZE / 4)).filter_map(|leaf| be32(trunk, 8 + 4 * leaf)));
        next = be32(trunk, 0).unwrap_or(0);
    }
    free
}

fn start_of(number: u32) -> usize {
    if number == 1 { FILE_HEADER } else { 0 }
}

/// Returns the whole payload of the cell at `at`, including its overflow pages.
fn payload(page: &[u8], at: usize, kind: Kind, pages: &dyn Pages) -> Option<Vec<u8>> {
    let at = if kind == Kind::IndexInner { at + 4 } else { at };
    let (length, mut at) = varint(page, at)?;
    if kind == Kind::TableLeaf {
        at = varint(page, at)?.1;
    }
    let length = usize::try_from(length).ok().filter(|length| *length <= MAX_PAYLOAD)?;
    let local = local_length(length, kind);
    let mut payload = page.get(at..at.checked_add(local)?)?.to_vec();
    let mut next = if local < length { be32(page, at + local)? } else { 0 };
    let mut seen = BTreeSet::new();
    while payload.len() < length {
        if !seen.insert(next) {
            return None;
        }
        let overflow = pages.find_page(next)?;
        let content = overflow.get(4..PAGE_SIZE)?;
        payload.extend_from_slice(&content[..content.len().min(length - payload.len())]);
        next = be32(overflow, 0)?;
    }
    Some(payload)
}

/// Returns how much of a payload is in the page itself.
fn local_length(length: usize, kind: Kind) -> usize {
    let most = match kind {
        Kind::TableLeaf => PAGE_SIZE - 35,
        Kind::IndexLeaf | Kind::IndexInner => (PAGE_SIZE - 12) * 64 / 255 - 23,
    };
    let least = (PAGE_SIZE - 12) * 32 / 255 - 23;
    if length <= most {
        return length;
    }
    let fitting = least + (length - least) % (PAGE_SIZE - 4);
    if fitting <= most { fitting } else { least }
}

/// Returns the values of a record; `None` if a length exceeds the record.
fn decode_record(record: &[u8]) -> Option<Vec<Value>> {
    let (header, mut at) = varint(record, 0)?;
    let header = usize::try_from(header).ok()?;
    let mut body = record.get(header..)?;
    let mut values = Vec::new();
    while at < header {
        let (serial, next) = varint(record, at)?;
        at = next;
        let length = length_of(serial)?;
        let bytes = body.get(..length)?;
        body = &body[length..];
        values.push(decode_value(serial, bytes)?);
    }
    Some(values)
}

fn length_of(serial: u64) -> Option<usize> {
    match serial {
        0 | 8 | 9 => Some(0),
        1..=4 => usize::try_from(serial).ok(),
        5 => Some(6),
        6 | 7 => Some(8),
        10 | 11 => None,
        _ => usize::try_from((serial - 12) / 2).ok(),
    }
}

fn decode_value(serial: u64, bytes: &[u8]) -> Option<Value> {
    Some(match serial {
        0 => Value::Null,
        8 => Value::Integer(0),
        9 => Value::Integer(1),
        1..=6 => {
            let negative = bytes.first().is_some_and(|byte| *byte >= 0x80);
            let start = if negative { -1 } else { 0 };
            Value::Integer(bytes.iter().fold(start, |number, byte| (number << 8) | i64::from(*byte)))
        }
        7 => Value::Real(f64::from_be_bytes(bytes.try_into().ok()?)),
        _ if serial.is_multiple_of(2) => Value::Blob(bytes.to_vec()),
        _ => Value::Text(str::from_utf8(bytes).ok()?.to_owned()),
    })
}

/// Reads a number of one to nine bytes and returns it with the position after it.
fn varint(bytes: &[u8], at: usize) -> Option<(u64, usize)> {
    let mut number: u64 = 0;
    for offset in 0..8 {
        let byte = *bytes.get(at + offset)?;
        number = (number << 7) | u64::from(byte & 0x7f);
        if byte < 0x80 {
            return Some((number, at + offset + 1));
        }
    }
    Some(((number << 8) | u64::from(*bytes.get(at + 8)?), at + 9))
}

fn be16(bytes: &[u8], at: usize) -> Option<u16> {
    Some(u16::from_be_bytes(bytes.get(at..at + 2)?.try_into().ok()?))
}

/// Reads a big-endian number of four bytes.
pub(crate) fn be32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_be_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn varints_of_every_length_are_decoded() {
        assert_eq!(varint(&[0x7f], 0), Some((127, 1)));
        assert_eq!(varint(&[0x81, 0x00], 0), Some((128, 2)));
        assert_eq!(varint(&[0xff; 9], 0), Some((u64::MAX, 9)));
        assert_eq!(varint(&[0x81], 0), None);
    }

    #[test]
    fn integers_are_sign_extended() {
        assert_eq!(decode_value(1, &[0xff]), Some(Value::Integer(-1)));
        assert_eq!(decode_value(2, &[0x01, 0x00]), Some(Value::Integer(256)));
        assert_eq!(decode_value(6, &i64::MIN.to_be_bytes()), Some(Value::Integer(i64::MIN)));
    }

    #[test]
    fn a_wrong_length_is_rejected() {
        assert_eq!(decode_record(&[0x02, 0x7f]), None);
        assert_eq!(decode_record(&[0x05, 0x01]), None);
        assert_eq!(decode_record(&[]), None);
    }
}
