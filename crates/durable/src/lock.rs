//! A kernel lock between processes (`flock`) on a file that is never deleted: a lock file that is deleted and
//! created again could be locked twice.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// A held lock, released on drop or when the process exits.
#[derive(Debug)]
pub struct FileLock {
    /// The lock is held as long as this descriptor is open.
    _file: File,
}

impl FileLock {
    /// Acquires the lock, waiting without a limit.
    pub fn acquire(path: &Path) -> io::Result<FileLock> {
        let file = open(path)?;
        if sexton_mutant::is("no_lock") {
            return Ok(FileLock { _file: file });
        }
        match file.try_lock() {
            Ok(()) => return Ok(FileLock { _file: file }),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let gate = open(&gate_of(path))?;
        wait_for(&gate)?;
        wait_for(&file)?;
        Ok(FileLock { _file: file })
    }

    /// Acquires the lock, waiting at most `wait`; `None` if another process still holds it then.
    ///
    /// `flock` has no timeout, so a thread waits for it. After a timeout, that thread stays in the kernel's
    /// queue and releases the lock as soon as it gets it.
    pub fn acquire_within(path: &Path, wait: Duration) -> io::Result<Option<FileLock>> {
        let file = open(path)?;
        match file.try_lock() {
            Ok(()) => return Ok(Some(FileLock { _file: file })),
            Err(TryLockError::WouldBlock) if wait.is_zero() => return Ok(None),
            Err(TryLockError::WouldBlock) => {}
            Err(TryLockError::Error(error)) => return Err(error),
        }
        let (sender, receiver) = mpsc::sync_channel(1);
        std::thread::Builder::new().name("lock-wait".to_owned()).spawn(move || {
            let outcome = wait_for(&file).map(|()| FileLock { _file: file });
            // After a timeout there is no receiver, and the lock is dropped with the message.
            let _ = sender.send(outcome);
        })?;
        receiver.recv_timeout(wait).ok().transpose()
    }
}

/// The number of gates.
const GATES: u32 = 4;

/// Returns the gate at which this process waits before it waits for the lock. When a lock is released, the
/// kernel wakes all waiters, and all but one go back to sleep; with sixteen writers that costs more than
/// their writes. So only one waiter per gate waits for the lock itself. Gates only reduce contention: the
/// lock alone decides its holder.
fn gate_of(path: &Path) -> PathBuf {
    let mut gate = path.as_os_str().to_owned();
    gate.push(format!(".{}", std::process::id() % GATES));
    gate.into()
}

/// Waits for the lock; an interrupting signal does not end the wait.
fn wait_for(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

/// Opens a lock file, and creates it if it is missing. A repository can contain a link in its place, which must
/// not make us create a file elsewhere.
fn open(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.read(true).write(true).create(true).truncate(false).mode(0o600);
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed()).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(20);
    const GENEROUS: Duration = Duration::from_secs(60);

    #[test]
    fn a_held_lock_cannot_be_acquired_again() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = FileLock::acquire(&path).unwrap();
        assert!(FileLock::acquire_within(&path, SOON).unwrap().is_none());
        assert!(FileLock::acquire_within(&path, Duration::ZERO).unwrap().is_none());
        drop(held);
        assert!(FileLock::acquire_within(&path, GENEROUS).unwrap().is_some());
    }

    #[test]
    fn i11_a_lock_file_that_is_a_link_is_refused_and_creates_nothing() {
        let dir = tempfile::tempdir().unwrap();
        let (path, target) = (dir.path().join("lock"), dir.path().join("elsewhere"));
        std::os::unix::fs::symlink(&target, &path).unwrap();
        assert!(FileLock::acquire(&path).is_err());
        assert!(FileLock::acquire_within(&path, SOON).is_err());
        assert!(!target.exists());
    }

    #[test]
    fn a_waiter_that_timed_out_does_not_keep_the_lock() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = FileLock::acquire(&path).unwrap();
        for _ in 0..10 {
            assert!(FileLock::acquire_within(&path, Duration::from_millis(1)).unwrap().is_none());
        }
        drop(held);
        assert!(FileLock::acquire_within(&path, GENEROUS).unwrap().is_some());
    }

    #[test]
    fn the_lock_file_is_not_deleted() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        drop(FileLock::acquire(&path).unwrap());
        assert!(path.exists());
    }
}
