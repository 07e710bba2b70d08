//! The counters that commits increment. They never decrease.

use std::collections::BTreeMap;

use rusqlite::types::Value;
use rusqlite::{Connection, params};

use crate::checksum;
use crate::rows::stored;

const TABLE: &str = "counters";

/// Converts the values of a row, including the checksum, into a counter.
pub(crate) fn from_values(values: Vec<Value>) -> Option<(String, u64)> {
    let values = checksum::verify(TABLE, values)?;
    let [Value::Text(name), Value::Integer(value)] = values.as_slice() else { return None };
    Some((name.clone(), u64::try_from(*value).ok()?))
}

/// Returns every counter; `None` for one with a wrong checksum.
pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Vec<Option<(String, u64)>>> {
    let mut statement = connection.prepare_cached("SELECT name, value, checksum FROM counters")?;
    let rows = statement.query_map([], |row| (0..3).map(|column| row.get(column)).collect())?;
    rows.map(|values| values.map(from_values)).collect()
}

/// Writes the new values of `counters`.
pub(crate) fn save(connection: &Connection, counters: &BTreeMap<String, u64>) -> rusqlite::Result<()> {
    for (name, value) in counters {
        let value = stored(*value);
        let checksum = checksum::of_row(TABLE, &[Value::Text(name.clone()), Value::Integer(value)]);
        let update = "UPDATE counters SET value = ?2, checksum = ?3 WHERE name = ?1";
        if connection.prepare_cached(update)?.execute(params![name, value, checksum])? == 0 {
            let insert = "INSERT INTO counters (name, value, checksum) VALUES (?1, ?2, ?3)";
            connection.prepare_cached(insert)?.execute(params![name, value, checksum])?;
        }
    }
    Ok(())
}
