//! Raises the format in one ordinary commit, which SQLite makes atomic. A store of an older format is
//! otherwise used unchanged.

use rusqlite::{Connection, TransactionBehavior};
use sexton_core::StoreError;
use sexton_core::store::{Allows, Format};

use crate::commit::require_writable_meta;
use crate::fault::Fault;
use crate::files::Files;
use crate::meta::Meta;
use crate::read::load_rows;
use crate::schema;
use crate::store::SqliteStore;
use crate::write::{LOG_PAGES, write};

/// Returns the format of a store with this metadata.
pub(crate) fn format_of(meta: &Meta) -> Format {
    Format {
        found: meta.format.unsigned_abs(),
        newest: schema::newest().unsigned_abs(),
        since: schema::since(),
    }
}

/// Raises the store to the newest format, unless `allows` rejects one of its records.
pub(crate) fn raise(store: &SqliteStore, allows: &Allows<'_>) -> Result<(), StoreError> {
    write(store, LOG_PAGES, |_, live, link| {
        let meta = raise_in_place(&store.files, link, allows)?;
        live.require_progress(meta.seq)?;
        Ok(meta)
    })?;
    Ok(())
}

fn raise_in_place(files: &Files, connection: &mut Connection, allows: &Allows<'_>) -> Result<Meta, Fault> {
    let sql = |error| Fault::of("cannot write", &files.db, error);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sql)?;
    let mut meta = require_writable_meta(&transaction, files)?;
    if !format_of(&meta).is_older() {
        return Ok(meta);
    }
    for row in load_rows(&transaction, files)? {
        // A record that only a newer version understands was not written by an older one.
        if let Ok(session) = row.parse()
            && !allows(&session)
        {
            return Err(StoreError::Conflict { id: session.id, expected: session.revision }.into());
        }
    }
    meta.format = schema::newest();
    meta.seq += 1;
    schema::upgrade(&transaction, meta.format).map_err(sql)?;
    meta.save(&transaction).map_err(sql)?;
    transaction.commit().map_err(sql)?;
    Ok(meta)
}
