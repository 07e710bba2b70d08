//! Opening SQLite. Every connection of this crate is made here, so that what all of them must have is set
//! in one place: nothing is ever moved from the log into the database behind our back.

use std::fmt::Write;
use std::io::ErrorKind;
use std::ops::{Deref, DerefMut};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

use rusqlite::config::DbConfig;
use rusqlite::{Connection, OpenFlags};
use sexton_core::store::Durability;

use crate::fault::Fault;
use crate::files::{Files, failed};
use crate::presence::Presence;

/// What a connection may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Read and write.
    Write(Durability),
    /// Read, beside others that write.
    Read,
    /// Read a file that nobody writes: no lock, no index of the log, not one byte or file more on disk.
    /// Only for a database without a log, and what was read counts only where there is still none after.
    Still,
}

/// How long a statement waits for a lock of SQLite. Our own writers queue on a lock of ours, so this is
/// for foreign programs and for the moment in which the log's index is made.
const PATIENCE: Duration = Duration::from_secs(60);

/// To what size the log is cut when it starts over, in bytes.
const WAL_SIZE_LIMIT: i64 = 1 << 20;

/// How many prepared statements a connection keeps: every one this crate uses.
const STATEMENTS: usize = 32;

/// An open connection.
pub(crate) struct Link {
    // Dropped in this order: the file is announced for as long as SQLite has it open.
    connection: Connection,
    _presence: Presence,
}

impl Deref for Link {
    type Target = Connection;

    fn deref(&self) -> &Connection {
        &self.connection
    }
}

impl DerefMut for Link {
    fn deref_mut(&mut self) -> &mut Connection {
        &mut self.connection
    }
}

impl Link {
    /// Opens the database, which must exist.
    pub(crate) fn open(files: &Files, mode: Mode) -> Result<Link, Fault> {
        let presence = Presence::announce(&files.db).map_err(|source| match source.kind() {
            ErrorKind::NotFound => Fault::Replaced,
            _ => failed("cannot open", &files.db, source).into(),
        })?;
        let connection =
            connect(&files.db, mode).map_err(|error| Fault::of("cannot open", &files.db, error))?;
        Ok(Link { connection, _presence: presence })
    }
}

fn connect(path: &Path, mode: Mode) -> rusqlite::Result<Connection> {
    let flags = OpenFlags::SQLITE_OPEN_NO_MUTEX;
    let connection = match mode {
        Mode::Write(_) => Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_READ_WRITE)?,
        Mode::Read => Connection::open_with_flags(path, flags | OpenFlags::SQLITE_OPEN_READ_ONLY)?,
        Mode::Still => {
            let flags = flags | OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(uri_of(path) + "?mode=ro&immutable=1", flags)?
        }
    };
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.busy_timeout(PATIENCE)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    if let Mode::Write(durability) = mode {
        let synchronous = match durability {
            Durability::Power if sexton_mutant::is("no_sync") => "OFF",
            Durability::Power => "FULL",
            Durability::Process => "NORMAL",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.pragma_update(None, "journal_size_limit", WAL_SIZE_LIMIT)?;
        // Moving the log into the database is a step of ours, taken under the writers' lock.
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    }
    Ok(connection)
}

/// The URI of `path`. Everything that could mean something in a URI, or is no text, is written as its
/// number.
pub(crate) fn uri_of(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            write!(uri, "%{byte:02x}").expect("a string takes any text");
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_path_with_the_signs_of_a_uri_is_still_that_path() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a b?c=d#e%41é.db");
        Connection::open(&path)
            .unwrap()
            .execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (7)")
            .unwrap();
        let read = connect(&path, Mode::Still).unwrap().query_row("SELECT x FROM t", [], |row| row.get(0));
        assert_eq!(read, Ok(7));
    }
}
