//! Backups: a copy in one plain file, verified before it gets its name; and reading one for a restore.

use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

use rusqlite::Connection;
use sexton_core::store::{Backup, Damage};
use sexton_core::{StoreError, Time};
use sexton_durable::{create_private_dir, sync_parent};

use crate::connection::{Link, Mode, uri_of};
use crate::deep::{self, Findings};
use crate::fault::Fault;
use crate::files::{Files, failed, find};
use crate::read::load_rows;
use crate::rebuild::{create_private, sync};
use crate::rows::Row;
use crate::schema::{APPLICATION_ID, newest};

/// Copies the store that `connection` has open into `directory`.
pub(crate) fn write(
    connection: &Connection,
    files: &Files,
    directory: &Path,
    now: Time,
) -> Result<Backup, Fault> {
    create_private_dir(directory).map_err(|source| failed("cannot create", directory, source))?;
    // Only one backup at a time per directory, so that a killed backup leaves at most one partial file, which
    // the next one removes.
    let turn = File::open(directory).and_then(|directory| directory.lock().map(|()| directory));
    let _turn = turn.map_err(|source| failed("cannot lock", directory, source))?;
    let part =
        directory.join(format!(".{}.part", files.db.file_name().unwrap_or_default().to_string_lossy()));
    let written = copy(connection, &part).and_then(|records| {
        let path = name(&part, directory, &Names::of(&files.db, now))?;
        Ok(Backup { path, records })
    });
    // The backup has another name by now, or it is useless.
    let removed = find(fs::remove_file(&part)).map_err(|source| failed("cannot remove", &part, source));
    let backup = written?;
    removed?;
    sync_parent(&backup.path).map_err(|source| failed("cannot sync", directory, source))?;
    Ok(backup)
}

/// Writes the copy, syncs it, and reads it back.
fn copy(connection: &Connection, to: &Path) -> Result<u64, Fault> {
    find(fs::remove_file(to)).map_err(|source| failed("cannot remove", to, source))?;
    create_private(to).map_err(|source| failed("cannot create", to, source))?;
    connection
        .execute("VACUUM INTO ?1", [uri_of(to)])
        .map_err(|error| Fault::of("cannot write", to, error))?;
    sync(to).map_err(|source| failed("cannot sync", to, source))?;
    Ok(check(to)?.records)
}

/// Links the copy to a free name: a backup never replaces another.
fn name(part: &Path, directory: &Path, names: &Names) -> Result<PathBuf, Fault> {
    for attempt in 0.. {
        let path = directory.join(names.numbered(attempt));
        match fs::hard_link(part, &path) {
            Ok(()) => return Ok(path),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(source) => return Err(failed("cannot create", &path, source).into()),
        }
    }
    unreachable!("the loop above has no end")
}

/// The names of the backups of one store at one time.
struct Names {
    stem: String,
    extension: String,
}

impl Names {
    fn of(store: &Path, now: Time) -> Names {
        let text = |part: Option<&std::ffi::OsStr>| part.map(|part| part.to_string_lossy().into_owned());
        let moment = now.timestamp().strftime("%Y%m%dT%H%M%S.%3fZ");
        Names {
            stem: format!("{}-{moment}", text(store.file_stem()).unwrap_or_default()),
            extension: text(store.extension()).map_or_else(String::new, |extension| format!(".{extension}")),
        }
    }

    /// Returns the name, numbered if others of the same time exist. `_` sorts after `.`, so that names sort
    /// in the order of the backups.
    fn numbered(&self, attempt: u32) -> String {
        let Names { stem, extension } = self;
        if attempt == 0 { format!("{stem}{extension}") } else { format!("{stem}_{attempt}{extension}") }
    }
}

/// Returns every row of a backup, after checking all of it.
pub(crate) fn load(path: &Path) -> Result<Vec<Row>, StoreError> {
    let bad = |why: String| StoreError::BadBackup { path: path.to_owned(), why };
    let explain = |fault| match fault {
        Fault::Damage(damage) => bad(first(&damage)),
        Fault::Replaced => bad("there is no such file".to_owned()),
        Fault::Refused(error) => bad(error_chain(&error)),
    };
    let load = || {
        check(path)?;
        let files = Files::of(path)?;
        load_rows(&*open(&files)?, &files)
    };
    load().map_err(explain)
}

/// Reads a whole backup and returns damage if anything is wrong.
fn check(path: &Path) -> Result<Findings, Fault> {
    let files = Files::of(path)?;
    if files.find_stamp()?.is_none() {
        return Err(Fault::Replaced);
    }
    let link = open(&files)?;
    let sql = |error| Fault::of("cannot read", path, error);
    let number = |name| link.pragma_query_value(None, name, |row| row.get::<_, i64>(0)).map_err(sql);
    if number("application_id")? != i64::from(APPLICATION_ID) {
        return Err(Fault::damaged("it is not a copy of a Sexton store"));
    }
    let format = number("user_version")?;
    if format > newest() {
        let why = format!("it has format {format}, newer than the supported {}", newest());
        return Err(Fault::damaged(why));
    }
    let findings = deep::check(&link).map_err(sql)?;
    if findings.damage.iter().any(|damage| !damage.harmless) {
        return Err(Fault::Damage(findings.damage));
    }
    Ok(findings)
}

/// Opens a backup, which is one file without writers; a store used as a backup may have a log.
fn open(files: &Files) -> Result<Link, Fault> {
    let mode = if files.find_wal_stamp()?.is_none() { Mode::Immutable } else { Mode::Read };
    Link::open(files, mode)
}

fn first(damage: &[Damage]) -> String {
    damage.first().map_or_else(String::new, ToString::to_string)
}

fn error_chain(error: &dyn std::error::Error) -> String {
    match error.source() {
        Some(source) => format!("{error}: {}", error_chain(source)),
        None => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_backups_made_at_the_same_time_sort_in_order() {
        let names = Names::of(Path::new("/x/sessions.db"), "2026-11-16T03:15:00.123456Z".parse().unwrap());
        assert_eq!(names.numbered(0), "sessions-20261116T031500.123Z.db");
        assert_eq!(names.numbered(1), "sessions-20261116T031500.123Z_1.db");
        assert!(names.numbered(0) < names.numbered(1));
    }
}
