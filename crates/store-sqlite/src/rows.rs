//! A record as a row of `sessions`: the document, and the columns that listings need.

use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow};
use sexton_core::session::RecordError;
use sexton_core::store::Damage;
use sexton_core::{Session, SessionId, Status, StoreError};

use crate::checksum;

/// The columns of a row, in the order of the table; the checksum is the last one.
pub(crate) const COLUMNS: &str =
    "id, revision, status, finished, created_ns, finished_ns, ticket, name, repo, document, checksum";

/// The number of columns.
pub(crate) const COLUMN_COUNT: usize = 11;

const TABLE: &str = "sessions";
const STATUS: usize = 2;
const DOCUMENT: usize = 9;

/// A row of `sessions` with a valid checksum.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// The record's id.
    pub(crate) id: SessionId,
    /// Its revision.
    pub(crate) revision: u64,
    /// Every column except the checksum.
    values: Vec<Value>,
}

/// A row that is not a valid record.
#[derive(Debug)]
pub(crate) struct BadRow {
    /// The id that it appears to have, if readable.
    pub(crate) id: Option<SessionId>,
}

impl Row {
    /// Returns the row of `session` after the commit with the number `revision`.
    pub(crate) fn of(session: &Session, revision: u64) -> Row {
        let document = Session { revision, ..session.clone() }.to_json();
        let text = |text: &Option<String>| text.clone().map_or(Value::Null, Value::Text);
        let repo = session.worktree.as_ref().and_then(|worktree| worktree.repo.as_ref());
        let values = vec![
            Value::Text(session.id.to_string()),
            Value::Integer(stored(revision)),
            Value::Text(session.status.as_str().to_owned()),
            Value::Integer(i64::from(session.is_settled())),
            Value::Integer(session.created_at.as_nanoseconds()),
            session.finished_at.map_or(Value::Null, |time| Value::Integer(time.as_nanoseconds())),
            text(&session.ticket),
            text(&session.name),
            repo.map_or(Value::Null, |repo| repo_value(repo.as_path())),
            Value::Text(document),
        ];
        Row { id: session.id.clone(), revision, values }
    }

    /// Converts the values of a row, including the checksum.
    pub(crate) fn from_values(values: Vec<Value>) -> Result<Row, BadRow> {
        let id = match values.first() {
            Some(Value::Text(id)) => id.parse::<SessionId>().ok(),
            _ => None,
        };
        let whole = || {
            let values = checksum::verify(TABLE, values)?;
            let [_, Value::Integer(revision), Value::Text(_), .., Value::Text(_)] = values.as_slice() else {
                return None;
            };
            let revision = u64::try_from(*revision).ok()?;
            Some(Row { id: id.clone()?, revision, values })
        };
        whole().ok_or(BadRow { id })
    }

    /// Returns the record's status as text: a newer version may have other statuses.
    pub(crate) fn status(&self) -> &str {
        self.text(STATUS)
    }

    fn text(&self, column: usize) -> &str {
        match &self.values[column] {
            Value::Text(text) => text,
            _ => "",
        }
    }

    /// Parses the record. The checksum was already verified.
    pub(crate) fn parse(&self) -> Result<Session, RecordError> {
        let session = Session::from_json(self.text(DOCUMENT))?;
        Ok(Session { revision: self.revision, ..session })
    }

    /// Returns the same record with a new revision. A record of a newer schema must not be changed and is
    /// returned as it is.
    pub(crate) fn with_revision(&self, revision: u64) -> Row {
        self.parse().map_or_else(|_| self.clone(), |session| Row::of(&session, revision))
    }

    /// Returns whether the session is finished. A record that cannot be read does not count as finished.
    pub(crate) fn is_finished(&self) -> bool {
        self.status().parse::<Status>().is_ok_and(Status::is_finished)
    }

    /// Inserts the row; no other may have its id.
    pub(crate) fn insert(&self, connection: &Connection) -> rusqlite::Result<()> {
        let sql =
            format!("INSERT INTO sessions ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)");
        connection.prepare_cached(&sql)?.execute(rusqlite::params_from_iter(self.stored_values())).map(drop)
    }

    /// Replaces the row with the same id.
    pub(crate) fn update(&self, connection: &Connection) -> rusqlite::Result<()> {
        let sql = format!(
            "UPDATE sessions SET ({COLUMNS}) = (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11) WHERE id = ?1"
        );
        connection.prepare_cached(&sql)?.execute(rusqlite::params_from_iter(self.stored_values())).map(drop)
    }

    fn stored_values(&self) -> impl Iterator<Item = Value> {
        let checksum = Value::Integer(checksum::of_row(TABLE, &self.values));
        self.values.iter().cloned().chain([checksum])
    }
}

/// Converts an increasing number to SQLite's integer type.
pub(crate) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// Returns a repository as it is stored and compared: two spellings of one path are equal.
pub(crate) fn repo_value(repo: &Path) -> Value {
    let plain: std::path::PathBuf = repo.components().collect();
    match plain.into_os_string().into_string() {
        Ok(text) => Value::Text(text),
        Err(bytes) => Value::Blob(bytes.into_encoded_bytes()),
    }
}

/// Returns the values of a row that was selected as [`COLUMNS`].
pub(crate) fn read_values(row: &SqlRow<'_>) -> rusqlite::Result<Vec<Value>> {
    (0..COLUMN_COUNT).map(|column| row.get(column)).collect()
}

/// Returns the row of `id`; `None` if there is none.
pub(crate) fn find(connection: &Connection, id: &SessionId) -> rusqlite::Result<Option<Result<Row, BadRow>>> {
    let sql = format!("SELECT {COLUMNS} FROM sessions WHERE id = ?1");
    let values = connection.prepare_cached(&sql)?.query_row([id.as_str()], read_values).optional()?;
    Ok(values.map(Row::from_values))
}

impl BadRow {
    /// Returns the corresponding damage.
    pub(crate) fn damage(&self) -> Damage {
        let place = self.id.as_ref().map_or_else(|| "a record".to_owned(), |id| format!("session {id}"));
        Damage {
            place,
            what: "its checksum is wrong: the record is not as it was written".to_owned(),
            harmless: false,
        }
    }
}

/// Returns the finding for a record that this version cannot use. It is harmless if a newer version wrote it.
pub(crate) fn unusable(id: &SessionId, error: &RecordError) -> Damage {
    let harmless = error.is_newer();
    Damage { place: format!("session {id}"), what: error.to_string(), harmless }
}

/// Returns the error for loading a record that this version cannot use.
pub(crate) fn refuse(id: &SessionId, error: RecordError) -> StoreError {
    match error.is_newer() {
        true => StoreError::Record { id: id.clone(), source: error },
        false => StoreError::DamagedRecord { id: id.clone(), what: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use pollster::block_on;
    use sexton_core::plugin::StoreOptions;
    use sexton_core::store::{Access, Durability};
    use sexton_core::{Batch, Host, Query};

    use super::*;

    #[test]
    fn repository_paths_are_normalized_and_keep_non_utf8_bytes() {
        assert_eq!(repo_value(Path::new("/a/./b/")), Value::Text("/a/b".to_owned()));
        let odd = OsString::from_vec(b"/a/\xff".to_vec());
        assert_eq!(repo_value(Path::new(&odd)), Value::Blob(b"/a/\xff".to_vec()));
    }

    #[test]
    fn i6_a_record_with_an_unknown_status_is_left_unchanged() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sessions.db");
        let options = StoreOptions::new(path.clone(), Access::Write, Durability::Process);
        let store = crate::open(&options).unwrap();
        let now = "2026-11-16T03:15:00Z".parse().unwrap();
        let session = |id: &str| Session::new(id.parse().unwrap(), Host::new("m", "h"), now);
        block_on(store.commit(Batch::new().insert(session("newer")).insert(session("plain")))).unwrap();
        rewrite_status(&path, "newer", "hibernating");

        let listing = block_on(store.list(&Query::all())).unwrap();
        assert_eq!(listing.sessions.len(), 1);
        let [damage] = listing.damage.as_slice() else { panic!("{:?}", listing.damage) };
        assert!(damage.harmless && damage.what.contains("hibernating"), "{damage:?}");
        let newer = Session { revision: 1, ..session("newer") };
        for batch in [Batch::new().replace(newer.clone()), Batch::new().remove(&newer)] {
            let refused = block_on(store.commit(batch));
            assert!(matches!(refused, Err(StoreError::Record { .. })), "{refused:?}");
        }
        let plain = Session { revision: 1, ticket: Some("T".to_owned()), ..session("plain") };
        block_on(store.commit(Batch::new().replace(plain))).unwrap();
        assert_eq!(block_on(store.check()).unwrap().damage, listing.damage);
    }

    /// Sets another status in a record, as a newer version would.
    fn rewrite_status(path: &Path, id: &str, status: &str) {
        let mut connection = Connection::open(path).unwrap();
        let transaction = connection.transaction().unwrap();
        let mut row = find(&transaction, &id.parse().unwrap()).unwrap().unwrap().unwrap();
        let mut document: serde_json::Value = serde_json::from_str(row.text(DOCUMENT)).unwrap();
        document["status"] = status.into();
        row.values[STATUS] = Value::Text(status.to_owned());
        row.values[DOCUMENT] = Value::Text(document.to_string());
        row.update(&transaction).unwrap();
        let mut meta = crate::meta::Meta::load(&transaction).unwrap().unwrap();
        meta.tally.take("starting");
        meta.tally.add(status);
        meta.save(&transaction).unwrap();
        transaction.commit().unwrap();
    }
}
