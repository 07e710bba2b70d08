//! Repair of a damaged journal. A complete copy of it is kept before anything changes.

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
use sexton_durable::{LARGE_FILE, find, random_uuid, read_regular};

/// Every record of a journal, fully read.
pub(crate) struct Reading<'j> {
    /// The readable records, with their documents.
    pub(crate) records: Vec<(&'j SessionId, &'j Entry, String)>,
    /// The damage of the journal, and of records where only a full read reveals it.
    pub(crate) faults: Vec<Damage>,
}

impl<'j> Reading<'j> {
    /// Reads every record of `journal`.
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

    /// Returns the number of readable records.
    pub(crate) fn count(&self) -> u64 {
        self.records.len() as u64
    }
}

/// Returns a record's document after verifying that it parses. A record of a newer version is not parsed.
fn read_whole(journal: &Journal, id: &SessionId, entry: &Entry) -> Result<String, StoreError> {
    let document = journal.load_document(id, entry)?;
    if entry.summary.newer().is_none()
        && let Err(error) = Session::from_json(&document)
    {
        return Err(StoreError::DamagedRecord { id: id.clone(), what: error.to_string() });
    }
    Ok(document)
}

/// Returns the finding for one unreadable record; any other error concerns the whole store and is returned.
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

/// Reads every record and reports the damage.
pub(crate) fn check(store: &JsonStore) -> Result<CheckReport, StoreError> {
    let mut journal = store.journal();
    journal.forget();
    journal.refresh(None)?;
    let reading = Reading::of(&journal)?;
    let records = reading.count();
    let damage = reading.faults.into_iter().chain(journal.contents().image.index.newer_findings()).collect();
    Ok(CheckReport { records, damage })
}

/// Moves the damaged journal to the quarantine and writes a new one from its readable records.
pub(crate) fn repair(store: &JsonStore, now: Time) -> Result<RepairReport, StoreError> {
    let writer = Writer::acquire(store)?;
    let journal = writer.reloaded()?;
    require_known_format(&journal)?;
    let reading = Reading::of(&journal)?;
    let (kept, faults) = (reading.count(), reading.faults);
    if faults.is_empty() {
        return Ok(RepairReport { kept, quarantined: Vec::new(), quarantine: None });
    }
    let records = reading.records.into_iter().map(|(_, entry, document)| (entry.seq, document)).collect();
    let snapshot = Snapshot {
        store: journal.contents().uuid().map_or_else(random_uuid, str::to_owned),
        format: journal.contents().image.header.format,
        seq: next_seq(&journal)?,
        records,
        counters: journal.contents().image.index.counters().clone(),
    };
    let quarantine = keep_original(&journal, now)?;
    drop(journal);
    writer.replace(&snapshot).map(drop)?;
    Ok(RepairReport { kept, quarantined: faults, quarantine: Some(quarantine) })
}

/// Returns a number above every commit in this journal or its mark, so that no revision is used twice.
pub(crate) fn next_seq(journal: &Journal) -> Result<u64, StoreError> {
    let marked = journal.load_mark()?.map_or(0, |mark| mark.sequence);
    Ok(journal.contents().image.seq.max(marked) + 1)
}

/// Copies the journal into the quarantine, or its mark if the journal is missing.
pub(crate) fn keep_original(journal: &Journal, now: Time) -> Result<std::path::PathBuf, StoreError> {
    let load = |path: &Path| find(read_regular(path, LARGE_FILE)).map_err(io_error("cannot read", path));
    let bytes = match load(journal.path())? {
        Some(bytes) => bytes,
        None => load(journal.mark().path())?.unwrap_or_default(),
    };
    Quarantine::of(journal.path()).keep(&bytes, &format!("damaged-{}", compact(now)))
}

/// Returns an error for a journal of a newer format, damaged or not: only a newer release can repair it.
pub(crate) fn require_known_format(journal: &Journal) -> Result<(), StoreError> {
    let contents = journal.contents();
    if contents.health == Health::Newer || contents.image.header.format > crate::format::newest() {
        return Err(crate::writer::newer_format(journal));
    }
    Ok(())
}

/// Formats a time for file names, so that names sort by time.
pub(crate) fn compact(now: Time) -> String {
    now.timestamp().strftime("%Y%m%dT%H%M%S%.3fZ").to_string()
}
