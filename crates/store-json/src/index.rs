//! The index of the records that the journal holds now, and their positions.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sexton_core::store::{Damage, Standing};
use sexton_core::{Query, SessionId, Status, StoreError};

use crate::format::LineChange;
use crate::summary::{Content, Known, NewerRecord, Summary};

/// The position of a line in the file, without its line break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) length: usize,
}

/// A live record.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The line that contains it.
    pub(crate) span: Span,
    /// The commit that wrote it, which is its revision.
    pub(crate) seq: u64,
    /// The indexed fields.
    pub(crate) summary: Summary,
}

/// The records and counters after the last applied line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    entries: HashMap<SessionId, Entry>,
    /// The sessions that hold a name. More than one only if a restored record brought its old name back.
    holders: HashMap<String, BTreeSet<SessionId>>,
    /// Records that this version must not change.
    newer: BTreeMap<SessionId, NewerRecord>,
    counters: BTreeMap<String, u64>,
    live_bytes: u64,
}

impl Index {
    /// Applies one line.
    pub(crate) fn apply(&mut self, seq: u64, change: LineChange, span: Span) {
        match change {
            LineChange::Put(summary) => self.put(Entry { span, seq, summary: *summary }),
            LineChange::Del(id) => self.remove(&id),
            LineChange::Add(counters) => {
                for (name, by) in counters {
                    let counter = self.counters.entry(name).or_default();
                    *counter = counter.saturating_add(by);
                }
            }
        }
    }

    fn put(&mut self, entry: Entry) {
        let id = entry.summary.id.clone();
        self.remove(&id);
        if let Some(name) = entry.summary.held_name() {
            self.holders.entry(name.to_owned()).or_default().insert(id.clone());
        }
        if let Some(why) = entry.summary.newer() {
            self.newer.insert(id.clone(), why.clone());
        }
        self.live_bytes += bytes_of(entry.span);
        self.entries.insert(id, entry);
    }

    /// Removes the record of `id`.
    pub(crate) fn remove(&mut self, id: &SessionId) {
        let Some(old) = self.entries.remove(id) else { return };
        self.live_bytes -= bytes_of(old.span);
        self.newer.remove(id);
        if let Some(name) = old.summary.held_name()
            && let Some(holders) = self.holders.get_mut(name)
        {
            holders.remove(id);
            if holders.is_empty() {
                self.holders.remove(name);
            }
        }
    }

    /// Returns the entry of `id`.
    pub(crate) fn find(&self, id: &SessionId) -> Option<&Entry> {
        self.entries.get(id)
    }

    /// Returns what a commit must know about the record of `id`.
    pub(crate) fn standing(&self, id: &SessionId) -> Result<Option<Standing>, StoreError> {
        let Some(entry) = self.entries.get(id) else { return Ok(None) };
        match &entry.summary.content {
            Content::Known(known) => Ok(Some(Standing { revision: entry.seq, status: known.status })),
            Content::Newer { why, .. } => Err(newer_record(id, why)),
        }
    }

    /// Returns a session that holds `name` and is not in `changed`: changed sessions are checked by their new
    /// state.
    pub(crate) fn holder(&self, name: &str, changed: &BTreeSet<&SessionId>) -> Option<SessionId> {
        self.holders.get(name)?.iter().find(|id| !changed.contains(id)).cloned()
    }

    /// Returns the entries that match `query`, newest first, up to its limit.
    pub(crate) fn select(&self, query: &Query) -> Vec<(&SessionId, &Entry)> {
        let mut fitting: Vec<_> = self.known().filter(|(id, known, _)| known.fits(id, query)).collect();
        fitting
            .sort_unstable_by(|(a_id, a, _), (b_id, b, _)| (b.created_at, b_id).cmp(&(a.created_at, a_id)));
        fitting.truncate(query.limit.unwrap_or(usize::MAX));
        fitting.into_iter().map(|(id, _, entry)| (id, entry)).collect()
    }

    fn known(&self) -> impl Iterator<Item = (&SessionId, &Known, &Entry)> {
        self.entries.iter().filter_map(|(id, entry)| match &entry.summary.content {
            Content::Known(known) => Some((id, known, entry)),
            Content::Newer { .. } => None,
        })
    }

    /// Returns the number of records per status.
    pub(crate) fn tally(&self) -> BTreeMap<Status, u64> {
        let mut tally = BTreeMap::new();
        for (_, known, _) in self.known() {
            *tally.entry(known.status).or_default() += 1;
        }
        tally
    }

    /// Returns the counters.
    pub(crate) fn counters(&self) -> &BTreeMap<String, u64> {
        &self.counters
    }

    /// Returns every record, in file order.
    pub(crate) fn in_file_order(&self) -> Vec<(&SessionId, &Entry)> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_unstable_by_key(|(_, entry)| entry.span.offset);
        entries
    }

    /// Returns the size in bytes of all lines with live records.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// Returns a finding for each record that a newer version wrote. These do not prevent writing others.
    pub(crate) fn newer_findings(&self) -> impl Iterator<Item = Damage> {
        self.newer.iter().map(|(id, why)| {
            let what = format!("{}; the record is left unchanged", why.error());
            Damage { place: format!("session {id}"), what, harmless: true }
        })
    }
}

/// Returns the error for an attempt to change a record of a newer version.
pub(crate) fn newer_record(id: &SessionId, why: &NewerRecord) -> StoreError {
    StoreError::Record { id: id.clone(), source: why.error() }
}

fn bytes_of(span: Span) -> u64 {
    span.length as u64 + 1
}
