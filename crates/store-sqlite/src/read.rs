//! Reads an intact store through SQLite. Every row is verified by its checksum, and the length of a listing
//! by the tally, where it applies.

use rusqlite::Connection;
use sexton_core::store::Listing;
use sexton_core::{Query, Session, SessionId};

use crate::commit::require_meta;
use crate::fault::Fault;
use crate::files::Files;
use crate::query::{self, Selection};
use crate::rows::{self, COLUMNS, Row};

/// Returns the records that match `query`, newest first.
pub(crate) fn list(connection: &Connection, files: &Files, query: &Query) -> Result<Listing, Fault> {
    let sql = |error| Fault::of("cannot read", &files.db, error);
    let snapshot = connection.unchecked_transaction().map_err(sql)?;
    let found = select(&snapshot, query).map_err(sql)?;
    if query::is_counted(query) {
        let known = require_meta(&snapshot, files)?.tally.of(query.statuses.as_deref());
        if known != found.len() as u64 {
            let found = found.len();
            return Err(Fault::damaged(format!("{found} records found, {known} expected")));
        }
    }
    let mut listing = Listing::default();
    for values in found {
        let row = Row::from_values(values).map_err(|bad| Fault::Damage(vec![bad.damage()]))?;
        match row.parse() {
            Ok(session) if query.active_loop && !query.matches(&session) => {}
            Ok(session) => listing.sessions.push(session),
            Err(error) => listing.damage.push(rows::unusable(&row.id, &error)),
        }
    }
    listing.sessions.truncate(query.limit.unwrap_or(usize::MAX));
    Ok(listing)
}

fn select(connection: &Connection, query: &Query) -> rusqlite::Result<Vec<Vec<rusqlite::types::Value>>> {
    let Selection { sql, values } = query::select(query);
    let mut statement = connection.prepare_cached(&sql)?;
    let found = statement.query_map(rusqlite::params_from_iter(values), rows::read_values)?;
    found.collect()
}

/// Returns one record, or `None`.
pub(crate) fn load(connection: &Connection, files: &Files, id: &SessionId) -> Result<Option<Session>, Fault> {
    let found = rows::find(connection, id).map_err(|error| Fault::of("cannot read", &files.db, error))?;
    let row = found.transpose().map_err(|bad| Fault::Damage(vec![bad.damage()]))?;
    Ok(row.map(|row| row.parse().map_err(|error| rows::refuse(id, error))).transpose()?)
}

/// Returns every row, all of them intact.
pub(crate) fn load_rows(connection: &Connection, files: &Files) -> Result<Vec<Row>, Fault> {
    let read = || {
        let mut statement = connection.prepare(&format!("SELECT {COLUMNS} FROM sessions"))?;
        let values = statement.query_map([], rows::read_values)?;
        values.collect::<rusqlite::Result<Vec<_>>>()
    };
    let values = read().map_err(|error| Fault::of("cannot read", &files.db, error))?;
    let whole: Result<Vec<_>, _> = values.into_iter().map(Row::from_values).collect();
    whole.map_err(|bad| Fault::Damage(vec![bad.damage()]))
}
