//! The names of everything that belongs to one store. Nothing here opens a file.

use std::io;
use std::path::{Path, PathBuf};

use sexton_core::StoreError;
use sexton_durable::{FileLock, FileStamp, MarkFile, create_private_dir, follow_link};

/// A store's files, all named after its database.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    /// The database.
    pub(crate) db: PathBuf,
}

/// The lock that makes one writer of many. What may only be done by the one writer takes it as an
/// argument, so that forgetting it does not compile.
pub(crate) struct WriterLock {
    _held: FileLock,
}

impl Files {
    /// The files of the store at `path`. SQLite names its log after what a link points to, so we do too;
    /// and a relative path could begin like a URI.
    pub(crate) fn of(path: &Path) -> Result<Files, StoreError> {
        let db = std::path::absolute(path).and_then(|path| follow_link(&path));
        Ok(Files { db: db.map_err(|source| failed("cannot look at", path, source))? })
    }

    /// The write-ahead log.
    pub(crate) fn wal(&self) -> PathBuf {
        self.named("-wal")
    }

    /// SQLite's index of the log, which it makes again where it is missing.
    pub(crate) fn shm(&self) -> PathBuf {
        self.named("-shm")
    }

    /// What `<path>.locks/` holds a file of for each named lock.
    pub(crate) fn locks(&self) -> PathBuf {
        self.named(".locks")
    }

    /// Where damaged files are set aside.
    pub(crate) fn quarantine(&self) -> PathBuf {
        self.named(".quarantine")
    }

    /// A database that is being built; nobody but the one writer looks at it.
    pub(crate) fn unfinished(&self) -> PathBuf {
        self.named(".new")
    }

    /// A database that is whole and durable and is about to take the place of the present one.
    pub(crate) fn successor(&self) -> PathBuf {
        self.named(".successor")
    }

    /// Whether there is one.
    pub(crate) fn has_successor(&self) -> Result<bool, StoreError> {
        let path = self.successor();
        path.try_exists().map_err(|source| failed("cannot look at", &path, source))
    }

    /// The witness of how far acknowledged commits had come.
    pub(crate) fn mark(&self) -> MarkFile {
        MarkFile::beside(&self.db)
    }

    /// Waits until no other writer is at work. The lock's file stays for ever: one that came and went
    /// could be locked twice.
    pub(crate) fn lock_writers(&self) -> Result<WriterLock, StoreError> {
        let path = self.named(".lock");
        let held = FileLock::acquire(&path).map_err(|source| failed("cannot lock", &path, source))?;
        Ok(WriterLock { _held: held })
    }

    /// Makes the directory of the store, where there is none.
    pub(crate) fn create_directory(&self) -> Result<(), StoreError> {
        match self.db.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) if !parent.is_dir() => {
                let created = create_private_dir(parent);
                created.map_err(|source| failed("cannot create the directory of", &self.db, source))
            }
            _ => Ok(()),
        }
    }

    /// The stamp of the database; `None` where there is none, or an empty one, which SQLite would take
    /// for a new database.
    pub(crate) fn find_stamp(&self) -> Result<Option<FileStamp>, StoreError> {
        let stamp =
            find(FileStamp::of(&self.db)).map_err(|source| failed("cannot look at", &self.db, source))?;
        Ok(stamp.filter(|stamp| stamp.size > 0))
    }

    /// The stamp of the log; `None` where there is none, or nothing in it.
    pub(crate) fn find_wal_stamp(&self) -> Result<Option<FileStamp>, StoreError> {
        let wal = self.wal();
        let stamp = find(FileStamp::of(&wal)).map_err(|source| failed("cannot look at", &wal, source))?;
        Ok(stamp.filter(|stamp| stamp.size > 0))
    }

    fn named(&self, suffix: &str) -> PathBuf {
        let mut name = self.db.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    }
}

/// `None` for what does not exist.
pub(crate) fn find<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// A refusal of the operating system.
pub(crate) fn failed(action: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Io { action, path: path.to_owned(), source }
}
