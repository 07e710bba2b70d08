//! Waits for several events at once: changed files, signals, and any other descriptor.

use std::collections::HashSet;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::growth::Growth;
use crate::platform::SignalPipe;

/// Watches any number of files and directories, and reports which of them changed. A file that is not written
/// costs nothing, and one that is written constantly costs one event per read. If this user has no inotify
/// watch left, files are polled instead, at most twenty times a second and less often while nothing changes.
pub struct ChangeWatch {
    growth: Growth,
    armed: HashSet<PathBuf>,
}

/// Result of a wait.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The paths that changed, or that may have changed if files are polled. Each must be watched again before it is read again.
    pub paths: Vec<PathBuf>,
    /// The signals that arrived.
    pub signals: Vec<i32>,
    /// Whether the additional descriptor is ready.
    pub ready: bool,
}

impl ChangeWatch {
    /// Creates a watch without files.
    pub fn open() -> ChangeWatch {
        ChangeWatch { growth: Growth::open(), armed: HashSet::new() }
    }

    /// Requests a notification for the next change of `path`, unless one is pending: a write to a file, a new
    /// entry in a directory. Call it before reading, so that no write in between is missed. Returns `false`
    /// if the file does not exist.
    pub fn watch(&mut self, path: &Path) -> io::Result<bool> {
        if self.armed.contains(path) {
            return Ok(true);
        }
        match self.growth.arm(path) {
            Ok(()) => {
                self.armed.insert(path.to_owned());
                Ok(true)
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// Waits for a change, a signal, `other` or the time `until`, and returns which of them happened.
    pub fn wait(
        &mut self,
        signals: &SignalPipe,
        other: BorrowedFd<'_>,
        until: Option<Instant>,
    ) -> io::Result<Changes> {
        let woken = self.growth.wait(&[signals.as_fd(), other], until)?;
        for path in &woken.changed {
            self.armed.remove(path);
        }
        let mut changes = Changes { ready: woken.ready[1], paths: woken.changed, signals: Vec::new() };
        while let Some(signal) = signals.take()? {
            changes.signals.push(signal);
        }
        Ok(changes)
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::io::Write;
    use std::time::Duration;

    use super::*;

    struct Waiter {
        watch: ChangeWatch,
        signals: SignalPipe,
        pipe: (io::PipeReader, io::PipeWriter),
    }

    impl Waiter {
        fn new() -> Waiter {
            let signals = SignalPipe::open(&[]).unwrap();
            Waiter { watch: ChangeWatch::open(), signals, pipe: io::pipe().unwrap() }
        }

        fn wait(&mut self, limit: Duration) -> Changes {
            use std::os::fd::AsFd;
            self.watch.wait(&self.signals, self.pipe.0.as_fd(), Some(Instant::now() + limit)).unwrap()
        }
    }

    const GENEROUS: Duration = Duration::from_secs(60);

    #[test]
    fn changed_file_is_reported_once() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        fs::write(&one, "").unwrap();
        fs::write(&two, "").unwrap();
        let mut waiter = Waiter::new();
        assert!(waiter.watch.watch(&one).unwrap() && waiter.watch.watch(&two).unwrap());
        assert!(waiter.watch.watch(&one).unwrap(), "a second request has no effect");
        fs::write(&two, "more").unwrap();
        // A file that is polled is always reported.
        let is_polled = rustix::fs::inotify::init(rustix::fs::inotify::CreateFlags::empty()).is_err();
        let mut changed = waiter.wait(GENEROUS).paths;
        changed.sort();
        assert_eq!(changed, if is_polled { vec![one.clone(), two.clone()] } else { vec![two.clone()] });
        fs::write(&two, "and more").unwrap();
        assert_eq!(waiter.wait(Duration::ZERO), Changes::default(), "it must be watched again");
        assert!(waiter.watch.watch(&two).unwrap());
        fs::write(&one, "more").unwrap();
        fs::write(&two, "yet more").unwrap();
        let mut changed = waiter.wait(GENEROUS).paths;
        changed.sort();
        assert_eq!(changed, [one, two]);
    }

    #[test]
    fn new_file_is_seen_through_its_directory() {
        let folder = tempfile::tempdir().unwrap();
        let mut waiter = Waiter::new();
        assert!(!waiter.watch.watch(&folder.path().join("later")).unwrap());
        assert!(waiter.watch.watch(folder.path()).unwrap());
        fs::create_dir(folder.path().join("later")).unwrap();
        assert_eq!(waiter.wait(GENEROUS).paths, [folder.path().to_owned()]);
    }

    #[test]
    fn another_descriptor_ends_the_wait() {
        let mut waiter = Waiter::new();
        waiter.pipe.1.write_all(b"!").unwrap();
        assert!(waiter.wait(GENEROUS).ready);
    }
}
