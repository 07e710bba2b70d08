//! A sound store in use: its idle connections, and the file they belong to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sexton_core::StoreError;
use sexton_core::store::Damage;
use sexton_durable::FileStamp;

use crate::connection::{Link, Mode};
use crate::fault::Fault;
use crate::files::Files;
use crate::health::Sound;

/// A store that was found sound when it was opened.
pub(crate) struct Live {
    /// The store's identifier.
    pub(crate) store: String,
    /// What was found at the open and hurts nobody.
    pub(crate) findings: Vec<Damage>,
    mode: Mode,
    inode: u64,
    /// Connections that nobody uses just now. Each use takes one out, or opens another, so that no reader
    /// waits behind a writer of this process.
    idle: Mutex<Vec<Link>>,
    /// The file as our writers, as far as this handle knows, left it.
    stamp: Mutex<FileStamp>,
    /// The highest number of a commit that was seen through this handle.
    seen: AtomicU64,
}

/// More connections than this are not kept for later.
const MAX_IDLE: usize = 4;

impl Live {
    /// Takes over from the examination.
    pub(crate) fn new(sound: Sound) -> Live {
        Live {
            store: sound.meta.store,
            findings: sound.findings,
            mode: sound.mode,
            inode: sound.stamp.inode,
            idle: Mutex::new(vec![sound.link]),
            stamp: Mutex::new(sound.stamp),
            seen: AtomicU64::new(sound.meta.seq),
        }
    }

    /// Whether the connections still belong to the file at the store's path, and may still be used as
    /// they are.
    pub(crate) fn is_current(&self, files: &Files) -> Result<bool, StoreError> {
        let Some(stamp) = files.find_stamp()? else { return Ok(false) };
        Ok(match self.mode {
            Mode::Still => stamp == self.stamp() && files.find_wal_stamp()?.is_none(),
            Mode::Read | Mode::Write(_) => stamp.inode == self.inode,
        })
    }

    /// Lets `work` use a connection. One that failed is closed: after a failed sync nothing that is still
    /// in memory can be trusted, and a second sync of the same descriptor would lie.
    pub(crate) fn with<T>(
        &self,
        files: &Files,
        work: impl FnOnce(&mut Link) -> Result<T, Fault>,
    ) -> Result<T, Fault> {
        let idle = lock(&self.idle).pop();
        let mut link = match idle {
            Some(link) => link,
            None => self.open_another(files)?,
        };
        let outcome = work(&mut link);
        if self.mode == Mode::Still && !self.is_current(files)? {
            return Err(Fault::Replaced);
        }
        let mut idle = lock(&self.idle);
        if is_trustworthy(&outcome) && idle.len() < MAX_IDLE {
            idle.push(link);
        }
        outcome
    }

    fn open_another(&self, files: &Files) -> Result<Link, Fault> {
        let link = Link::open(files, self.mode)?;
        if self.is_current(files)? { Ok(link) } else { Err(Fault::Replaced) }
    }

    /// The file as our writers left it.
    pub(crate) fn stamp(&self) -> FileStamp {
        *lock(&self.stamp)
    }

    /// Remembers the file as a writer of ours left it.
    pub(crate) fn set_stamp(&self, stamp: FileStamp) {
        *lock(&self.stamp) = stamp;
    }

    /// Takes note of the number of a commit; damage where an earlier one than before is the last now.
    pub(crate) fn require_progress(&self, seq: u64) -> Result<(), Fault> {
        let before = self.seen.fetch_max(seq, Ordering::Relaxed);
        if before <= seq {
            return Ok(());
        }
        Err(Fault::damaged(format!("commits {} to {before} were here a moment ago and are gone", seq + 1)))
    }
}

/// Whether a connection can be used again after `outcome`: a refusal by the rules says nothing against it.
fn is_trustworthy<T>(outcome: &Result<T, Fault>) -> bool {
    match outcome {
        Ok(_) => true,
        Err(Fault::Refused(error)) => !matches!(error, StoreError::Io { .. } | StoreError::Backend { .. }),
        Err(Fault::Damage(_) | Fault::Replaced) => false,
    }
}

/// A panic in another thread leaves nothing half done in what these locks guard.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
