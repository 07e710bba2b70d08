//! The tables, and the upgrade of an older database. `PRAGMA user_version` is the format.

use std::sync::LazyLock;

use rusqlite::{Connection, Transaction};

/// Identifies the application in the file header: `SxtN`.
pub(crate) const APPLICATION_ID: i32 = 0x5378_744E;

/// The change from one format to the next.
pub(crate) struct Step {
    sql: &'static str,
    /// The first release that supports the resulting format.
    since: &'static str,
}

/// The steps, one per format; the first creates the tables. A released step is never changed: a new format is
/// a new step.
///
/// A later step only adds: a program of the previous release that has the store open continues to write, and
/// what it writes must be valid in the new format too. The last step here is not released; only tests use it.
const STEPS: [Step; 2] =
    [Step { sql: FORMAT_1, since: "0.1.0" }, Step { sql: TRIAL_FORMAT, since: sexton_mutant::TRIAL_RELEASE }];

/// The oldest format, which every release reads.
pub(crate) const OLDEST: i64 = 1;

/// Returns the newest format that this program writes.
pub(crate) fn newest() -> i64 {
    steps().len() as i64
}

/// Returns the first release that supports the newest format.
pub(crate) fn since() -> &'static str {
    steps().last().map_or("", |step| step.since)
}

fn steps() -> &'static [Step] {
    if sexton_mutant::has_trial_format() { &STEPS } else { &STEPS[..STEPS.len() - 1] }
}

/// An unreleased format, so that raising the format can be tested.
const TRIAL_FORMAT: &str = "CREATE INDEX sessions_trial ON sessions (ticket, created_ns);";

/// A record is a JSON document; the columns beside it are what listings filter and sort by, and `checksum`
/// covers them all. `finished` means that nothing remains to be done: a finished session whose worktree is
/// pending recovery is not. Each index that a commit changes costs another page in the log, so there are only
/// those that every use needs. Plain rowid tables: their rows are only in leaf pages, where they can be found
/// without the tree above them. No index except the one on `id` has exactly one text column, so that ids can
/// be distinguished from names in a damaged file.
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

/// Applies the steps from the current format of the database, if any, to `format`; the caller commits.
pub(crate) fn upgrade(transaction: &Transaction<'_>, format: i64) -> rusqlite::Result<()> {
    let taken: i64 = transaction.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let (taken, wanted) = (usize::try_from(taken).unwrap_or(0), usize::try_from(format).unwrap_or(0));
    for step in STEPS.iter().take(wanted).skip(taken) {
        transaction.execute_batch(step.sql)?;
    }
    transaction.pragma_update(None, "application_id", APPLICATION_ID)?;
    transaction.pragma_update(None, "user_version", format)
}

/// Creates the tables of `format` in a new database.
pub(crate) fn create(connection: &mut Connection, format: i64) -> rusqlite::Result<()> {
    let transaction = connection.transaction()?;
    upgrade(&transaction, format)?;
    transaction.commit()
}

/// SQLite's definitions of the tables and indexes: each name with its SQL.
pub(crate) type Definitions = Vec<(String, Option<String>)>;

/// Returns the definitions in the database.
pub(crate) fn load_definitions(connection: &Connection) -> rusqlite::Result<Definitions> {
    let mut statement = connection.prepare("SELECT name, sql FROM sqlite_schema ORDER BY name")?;
    let rows = statement.query_map([], |row| Ok((row.get(0)?, row.get(1)?)))?;
    rows.collect()
}

/// Returns the definitions of `format`; `None` for an unknown format.
pub(crate) fn expected_definitions(format: i64) -> Option<&'static Definitions> {
    static EXPECTED: LazyLock<Vec<Definitions>> = LazyLock::new(|| {
        let of = |format| {
            let mut connection = Connection::open_in_memory().expect("an in-memory database can be opened");
            create(&mut connection, format).expect("the steps are valid SQL");
            load_definitions(&connection).expect("every database has a schema table")
        };
        (OLDEST..=newest()).map(of).collect()
    });
    EXPECTED.get(usize::try_from(format - OLDEST).ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_upgrade_applies_only_missing_steps() {
        let mut connection = Connection::open_in_memory().unwrap();
        create(&mut connection, OLDEST).unwrap();
        connection.execute("INSERT INTO counters VALUES ('kept', 7, 0)", []).unwrap();
        create(&mut connection, OLDEST + 1).unwrap();
        create(&mut connection, OLDEST + 1).unwrap();
        assert_eq!(connection.query_row("SELECT value FROM counters", [], |row| row.get(0)), Ok(7));
        assert_eq!(connection.pragma_query_value(None, "user_version", |row| row.get(0)), Ok(OLDEST + 1));
        let names = load_definitions(&connection).unwrap().into_iter().map(|(name, _)| name);
        assert_eq!(names.filter(|name| name == "sessions_trial").count(), 1);
    }

    #[test]
    fn later_steps_only_add() {
        for step in &STEPS[1..] {
            for statement in step.sql.split(';').map(str::trim).filter(|statement| !statement.is_empty()) {
                let adds = statement.starts_with("CREATE INDEX") || statement.starts_with("CREATE TABLE");
                assert!(adds, "not additive, so a program that has the store open would break: {statement}");
            }
        }
    }

    #[test]
    fn the_trial_format_is_not_released() {
        assert_eq!((newest(), since()), (1, "0.1.0"));
        assert!(expected_definitions(newest()).is_some() && expected_definitions(newest() + 1).is_none());
    }
}
