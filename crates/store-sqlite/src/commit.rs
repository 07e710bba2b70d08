//! One commit: checks the rules and writes the rows in one immediate transaction.

use std::collections::BTreeMap;

use rusqlite::{Connection, OptionalExtension, Transaction, TransactionBehavior};
use sexton_core::session::RecordError;
use sexton_core::store::{Change, Standing};
use sexton_core::{Batch, SessionId, Status, StoreError};

use crate::counters;
use crate::fault::Fault;
use crate::files::{Files, WriterLock};
use crate::live::Live;
use crate::meta::Meta;
use crate::rows::{self, Row};
use crate::schema;

/// Applies `batch` on `connection`, all or nothing, and returns the store's metadata afterwards.
pub(crate) fn apply(
    _: &WriterLock,
    files: &Files,
    live: &Live,
    connection: &mut Connection,
    batch: &Batch,
) -> Result<Meta, Fault> {
    let sql = |error| Fault::of("cannot write", &files.db, error);
    let transaction = connection.transaction_with_behavior(TransactionBehavior::Immediate).map_err(sql)?;
    let mut meta = require_writable_meta(&transaction, files)?;
    live.require_progress(meta.seq)?;
    let present = check(&transaction, files, batch)?;
    meta.seq += 1;
    for change in &batch.changes {
        apply_change(&transaction, &mut meta, change, present.get(change.id())).map_err(sql)?;
    }
    if !batch.counters.is_empty() {
        let grown = grow(&load_counters(&transaction, files)?, &batch.counters);
        counters::save(&transaction, &grown).map_err(sql)?;
    }
    meta.save(&transaction).map_err(sql)?;
    transaction.commit().map_err(sql)?;
    live.require_progress(meta.seq)?;
    Ok(meta)
}

/// Returns the store's metadata, which must be intact.
pub(crate) fn require_meta(connection: &Connection, files: &Files) -> Result<Meta, Fault> {
    let meta = Meta::load(connection).map_err(|error| Fault::of("cannot read", &files.db, error))?;
    meta.ok_or_else(|| Fault::damaged("the store's metadata is damaged"))
}

/// Returns the same for a writer: the format may have been raised since the store was opened.
pub(crate) fn require_writable_meta(connection: &Connection, files: &Files) -> Result<Meta, Fault> {
    let meta = require_meta(connection, files)?;
    if meta.format <= schema::newest() {
        return Ok(meta);
    }
    let (found, supported) = (meta.format.unsigned_abs(), schema::newest().unsigned_abs());
    Err(StoreError::newer_format(&files.db, (found, supported), []).into())
}

/// Checks the rules and returns the current rows that the batch changes.
fn check(
    transaction: &Transaction<'_>,
    files: &Files,
    batch: &Batch,
) -> Result<BTreeMap<SessionId, Row>, Fault> {
    let mut present = BTreeMap::new();
    for change in &batch.changes {
        if let Some(row) = find_row(transaction, files, change.id())? {
            present.insert(change.id().clone(), row);
        }
    }
    let standing = |id: &SessionId| present.get(id).map(stand).transpose();
    let holder = |name: &str| find_holder(transaction, files, name);
    batch.check(standing, holder)?;
    Ok(present)
}

fn find_row(connection: &Connection, files: &Files, id: &SessionId) -> Result<Option<Row>, Fault> {
    let found = rows::find(connection, id).map_err(|error| Fault::of("cannot read", &files.db, error))?;
    found.transpose().map_err(|bad| Fault::Damage(vec![bad.damage()]))
}

/// Returns what the rules must know about a row. A record of a newer schema must not be changed.
fn stand(row: &Row) -> Result<Standing, StoreError> {
    let session = row.parse().map_err(|error: RecordError| rows::refuse(&row.id, error))?;
    Ok(Standing { revision: row.revision, status: session.status })
}

/// Returns the active session with the name `name`.
fn find_holder(connection: &Connection, files: &Files, name: &str) -> Result<Option<SessionId>, StoreError> {
    let find = || {
        let sql = "SELECT id FROM sessions WHERE name = ?1 AND finished = 0 AND status IN (?2, ?3)";
        let active = [Status::Starting.as_str(), Status::Running.as_str()];
        let mut statement = connection.prepare_cached(sql)?;
        statement.query_row([name, active[0], active[1]], |row| row.get::<_, String>(0)).optional()
    };
    let found = find().map_err(|error| StoreError::Backend {
        action: "cannot read",
        path: files.db.clone(),
        source: Box::new(error),
    })?;
    Ok(found.and_then(|id| id.parse().ok()))
}

fn apply_change(
    transaction: &Transaction<'_>,
    meta: &mut Meta,
    change: &Change,
    present: Option<&Row>,
) -> rusqlite::Result<()> {
    if let Some(row) = present {
        meta.tally.take(row.status());
    }
    match change {
        Change::Insert(session) => {
            meta.tally.add(session.status.as_str());
            Row::of(session, meta.seq).insert(transaction)
        }
        Change::Replace(session) => {
            meta.tally.add(session.status.as_str());
            Row::of(session, meta.seq).update(transaction)
        }
        Change::Remove { id, .. } => {
            let mut statement = transaction.prepare_cached("DELETE FROM sessions WHERE id = ?1")?;
            statement.execute([id.as_str()]).map(drop)
        }
    }
}

/// Returns the counters, which must all be intact.
pub(crate) fn load_counters(connection: &Connection, files: &Files) -> Result<BTreeMap<String, u64>, Fault> {
    let loaded = counters::load(connection).map_err(|error| Fault::of("cannot read", &files.db, error))?;
    let whole: Option<_> = loaded.into_iter().collect();
    whole.ok_or_else(|| Fault::damaged("a counter is damaged"))
}

/// Returns the new values of the counters in `more`.
fn grow(known: &BTreeMap<String, u64>, more: &BTreeMap<String, u64>) -> BTreeMap<String, u64> {
    let grown = |(name, by): (&String, &u64)| {
        (name.clone(), known.get(name).copied().unwrap_or(0).saturating_add(*by))
    };
    more.iter().map(grown).collect()
}
