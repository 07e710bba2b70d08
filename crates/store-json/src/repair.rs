//! Making a damaged journal writable again. The damaged one is kept, whole, before anything changes.

use std::path::Path;

use sexton_core::store::{CheckReport, Damage, RepairReport};
use sexton_core::{Session, SessionId, StoreError, Time};

use crate::health::Health;
use crate::index::Entry;
use crate::journal::{Journal, io_error};
use crate::quarantine::Quarantine;
use crate::snapshot::Snapshot;
use crate::store::JsonStore;
use crate::writer::Writer;
use sexton_durable::{find, random_uuid};

/// Every record of a journal, each read to its last byte.
pub(crate) struct Reading<'j> {
    /// Those that can be read, with their documents.
    pub(crate) records: Vec<(&'j SessionId, &'j Entry, String)>,
    /// What is wrong: with the journal, and with records that only a full reading shows.
    pub(crate) faults: Vec<Damage>,
}

impl<'j> Reading<'j> {
    /// Reads all of `journal`.
    pub(crate) fn of(journal: &'j Journal) -> Result<Reading<'j>, StoreError> {
        let mut reading = Reading { records: Vec::new(), faults: journal.contents().damage.clone() };
        for (id, entry) in journal.contents().image.index.in_file_order() {
            match read_whole(journal, id, entry) {
                Ok(document) => reading.records.push((id, entry, document)),
                Err(error) => reading.faults.push(unreadable(id, error)?),
            }
        }
        Ok(reading)
    }

    /// How many records can be read.
    pub(crate) fn count(&self) -> u64 {
        self.records.len() as u64
    }
}

/// A record's document, after it proved to be a record. One of a newer schema need not.
fn read_whole(journal: &Journal, id: &SessionId, entry: &Entry) -> Result<String, StoreError> {
    let document = journal.load_document(id, entry)?;
    if entry.summary.newer_schema().is_none()
        && let Err(error) = Session::from_json(&document)
    {
        return Err(StoreError::DamagedRecord { id: id.clone(), what: error.to_string() });
    }
    Ok(document)
}

/// The finding for one record that cannot be read; any other error is one of the whole store.
pub(crate) fn unreadable(id: &SessionId, error: StoreError) -> Result<Damage, StoreError> {
    match error {
        StoreError::DamagedRecord { what, .. } => Ok(Damage {
            place: format!("session {id}"),
            what: format!("{what}; the record is lost"),
            harmless: false,
        }),
        other => Err(other),
    }
}

/// Reads everything and reports what is wrong.
pub(crate) fn check(store: &JsonStore) -> Result<CheckReport, StoreError> {
    let mut journal = store.journal();
    journal.forget();
    journal.refresh(None)?;
    let reading = Reading::of(&journal)?;
    let records = reading.count();
    let damage = reading.faults.into_iter().chain(journal.contents().image.index.newer_findings()).collect();
    Ok(CheckReport { records, damage })
}

/// Sets the damaged journal aside and writes a new one of what can be read of it.
pub(crate) fn repair(store: &JsonStore, now: Time) -> Result<RepairReport, StoreError> {
    let writer = Writer::acquire(store)?;
    let journal = writer.look_afresh()?;
    require_known_format(&journal)?;
    let reading = Reading::of(&journal)?;
    let (kept, faults) = (reading.count(), reading.faults);
    if faults.is_empty() {
        return Ok(RepairReport { kept, quarantined: Vec::new(), quarantine: None });
    }
    let records = reading.records.into_iter().map(|(_, entry, document)| (entry.seq, document)).collect();
    let snapshot = Snapshot {
        store: journal.contents().uuid().map_or_else(random_uuid, str::to_owned),
        seq: next_seq(&journal)?,
        records,
        counters: journal.contents().image.index.counters().clone(),
    };
    let quarantine = keep_original(&journal, now)?;
    drop(journal);
    writer.replace(&snapshot).map(drop)?;
    Ok(RepairReport { kept, quarantined: faults, quarantine: Some(quarantine) })
}

/// A number above every commit that this journal or its mark ever spoke of, so that no revision is used
/// twice.
pub(crate) fn next_seq(journal: &Journal) -> Result<u64, StoreError> {
    let marked = journal.load_mark()?.map_or(0, |mark| mark.sequence);
    Ok(journal.contents().image.seq.max(marked) + 1)
}

/// Copies the journal into the quarantine. Where it is gone, its mark is all there is to keep.
pub(crate) fn keep_original(journal: &Journal, now: Time) -> Result<std::path::PathBuf, StoreError> {
    let load = |path: &Path| find(std::fs::read(path)).map_err(io_error("cannot read", path));
    let bytes = match load(journal.path())? {
        Some(bytes) => bytes,
        None => load(journal.mark().path())?.unwrap_or_default(),
    };
    Quarantine::of(journal.path()).keep(&bytes, &format!("damaged-{}", compact(now)))
}

/// Refuses a journal of a newer format.
pub(crate) fn require_known_format(journal: &Journal) -> Result<(), StoreError> {
    match journal.contents().health {
        Health::Newer => crate::writer::require_writable(journal),
        _ => Ok(()),
    }
}

/// A time that can be part of a file name, and that sorts.
pub(crate) fn compact(now: Time) -> String {
    now.timestamp().strftime("%Y%m%dT%H%M%S%.3fZ").to_string()
}
