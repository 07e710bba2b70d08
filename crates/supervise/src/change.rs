//! Waiting for many things at once: files that change, signals, and whatever else has a descriptor.

use std::collections::HashSet;
use std::io;
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::Instant;

use crate::platform::{GrowthWatch, SignalPipe, wait_for};

/// Watches any number of files and directories, and says which of them changed. A file that nobody writes
/// costs nothing, and one that is written all the time costs one event for each look at it.
pub struct ChangeWatch {
    growth: GrowthWatch,
    armed: HashSet<PathBuf>,
}

/// What ended a wait.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Changes {
    /// The paths that changed. Each has to be watched again before it is read again.
    pub paths: Vec<PathBuf>,
    /// The signals that arrived.
    pub signals: Vec<i32>,
    /// Whether the descriptor that was waited for as well has something to say.
    pub ready: bool,
}

impl ChangeWatch {
    /// Watches nothing yet.
    pub fn open() -> io::Result<ChangeWatch> {
        Ok(ChangeWatch { growth: GrowthWatch::open()?, armed: HashSet::new() })
    }

    /// Asks to be told of the next change of `path`, unless that was asked already: a file that is written
    /// to, a directory in which something appears. Call it before reading, so that nothing that is written
    /// in between is missed. `false` where there is no such file.
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

    /// Waits for a change, for a signal, for `other` or until `until`; says which.
    pub fn wait(
        &mut self,
        signals: &SignalPipe,
        other: BorrowedFd<'_>,
        until: Option<Instant>,
    ) -> io::Result<Changes> {
        let ready = wait_for(&[self.growth.as_fd(), signals.as_fd(), other], until)?;
        let mut changes = Changes { ready: ready[2], ..Changes::default() };
        if ready[0] {
            changes.paths = self.growth.drain();
            for path in &changes.paths {
                self.armed.remove(path);
            }
        }
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
            Waiter { watch: ChangeWatch::open().unwrap(), signals, pipe: io::pipe().unwrap() }
        }

        fn wait(&mut self, limit: Duration) -> Changes {
            use std::os::fd::AsFd;
            self.watch.wait(&self.signals, self.pipe.0.as_fd(), Some(Instant::now() + limit)).unwrap()
        }
    }

    const GENEROUS: Duration = Duration::from_secs(60);

    #[test]
    fn it_says_which_file_changed_and_says_it_once() {
        let folder = tempfile::tempdir().unwrap();
        let (one, two) = (folder.path().join("one"), folder.path().join("two"));
        fs::write(&one, "").unwrap();
        fs::write(&two, "").unwrap();
        let mut waiter = Waiter::new();
        assert!(waiter.watch.watch(&one).unwrap() && waiter.watch.watch(&two).unwrap());
        assert!(waiter.watch.watch(&one).unwrap(), "asked twice is asked once");
        fs::write(&two, "more").unwrap();
        assert_eq!(waiter.wait(GENEROUS).paths, std::slice::from_ref(&two));
        fs::write(&two, "and more").unwrap();
        assert_eq!(waiter.wait(Duration::ZERO), Changes::default(), "it has to be watched again");
        assert!(waiter.watch.watch(&two).unwrap());
        fs::write(&one, "more").unwrap();
        fs::write(&two, "yet more").unwrap();
        let mut changed = waiter.wait(GENEROUS).paths;
        changed.sort();
        assert_eq!(changed, [one, two]);
    }

    #[test]
    fn a_file_that_is_not_there_yet_is_seen_through_its_directory() {
        let folder = tempfile::tempdir().unwrap();
        let mut waiter = Waiter::new();
        assert!(!waiter.watch.watch(&folder.path().join("later")).unwrap());
        assert!(waiter.watch.watch(folder.path()).unwrap());
        fs::create_dir(folder.path().join("later")).unwrap();
        assert_eq!(waiter.wait(GENEROUS).paths, [folder.path().to_owned()]);
    }

    #[test]
    fn another_descriptor_ends_the_wait_too() {
        let mut waiter = Waiter::new();
        waiter.pipe.1.write_all(b"!").unwrap();
        assert!(waiter.wait(GENEROUS).ready);
    }
}
