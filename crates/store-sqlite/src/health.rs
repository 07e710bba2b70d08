//! What state a store is in, found out before anything is done with it. The cheap questions are asked at
//! every open; everything is read only where the file is not as our writers left it.
//!
//! Architecture invariant: this only reads. It takes no lock, so that who holds the writers' lock may ask.

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
use crate::schema::{APPLICATION_ID, FORMAT};

/// What a store is like.
pub(crate) enum Verdict {
    /// There is none, and there never was.
    Absent,
    /// It is sound.
    Sound(Sound),
    /// It must not be written.
    Broken(Broken),
}

/// A store that was found sound.
pub(crate) struct Sound {
    /// The connection through which it was looked at.
    pub(crate) link: Link,
    /// What that connection may do.
    pub(crate) mode: Mode,
    /// What the store says of itself.
    pub(crate) meta: Meta,
    /// The file that was looked at.
    pub(crate) stamp: FileStamp,
    /// What is not as it should be and hurts nobody.
    pub(crate) findings: Vec<Damage>,
    /// Whether the mark knows the file as it is, and the log is there: then a writer has nothing to settle.
    pub(crate) is_recorded: bool,
}

/// How the store is to be used.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Purpose {
    /// For reading or for writing.
    pub(crate) access: Access,
    /// What a commit must survive.
    pub(crate) durability: Durability,
}

/// How often a store may change under our eyes before we give up; each time takes a whole repair.
const ATTEMPTS: usize = 100;

/// How often a log that looks broken is read again: a writer may be in the middle of a frame.
const SECOND_LOOKS: usize = 3;

/// Looks at the store.
pub(crate) fn examine(files: &Files, purpose: Purpose) -> Result<Verdict, StoreError> {
    for _ in 0..ATTEMPTS {
        // The mark first: what it says was committed must be seen by whoever looks after it.
        let mark = load_mark(files)?;
        let Some(ground) = Ground::find(files)? else { return examine_nothing(files, mark.as_ref()) };
        match look(files, purpose, mark.as_ref(), ground) {
            Ok(sound) => return Ok(Verdict::Sound(sound)),
            Err(Fault::Replaced) => {}
            Err(Fault::Refused(StoreError::NewerFormat { found, .. })) => {
                return Broken::newer(files, mark.as_ref(), found).map(Verdict::Broken);
            }
            Err(Fault::Refused(error)) => return Err(error),
            // Two files that were never one store, read together, are damage only to our eyes.
            Err(Fault::Damage(_)) if ground.has_moved(files)? => {}
            Err(Fault::Damage(causes)) => return require_ours(files, mark.as_ref(), causes),
        }
    }
    let source = io::Error::other("it is replaced again and again");
    Err(failed("cannot open", &files.db, source))
}

/// The mark of the store. One that cannot be decoded is none.
pub(crate) fn load_mark(files: &Files) -> Result<Option<Mark>, StoreError> {
    let file = files.mark();
    file.load().map_err(|source| failed("cannot read", file.path(), source))
}

/// No database, or an empty one: a fresh start only where nothing says that there was more.
fn examine_nothing(files: &Files, mark: Option<&Mark>) -> Result<Verdict, StoreError> {
    if mark.is_none() && files.find_wal_stamp()?.is_none() {
        return Ok(Verdict::Absent);
    }
    let cause = Damage {
        place: "database".to_owned(),
        what: "the file is gone or empty, and there were records in it".to_owned(),
        harmless: false,
    };
    Broken::load(files, mark, vec![cause]).map(Verdict::Broken)
}

/// A damaged store, unless nothing in the file or beside it was ever ours.
fn require_ours(files: &Files, mark: Option<&Mark>, causes: Vec<Damage>) -> Result<Verdict, StoreError> {
    let why = causes.first().map_or_else(String::new, |cause| cause.what.clone());
    let broken = Broken::load(files, mark, causes)?;
    if broken.is_foreign() {
        return Err(StoreError::NotAStore { path: files.db.clone(), backend: crate::NAME, why });
    }
    Ok(Verdict::Broken(broken))
}

/// The files as they are when an examination begins.
#[derive(Clone, Copy)]
struct Ground {
    stamp: FileStamp,
    /// Whether there is no log: nobody is writing.
    is_still: bool,
}

impl Ground {
    fn find(files: &Files) -> Result<Option<Ground>, StoreError> {
        let is_still = files.find_wal_stamp()?.is_none();
        Ok(files.find_stamp()?.map(|stamp| Ground { stamp, is_still }))
    }

    /// Whether what was read since may not belong together.
    fn has_moved(self, files: &Files) -> Result<bool, StoreError> {
        Ok(Ground::find(files)?.is_none_or(|now| {
            now.stamp.inode != self.stamp.inode
                || now.is_still != self.is_still
                || (self.is_still && now.stamp != self.stamp)
        }))
    }
}

fn look(files: &Files, purpose: Purpose, mark: Option<&Mark>, ground: Ground) -> Result<Sound, Fault> {
    let Ground { stamp, is_still } = ground;
    let shared = match purpose.access {
        Access::Read => Mode::Read,
        Access::Write => Mode::Write(purpose.durability),
    };
    let mut mode = if is_still { Mode::Still } else { shared };
    let mut link = Link::open(files, mode)?;
    let found = identify(&link).map_err(|error| explain(files, mode, error))?;
    let meta = require_our_format(files, found)?;
    let findings = compare(files, &link, &meta, mark, stamp)?;
    if is_still && purpose.access == Access::Write {
        // Only now that the store is known to be ours and sound may SQLite make files beside it.
        mode = shared;
        link = Link::open(files, mode)?;
        Meta::load(&link).map_err(|error| Fault::of("cannot read", &files.db, error))?;
        // The log is new, and its name must be as durable as the first commit in it. SQLite itself would
        // sync the directory again in every process that commits, so ours is built not to.
        if purpose.durability == Durability::Power {
            sync_parent(&files.db)
                .map_err(|source| failed("cannot sync the directory of", &files.db, source))?;
        }
    }
    require_writable(files, &link, mode)?;
    if ground.has_moved(files)? {
        return Err(Fault::Replaced);
    }
    let is_recorded = !is_still && mark.is_some_and(|mark| mark.stamp == Some(stamp));
    Ok(Sound { link, mode, meta, stamp, findings, is_recorded })
}

/// Sorts the error of the first read. SQLite needs a file beside the log to read it, and does not say that
/// this is what it could not make.
fn explain(files: &Files, mode: Mode, error: rusqlite::Error) -> Fault {
    if mode != Mode::Read || error.sqlite_error_code() != Some(ErrorCode::CannotOpen) {
        return Fault::of("cannot read", &files.db, error);
    }
    let action = "the store has a log that is not in the database yet, and no index of it can be made beside";
    Fault::Refused(StoreError::Backend { action, path: files.db.clone(), source: Box::new(error) })
}

/// Whose database it is and of which format, as the file's header and the store itself say.
struct Found {
    application: i64,
    version: i64,
    meta: Option<Meta>,
}

fn identify(link: &Connection) -> rusqlite::Result<Found> {
    let application = link.pragma_query_value(None, "application_id", |row| row.get(0))?;
    let version = link.pragma_query_value(None, "user_version", |row| row.get(0))?;
    let meta = match Meta::load(link) {
        // A newer version may keep this elsewhere.
        Err(_) if version > FORMAT => None,
        meta => meta?,
    };
    Ok(Found { application, version, meta })
}

fn require_our_format(files: &Files, found: Found) -> Result<Meta, Fault> {
    // The header has no checksum and the store's own word has one: where that is whole, it decides.
    let stated = found.meta.as_ref().map_or(found.version, |meta| meta.format);
    if stated > FORMAT && (found.application == i64::from(APPLICATION_ID) || found.meta.is_some()) {
        let (found, supported) = (stated.unsigned_abs(), FORMAT.unsigned_abs());
        return Err(StoreError::NewerFormat { path: files.db.clone(), found, supported }.into());
    }
    let meta = found.meta.ok_or_else(|| Fault::damaged("what the store says of itself is damaged"))?;
    if found.version != meta.format || found.application != i64::from(APPLICATION_ID) {
        return Err(Fault::damaged("the file's header is damaged"));
    }
    Ok(meta)
}

/// Compares the store with what its writers left; gives what is harmless.
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
    // Others may have written since the mark was read.
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
    Err(Fault::damaged(format!("another store ({here}) was put in the place of {there}")))
}

fn require_all_commits(meta: &Meta, mark: &Mark) -> Result<(), Fault> {
    let missing = mark.sequence.saturating_sub(meta.seq);
    if missing == 0 {
        return Ok(());
    }
    let (first, last) = (meta.seq + 1, mark.sequence);
    Err(Fault::damaged(format!(
        "{missing} acknowledged commits are missing ({first} to {last}): records of theirs are lost or show an \
         older state"
    )))
}

/// Looks in the log for commits that SQLite does not see. A bad frame with the next commits behind it is
/// damage. Where only the very last commit is cut off, it was never acknowledged, or the mark would know.
pub(crate) fn scan_log(files: &Files, link: &Connection) -> Result<Option<Damage>, Fault> {
    let mut finding = None;
    for _ in 0..SECOND_LOOKS {
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
    // The log first: a commit that is made meanwhile is then seen, and not taken for a hidden one.
    let wal = load_wal(files)?;
    let meta = Meta::load(link).map_err(|error| Fault::of("cannot read", &files.db, error))?;
    let seen = meta.ok_or_else(|| Fault::damaged("what the store says of itself is damaged"))?.seq;
    let last = Salvage::of(&[], &wal).seq();
    if last <= seen {
        return Ok(None);
    }
    // A commit begins only after the one before it was acknowledged, and the header is synced before any
    // frame: neither of these can be left by a write that was cut off.
    let harmless = last == seen + 1 && wal.header_is_whole;
    let what = if harmless {
        "the last write was cut off before it was acknowledged; the next one takes its place".to_owned()
    } else {
        format!("it is damaged, and the commits behind that place ({} to {last}) are hidden", seen + 1)
    };
    Ok(Some(Damage { place: "write-ahead log".to_owned(), what, harmless }))
}

/// A database that SQLite opened for reading only, though it was asked for more: the file's header says so,
/// or the system did not let it.
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
