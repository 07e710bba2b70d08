//! Which records the journal holds now, and where: what all its lines together amount to.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use sexton_core::session::RecordError;
use sexton_core::store::{Damage, Standing};
use sexton_core::{Query, SessionId, Status, StoreError};

use crate::format::LineChange;
use crate::summary::{Content, Known, Summary};

/// Where a line is in the file, without its line break.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) offset: u64,
    pub(crate) length: usize,
}

/// A record that is there.
#[derive(Clone, Debug)]
pub(crate) struct Entry {
    /// The line that put it.
    pub(crate) span: Span,
    /// The commit that put it: its revision.
    pub(crate) seq: u64,
    /// What is known of it.
    pub(crate) summary: Summary,
}

/// The records and counters after the last applied line.
#[derive(Clone, Debug, Default)]
pub(crate) struct Index {
    entries: HashMap<SessionId, Entry>,
    /// Who holds a name. More than one only where a restored record brought its old name back.
    holders: HashMap<String, BTreeSet<SessionId>>,
    /// Records that this version may not touch.
    newer: BTreeMap<SessionId, u64>,
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
        if let Some(schema) = entry.summary.newer_schema() {
            self.newer.insert(id.clone(), schema);
        }
        self.live_bytes += bytes_of(entry.span);
        self.entries.insert(id, entry);
    }

    /// Forgets the record of `id`.
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

    /// The record of `id`.
    pub(crate) fn find(&self, id: &SessionId) -> Option<&Entry> {
        self.entries.get(id)
    }

    /// What a commit must know of the record of `id`.
    pub(crate) fn standing(&self, id: &SessionId) -> Result<Option<Standing>, StoreError> {
        let Some(entry) = self.entries.get(id) else { return Ok(None) };
        match &entry.summary.content {
            Content::Known(known) => Ok(Some(Standing { revision: entry.seq, status: known.status })),
            Content::Newer { schema, .. } => Err(newer_record(id, *schema)),
        }
    }

    /// Who holds `name`, other than those that `changed` is about: they are judged by what they become.
    pub(crate) fn holder(&self, name: &str, changed: &BTreeSet<&SessionId>) -> Option<SessionId> {
        self.holders.get(name)?.iter().find(|id| !changed.contains(id)).cloned()
    }

    /// The entries that fit `query`, newest first, cut at its limit.
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

    /// How many records there are of each status.
    pub(crate) fn tally(&self) -> BTreeMap<Status, u64> {
        let mut tally = BTreeMap::new();
        for (_, known, _) in self.known() {
            *tally.entry(known.status).or_default() += 1;
        }
        tally
    }

    /// The counters.
    pub(crate) fn counters(&self) -> &BTreeMap<String, u64> {
        &self.counters
    }

    /// Every record, in the order of the file.
    pub(crate) fn in_file_order(&self) -> Vec<(&SessionId, &Entry)> {
        let mut entries: Vec<_> = self.entries.iter().collect();
        entries.sort_unstable_by_key(|(_, entry)| entry.span.offset);
        entries
    }

    /// How many bytes of the file are lines that still count.
    pub(crate) fn live_bytes(&self) -> u64 {
        self.live_bytes
    }

    /// The records that a newer version wrote. They are no obstacle to writing others.
    pub(crate) fn newer_findings(&self) -> impl Iterator<Item = Damage> {
        self.newer.iter().map(|(id, schema)| {
            let what = format!("{}; it is left as it is", RecordError::NewerSchema { found: *schema });
            Damage { place: format!("session {id}"), what, harmless: true }
        })
    }
}

/// The refusal to touch a record of a newer schema.
pub(crate) fn newer_record(id: &SessionId, schema: u64) -> StoreError {
    StoreError::Record { id: id.clone(), source: RecordError::NewerSchema { found: schema } }
}

fn bytes_of(span: Span) -> u64 {
    span.length as u64 + 1
}
