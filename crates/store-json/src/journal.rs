//! The journal as a file: what was read of it so far, and reading what has come since.
//!
//! Nothing here writes. A reader never waits: where the end of the file looks torn it asks whether a
//! writer is at work, and if one is, that end is simply not there yet.

use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use sexton_core::session::RecordError;
use sexton_core::store::Damage;
use sexton_core::{Session, SessionId, StoreError};
use sexton_durable::{FileLock, Mark, MarkFile};

use crate::format;
use crate::health::{Contents, Health};
use crate::image::Rest;
use crate::index::{Entry, newer_record};
use crate::snapshot::Snapshot;

/// One handle's view of a journal.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    mark: MarkFile,
    seen: Option<Seen>,
    contents: Contents,
}

/// The file as it was when it was last looked at.
#[derive(Debug)]
struct Seen {
    file: File,
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    /// A writer was in the middle of a commit: look again even if nothing seems to have changed.
    in_flight: bool,
}

impl Seen {
    fn is_same_file(&self, metadata: &Metadata) -> bool {
        (self.device, self.inode) == (metadata.dev(), metadata.ino())
    }

    fn is_unchanged(&self, metadata: &Metadata) -> bool {
        let modified = (metadata.mtime(), metadata.mtime_nsec());
        !self.in_flight && self.size == metadata.size() && self.modified == modified
    }
}

impl Journal {
    /// A view of the journal at `path` that has not looked yet.
    pub(crate) fn new(path: &Path) -> Journal {
        let mark = MarkFile::beside(path);
        Journal { path: path.to_owned(), mark, seen: None, contents: Contents::missing(None) }
    }

    /// Where it is.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Its mark.
    pub(crate) fn mark(&self) -> &MarkFile {
        &self.mark
    }

    /// The mark as it is now. One that says nothing that can be understood proves nothing.
    pub(crate) fn load_mark(&self) -> Result<Option<Mark>, StoreError> {
        let found = self.mark.load().map_err(io_error("cannot read", self.mark.path()))?;
        Ok(found.filter(|mark| mark.sequence <= format::LARGEST))
    }

    /// What the last look saw.
    pub(crate) fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Trusts nothing that was seen, so that the next look reads the file from its beginning.
    pub(crate) fn forget(&mut self) {
        self.seen = None;
    }

    /// Takes up what was written since the last look. `writer` is the lock of the store's writers, where
    /// the caller holds it.
    pub(crate) fn refresh(&mut self, writer: Option<&FileLock>) -> Result<(), StoreError> {
        let metadata = match std::fs::metadata(&self.path) {
            Ok(metadata) => metadata,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return self.reload(writer),
            Err(source) => return Err(io_error("cannot read", &self.path)(source)),
        };
        match &self.seen {
            Some(seen) if seen.is_same_file(&metadata) && seen.is_unchanged(&metadata) => Ok(()),
            Some(seen) if seen.is_same_file(&metadata) && self.has_grown(&metadata) => self.follow(writer),
            _ => self.reload(writer),
        }
    }

    /// Whether the file may simply have been appended to. One that changed without growing was written by
    /// somebody else than us, and is read again from its beginning.
    fn has_grown(&self, metadata: &Metadata) -> bool {
        let readable = matches!(self.contents.health, Health::Whole | Health::Torn);
        let in_flight = self.seen.as_ref().is_some_and(|seen| seen.in_flight);
        let size = self.seen.as_ref().map_or(0, |seen| seen.size);
        readable && (metadata.size() > size || in_flight) && metadata.size() >= self.contents.image.end
    }

    /// Reads what was appended.
    fn follow(&mut self, writer: Option<&FileLock>) -> Result<(), StoreError> {
        let Some(seen) = &mut self.seen else { return self.reload(writer) };
        let start = self.contents.image.end;
        let (bytes, metadata) = read_from(&seen.file, start).map_err(io_error("cannot read", &self.path))?;
        let in_flight = match self.contents.image.extend(&bytes) {
            Rest::Nothing => false,
            Rest::Torn if writer.is_none() && matches!(probe_writers(&self.path), Writers::Busy) => true,
            Rest::Torn | Rest::Irregular => return self.reload(writer),
        };
        seen.size = start + bytes.len() as u64;
        seen.modified = (metadata.mtime(), metadata.mtime_nsec());
        seen.in_flight = in_flight;
        self.contents.health = Health::Whole;
        self.contents.damage.clear();
        Ok(())
    }

    /// Reads the file from its beginning.
    pub(crate) fn reload(&mut self, writer: Option<&FileLock>) -> Result<(), StoreError> {
        let mut quiet = None;
        loop {
            self.read_all()?;
            if self.contents.health != Health::Torn || writer.is_some() || quiet.is_some() {
                return Ok(());
            }
            match probe_writers(&self.path) {
                // Somebody may have finished since: only what is torn while nobody writes is torn.
                Writers::Quiet(held) => quiet = Some(held),
                Writers::Busy => {
                    self.contents.health = Health::Whole;
                    self.contents.damage.clear();
                    self.seen.iter_mut().for_each(|seen| seen.in_flight = true);
                    return Ok(());
                }
            }
        }
    }

    fn read_all(&mut self) -> Result<(), StoreError> {
        // The mark first: it is written after what it speaks of, so what is read later is at least as new.
        let mark = self.load_mark();
        let file = match File::open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Without its word nobody can tell a journal that is gone from one that never was.
                let mark = mark?;
                self.seen = None;
                self.contents = Contents::missing(mark.as_ref());
                return Ok(());
            }
            Err(source) => return Err(io_error("cannot open", &self.path)(source)),
        };
        let (bytes, metadata) = read_from(&file, 0).map_err(io_error("cannot read", &self.path))?;
        // What is there can be read without it, by somebody who may not read it too; writers insist on it.
        let (mark, doubt) = match mark {
            Err(error) if bytes.is_empty() => return Err(error),
            Err(error) => (None, Some(mark_unreadable(&error))),
            Ok(mark) => (mark, None),
        };
        self.contents = Contents::interpret(&bytes, mark.as_ref()).map_err(|_| StoreError::NotAStore {
            path: self.path.clone(),
            backend: crate::NAME,
            why: "no line of it is a line of a journal".to_owned(),
        })?;
        self.contents.damage.extend(doubt);
        self.seen = Some(Seen {
            file,
            device: metadata.dev(),
            inode: metadata.ino(),
            size: bytes.len() as u64,
            modified: (metadata.mtime(), metadata.mtime_nsec()),
            in_flight: false,
        });
        Ok(())
    }

    /// The document of a record, byte for byte, after its checksum was verified once more.
    pub(crate) fn load_document(&self, id: &SessionId, entry: &Entry) -> Result<String, StoreError> {
        let damaged = |what: String| StoreError::DamagedRecord { id: id.clone(), what };
        let seen = self.seen.as_ref().ok_or_else(|| damaged("the journal is gone".to_owned()))?;
        let mut line = vec![0; entry.span.length];
        seen.file.read_exact_at(&mut line, entry.span.offset).map_err(io_error("cannot read", &self.path))?;
        let document = format::decode_record(&line);
        document.map(str::to_owned).map_err(|error| damaged(error.to_string()))
    }

    /// A record.
    pub(crate) fn load_session(&self, id: &SessionId, entry: &Entry) -> Result<Session, StoreError> {
        if let Some(schema) = entry.summary.newer_schema() {
            return Err(newer_record(id, schema));
        }
        let document = self.load_document(id, entry)?;
        let mut session = Session::from_json(&document).map_err(|source| match source {
            RecordError::NewerSchema { .. } => StoreError::Record { id: id.clone(), source },
            RecordError::Malformed(why) => {
                StoreError::DamagedRecord { id: id.clone(), what: why.to_string() }
            }
        })?;
        session.revision = entry.seq;
        Ok(session)
    }

    /// Everything that counts, as a journal without its history.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let image = &self.contents.image;
        let entries = image.index.in_file_order().into_iter();
        let records = entries.map(|(id, entry)| Ok((entry.seq, self.load_document(id, entry)?)));
        Ok(Snapshot {
            store: image.header.store.clone(),
            seq: image.seq,
            records: records.collect::<Result<_, StoreError>>()?,
            counters: image.index.counters().clone(),
        })
    }

    /// The bytes behind the last whole commit.
    pub(crate) fn load_torn_end(&self) -> Result<Vec<u8>, StoreError> {
        let Some(seen) = &self.seen else { return Ok(Vec::new()) };
        let read =
            read_from(&seen.file, self.contents.image.end).map_err(io_error("cannot read", &self.path))?;
        Ok(read.0)
    }
}

/// Whether somebody may be writing now.
enum Writers {
    Busy,
    /// Nobody, and nobody begins while this is held. There is no file where nobody ever wrote.
    Quiet(#[allow(dead_code, reason = "held for its drop")] Option<File>),
}

fn probe_writers(path: &Path) -> Writers {
    let file = match File::open(lock_path(path)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Writers::Quiet(None),
        Err(_) => return Writers::Busy,
    };
    match file.try_lock_shared() {
        Ok(()) => Writers::Quiet(Some(file)),
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => Writers::Busy,
    }
}

/// The lock that serialises the writers of the journal at `path`.
pub(crate) fn lock_path(path: &Path) -> PathBuf {
    beside(path, ".lock")
}

/// The name of `path` with `suffix` behind it.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Everything from `start` to the end, and the file's state from before it was read.
fn read_from(file: &File, start: u64) -> io::Result<(Vec<u8>, Metadata)> {
    let metadata = file.metadata()?;
    let expected = usize::try_from(metadata.size().saturating_sub(start)).unwrap_or(0);
    // One byte more, so that the read which finds the end needs no further allocation.
    let mut bytes = vec![0; expected + 1];
    let mut filled = 0;
    loop {
        if filled == bytes.len() {
            bytes.resize(bytes.len() * 2, 0);
        }
        match file.read_at(&mut bytes[filled..], start + filled as u64) {
            Ok(0) => break,
            Ok(count) => filled += count,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    bytes.truncate(filled);
    Ok((bytes, metadata))
}

/// The word about a journal whose end nobody vouches for.
fn mark_unreadable(error: &StoreError) -> Damage {
    let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    Damage {
        place: "mark".to_owned(),
        what: format!(
            "the mark beside the journal cannot be read ({cause}), so nobody can tell whether its last commits \
             are all there; it is not written until the mark can be read, or is taken away"
        ),
        harmless: true,
    }
}

/// Wraps an operating system's error with what was tried on what.
pub(crate) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { action, path, source }
}
