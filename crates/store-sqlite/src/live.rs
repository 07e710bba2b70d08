//! An intact store in use: its idle connections, and the file they belong to.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use sexton_core::StoreError;
use sexton_core::store::Damage;
use sexton_durable::FileStamp;

use crate::connection::{Link, Mode};
use crate::fault::Fault;
use crate::files::Files;
use crate::health::Sound;

/// A store that was intact when it was opened.
pub(crate) struct Live {
    /// The store's identifier.
    pub(crate) store: String,
    /// Harmless findings at the open.
    pub(crate) findings: Vec<Damage>,
    mode: Mode,
    inode: u64,
    /// Unused connections. Each use takes one or opens another, so that no reader waits for a writer of this
    /// process.
    idle: Mutex<Vec<Link>>,
    /// The file as the last known writer left it.
    stamp: Mutex<FileStamp>,
    /// The highest commit number read through this handle.
    seen: AtomicU64,
}

/// The number of connections that are kept.
const MAX_IDLE: usize = 4;

impl Live {
    /// Creates the state from the result of a check.
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

    /// Returns whether the connections still belong to the file at the store's path and may still be used.
    pub(crate) fn is_current(&self, files: &Files) -> Result<bool, StoreError> {
        let Some(stamp) = files.find_stamp()? else { return Ok(false) };
        Ok(match self.mode {
            Mode::Immutable => stamp == self.stamp() && files.find_wal_stamp()?.is_none(),
            Mode::Read | Mode::Write(_) => stamp.inode == self.inode,
        })
    }

    /// Runs `work` with a connection. A connection that failed is closed: after a failed sync its cached
    /// pages are unreliable, and a second sync of the same descriptor would report success.
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
        if self.mode == Mode::Immutable && !self.is_current(files)? {
            return Err(Fault::Replaced);
        }
        let mut idle = lock(&self.idle);
        if is_reusable(&outcome) && idle.len() < MAX_IDLE {
            idle.push(link);
        }
        outcome
    }

    fn open_another(&self, files: &Files) -> Result<Link, Fault> {
        let link = Link::open(files, self.mode)?;
        if self.is_current(files)? { Ok(link) } else { Err(Fault::Replaced) }
    }

    /// Returns the file as the last known writer left it.
    pub(crate) fn stamp(&self) -> FileStamp {
        *lock(&self.stamp)
    }

    /// Records the file as a writer left it.
    pub(crate) fn set_stamp(&self, stamp: FileStamp) {
        *lock(&self.stamp) = stamp;
    }

    /// Records the number of a commit; damage if it is lower than one recorded before.
    pub(crate) fn require_progress(&self, seq: u64) -> Result<(), Fault> {
        let before = self.seen.fetch_max(seq, Ordering::Relaxed);
        if before <= seq {
            return Ok(());
        }
        Err(Fault::damaged(format!("commits {} to {before} were read earlier and are missing now", seq + 1)))
    }
}

/// Returns whether a connection can be used again after `outcome`: an error from the rules does not affect
/// it.
fn is_reusable<T>(outcome: &Result<T, Fault>) -> bool {
    match outcome {
        Ok(_) => true,
        Err(Fault::Refused(error)) => !matches!(error, StoreError::Io { .. } | StoreError::Backend { .. }),
        Err(Fault::Damage(_) | Fault::Replaced) => false,
    }
}

/// Locks `mutex`. A panic in another thread leaves no inconsistent state behind these locks.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
