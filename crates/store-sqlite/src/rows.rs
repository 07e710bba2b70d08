//! A record as a row of `sessions`: the document, and beside it the columns that listings need.

use std::path::Path;

use rusqlite::types::Value;
use rusqlite::{Connection, OptionalExtension, Row as SqlRow};
use sexton_core::session::RecordError;
use sexton_core::store::Damage;
use sexton_core::{Session, SessionId, Status, StoreError};

use crate::checksum;

/// The columns that a row is read from, in the order of the table; the checksum is the last one.
pub(crate) const COLUMNS: &str =
    "id, revision, status, finished, created_ns, finished_ns, ticket, name, repo, document, checksum";

/// How many those are.
pub(crate) const COLUMN_COUNT: usize = 11;

const TABLE: &str = "sessions";
const STATUS: usize = 2;
const DOCUMENT: usize = 9;

/// A row of `sessions` whose checksum was right.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Row {
    /// The record's id.
    pub(crate) id: SessionId,
    /// Its revision.
    pub(crate) revision: u64,
    /// Every column but the checksum.
    values: Vec<Value>,
}

/// A row that could not be taken as a record.
#[derive(Debug)]
pub(crate) struct BadRow {
    /// The id it seems to have, where that can be read.
    pub(crate) id: Option<SessionId>,
}

impl Row {
    /// The row of `session` as it is after the commit with the number `revision`.
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

    /// Takes the values of a row, the checksum among them, as a row.
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

    /// The record's status, as text: a newer version may know one that we do not.
    pub(crate) fn status(&self) -> &str {
        self.text(STATUS)
    }

    fn text(&self, column: usize) -> &str {
        match &self.values[column] {
            Value::Text(text) => text,
            _ => "",
        }
    }

    /// The record. The caller knows already that the bytes are those that were written.
    pub(crate) fn parse(&self) -> Result<Session, RecordError> {
        let session = Session::from_json(self.text(DOCUMENT))?;
        Ok(Session { revision: self.revision, ..session })
    }

    /// The same record under a new revision. One of a newer schema stays as it is: we may not touch it.
    pub(crate) fn with_revision(&self, revision: u64) -> Row {
        self.parse().map_or_else(|_| self.clone(), |session| Row::of(&session, revision))
    }

    /// Whether nothing remains to be done for the session. What we cannot read is not called finished.
    pub(crate) fn is_finished(&self) -> bool {
        self.status().parse::<Status>().is_ok_and(Status::is_finished)
    }

    /// Writes the row where no other has its id.
    pub(crate) fn insert(&self, connection: &Connection) -> rusqlite::Result<()> {
        let sql =
            format!("INSERT INTO sessions ({COLUMNS}) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)");
        connection.prepare_cached(&sql)?.execute(rusqlite::params_from_iter(self.stored_values())).map(drop)
    }

    /// Writes the row over the one that has its id.
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

/// A number that only ever counts up, as SQLite stores it.
pub(crate) fn stored(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// A repository as it is stored and compared: two spellings of one path are equal.
pub(crate) fn repo_value(repo: &Path) -> Value {
    let plain: std::path::PathBuf = repo.components().collect();
    match plain.into_os_string().into_string() {
        Ok(text) => Value::Text(text),
        Err(bytes) => Value::Blob(bytes.into_encoded_bytes()),
    }
}

/// The values of a row that was selected as [`COLUMNS`].
pub(crate) fn read_values(row: &SqlRow<'_>) -> rusqlite::Result<Vec<Value>> {
    (0..COLUMN_COUNT).map(|column| row.get(column)).collect()
}

/// The row of `id`; `None` where there is none.
pub(crate) fn find(connection: &Connection, id: &SessionId) -> rusqlite::Result<Option<Result<Row, BadRow>>> {
    let sql = format!("SELECT {COLUMNS} FROM sessions WHERE id = ?1");
    let values = connection.prepare_cached(&sql)?.query_row([id.as_str()], read_values).optional()?;
    Ok(values.map(Row::from_values))
}

impl BadRow {
    /// The damage that it is.
    pub(crate) fn damage(&self) -> Damage {
        let place = self.id.as_ref().map_or_else(|| "a record".to_owned(), |id| format!("session {id}"));
        Damage {
            place,
            what: "its checksum is wrong: the record is not as it was written".to_owned(),
            harmless: false,
        }
    }
}

/// What a record that this version cannot use is called in a listing. One of a newer schema hurts nobody.
pub(crate) fn unusable(id: &SessionId, error: &RecordError) -> Damage {
    let harmless = matches!(error, RecordError::NewerSchema { .. });
    Damage { place: format!("session {id}"), what: error.to_string(), harmless }
}

/// What a caller is told who asked for a record that this version cannot use.
pub(crate) fn refuse(id: &SessionId, error: RecordError) -> StoreError {
    match error {
        RecordError::NewerSchema { .. } => StoreError::Record { id: id.clone(), source: error },
        RecordError::Malformed(_) => StoreError::DamagedRecord { id: id.clone(), what: error.to_string() },
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;
    use std::os::unix::ffi::OsStringExt;

    use super::*;

    #[test]
    fn spellings_of_one_repository_are_equal_and_bytes_are_kept() {
        assert_eq!(repo_value(Path::new("/a/./b/")), Value::Text("/a/b".to_owned()));
        let odd = OsString::from_vec(b"/a/\xff".to_vec());
        assert_eq!(repo_value(Path::new(&odd)), Value::Blob(b"/a/\xff".to_vec()));
    }
}
