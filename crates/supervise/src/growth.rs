//! Detects changed files: by kernel notification, or by polling if this user has no inotify watch left.
//!
//! A user has a limited number of inotify instances (128 by default) for all programs, and must be able to
//! follow a session even when they are used up.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::io;
use std::os::fd::BorrowedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant, SystemTime};

use crate::platform::{GrowthWatch, wait_for};

/// Polling interval after a change, and the longest one while nothing changes.
const MIN_PAUSE: Duration = Duration::from_millis(50);
const MAX_PAUSE: Duration = Duration::from_secs(1);

/// Two writes within one tick of the file timestamp clock look like one. A file that was written this
/// recently when it was checked counts as changed once more.
const TICK: Duration = Duration::from_millis(50);

/// Watches files and directories, each until it has changed once.
pub(crate) struct Growth {
    kernel: Option<GrowthWatch>,
    /// Paths that the kernel does not watch, with their last known state.
    polled: RefCell<HashMap<PathBuf, FileState>>,
    pause: Cell<Duration>,
}

/// State of a file when it was checked.
#[derive(Clone, Debug, PartialEq, Eq)]
struct FileState {
    device: u64,
    inode: u64,
    size: u64,
    modified: Option<SystemTime>,
    /// Whether it was written just before, so that a later write may not be visible.
    is_fresh: bool,
}

/// Result of a wait.
pub(crate) struct WaitResult {
    /// The paths that changed. Each must be watched again.
    pub(crate) changed: Vec<PathBuf>,
    /// Which of the additional descriptors are ready.
    pub(crate) ready: Vec<bool>,
}

impl Growth {
    /// Creates a watch without files.
    pub(crate) fn open() -> Growth {
        Growth::over(GrowthWatch::open().ok())
    }

    fn over(kernel: Option<GrowthWatch>) -> Growth {
        Growth { kernel, polled: RefCell::default(), pause: Cell::new(MIN_PAUSE) }
    }

    /// Requests one notification for the next change of `path`. A missing path is an error.
    pub(crate) fn arm(&self, path: &Path) -> io::Result<()> {
        let armed = self.kernel.as_ref().map(|kernel| kernel.arm(path));
        match armed {
            Some(Ok(())) => {
                self.polled.borrow_mut().remove(path);
                Ok(())
            }
            Some(Err(error)) if error.kind() == io::ErrorKind::NotFound => Err(error),
            // The number of watches is limited too.
            Some(Err(_)) | None => {
                self.polled.borrow_mut().insert(path.to_owned(), FileState::at(path)?);
                Ok(())
            }
        }
    }

    /// Waits until a path changed, one of `others` is ready, or `until` is reached.
    pub(crate) fn wait(&self, others: &[BorrowedFd<'_>], until: Option<Instant>) -> io::Result<WaitResult> {
        loop {
            let pause = Some(self.pause.get()).filter(|_| !self.polled.borrow().is_empty());
            let next_poll = pause.map(|pause| Instant::now() + pause);
            let mut fds: Vec<_> = others.to_vec();
            fds.extend(self.kernel.as_ref().map(GrowthWatch::as_fd));
            let mut ready = wait_for(&fds, [until, next_poll].into_iter().flatten().min())?;
            ready.truncate(others.len());
            let changed = self.take_changed();
            let is_time_up = until.is_some_and(|until| Instant::now() >= until);
            if !changed.is_empty() || ready.contains(&true) || is_time_up {
                return Ok(WaitResult { changed, ready });
            }
        }
    }

    /// Returns the paths that changed so far, and stops watching them.
    pub(crate) fn take_changed(&self) -> Vec<PathBuf> {
        let mut changed = self.kernel.as_ref().map(GrowthWatch::drain).unwrap_or_default();
        let mut polled = self.polled.borrow_mut();
        if polled.is_empty() {
            return changed;
        }
        let seen = polled
            .extract_if(|path, before| before.is_fresh || FileState::at(path).ok().as_ref() != Some(before));
        let before = changed.len();
        changed.extend(seen.map(|(path, _)| path));
        let grew = changed.len() > before;
        self.pause.set(if grew { MIN_PAUSE } else { (self.pause.get() * 2).min(MAX_PAUSE) });
        changed
    }
}

impl FileState {
    fn at(path: &Path) -> io::Result<FileState> {
        let metadata = path.metadata()?;
        let modified = metadata.modified().ok();
        let age = modified.and_then(|modified| SystemTime::now().duration_since(modified).ok());
        Ok(FileState {
            device: metadata.dev(),
            inode: metadata.ino(),
            size: metadata.size(),
            modified,
            is_fresh: age.is_none_or(|age| age < TICK),
        })
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;

    use super::*;

    const GENEROUS: Duration = Duration::from_secs(60);

    fn polling() -> Growth {
        Growth::over(None)
    }

    /// Creates a file that was last written long ago.
    fn old_file(path: &Path) -> fs::File {
        let file = fs::File::create(path).unwrap();
        file.set_modified(SystemTime::UNIX_EPOCH).unwrap();
        file
    }

    fn wait(growth: &Growth, limit: Duration) -> Vec<PathBuf> {
        growth.wait(&[], Some(Instant::now() + limit)).unwrap().changed
    }

    #[test]
    fn i9_polling_reports_a_change_once() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        let (mut file, _other) = (old_file(&one), old_file(&two));
        let growth = polling();
        growth.arm(&one).unwrap();
        growth.arm(&two).unwrap();
        assert_eq!(wait(&growth, Duration::ZERO), Vec::<PathBuf>::new());
        file.write_all(b"more").unwrap();
        assert_eq!(wait(&growth, GENEROUS), std::slice::from_ref(&one));
        assert_eq!(wait(&growth, Duration::ZERO), Vec::<PathBuf>::new(), "it must be watched again");
        fs::remove_file(&two).unwrap();
        assert_eq!(wait(&growth, GENEROUS), [two]);
    }

    #[test]
    fn i9_write_in_the_same_tick_as_the_poll_is_not_missed() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        fs::write(&path, "1").unwrap();
        let growth = polling();
        growth.arm(&path).unwrap();
        // The same size, and possibly the same timestamp.
        fs::write(&path, "2").unwrap();
        assert_eq!(wait(&growth, GENEROUS), [path]);
    }

    #[test]
    fn i9_unchanged_files_are_polled_less_often() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("file");
        old_file(&path);
        let growth = polling();
        growth.arm(&path).unwrap();
        for _ in 0..10 {
            assert_eq!(growth.take_changed(), Vec::<PathBuf>::new());
        }
        assert_eq!(growth.pause.get(), MAX_PAUSE);
        fs::write(&path, "more").unwrap();
        assert_eq!(growth.take_changed(), [path]);
        assert_eq!(growth.pause.get(), MIN_PAUSE);
    }

    #[test]
    fn missing_path_is_an_error_with_and_without_a_watch() {
        let folder = tempfile::tempdir().unwrap();
        for growth in [Growth::open(), polling()] {
            let error = growth.arm(&folder.path().join("later")).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::NotFound);
        }
    }
}
