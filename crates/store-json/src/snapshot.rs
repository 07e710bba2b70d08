//! A complete journal built from records, as written by compaction, repair, restore and backup.
//!
//! Records are copied byte for byte from the old journal, so that fields of newer versions are kept.

use std::collections::BTreeMap;

use crate::format::{self, Header, Place};

/// The content of a journal without history.
#[derive(Clone, Debug)]
pub(crate) struct Snapshot {
    /// The store's identifier.
    pub(crate) store: String,
    /// Its format.
    pub(crate) format: u64,
    /// The commit it represents.
    pub(crate) seq: u64,
    /// Each record's revision and document.
    pub(crate) records: Vec<(u64, String)>,
    /// The counters.
    pub(crate) counters: BTreeMap<String, u64>,
}

impl Snapshot {
    /// Returns a journal without records.
    pub(crate) fn empty(store: String) -> Snapshot {
        Snapshot { store, format: format::newest(), seq: 0, records: Vec::new(), counters: BTreeMap::new() }
    }

    /// Returns the journal's bytes.
    pub(crate) fn encode(&self) -> Vec<u8> {
        let counters = u64::from(!self.counters.is_empty());
        let of = self.records.len() as u64 + counters;
        let mut out = Vec::new();
        let header = Header { format: self.format, store: self.store.clone(), seq: self.seq, base: of };
        format::write_header(&mut out, &header);
        for (number, (revision, record)) in (1..).zip(&self.records) {
            format::write_put(&mut out, *revision, Place::Base { number, of }, record);
        }
        if counters > 0 {
            format::write_add(&mut out, self.seq, Place::Base { number: of, of }, &self.counters);
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::image::{Image, Rest};

    #[test]
    fn a_snapshot_keeps_revisions_counters_and_the_commit_number() {
        let record = r#"{"schema":1,"id":"a","status":"failed","created_at":"2026-01-02T03:04:05Z","x":1e2}"#;
        let counters = BTreeMap::from([("runs".to_owned(), 7)]);
        let records = vec![(3, record.to_owned())];
        let bytes =
            Snapshot { store: "s".into(), format: 1, seq: 12, records, counters: counters.clone() }.encode();
        let (image, rest) = Image::read(&bytes).unwrap();
        assert_eq!((image.seq, rest), (12, Rest::Nothing));
        assert_eq!(image.index.counters(), &counters);
        let entry = image.index.find(&"a".parse().unwrap()).unwrap();
        assert_eq!(entry.seq, 3);
        let offset = usize::try_from(entry.span.offset).unwrap();
        let line = &bytes[offset..offset + entry.span.length];
        assert_eq!(format::decode_record(line), Ok(record));
    }
}
