//! A store that must not be written: what is wrong with it, and what can be read of it all the same.

use std::fs;

use sexton_core::session::RecordError;
use sexton_core::store::{Damage, Listing};
use sexton_core::{Query, Session, SessionId, StoreError};
use sexton_durable::{FileStamp, Mark};

use crate::files::{Files, failed, find};
use crate::presence::read_database;
use crate::rows::{self, Row};
use crate::salvage::Salvage;
use crate::schema::FORMAT;
use crate::wal::Wal;

/// What to do about damage; the first finding says it, so that every message does.
const CURE: &str = "a damaged page takes its neighbours with it: bring back the newest backup with `sexton \
                    restore BACKUP`, or keep what can be read with `sexton doctor --repair`";

/// A damaged store, or one of a newer format.
#[derive(Debug)]
pub(crate) struct Broken {
    /// What is wrong, the worst first.
    pub(crate) damage: Vec<Damage>,
    /// What can be read.
    pub(crate) salvage: Salvage,
    /// The store's identifier, where anything still says it.
    pub(crate) store: Option<String>,
    /// The highest number of a commit that anything knows of; the next one must be above.
    pub(crate) seq: u64,
    /// The format, where that is newer than ours.
    newer: Option<u64>,
    sessions: Vec<Session>,
    seen: (Option<FileStamp>, Option<FileStamp>),
}

impl Broken {
    /// Reads what can be read of the damaged store, in which `causes` were found.
    pub(crate) fn load(
        files: &Files,
        mark: Option<&Mark>,
        mut causes: Vec<Damage>,
    ) -> Result<Broken, StoreError> {
        if let Some(first) = causes.iter_mut().find(|cause| !cause.harmless) {
            first.what = format!("{}; {CURE}", first.what);
        }
        Broken::salvage(files, mark, causes, None)
    }

    /// Reads what can be read of a store of the newer format `found`.
    pub(crate) fn newer(files: &Files, mark: Option<&Mark>, found: u64) -> Result<Broken, StoreError> {
        let what =
            format!("the store has format {found}, newer than the supported {FORMAT}: use a newer sexton");
        let cause = Damage { place: "database".to_owned(), what, harmless: false };
        Broken::salvage(files, mark, vec![cause], Some(found))
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

    /// Whether the files are still those that were read.
    pub(crate) fn is_current(&self, files: &Files) -> Result<bool, StoreError> {
        Ok(self.seen == (files.find_stamp()?, files.find_wal_stamp()?))
    }

    /// Whether there is nothing of a store in the file.
    pub(crate) fn is_foreign(&self) -> bool {
        self.salvage.rows.is_empty() && self.store.is_none()
    }

    /// Why nothing can be written.
    pub(crate) fn refusal(&self, files: &Files) -> StoreError {
        let path = files.db.clone();
        match self.newer {
            Some(found) => StoreError::NewerFormat { path, found, supported: FORMAT.unsigned_abs() },
            None => StoreError::Damaged { path, damage: self.damage.clone() },
        }
    }

    /// Whether a newer version wrote it: then nothing of it is ours to mend.
    pub(crate) fn is_newer(&self) -> bool {
        self.newer.is_some()
    }

    /// The readable records that fit `query`, with everything that is wrong.
    pub(crate) fn list(&self, query: &Query) -> Listing {
        Listing { sessions: query.select(self.sessions.iter().cloned()), damage: self.damage.clone() }
    }

    /// One record. One that was there and is lost is an error, as is one of a newer schema.
    pub(crate) fn load_session(&self, id: &SessionId) -> Result<Option<Session>, StoreError> {
        if let Some(row) = self.salvage.rows.get(id) {
            return row.parse().map(Some).map_err(|error| rows::refuse(id, error));
        }
        if self.salvage.lost.contains(id) {
            return Err(StoreError::DamagedRecord { id: id.clone(), what: lost(id).what });
        }
        Ok(None)
    }

    /// Every readable record.
    pub(crate) fn sessions(&self) -> &[Session] {
        &self.sessions
    }

    /// The rows that a mended store keeps: those of a newer schema too, which are whole and not ours to
    /// drop.
    pub(crate) fn kept_rows(&self) -> impl Iterator<Item = &Row> {
        let usable = |row: &&Row| !matches!(row.parse(), Err(RecordError::Malformed(_)));
        self.salvage.rows.values().filter(usable)
    }
}

/// Adds a finding about a place that none speaks of yet.
fn note(damage: &mut Vec<Damage>, finding: Damage) {
    if damage.iter().all(|known| known.place != finding.place) {
        damage.push(finding);
    }
}

fn lost(id: &SessionId) -> Damage {
    let what = "its record was here and cannot be read".to_owned();
    Damage { place: format!("session {id}"), what, harmless: false }
}

/// The log, taken apart; an empty one where there is none. No lock of SQLite is on this file, so it can be
/// opened and closed at will.
pub(crate) fn load_wal(files: &Files) -> Result<Wal, StoreError> {
    let wal = files.wal();
    let bytes = find(fs::read(&wal)).map_err(|source| failed("cannot read", &wal, source))?;
    Ok(Wal::parse(bytes.unwrap_or_default()))
}
