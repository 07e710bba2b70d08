//! Backups of the fake store: one document per line, and a last line with their number.

use std::io;
use std::path::Path;

use sexton_core::store::Backup;
use sexton_core::{Session, StoreError, Time};

/// Writes `sessions` into a new file in `directory`.
pub(super) fn write(directory: &Path, now: Time, sessions: &[Session]) -> Result<Backup, StoreError> {
    let path = directory.join(format!("fake-{}.jsonl", now.as_nanoseconds()));
    let mut text: String = sessions.iter().map(|session| session.to_json() + "\n").collect();
    text.push_str(&last_line(sessions.len()));
    let written = std::fs::create_dir_all(directory).and_then(|()| std::fs::write(&path, text));
    written.map_err(|source| StoreError::Io { action: "cannot write", path: path.clone(), source })?;
    let records = u64::try_from(sessions.len()).expect("a count fits into 64 bits");
    Ok(Backup { path, records })
}

/// Reads the records of a backup.
pub(super) fn read(path: &Path) -> Result<Vec<Session>, StoreError> {
    let bad = |why: String| StoreError::BadBackup { path: path.to_owned(), why };
    let text = std::fs::read_to_string(path).map_err(|error: io::Error| bad(error.to_string()))?;
    let lines: Vec<&str> = text.split_inclusive('\n').collect();
    let Some((last, documents)) = lines.split_last() else { return Err(bad("it is empty".to_owned())) };
    if *last != last_line(documents.len()) {
        return Err(bad("it is cut off".to_owned()));
    }
    documents
        .iter()
        .map(|document| Session::from_json(document).map_err(|error| bad(error.to_string())))
        .collect()
}

fn last_line(records: usize) -> String {
    format!("{records} records\n")
}
