//! The names of all files of a store. Nothing here opens a file.

use std::io;
use std::path::{Path, PathBuf};

use sexton_core::StoreError;
use sexton_durable::{
    FileLock, FileStamp, MarkFile, create_private_dir, find_other_owner, follow_link, require_regular_if_any,
};

/// A store's files, all named after its database.
#[derive(Clone, Debug)]
pub(crate) struct Files {
    /// The database.
    pub(crate) db: PathBuf,
}

/// The lock that admits one writer. Functions that need it take it as an argument, so that a call without it
/// does not compile.
pub(crate) struct WriterLock {
    _held: FileLock,
}

impl Files {
    /// Returns the files of the store at `path`. SQLite names its log after the target of a link, so this
    /// resolves links too; a relative path is made absolute because it could begin like a URI.
    pub(crate) fn of(path: &Path) -> Result<Files, StoreError> {
        let db = std::path::absolute(path).and_then(|path| follow_link(&path));
        Ok(Files { db: db.map_err(|source| failed("cannot read", path, source))? })
    }

    /// Returns an error for files of another user, who controls their content, and for a database that is not
    /// a regular file.
    pub(crate) fn require_own(&self) -> Result<(), StoreError> {
        for path in [&self.db, &self.wal()] {
            require_regular_if_any(path).map_err(|source| failed("cannot open", path, source))?;
        }
        for suffix in ["", "-wal", "-shm", "-journal", ".lock", ".mark", ".since", ".new", ".successor"] {
            let path = self.named(suffix);
            let found = find_other_owner(&path);
            if let Some(uid) = found.map_err(|source| failed("cannot open", &path, source))? {
                return Err(StoreError::OtherOwner { path, uid });
            }
        }
        Ok(())
    }

    /// Returns the path of the write-ahead log.
    pub(crate) fn wal(&self) -> PathBuf {
        self.named("-wal")
    }

    /// Returns the path of SQLite's log index, which SQLite creates again if it is missing.
    pub(crate) fn shm(&self) -> PathBuf {
        self.named("-shm")
    }

    /// Returns the directory with one file per named lock.
    pub(crate) fn locks(&self) -> PathBuf {
        self.named(".locks")
    }

    /// Returns the directory for damaged files.
    pub(crate) fn quarantine(&self) -> PathBuf {
        self.named(".quarantine")
    }

    /// Returns the path of a database under construction; only the writer uses it.
    pub(crate) fn unfinished(&self) -> PathBuf {
        self.named(".new")
    }

    /// Returns the path of a complete, synced database that is about to replace the present one.
    pub(crate) fn successor(&self) -> PathBuf {
        self.named(".successor")
    }

    /// Returns whether there is a successor.
    pub(crate) fn has_successor(&self) -> Result<bool, StoreError> {
        let path = self.successor();
        path.try_exists().map_err(|source| failed("cannot read", &path, source))
    }

    /// Returns the file that records the last acknowledged commit.
    pub(crate) fn mark(&self) -> MarkFile {
        MarkFile::beside(&self.db)
    }

    /// Waits until there is no other writer. The lock file is never deleted: a file that is deleted and
    /// created again could be locked twice.
    pub(crate) fn lock_writers(&self) -> Result<WriterLock, StoreError> {
        let path = self.named(".lock");
        let held = FileLock::acquire(&path).map_err(|source| failed("cannot lock", &path, source))?;
        Ok(WriterLock { _held: held })
    }

    /// Creates the store's directory if it does not exist.
    pub(crate) fn create_directory(&self) -> Result<(), StoreError> {
        match self.db.parent().filter(|parent| !parent.as_os_str().is_empty()) {
            Some(parent) if !parent.is_dir() => {
                let created = create_private_dir(parent);
                created.map_err(|source| failed("cannot create the directory of", &self.db, source))
            }
            _ => Ok(()),
        }
    }

    /// Returns the stamp of the database; `None` if it does not exist or is empty. SQLite treats an empty
    /// file as a new database.
    pub(crate) fn find_stamp(&self) -> Result<Option<FileStamp>, StoreError> {
        let stamp =
            find(FileStamp::of(&self.db)).map_err(|source| failed("cannot read", &self.db, source))?;
        Ok(stamp.filter(|stamp| stamp.size > 0))
    }

    /// Returns the stamp of the log; `None` if it does not exist or is empty.
    pub(crate) fn find_wal_stamp(&self) -> Result<Option<FileStamp>, StoreError> {
        let wal = self.wal();
        let stamp = find(FileStamp::of(&wal)).map_err(|source| failed("cannot read", &wal, source))?;
        Ok(stamp.filter(|stamp| stamp.size > 0))
    }

    fn named(&self, suffix: &str) -> PathBuf {
        let mut name = self.db.as_os_str().to_owned();
        name.push(suffix);
        name.into()
    }
}

/// Returns `None` if the file does not exist.
pub(crate) fn find<T>(outcome: io::Result<T>) -> io::Result<Option<T>> {
    match outcome {
        Ok(found) => Ok(Some(found)),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

/// Wraps an error of the operating system.
pub(crate) fn failed(action: &'static str, path: &Path, source: io::Error) -> StoreError {
    StoreError::Io { action, path: path.to_owned(), source }
}
