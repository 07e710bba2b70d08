//! The metadata row: the store's format, its identifier, the number of its last commit, and the number of
//! records per status. Every commit writes it.

use std::collections::BTreeMap;

use rusqlite::Connection;
use rusqlite::types::Value;
use sexton_core::Status;

use crate::checksum;
use crate::rows::stored;

const TABLE: &str = "meta";

/// The row of `meta`, with a valid checksum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    /// The format of the store.
    pub(crate) format: i64,
    /// The store's identifier.
    pub(crate) store: String,
    /// The number of the last commit.
    pub(crate) seq: u64,
    /// The number of records per status.
    pub(crate) tally: Tally,
}

/// The number of records per status. Statuses are text here: a newer version may have more of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally(BTreeMap<String, u64>);

impl Tally {
    /// Adds one record.
    pub(crate) fn add(&mut self, status: &str) {
        *self.0.entry(status.to_owned()).or_default() += 1;
    }

    /// Removes one record.
    pub(crate) fn take(&mut self, status: &str) {
        if let Some(count) = self.0.get_mut(status) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.0.remove(status);
            }
        }
    }

    /// Returns the number of records with one of `statuses`, or of all records if that is `None`.
    pub(crate) fn of(&self, statuses: Option<&[Status]>) -> u64 {
        let counts = |status: &&String| {
            statuses.is_none_or(|wanted| wanted.iter().any(|wanted| wanted.as_str() == status.as_str()))
        };
        self.0.iter().filter(|(status, _)| counts(status)).map(|(_, count)| count).sum()
    }

    /// Returns the counts of the statuses that this version knows.
    pub(crate) fn known(&self) -> BTreeMap<Status, u64> {
        self.0.iter().filter_map(|(status, count)| Some((status.parse().ok()?, *count))).collect()
    }
}

impl Meta {
    /// Returns the metadata of a store of `format` without records.
    pub(crate) fn new(store: String, format: i64) -> Meta {
        Meta { format, store, seq: 0, tally: Tally::default() }
    }

    /// Converts the values of a row, without the key and with the checksum.
    pub(crate) fn from_values(values: Vec<Value>) -> Option<Meta> {
        let values = checksum::verify(TABLE, values)?;
        let [Value::Integer(format), Value::Text(store), Value::Integer(seq), Value::Text(tally)] =
            values.as_slice()
        else {
            return None;
        };
        let tally = Tally(serde_json::from_str(tally).ok()?);
        Some(Meta { format: *format, store: store.clone(), seq: u64::try_from(*seq).ok()?, tally })
    }

    /// Reads the row; `None` if its checksum is wrong.
    pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Option<Meta>> {
        let mut statement = connection
            .prepare_cached("SELECT format, store, seq, tally, checksum FROM meta WHERE one = 1")?;
        let values = statement.query_row([], |row| (0..5).map(|column| row.get(column)).collect())?;
        Ok(Meta::from_values(values))
    }

    /// Writes the row.
    pub(crate) fn save(&self, connection: &Connection) -> rusqlite::Result<()> {
        let tally =
            serde_json::to_string(&self.tally.0).expect("a map of strings to numbers can be serialized");
        let mut values = vec![
            Value::Integer(self.format),
            Value::Text(self.store.clone()),
            Value::Integer(stored(self.seq)),
            Value::Text(tally),
        ];
        values.push(Value::Integer(checksum::of_row(TABLE, &values)));
        let mut statement = connection.prepare_cached(
            "INSERT INTO meta (one, format, store, seq, tally, checksum) VALUES (1, ?1, ?2, ?3, ?4, ?5)
             ON CONFLICT (one) DO UPDATE SET format = ?1, store = ?2, seq = ?3, tally = ?4, checksum = ?5",
        )?;
        statement.execute(rusqlite::params_from_iter(values)).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_tally_adds_subtracts_and_drops_zero_counts() {
        let mut tally = Tally::default();
        for status in ["running", "failed", "running"] {
            tally.add(status);
        }
        tally.take("running");
        tally.take("failed");
        tally.take("failed");
        assert_eq!(tally, Tally([("running".to_owned(), 1)].into()));
        assert_eq!((tally.of(None), tally.of(Some(&[Status::Failed]))), (1, 0));
    }
}
