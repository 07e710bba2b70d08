//! Reads the raw bytes of files and computes their object ids as git does, but without filters, line-end
//! conversion or other programs. New content is written to the pack in the same pass, on several threads;
//! large files are processed in pieces.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use git2::{ObjectType, Oid};
use rustix::fs::{FileType, OFlags, Stat};
use rustix::io::Errno;

use super::index::CachedStat;
use super::walk::{WalkError, cached, open_below};
use crate::pack::{self, Deflater, PackWriter, SMALL};
use crate::tree::{EXECUTABLE, FILE, Item, SYMLINK};
use crate::workers::Workers;

/// How often a file that changes while it is read is read again.
const ATTEMPTS: usize = 3;

/// A path whose content has to be read.
#[derive(Clone, Debug)]
pub(crate) struct Candidate {
    /// The path.
    pub(crate) path: Vec<u8>,
    /// What HEAD has at the path.
    pub(crate) head: Option<Item>,
    /// The mode to use instead of the file's own, if the file system does not support modes.
    pub(crate) mode: Option<u32>,
}

/// The content at a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Content {
    /// The item, as in a tree.
    pub(crate) item: Item,
    /// All permission bits; `None` for a symlink.
    pub(crate) permissions: Option<u32>,
}

/// When to stop reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Until {
    /// After every candidate is read.
    Done,
    /// After the first difference from HEAD; candidates not read by then are `None`.
    FirstChange,
}

/// Reads every candidate; `None` for one that no longer exists. Content that HEAD does not have at that path
/// is added to `pack`.
pub(crate) fn read_all(
    root: BorrowedFd<'_>,
    candidates: &[Candidate],
    pack: &Mutex<PackWriter>,
    until: Until,
) -> Result<Vec<Option<Content>>, WalkError> {
    let next = AtomicUsize::new(0);
    let stop = AtomicBool::new(false);
    let work = || -> Result<Vec<(usize, Option<Content>)>, WalkError> {
        let mut reader = Reader { root, pack, deflater: Deflater::new() };
        let mut contents = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let position = next.fetch_add(1, Ordering::Relaxed);
            let Some(candidate) = candidates.get(position) else { break };
            let content = reader.read(candidate).inspect_err(|_| stop.store(true, Ordering::Relaxed))?;
            if until == Until::FirstChange && content.map(|content| content.item) != candidate.head {
                stop.store(true, Ordering::Relaxed);
            }
            contents.push((position, content));
        }
        Ok(contents)
    };
    // A thread costs more than reading a few small files.
    let workers = Workers::reserve(candidates.len().div_ceil(8));
    let mut contents = vec![None; candidates.len()];
    std::thread::scope(|scope| {
        let helpers = workers.spawn(work, scope);
        let mut outcomes = vec![work()];
        outcomes.extend(helpers.into_iter().map(|helper| helper.join().expect("a reader does not panic")));
        for outcome in outcomes {
            outcome?.into_iter().for_each(|(position, content)| contents[position] = content);
        }
        Ok(())
    })?;
    Ok(contents)
}

enum Reading {
    Whole(Option<Content>),
    Changed,
}

/// The state of one reading thread.
struct Reader<'a> {
    root: BorrowedFd<'a>,
    pack: &'a Mutex<PackWriter>,
    deflater: Deflater,
}

impl Reader<'_> {
    fn read(&mut self, candidate: &Candidate) -> Result<Option<Content>, WalkError> {
        let failed = |source| WalkError { path: candidate.path.clone(), source };
        for _ in 0..ATTEMPTS {
            match self.read_once(candidate) {
                Ok(Reading::Whole(content)) => return Ok(content),
                Ok(Reading::Changed) => {}
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {}
                Err(error) => return Err(failed(error)),
            }
        }
        Err(failed(io::Error::other("it keeps changing while it is read")))
    }

    fn read_once(&mut self, candidate: &Candidate) -> io::Result<Reading> {
        // NONBLOCK: the path may have become a named pipe since it was listed.
        let opened = match open_below(self.root, &candidate.path, OFlags::RDONLY | OFlags::NONBLOCK) {
            Ok(opened) => opened,
            Err(Errno::LOOP) => return self.read_symlink(candidate),
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Reading::Whole(None)),
            Err(errno) => return Err(errno.into()),
        };
        let before = rustix::fs::fstat(&opened)?;
        if FileType::from_raw_mode(before.st_mode) != FileType::RegularFile {
            return Ok(Reading::Whole(None));
        }
        let mut file = File::from(opened);
        let size = u64::try_from(before.st_size).map_err(io::Error::other)?;
        let oid = if size > SMALL {
            // If the content turns out to be HEAD's, the pack contains it again: this is known only at the
            // end.
            lock(self.pack).add_stream(ObjectType::Blob, size, &mut file)?
        } else {
            self.read_small(&mut file, size, candidate)?
        };
        if unchanging(&before) != unchanging(&rustix::fs::fstat(file.as_fd())?) {
            return Ok(Reading::Changed);
        }
        let permissions = before.st_mode & 0o7777;
        let mode = candidate.mode.unwrap_or(if permissions & 0o100 != 0 { EXECUTABLE } else { FILE });
        Ok(Reading::Whole(Some(Content { item: Item { mode, oid }, permissions: Some(permissions) })))
    }

    fn read_small(&mut self, file: &mut File, size: u64, candidate: &Candidate) -> io::Result<Oid> {
        let mut bytes = Vec::with_capacity(usize::try_from(size).map_err(io::Error::other)? + 1);
        // One byte more than expected: the `stat` afterwards shows that the file grew.
        file.take(size + 1).read_to_end(&mut bytes)?;
        self.add(&bytes, candidate)
    }

    fn read_symlink(&mut self, candidate: &Candidate) -> io::Result<Reading> {
        let link = match open_below(self.root, &candidate.path, OFlags::PATH) {
            Ok(link) => link,
            Err(Errno::NOENT | Errno::NOTDIR) => return Ok(Reading::Whole(None)),
            Err(errno) => return Err(errno.into()),
        };
        let target = rustix::fs::readlinkat(&link, c"", Vec::new())?;
        let oid = self.add(target.to_bytes(), candidate)?;
        Ok(Reading::Whole(Some(Content { item: Item { mode: SYMLINK, oid }, permissions: None })))
    }

    fn add(&mut self, bytes: &[u8], candidate: &Candidate) -> io::Result<Oid> {
        let oid = pack::hash(ObjectType::Blob, bytes);
        if candidate.head.map(|head| head.oid) != Some(oid) && lock(self.pack).needs(oid) {
            let deflated = self.deflater.deflate(ObjectType::Blob, oid, bytes)?;
            lock(self.pack).append(&deflated)?;
        }
        Ok(oid)
    }
}

/// Returns what stays the same as long as no process writes.
fn unchanging(stat: &Stat) -> (CachedStat, i64) {
    (cached(stat), stat.st_size)
}

fn lock(pack: &Mutex<PackWriter>) -> MutexGuard<'_, PackWriter> {
    pack.lock().unwrap_or_else(PoisonError::into_inner)
}
