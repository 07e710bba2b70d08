//! The error type inside the store: either the content is not what was written, or an operation failed. The
//! two are kept apart: a full disk is not damage, and a broken page is not worth a retry.

use std::path::Path;

use rusqlite::ErrorCode;
use rusqlite::ffi;
use sexton_core::StoreError;
use sexton_core::store::Damage;

/// Why a step failed.
#[derive(Debug)]
pub(crate) enum Fault {
    /// The store's content is not what was written.
    Damage(Vec<Damage>),
    /// The open file was replaced by another.
    Replaced,
    /// The operating system, the database or the rules returned an error; the content is not in question.
    Refused(StoreError),
}

impl From<StoreError> for Fault {
    fn from(error: StoreError) -> Fault {
        Fault::Refused(error)
    }
}

impl Fault {
    /// Returns damage of the whole database.
    pub(crate) fn damaged(what: impl Into<String>) -> Fault {
        Fault::Damage(vec![database_damage(what)])
    }

    /// Classifies an error of the database.
    pub(crate) fn of(action: &'static str, path: &Path, error: rusqlite::Error) -> Fault {
        if is_damage(&error) {
            return Fault::damaged(error.to_string());
        }
        let source: Box<dyn std::error::Error + Send + Sync> = match error.sqlite_error_code() {
            Some(ErrorCode::FileLockingProtocolFailed) => stopped_writer().into(),
            _ => Box::new(error),
        };
        Fault::Refused(StoreError::Backend { action, path: path.to_owned(), source })
    }
}

/// Returns the error for a log index that stayed half updated for ten seconds. That takes a few instructions, so its
/// writer was stopped between them. SQLite cannot read the store until that process continues or exits.
fn stopped_writer() -> std::io::Error {
    let what = "a process that was writing the store is stopped; continue it, or end it";
    std::io::Error::new(std::io::ErrorKind::TimedOut, what)
}

/// Returns damage of the whole database.
pub(crate) fn database_damage(what: impl Into<String>) -> Damage {
    Damage { place: "database".to_owned(), what: what.into(), harmless: false }
}

/// Returns whether `error` means that the content is wrong. This includes errors that no statement of this
/// crate can cause on intact content, such as a missing column or a value of another type.
fn is_damage(error: &rusqlite::Error) -> bool {
    match error {
        rusqlite::Error::SqliteFailure(failure, _)
        | rusqlite::Error::SqlInputError { error: failure, .. } => match failure.code {
            ErrorCode::SystemIoFailure => failure.extended_code == ffi::SQLITE_IOERR_SHORT_READ,
            ErrorCode::DatabaseCorrupt
            | ErrorCode::NotADatabase
            | ErrorCode::ConstraintViolation
            | ErrorCode::TypeMismatch
            | ErrorCode::TooBig
            | ErrorCode::Unknown => true,
            _ => false,
        },
        rusqlite::Error::FromSqlConversionFailure(..)
        | rusqlite::Error::IntegralValueOutOfRange(..)
        | rusqlite::Error::Utf8Error(..)
        | rusqlite::Error::QueryReturnedNoRows
        | rusqlite::Error::InvalidColumnIndex(_)
        | rusqlite::Error::InvalidColumnType(..) => true,
        _ => false,
    }
}
