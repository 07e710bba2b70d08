//! Determines the state of a store before it is used. Cheap checks run at every open; everything is read only
//! if the file is not as the last writer left it.
//!
//! Architecture invariant: this only reads. It takes no lock, so that a holder of the writer lock may call
//! it.

use std::io;

use rusqlite::{Connection, ErrorCode};
use sexton_core::StoreError;
use sexton_core::store::{Access, Damage, Durability};
use sexton_durable::{FileStamp, Mark, sync_parent};

use crate::broken::{Broken, load_wal};
use crate::connection::{Link, Mode};
use crate::deep;
use crate::fault::Fault;
use crate::files::{Files, failed};
use crate::meta::Meta;
use crate::page::may_be_written;
use crate::presence::read_database;
use crate::salvage::Salvage;
use crate::schema::{APPLICATION_ID, newest};

/// The state of a store.
pub(crate) enum Verdict {
    /// It does not exist and never did.
    Absent,
    /// It is intact.
    Sound(Sound),
    /// It must not be written.
    Broken(Broken),
}

/// An intact store.
pub(crate) struct Sound {
    /// The connection that was used for the check.
    pub(crate) link: Link,
    /// The mode of that connection.
    pub(crate) mode: Mode,
    /// The store's metadata.
    pub(crate) meta: Meta,
    /// The file that was checked.
    pub(crate) stamp: FileStamp,
    /// Harmless findings.
    pub(crate) findings: Vec<Damage>,
    /// Whether the mark matches the file and there is a log: then a writer has nothing to prepare.
    pub(crate) is_recorded: bool,
}

/// The intended use of the store.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purpose {
    /// For reading or for writing.
    pub(crate) access: Access,
    /// What a commit must survive.
    pub(crate) durability: Durability,
}

/// How often a store may change during the check before this gives up; each change takes a whole repair.
const ATTEMPTS: usize = 100;

/// How often a log that seems broken is read again: a writer may be in the middle of a frame.
const LOG_RETRIES: usize = 3;

/// Determines the state of the store.
pub(crate) fn examine(files: &Files, purpose: Purpose) -> Result<Verdict, StoreError> {
    for _ in 0..ATTEMPTS {
        // Load the mark first: the commit that it names must be visible in everything read later.
        let mark = load_mark(files)?;
        let Some(file_state) = FileState::find(files)? else { return examine_nothing(files, mark.as_ref()) };
        match inspect(files, purpose, mark.as_ref(), file_state) {
            Ok(sound) => return Ok(Verdict::Sound(sound)),
            Err(Fault::Replaced) => {}
            Err(Fault::Refused(StoreError::NewerFormat { found, .. })) => {
                return Broken::newer(files, mark.as_ref(), found).map(Verdict::Broken);
            }
            Err(Fault::Refused(error)) => return Err(error),
            // Two files that never belonged together are not damage, only read at the wrong time.
            Err(Fault::Damage(_)) if file_state.has_moved(files)? => {}
            Err(Fault::Damage(causes)) => return require_ours(files, mark.as_ref(), causes),
        }
    }
    let source = io::Error::other("the file is replaced repeatedly");
    Err(failed("cannot open", &files.db, source))
}

/// Loads the mark of the store. A mark that cannot be decoded counts as missing.
pub(crate) fn load_mark(files: &Files) -> Result<Option<Mark>, StoreError> {
    let file = files.mark();
    file.load().map_err(|source| failed("cannot read", file.path(), source))
}

/// Handles a missing or empty database: a new store only if nothing indicates that there was one.
fn examine_nothing(files: &Files, mark: Option<&Mark>) -> Result<Verdict, StoreError> {
    if mark.is_none() && files.find_wal_stamp()?.is_none() {
        return Ok(Verdict::Absent);
    }
    let cause = Damage {
        place: "database".to_owned(),
        what: "the file is missing or empty, but it contained records".to_owned(),
        harmless: false,
    };
    Broken::load(files, mark, vec![cause]).map(Verdict::Broken)
}

/// Returns a damaged store, or an error if nothing in the file or beside it belongs to Sexton.
fn require_ours(files: &Files, mark: Option<&Mark>, causes: Vec<Damage>) -> Result<Verdict, StoreError> {
    let why = causes.first().map_or_else(String::new, |cause| cause.what.clone());
    let broken = Broken::load(files, mark, causes)?;
    if broken.is_foreign() {
        return Err(StoreError::NotAStore { path: files.db.clone(), backend: crate::NAME, why });
    }
    Ok(Verdict::Broken(broken))
}

/// The state of the files when the check begins.
#[derive(Clone, Copy)]
struct FileState {
    stamp: FileStamp,
    /// Whether there is no log, that is, no writer is active.
    has_no_log: bool,
}

impl FileState {
    fn find(files: &Files) -> Result<Option<FileState>, StoreError> {
        let has_no_log = files.find_wal_stamp()?.is_none();
        Ok(files.find_stamp()?.map(|stamp| FileState { stamp, has_no_log }))
    }

    /// Returns whether the files changed, so that what was read may not belong together.
    fn has_moved(self, files: &Files) -> Result<bool, StoreError> {
        Ok(FileState::find(files)?.is_none_or(|now| {
            now.stamp.inode != self.stamp.inode
                || now.has_no_log != self.has_no_log
                || (self.has_no_log && now.stamp != self.stamp)
        }))
    }
}

fn inspect(
    files: &Files,
    purpose: Purpose,
    mark: Option<&Mark>,
    file_state: FileState,
) -> Result<Sound, Fault> {
    let FileState { stamp, has_no_log } = file_state;
    let shared = match purpose.access {
        Access::Read => Mode::Read,
        Access::Write => Mode::Write(purpose.durability),
    };
    let mut mode = if has_no_log { Mode::Immutable } else { shared };
    let mut link = Link::open(files, mode)?;
    let found = identify(&link).map_err(|error| explain(files, mode, error))?;
    let meta = require_our_format(files, found)?;
    let findings = compare(files, &link, &meta, mark, stamp)?;
    if has_no_log && purpose.access == Access::Write {
        // SQLite may create files beside the store only now that the store is known to be intact and
        // Sexton's.
        mode = shared;
        link = Link::open(files, mode)?;
        Meta::load(&link).map_err(|error| Fault::of("cannot read", &files.db, error))?;
        // The log is new, and its name must be as durable as the first commit in it. SQLite would sync the
        // directory again in every process that commits, so this build disables that.
        if purpose.durability == Durability::Power {
            sync_parent(&files.db)
                .map_err(|source| failed("cannot sync the directory of", &files.db, source))?;
        }
    }
    require_writable(files, &link, mode)?;
    if file_state.has_moved(files)? {
        return Err(Fault::Replaced);
    }
    let is_recorded = !has_no_log && mark.is_some_and(|mark| mark.stamp == Some(stamp));
    Ok(Sound { link, mode, meta, stamp, findings, is_recorded })
}

/// Classifies the error of the first read. SQLite needs an index file beside the log, and its error does not
/// name that file if it could not be created.
fn explain(files: &Files, mode: Mode, error: rusqlite::Error) -> Fault {
    if mode != Mode::Read || error.sqlite_error_code() != Some(ErrorCode::CannotOpen) {
        return Fault::of("cannot read", &files.db, error);
    }
    let action = "the store has a write-ahead log, but its index file cannot be created beside";
    Fault::Refused(StoreError::Backend { action, path: files.db.clone(), source: Box::new(error) })
}

/// The owner and format of the database, from the file header and the store's metadata.
struct Found {
    application: i64,
    version: i64,
    meta: Option<Meta>,
}

fn identify(link: &Connection) -> rusqlite::Result<Found> {
    let application = link.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version = link.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let meta = match Meta::load(link) {
        // A newer version may store this elsewhere.
        Err(_) if version > newest() => None,
        meta => meta?,
    };
    Ok(Found { application, version, meta })
}

fn require_our_format(files: &Files, found: Found) -> Result<Meta, Fault> {
    // The header has no checksum and the metadata has one: if the metadata is intact, it decides.
    let stated = found.meta.as_ref().map_or(found.version, |meta| meta.format);
    if stated > newest() && (found.application == i64::from(APPLICATION_ID) || found.meta.is_some()) {
        let formats = (stated.unsigned_abs(), newest().unsigned_abs());
        return Err(StoreError::newer_format(&files.db, formats, []).into());
    }
    let meta = found.meta.ok_or_else(|| Fault::damaged("the store's metadata is damaged"))?;
    if found.version != meta.format || found.application != i64::from(APPLICATION_ID) {
        return Err(Fault::damaged("the file's header is damaged"));
    }
    Ok(meta)
}

/// Compares the store with its mark and returns the harmless findings.
fn compare(
    files: &Files,
    link: &Connection,
    meta: &Meta,
    mark: Option<&Mark>,
    stamp: FileStamp,
) -> Result<Vec<Damage>, Fault> {
    if let Some(mark) = mark {
        require_same_store(meta, mark)?;
        require_all_commits(meta, mark)?;
    }
    let mut findings = Vec::new();
    let is_known = |mark: &Mark| mark.stamp == Some(stamp);
    let has_all = |mark: &Mark| mark.sequence >= meta.seq;
    if mark.is_some_and(|mark| is_known(mark) && has_all(mark)) {
        return Ok(findings);
    }
    // Another process may have written since the mark was loaded.
    let mark = load_mark(files)?;
    if !mark.as_ref().is_some_and(has_all) {
        findings.extend(scan_log(files, link)?);
    }
    if !mark.as_ref().is_some_and(is_known) {
        let deep = deep::check(link).map_err(|error| Fault::of("cannot check", &files.db, error))?;
        if deep.damage.iter().any(|damage| !damage.harmless) {
            return Err(Fault::Damage(deep.damage));
        }
    }
    Ok(findings)
}

fn require_same_store(meta: &Meta, mark: &Mark) -> Result<(), Fault> {
    if mark.store == meta.store {
        return Ok(());
    }
    let (here, there) = (&meta.store, &mark.store);
    Err(Fault::damaged(format!("another store ({here}) replaced store {there}")))
}

fn require_all_commits(meta: &Meta, mark: &Mark) -> Result<(), Fault> {
    let missing = mark.sequence.saturating_sub(meta.seq);
    if missing == 0 {
        return Ok(());
    }
    let (first, last) = (meta.seq + 1, mark.sequence);
    Err(Fault::damaged(format!(
        "{missing} acknowledged commits are missing ({first} to {last}): their records are missing or show an \
         older state"
    )))
}

/// Searches the log for commits that SQLite does not see. A bad frame followed by further commits is damage.
/// If only the very last commit is incomplete, it was never acknowledged, or the mark would name it.
pub(crate) fn scan_log(files: &Files, link: &Connection) -> Result<Option<Damage>, Fault> {
    let mut finding = None;
    for _ in 0..LOG_RETRIES {
        finding = find_hidden_commits(files, link)?;
        if finding.is_none() {
            return Ok(None);
        }
    }
    match finding {
        Some(damage) if !damage.harmless => Err(Fault::Damage(vec![damage])),
        harmless => Ok(harmless),
    }
}

fn find_hidden_commits(files: &Files, link: &Connection) -> Result<Option<Damage>, Fault> {
    // Load the log first: a commit made meanwhile is then visible and not taken for a hidden one.
    let wal = load_wal(files)?;
    let meta = Meta::load(link).map_err(|error| Fault::of("cannot read", &files.db, error))?;
    let seen = meta.ok_or_else(|| Fault::damaged("the store's metadata is damaged"))?.seq;
    let last = Salvage::of(&[], &wal).seq();
    if last <= seen {
        return Ok(None);
    }
    // A commit begins only after the previous one was acknowledged, and the header is synced before any
    // frame: an interrupted write can leave neither of these.
    let harmless = last == seen + 1 && wal.header_is_whole;
    let what = if harmless {
        "the last write was interrupted before it was acknowledged; the next write replaces it".to_owned()
    } else {
        format!("it is damaged, and the commits after the damage ({} to {last}) are not visible", seen + 1)
    };
    Ok(Some(Damage { place: "write-ahead log".to_owned(), what, harmless }))
}

/// Returns an error if SQLite opened the database read-only although write access was requested: the file
/// header says so, or permission was denied.
fn require_writable(files: &Files, link: &Link, mode: Mode) -> Result<(), Fault> {
    let is_readonly = link.is_readonly(rusqlite::MAIN_DB);
    let is_readonly = is_readonly.map_err(|error| Fault::of("cannot open", &files.db, error))?;
    if !matches!(mode, Mode::Write(_)) || !is_readonly {
        return Ok(());
    }
    let bytes = read_database(&files.db).map_err(|source| failed("cannot read", &files.db, source))?;
    if may_be_written(&bytes) {
        return Err(failed("cannot write", &files.db, io::ErrorKind::PermissionDenied.into()).into());
    }
    Err(Fault::damaged("the file's header is damaged"))
}
