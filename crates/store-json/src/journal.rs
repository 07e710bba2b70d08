//! The journal file: the content read so far, and reading what was appended since.
//!
//! Nothing here writes. A reader never waits: if the end of the file is torn, it checks whether a writer is
//! active, and if so ignores that end for now.

use std::fs::{File, Metadata, TryLockError};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::{Path, PathBuf};

use sexton_core::session::RecordError;
use sexton_core::store::Damage;
use sexton_core::{Session, SessionId, StoreError};
use sexton_durable::{FileLock, Mark, MarkFile, open_regular};

use crate::format;
use crate::health::{Contents, Health};
use crate::image::Rest;
use crate::index::{Entry, newer_record};
use crate::snapshot::Snapshot;
use crate::writer::newer_format;

/// One handle's view of a journal.
#[derive(Debug)]
pub(crate) struct Journal {
    path: PathBuf,
    mark: MarkFile,
    seen: Option<Seen>,
    contents: Contents,
}

/// The file as it was at the last refresh.
#[derive(Debug)]
struct Seen {
    file: File,
    device: u64,
    inode: u64,
    size: u64,
    modified: (i64, i64),
    /// A writer was in the middle of a commit: read again even if nothing seems to have changed.
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
    /// Creates a view of the journal at `path` that has read nothing yet.
    pub(crate) fn new(path: &Path) -> Journal {
        let mark = MarkFile::beside(path);
        Journal { path: path.to_owned(), mark, seen: None, contents: Contents::missing(None) }
    }

    /// Returns the path of the journal.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// Returns the mark file.
    pub(crate) fn mark(&self) -> &MarkFile {
        &self.mark
    }

    /// Loads the mark. A mark with an impossible sequence is ignored.
    pub(crate) fn load_mark(&self) -> Result<Option<Mark>, StoreError> {
        let found = self.mark.load().map_err(io_error("cannot read", self.mark.path()))?;
        Ok(found.filter(|mark| mark.sequence <= format::LARGEST))
    }

    /// Returns the contents as of the last refresh.
    pub(crate) fn contents(&self) -> &Contents {
        &self.contents
    }

    /// Discards the cached state, so that the next refresh reads the file from its start.
    pub(crate) fn forget(&mut self) {
        self.seen = None;
    }

    /// Reads what was written since the last refresh. `writer` is the store's writer lock, if the caller
    /// holds it.
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

    /// Returns whether the file may only have been appended to. A file that changed without growing was
    /// written by another program and is read again from its start.
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

    /// Reads the file from its start.
    pub(crate) fn reload(&mut self, writer: Option<&FileLock>) -> Result<(), StoreError> {
        let mut quiet = None;
        loop {
            self.read_all()?;
            if self.contents.health != Health::Torn || writer.is_some() || quiet.is_some() {
                return Ok(());
            }
            match probe_writers(&self.path) {
                // A writer may have finished since: an end is torn only if it is still torn while no writer
                // is active.
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
        // Load the mark first: it is written after the commit it names, so content read later is at least as
        // new.
        let mark = self.load_mark();
        let file = match open_regular(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                // Without the mark, a deleted journal cannot be distinguished from one that never existed.
                let mark = mark?;
                self.seen = None;
                self.contents = Contents::missing(mark.as_ref());
                return Ok(());
            }
            Err(source) => return Err(io_error("cannot open", &self.path)(source)),
        };
        let (bytes, metadata) = read_from(&file, 0).map_err(io_error("cannot read", &self.path))?;
        // An existing journal can be read without its mark, also by a user without permission to read the
        // mark. Writers require the mark.
        let (mark, doubt) = match mark {
            Err(error) if bytes.is_empty() => return Err(error),
            Err(error) => (None, Some(mark_unreadable(&error))),
            Ok(mark) => (mark, None),
        };
        self.contents = Contents::interpret(&bytes, mark.as_ref()).map_err(|_| StoreError::NotAStore {
            path: self.path.clone(),
            backend: crate::NAME,
            why: "it contains no journal line".to_owned(),
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
        if self.contents.health == Health::Newer {
            let what = newer_format(self).newer_format_note();
            self.contents.damage.insert(0, Damage { place: "journal".to_owned(), what, harmless: false });
        }
        Ok(())
    }

    /// Returns the document of a record, byte for byte, after verifying its checksum again.
    pub(crate) fn load_document(&self, id: &SessionId, entry: &Entry) -> Result<String, StoreError> {
        let damaged = |what: String| StoreError::DamagedRecord { id: id.clone(), what };
        let seen = self.seen.as_ref().ok_or_else(|| damaged("the journal file does not exist".to_owned()))?;
        let mut line = vec![0; entry.span.length];
        seen.file.read_exact_at(&mut line, entry.span.offset).map_err(io_error("cannot read", &self.path))?;
        let document = format::decode_record(&line);
        document.map(str::to_owned).map_err(|error| damaged(error.to_string()))
    }

    /// Loads a record.
    pub(crate) fn load_session(&self, id: &SessionId, entry: &Entry) -> Result<Session, StoreError> {
        if let Some(why) = entry.summary.newer() {
            return Err(newer_record(id, why));
        }
        let document = self.load_document(id, entry)?;
        let mut session = Session::from_json(&document).map_err(|source| match source {
            RecordError::Malformed(why) => {
                StoreError::DamagedRecord { id: id.clone(), what: why.to_string() }
            }
            newer => StoreError::Record { id: id.clone(), source: newer },
        })?;
        session.revision = entry.seq;
        Ok(session)
    }

    /// Returns the live content as a journal without history.
    pub(crate) fn snapshot(&self) -> Result<Snapshot, StoreError> {
        let image = &self.contents.image;
        let entries = image.index.in_file_order().into_iter();
        let records = entries.map(|(id, entry)| Ok((entry.seq, self.load_document(id, entry)?)));
        Ok(Snapshot {
            store: image.header.store.clone(),
            format: image.header.format,
            seq: image.seq,
            records: records.collect::<Result<_, StoreError>>()?,
            counters: image.index.counters().clone(),
        })
    }

    /// Reads the bytes after the last complete commit.
    pub(crate) fn load_torn_end(&self) -> Result<Vec<u8>, StoreError> {
        let Some(seen) = &self.seen else { return Ok(Vec::new()) };
        let read =
            read_from(&seen.file, self.contents.image.end).map_err(io_error("cannot read", &self.path))?;
        Ok(read.0)
    }
}

/// Whether a writer may be active.
enum Writers {
    Busy,
    /// No writer is active, and none can start while the file is held. No file if the journal was never
    /// written.
    Quiet(#[allow(dead_code, reason = "the lock is released on drop")] Option<File>),
}

fn probe_writers(path: &Path) -> Writers {
    let file = match open_regular(&lock_path(path)) {
        Ok(file) => file,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Writers::Quiet(None),
        Err(_) => return Writers::Busy,
    };
    match file.try_lock_shared() {
        Ok(()) => Writers::Quiet(Some(file)),
        Err(TryLockError::WouldBlock | TryLockError::Error(_)) => Writers::Busy,
    }
}

/// Returns the path of the lock that serialises the writers of the journal at `path`.
pub(crate) fn lock_path(path: &Path) -> PathBuf {
    beside(path, ".lock")
}

/// Returns `path` with `suffix` appended to its name.
pub(crate) fn beside(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// Reads everything from `start` to the end. The metadata is from before the read.
fn read_from(file: &File, start: u64) -> io::Result<(Vec<u8>, Metadata)> {
    let metadata = file.metadata()?;
    let expected = usize::try_from(metadata.size().saturating_sub(start)).unwrap_or(0);
    // One extra byte, so that the read that finds the end needs no further allocation.
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

/// Returns the finding for a journal whose mark cannot be read.
fn mark_unreadable(error: &StoreError) -> Damage {
    let cause = std::error::Error::source(error).map_or_else(|| error.to_string(), ToString::to_string);
    Damage {
        place: "mark".to_owned(),
        what: format!(
            "the mark beside the journal cannot be read ({cause}), so it is unknown whether its last commits \
             are complete; the journal is read-only until the mark can be read or is removed"
        ),
        harmless: true,
    }
}

/// Wraps an operating system error with the action and the path.
pub(crate) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { action, path, source }
}
