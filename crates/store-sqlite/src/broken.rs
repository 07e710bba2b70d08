//! A store that must not be written: its damage, and the records that can still be read.

use sexton_core::store::{Damage, Listing};
use sexton_core::{Query, Session, SessionId, StoreError};
use sexton_durable::{FileStamp, LARGE_FILE, Mark, read_regular};

use crate::files::{Files, failed, find};
use crate::presence::read_database;
use crate::rows::{self, Row};
use crate::salvage::Salvage;
use crate::schema::newest;
use crate::wal::Wal;

/// The advice about damage, appended to the first finding so that every message contains it.
const FIX: &str = "a damaged page can affect other records: restore the newest backup with `sexton \
                    restore BACKUP`, or keep the readable records with `sexton doctor --repair`";

/// A damaged store, or one of a newer format.
#[derive(Debug)]
pub(crate) struct Broken {
    /// The damage, worst first.
    pub(crate) damage: Vec<Damage>,
    /// The readable content.
    pub(crate) salvage: Salvage,
    /// The store's identifier, if it can still be read.
    pub(crate) store: Option<String>,
    /// The highest known commit number; the next one must be higher.
    pub(crate) seq: u64,
    /// The format, if it is newer than the supported one.
    newer: Option<u64>,
    sessions: Vec<Session>,
    seen: (Option<FileStamp>, Option<FileStamp>),
}

impl Broken {
    /// Reads what it can of the damaged store in which `causes` were found.
    pub(crate) fn load(
        files: &Files,
        mark: Option<&Mark>,
        mut causes: Vec<Damage>,
    ) -> Result<Broken, StoreError> {
        if let Some(first) = causes.iter_mut().find(|cause| !cause.harmless) {
            first.what = format!("{}; {FIX}", first.what);
        }
        Broken::salvage(files, mark, causes, None)
    }

    /// Reads what it can of a store of the newer format `found`.
    pub(crate) fn newer(files: &Files, mark: Option<&Mark>, found: u64) -> Result<Broken, StoreError> {
        let mut broken = Broken::salvage(files, mark, Vec::new(), Some(found))?;
        let what = broken.refusal(files).newer_format_note();
        broken.damage.insert(0, Damage { place: "database".to_owned(), what, harmless: false });
        Ok(broken)
    }

    fn salvage(
        files: &Files,
        mark: Option<&Mark>,
        causes: Vec<Damage>,
        newer: Option<u64>,
    ) -> Result<Broken, StoreError> {
        let seen = (files.find_stamp()?, files.find_wal_stamp()?);
        let database =
            find(read_database(&files.db)).map_err(|source| failed("cannot read", &files.db, source))?;
        let salvage = Salvage::of(&database.unwrap_or_default(), &load_wal(files)?);
        let mut damage = causes;
        let mut sessions = Vec::new();
        for (id, row) in &salvage.rows {
            match row.parse() {
                Ok(session) => sessions.push(session),
                Err(error) => note(&mut damage, rows::unusable(id, &error)),
            }
        }
        for id in salvage.lost.iter().filter(|_| newer.is_none()) {
            note(&mut damage, lost(id));
        }
        let store = salvage.meta.as_ref().map(|meta| meta.store.clone());
        let store = store.or_else(|| mark.map(|mark| mark.store.clone()));
        let seq = salvage.seq().max(mark.map_or(0, |mark| mark.sequence));
        Ok(Broken { damage, salvage, store, seq, newer, sessions, seen })
    }

    /// Returns whether the files are still those that were read.
    pub(crate) fn is_current(&self, files: &Files) -> Result<bool, StoreError> {
        Ok(self.seen == (files.find_stamp()?, files.find_wal_stamp()?))
    }

    /// Returns whether the file contains nothing of a Sexton store.
    pub(crate) fn is_foreign(&self) -> bool {
        self.salvage.rows.is_empty() && self.store.is_none()
    }

    /// Returns the error for an attempt to write.
    pub(crate) fn refusal(&self, files: &Files) -> StoreError {
        let path = files.db.clone();
        match self.newer {
            Some(found) => StoreError::newer_format(path, (found, newest().unsigned_abs()), &self.sessions),
            None => StoreError::Damaged { path, damage: self.damage.clone() },
        }
    }

    /// Returns whether a newer version wrote it; then it must not be repaired.
    pub(crate) fn is_newer(&self) -> bool {
        self.newer.is_some()
    }

    /// Returns the readable records that match `query`, with all damage.
    pub(crate) fn list(&self, query: &Query) -> Listing {
        Listing { sessions: query.select(self.sessions.iter().cloned()), damage: self.damage.clone() }
    }

    /// Returns one record; an error if it is lost or of a newer schema.
    pub(crate) fn load_session(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        if let Some(row) = self.salvage.rows.get(id) {
            return row.parse().map(Some).map_err(|error| rows::refuse(id, error));
        }
        if self.salvage.lost.contains(id) {
            return Err(StoreError::DamagedRecord { id: id.clone(), what: lost(id).what });
        }
        Ok(None)
    }

    /// Returns every readable record.
    pub(crate) fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// Returns the rows that a repaired store keeps, including intact rows of a newer schema.
    pub(crate) fn kept_rows(&self) -> impl Iterator<Item = &Row> {
        let usable = |row: &&Row| row.parse().map_or_else(|error| error.is_newer(), |_| true);
        self.salvage.rows.values().filter(usable)
    }
}

/// Adds a finding unless there is already one for its place.
fn note(damage: &mut Vec<Damage>, finding: Damage) {
    if damage.iter().all(|known| known.place != finding.place) {
        damage.push(finding);
    }
}

fn lost(id: &SessionId) -> Damage {
    let what = "its record existed and cannot be read".to_owned();
    Damage { place: format!("session {id}"), what, harmless: false }
}

/// Parses the log; an empty one if there is none. SQLite holds no lock on this file, so it can be opened and
/// closed at any time.
pub(crate) fn load_wal(files: &Files) -> Result<Wal, StoreError> {
    let wal = files.wal();
    let bytes = find(read_regular(&wal, LARGE_FILE)).map_err(|source| failed("cannot read", &wal, source))?;
    Ok(Wal::parse(bytes.unwrap_or_default()))
}
