//! The store conformance suite for SQLite.

use std::path::Path;
use std::process::ExitCode;

use rusqlite::Connection;
use sexton_core::SessionId;
use sexton_core::store::Capabilities;
use sexton_testkit::store_suite::{Subject, run};

fn main() -> ExitCode {
    run(&Subject {
        name: "sqlite",
        open: sexton_store_sqlite::open,
        file_name: "sessions.db",
        make_newer,
        damage_one_record,
        capabilities: Capabilities::EVERYTHING,
        dress: |session| session,
        stranger: b"{\"sessions\": [], \"version\": 1}\n",
        contended_commits: 500,
    })
}

/// Sets a newer format, with metadata that this version does not know.
fn make_newer(path: &Path) {
    let connection = Connection::open(path).expect("the store opens");
    connection
        .execute_batch("PRAGMA user_version = 99; UPDATE meta SET format = 99")
        .expect("it can be written");
}

/// Flips a byte in every copy of the record's document in the database.
fn damage_one_record(path: &Path, id: &SessionId) {
    let connection = Connection::open(path).expect("the store opens");
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).expect("the log can be emptied");
    connection.close().expect("the store closes");
    let mut bytes = std::fs::read(path).expect("the database can be read");
    let needle = format!("\"id\":\"{id}\"").into_bytes();
    let found: Vec<_> = bytes
        .windows(needle.len())
        .enumerate()
        .filter(|(_, window)| *window == needle)
        .map(|(at, _)| at)
        .collect();
    assert!(!found.is_empty(), "the record of {id} is in the database");
    for at in found {
        bytes[at + 1] ^= 0x01;
    }
    std::fs::write(path, bytes).expect("the database can be written");
}
