//! A lock between processes, held by the kernel (`flock`) on a file that is never deleted: a lock file
//! that came and went could be locked twice, once in each of its lives.

use std::fs::{File, OpenOptions, TryLockError};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::time::Duration;

/// A held lock; dropping it, or dying, gives it back.
#[derive(Debug)]
pub struct FileLock {
    /// The lock lives as long as this descriptor.
    _file: File,
}

impl FileLock {
    /// Takes the lock, waiting as long as it takes.
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

    /// Takes the lock, waiting at most `wait`; `None` where somebody else still has it then.
    ///
    /// `flock` cannot be given a limit, so a thread waits for it. Where the limit passes first, that
    /// thread stays in the kernel's queue and gives the lock back the moment it gets it.
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
            // Nobody listens any more where the wait is over: the lock is dropped with the message.
            let _ = sender.send(outcome);
        })?;
        receiver.recv_timeout(wait).ok().transpose()
    }
}

/// How many gates waiters come through.
const GATES: u32 = 4;

/// The gate at which this process waits for its turn to wait. When a lock is released, the kernel wakes
/// everybody who waits for it, and all but one go back to sleep; with sixteen writers that costs more than
/// their writes. So only one per gate waits for the lock itself. Gates decide nothing: who holds the lock
/// is decided by the lock.
fn gate_of(path: &Path) -> PathBuf {
    let mut gate = path.as_os_str().to_owned();
    gate.push(format!(".{}", std::process::id() % GATES));
    gate.into()
}

/// Waits for the lock; a signal that the program handles meanwhile is no reason to give up.
fn wait_for(file: &File) -> io::Result<()> {
    loop {
        match file.lock() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            outcome => return outcome,
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOON: Duration = Duration::from_millis(20);
    const GENEROUS: Duration = Duration::from_secs(60);

    #[test]
    fn a_held_lock_is_not_given_twice() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        let held = FileLock::acquire(&path).unwrap();
        assert!(FileLock::acquire_within(&path, SOON).unwrap().is_none());
        assert!(FileLock::acquire_within(&path, Duration::ZERO).unwrap().is_none());
        drop(held);
        assert!(FileLock::acquire_within(&path, GENEROUS).unwrap().is_some());
    }

    #[test]
    fn a_waiter_that_gave_up_does_not_keep_the_lock() {
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
    fn the_lock_file_stays() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("lock");
        drop(FileLock::acquire(&path).unwrap());
        assert!(path.exists());
    }
}
