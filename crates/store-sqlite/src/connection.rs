//! Opens SQLite connections. Every connection of this crate is made here, so that the settings that all of
//! them need are in one place: SQLite never checkpoints the log on its own.

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

/// The access mode of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mode {
    /// Read and write.
    Write(Durability),
    /// Read, while others may write.
    Read,
    /// Read a file without writers: no lock, no log index, and no file is created or written. Only for a
    /// database without a log, and the result is valid only if there is still no log afterwards.
    Immutable,
}

/// How long a statement waits for a lock of SQLite. Sexton's writers wait on their own lock, so this is for
/// other programs and for the creation of the log index.
const BUSY_TIMEOUT: Duration = Duration::from_secs(60);

/// The size in bytes to which the log is truncated when it restarts.
const WAL_SIZE_LIMIT: i64 = 1 << 20;

/// The number of cached prepared statements per connection: all that this crate uses.
const STATEMENTS: usize = 32;

/// An open connection.
pub(crate) struct Link {
    // Dropped in this order: the file stays registered while SQLite has it open.
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
        let presence = Presence::register(&files.db).map_err(|source| match source.kind() {
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
        Mode::Immutable => {
            let flags = flags | OpenFlags::SQLITE_OPEN_READ_ONLY | OpenFlags::SQLITE_OPEN_URI;
            Connection::open_with_flags(uri_of(path) + "?mode=ro&immutable=1", flags)?
        }
    };
    connection.set_db_config(DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, true)?;
    connection.busy_timeout(BUSY_TIMEOUT)?;
    connection.set_prepared_statement_cache_capacity(STATEMENTS);
    if let Mode::Write(durability) = mode {
        let synchronous = match durability {
            Durability::Power if sexton_mutant::is("no_sync") => "OFF",
            Durability::Power => "FULL",
            Durability::Process => "NORMAL",
        };
        connection.pragma_update(None, "synchronous", synchronous)?;
        connection.pragma_update(None, "journal_size_limit", WAL_SIZE_LIMIT)?;
        // Checkpoints are made explicitly, with the writer lock held.
        connection.pragma_update(None, "wal_autocheckpoint", 0)?;
    }
    Ok(connection)
}

/// Returns the URI of `path`. Every byte that is special in a URI or not ASCII is percent-encoded.
pub(crate) fn uri_of(path: &Path) -> String {
    let mut uri = "file:".to_owned();
    for byte in path.as_os_str().as_bytes() {
        if byte.is_ascii_alphanumeric() || b"/._-".contains(byte) {
            uri.push(char::from(*byte));
        } else {
            write!(uri, "%{byte:02x}").expect("writing to a string does not fail");
        }
    }
    uri
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn uri_characters_in_a_path_are_escaped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a b?c=d#e%41é.db");
        Connection::open(&path)
            .unwrap()
            .execute_batch("CREATE TABLE t (x); INSERT INTO t VALUES (7)")
            .unwrap();
        let read =
            connect(&path, Mode::Immutable).unwrap().query_row("SELECT x FROM t", [], |row| row.get(0));
        assert_eq!(read, Ok(7));
    }
}
