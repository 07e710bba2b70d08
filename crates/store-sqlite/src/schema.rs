//! The tables, and how an older database becomes one of today's. `PRAGMA user_version` is the format.

use std::sync::LazyLock;

use rusqlite::Connection;

/// Says in the file's header whose database it is: `SxtN`.
pub(crate) const APPLICATION_ID: i32 = 0x5378_744E;

/// What leads from each format to the next; the first makes the tables. A step that was released is never
/// changed: a new format is a new step.
pub(crate) const STEPS: &[&str] = &[FORMAT_1];

/// The format that this version writes.
pub(crate) const FORMAT: i64 = STEPS.len() as i64;

/// A record is a JSON document; the columns beside it are what listings filter and sort by, and `checksum`
/// covers them all. `finished` says that nothing remains to be done: a finished session whose worktree waits
/// for recovery is not. Each index that a commit touches is a page more in the log, so there are only those that
/// every use needs. Plain rowid tables: their rows lie in leaf pages alone, where they can be found even
/// without the tree above them. No index but the one on `id` has exactly one column of text, so that ids
/// can be told from names in a damaged file.
const FORMAT_1: &str = "
CREATE TABLE meta (
    one INTEGER PRIMARY KEY CHECK (one = 1),
    format INTEGER NOT NULL,
    store TEXT NOT NULL,
    seq INTEGER NOT NULL,
    tally TEXT NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
CREATE TABLE counters (
    name TEXT NOT NULL,
    value INTEGER NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
CREATE TABLE sessions (
    id TEXT NOT NULL UNIQUE,
    revision INTEGER NOT NULL,
    status TEXT NOT NULL,
    finished INTEGER NOT NULL CHECK (finished IN (0, 1)),
    created_ns INTEGER NOT NULL,
    finished_ns INTEGER,
    ticket TEXT,
    name TEXT,
    repo ANY,
    document TEXT NOT NULL,
    checksum INTEGER NOT NULL
) STRICT;
CREATE INDEX sessions_newest ON sessions (created_ns, id);
CREATE INDEX sessions_unfinished ON sessions (created_ns, id) WHERE finished = 0;
CREATE INDEX sessions_name ON sessions (name, created_ns) WHERE name IS NOT NULL;
";

/// Takes the steps that the database has not taken yet, all in one transaction.
pub(crate) fn upgrade(connection: &mut Connection, steps: &[&str]) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    let taken: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    for step in steps.iter().skip(usize::try_from(taken).unwrap_or(usize::MAX)) {
        transaction.execute_batch(step)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", i64::try_from(steps.len()).unwrap_or(i64::MAX))?;
    transaction.commit()
}

/// The definitions that SQLite keeps of the tables and indexes: each name with its SQL.
pub(crate) type Definitions = Vec<(String, Option<String>)>;

/// The definitions of the database.
pub(crate) fn load_definitions(connection: &Connection) -> rusqlite::Result<Definitions> {
    let mut statement = connection.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// The definitions that a database of this version has.
pub(crate) fn expected_definitions() -> &'static Definitions {
    static EXPECTED: LazyLock<Definitions> = LazyLock::new(|| {
        let mut connection = Connection::open_in_memory().expect("memory is always there to be used");
        upgrade(&mut connection, STEPS).expect("the steps are valid SQL");
        load_definitions(&connection).expect("every database has a table of its tables")
    });
    &EXPECTED
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_older_database_takes_only_the_steps_it_lacks() {
        let mut connection = Connection::open_in_memory().unwrap();
        upgrade(&mut connection, STEPS).unwrap();
        connection.execute("INSERT INTO counters VALUES ('kept', 7, 0)", []).unwrap();
        let later = [STEPS, &["ALTER TABLE counters ADD COLUMN since INTEGER"]].concat();
        upgrade(&mut connection, &later).unwrap();
        upgrade(&mut connection, &later).unwrap();
        let row = connection
            .query_row("SELECT value, since FROM counters", [], |row| Ok((row.get(0)?, row.get(1)?)));
        assert_eq!(row, Ok((7, None::<i64>)));
        assert_eq!(connection.pragma_query_value(None, "user_version", |row| row.get(0)), Ok(FORMAT + 1));
    }
}
