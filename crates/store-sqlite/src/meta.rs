//! The one row that says what the store is: its format, its identifier, the number of its last commit,
//! and how many records of each status there are. Every commit writes it.

use std::collections::BTreeMap;

use rusqlite::Connection;
use rusqlite::types::Value;
use sexton_core::Status;

use crate::checksum;
use crate::rows::stored;
use crate::schema::FORMAT;

const TABLE: &str = "meta";

/// The row of `meta`, whose checksum was right.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Meta {
    /// The format of the store.
    pub(crate) format: i64,
    /// The store's identifier.
    pub(crate) store: String,
    /// The number of the last commit.
    pub(crate) seq: u64,
    /// How many records there are of each status.
    pub(crate) tally: Tally,
}

/// How many records there are of each status. Statuses are text here: a newer version may know more.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Tally(BTreeMap<String, u64>);

impl Tally {
    /// Counts one more.
    pub(crate) fn add(&mut self, status: &str) {
        *self.0.entry(status.to_owned()).or_default() += 1;
    }

    /// Counts one less.
    pub(crate) fn take(&mut self, status: &str) {
        if let Some(count) = self.0.get_mut(status) {
            *count = count.saturating_sub(1);
            if *count == 0 {
                self.0.remove(status);
            }
        }
    }

    /// How many records have one of `statuses`; of any where that is `None`.
    pub(crate) fn of(&self, statuses: Option<&[Status]>) -> u64 {
        let counts = |status: &&String| {
            statuses.is_none_or(|wanted| wanted.iter().any(|wanted| wanted.as_str() == status.as_str()))
        };
        self.0.iter().filter(|(status, _)| counts(status)).map(|(_, count)| count).sum()
    }

    /// The counts of the statuses that this version knows.
    pub(crate) fn known(&self) -> BTreeMap<Status, u64> {
        self.0.iter().filter_map(|(status, count)| Some((status.parse().ok()?, *count))).collect()
    }
}

impl Meta {
    /// A store without records.
    pub(crate) fn new(store: String) -> Meta {
        Meta { format: FORMAT, store, seq: 0, tally: Tally::default() }
    }

    /// Takes the values of a row, without the key and with the checksum.
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

    /// Reads the row; `None` where its checksum is wrong.
    pub(crate) fn load(connection: &Connection) -> rusqlite::Result<Option<Meta>> {
        let mut statement = connection
            .prepare_cached("SELECT format, store, seq, tally, checksum FROM meta WHERE one = 1")?;
        let values = statement.query_row([], |row| (0..5).map(|column| row.get(column)).collect())?;
        Ok(Meta::from_values(values))
    }

    /// Writes the row.
    pub(crate) fn save(&self, connection: &Connection) -> rusqlite::Result<()> {
        let tally = serde_json::to_string(&self.tally.0).expect("a map of texts to numbers has a JSON form");
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
    fn a_tally_counts_both_ways_and_forgets_what_is_zero() {
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
