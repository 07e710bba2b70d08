//! The full check: the tree, the definitions, every checksum, every count. `check` runs it, and so does an
//! open if the file is not as the last writer left it.

use rusqlite::Connection;
use sexton_core::store::Damage;

use crate::counters;
use crate::fault::database_damage;
use crate::meta::{Meta, Tally};
use crate::rows::{self, COLUMNS, Row};
use crate::schema;

/// The result of a full check.
#[derive(Debug, Default)]
pub(crate) struct Findings {
    /// The number of intact and usable records.
    pub(crate) records: u64,
    /// The damage, including harmless findings.
    pub(crate) damage: Vec<Damage>,
}

/// Reads everything in one snapshot. The caller classifies an error, which may be damage too.
pub(crate) fn check(connection: &Connection) -> rusqlite::Result<Findings> {
    let snapshot = connection.unchecked_transaction()?;
    let mut findings = Findings::default();
    snapshot.pragma_update(None, "cell_size_check", true)?;
    check_header(&snapshot, &mut findings)?;
    check_tree(&snapshot, &mut findings)?;
    check_indexes(&snapshot, &mut findings)?;
    check_rows(&snapshot, &mut findings)?;
    check_counters(&snapshot, &mut findings)?;
    Ok(findings)
}

impl Findings {
    fn add(&mut self, what: impl Into<String>) {
        self.damage.push(database_damage(what));
    }
}

/// Checks that the file header's settings and the definitions are the ones that were written.
fn check_header(connection: &Connection, findings: &mut Findings) -> rusqlite::Result<()> {
    let encoding: String = connection.pragma_query_value(None, "encoding", |row| row.get(0))?;
    let vacuum: i64 = connection.pragma_query_value(None, "auto_vacuum", |row| row.get(0))?;
    if encoding != "UTF-8" || vacuum != 0 {
        findings.add("the file's header is damaged");
    }
    let format = connection.pragma_query_value(None, "user_version", |row| row.get(0))?;
    if schema::expected_definitions(format) != Some(&schema::load_definitions(connection)?) {
        findings.add("the definitions of the tables are damaged");
    }
    Ok(())
}

/// Runs SQLite's own check of its pages, and of every index against its table.
fn check_tree(connection: &Connection, findings: &mut Findings) -> rusqlite::Result<()> {
    let mut statement = connection.prepare("PRAGMA integrity_check")?;
    let mut rows = statement.query([])?;
    while let Some(row) = rows.next()? {
        let line: String = row.get(0)?;
        if line != "ok" {
            findings.add(line.trim().replace('\n', "; "));
        }
    }
    Ok(())
}

/// Each index, and the condition for its rows.
const INDEXES: [(&str, &str); 3] = [
    ("sessions_newest", "created_ns IS NOT NULL"),
    ("sessions_unfinished", "finished = 0"),
    ("sessions_name", "name IS NOT NULL"),
];

/// Checks each index by counting, since SQLite's check hardly verifies an empty index, but the next write
/// goes into it.
fn check_indexes(connection: &Connection, findings: &mut Findings) -> rusqlite::Result<()> {
    for (index, about) in INDEXES {
        let count = |from: &str| {
            connection.query_row(&format!("SELECT count(*) FROM sessions {from} WHERE {about}"), [], |row| {
                row.get::<_, i64>(0)
            })
        };
        if count(&format!("INDEXED BY {index}"))? != count("NOT INDEXED")? {
            findings.add(format!("the index {index} does not match its table"));
        }
    }
    Ok(())
}

fn check_rows(connection: &Connection, findings: &mut Findings) -> rusqlite::Result<()> {
    let mut tally = Tally::default();
    let mut statement = connection.prepare(&format!("SELECT {COLUMNS} FROM sessions"))?;
    let mut found = statement.query([])?;
    while let Some(row) = found.next()? {
        match Row::from_values(rows::read_values(row)?) {
            Ok(row) => {
                tally.add(row.status());
                match row.parse() {
                    Ok(_) => findings.records += 1,
                    Err(error) => findings.damage.push(rows::unusable(&row.id, &error)),
                }
            }
            Err(bad) => findings.damage.push(bad.damage()),
        }
    }
    match Meta::load(connection)? {
        None => findings.add("the store's metadata is damaged"),
        Some(meta) if meta.tally != tally => {
            let (counted, known) = (tally.of(None), meta.tally.of(None));
            findings.add(format!("{counted} intact records found, {known} expected"));
        }
        Some(_) => {}
    }
    Ok(())
}

fn check_counters(connection: &Connection, findings: &mut Findings) -> rusqlite::Result<()> {
    let damaged = counters::load(connection)?.iter().filter(|counter| counter.is_none()).count();
    if damaged > 0 {
        findings.add(format!("{damaged} counters are damaged"));
    }
    Ok(())
}
