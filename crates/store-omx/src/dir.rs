//! Access to the state directory of oh-my-codex by descriptors: every name is resolved once, and no symbolic
//! link is followed.
//!
//! Architecture invariant: every path consists only of the directory that the user named, names in this file,
//! and a [`SessionId`], which is safe in a path.

use std::collections::BTreeSet;
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

use jiff::Timestamp;
use rustix::fs::{AtFlags, CWD, Dir, FileType, Mode, OFlags, Stat, fstat, openat, statat};
use rustix::io::Errno;
use sexton_core::{SessionId, StoreError, Time};
use sexton_durable::is_other_user;

use crate::NAME;

/// The directory of the sessions.
pub(crate) const SESSIONS: &str = "sessions";
/// The file with a loop's state.
pub(crate) const STATE_FILE: &str = "ralph-state.json";
/// The size limit of a state file. Files of oh-my-codex have a few hundred bytes.
const MAX_BYTES: u64 = 64 << 20;

const OPEN_DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);
// NONBLOCK: opening a FIFO would wait for a writer.
const OPEN_FILE: OFlags =
    OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC).union(OFlags::NOFOLLOW);

/// Wraps an operating system error with the action and the path.
pub(crate) fn io_error(action: &'static str, path: &Path) -> impl FnOnce(io::Error) -> StoreError {
    let path = path.to_owned();
    move |source| StoreError::Io { action, path, source }
}

/// The state directory, open.
#[derive(Debug)]
pub(crate) struct Root {
    /// The path.
    pub(crate) path: PathBuf,
    /// Its descriptor.
    pub(crate) fd: OwnedFd,
}

/// The identity and the last change of a file: differs after every write to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    inode: u64,
    size: i64,
    modified: (i64, i64),
    changed: (i64, i64),
}

/// What is at the path of a state file.
#[derive(Clone, Debug)]
pub(crate) enum Content {
    /// No file; the time is that of the session's directory, if it exists.
    Absent(Option<Time>),
    /// A file, with the attributes that its replacement must have.
    Text(FileText),
    /// Something that cannot be read, and why.
    Unreadable(String),
}

/// A file that was read.
#[derive(Clone, Debug)]
pub(crate) struct FileText {
    /// The content.
    pub(crate) bytes: Vec<u8>,
    /// The modification time.
    pub(crate) modified: Time,
    /// Its permissions.
    pub(crate) mode: u32,
    /// The owner, if the file exists already.
    pub(crate) owner: Option<(u32, u32)>,
}

/// A state file as it was read, and the stamps that reveal later changes.
#[derive(Clone, Debug)]
pub(crate) struct Reading {
    /// The content.
    pub(crate) content: Content,
    /// The stamps of the session's directory and of the file.
    pub(crate) stamps: [Option<Stamp>; 2],
}

impl Root {
    /// Opens the directory at `path`; `None` if it does not exist.
    pub(crate) fn find(path: &Path) -> Result<Option<Root>, StoreError> {
        // The user may name a link, but links inside the directory must not lead out of it.
        match openat(CWD, path, OPEN_DIRECTORY.difference(OFlags::NOFOLLOW), Mode::empty()) {
            Ok(fd) => {
                require_own(&fd, path)?;
                Ok(Some(Root { path: path.to_owned(), fd }))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTDIR) if path.exists() => Err(not_a_store(path, "it is not a directory")),
            Err(error) => Err(io_error("cannot open", path)(error.into())),
        }
    }

    /// Opens a directory inside; `None` if it does not exist. Returns an error for a link.
    pub(crate) fn find_directory(&self, name: &str) -> Result<Option<OwnedFd>, StoreError> {
        match openat(&self.fd, name, OPEN_DIRECTORY, Mode::empty()) {
            Ok(fd) => {
                require_own(&fd, &self.path.join(name))?;
                Ok(Some(fd))
            }
            Err(Errno::NOENT) => Ok(None),
            Err(Errno::NOTDIR | Errno::LOOP) => {
                let why = format!("its `{name}` is a link or a file, and links are not followed");
                Err(not_a_store(&self.path, &why))
            }
            Err(error) => Err(io_error("cannot open", &self.path.join(name))(error.into())),
        }
    }

    /// Returns the ids of the sessions that have a directory. Other names are skipped.
    pub(crate) fn list_ids(&self, sessions: Option<&OwnedFd>) -> Result<BTreeSet<SessionId>, StoreError> {
        let Some(sessions) = sessions else { return Ok(BTreeSet::new()) };
        let failed = |error: Errno| io_error("cannot list", &self.path.join(SESSIONS))(error.into());
        let mut ids = BTreeSet::new();
        for entry in Dir::read_from(sessions).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            // Files among the directories belong to other programs; a link is a record that cannot be read.
            let may_be =
                !matches!(entry.file_type(), FileType::RegularFile | FileType::Fifo | FileType::Socket);
            let id = entry.file_name().to_str().ok().and_then(|name| name.parse().ok());
            ids.extend(id.filter(|_| may_be));
        }
        Ok(ids)
    }

    /// Reads a file in the directory itself; `None` if it does not exist or cannot be read.
    pub(crate) fn find_file(&self, name: &str) -> Option<Vec<u8>> {
        match read_file(&self.fd, name) {
            Content::Text(text) => Some(text.bytes),
            Content::Absent(_) | Content::Unreadable(_) => None,
        }
    }
}

/// Returns an error for a directory of another user, who controls its content.
fn require_own(fd: &OwnedFd, path: &Path) -> Result<(), StoreError> {
    let uid = fstat(fd).map_err(|error| io_error("cannot read", path)(error.into()))?.st_uid;
    if is_other_user(uid) {
        return Err(StoreError::OtherOwner { path: path.to_owned(), uid });
    }
    Ok(())
}

fn not_a_store(path: &Path, why: &str) -> StoreError {
    StoreError::NotAStore { path: path.to_owned(), backend: NAME, why: why.to_owned() }
}

impl Reading {
    /// Reads the state file of `id`.
    pub(crate) fn of(sessions: Option<&OwnedFd>, id: &SessionId) -> Reading {
        let stamps = Reading::stamps(sessions, id);
        let content = sessions.map_or(Content::Absent(None), |sessions| read_state(sessions, id));
        Reading { content, stamps }
    }

    /// Returns the present stamps of the state file of `id`.
    pub(crate) fn stamps(sessions: Option<&OwnedFd>, id: &SessionId) -> [Option<Stamp>; 2] {
        let Some(sessions) = sessions else { return [None, None] };
        let directory = find_stamp(sessions, id.as_str());
        // Only the identity of the directory: other files in it come and go.
        let which = directory.map(|stamp| Stamp { size: 0, modified: (0, 0), changed: (0, 0), ..stamp });
        [which, find_stamp(sessions, &format!("{id}/{STATE_FILE}"))]
    }
}

/// Returns the stamp of `name` in `directory`, without following a link.
pub(crate) fn find_stamp(directory: impl AsFd, name: &str) -> Option<Stamp> {
    statat(directory, name, AtFlags::SYMLINK_NOFOLLOW).ok().map(|found| Stamp {
        inode: found.st_ino,
        size: found.st_size,
        modified: (found.st_mtime, i64::try_from(found.st_mtime_nsec).unwrap_or_default()),
        changed: (found.st_ctime, i64::try_from(found.st_ctime_nsec).unwrap_or_default()),
    })
}

fn read_state(sessions: &OwnedFd, id: &SessionId) -> Content {
    let directory = match openat(sessions, id.as_str(), OPEN_DIRECTORY, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Content::Absent(None),
        Err(Errno::LOOP | Errno::NOTDIR) => {
            return Content::Unreadable(
                "its directory is a link or a file, and links are not followed".to_owned(),
            );
        }
        Err(error) => {
            return Content::Unreadable(format!(
                "its directory cannot be opened: {}",
                io::Error::from(error)
            ));
        }
    };
    match read_file(&directory, STATE_FILE) {
        Content::Absent(_) => Content::Absent(fstat(&directory).ok().map(|found| modified(&found))),
        other => other,
    }
}

/// Reads the file `name`.
pub(crate) fn read_file(directory: impl AsFd, name: &str) -> Content {
    let unreadable = |error: io::Error| Content::Unreadable(format!("{name} cannot be read: {error}"));
    let fd = match openat(directory, name, OPEN_FILE, Mode::empty()) {
        Ok(fd) => fd,
        Err(Errno::NOENT) => return Content::Absent(None),
        Err(Errno::LOOP) => {
            return Content::Unreadable(format!("{name} is a link, and links are not followed"));
        }
        Err(error) => return unreadable(error.into()),
    };
    let found = match fstat(&fd) {
        Ok(found) => found,
        Err(error) => return unreadable(error.into()),
    };
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Content::Unreadable(format!("{name} is not a file"));
    }
    if is_other_user(found.st_uid) {
        return Content::Unreadable(format!("{name} belongs to another user (uid {})", found.st_uid));
    }
    let mut bytes = Vec::new();
    match File::from(fd).take(MAX_BYTES + 1).read_to_end(&mut bytes) {
        Ok(_) if bytes.len() as u64 > MAX_BYTES => {
            Content::Unreadable(format!("{name} is larger than {} MiB", MAX_BYTES >> 20))
        }
        Ok(_) => Content::Text(FileText {
            bytes,
            modified: modified(&found),
            mode: Mode::from_raw_mode(found.st_mode).bits(),
            owner: Some((found.st_uid, found.st_gid)),
        }),
        Err(error) => unreadable(error),
    }
}

fn modified(found: &Stat) -> Time {
    let nanoseconds = i32::try_from(found.st_mtime_nsec).unwrap_or_default();
    Timestamp::new(found.st_mtime, nanoseconds).unwrap_or(Timestamp::UNIX_EPOCH).into()
}

/// Opens the directory of `id`, creating it if missing; also returns whether it was created.
pub(crate) fn require_session_dir(sessions: &OwnedFd, id: &SessionId) -> io::Result<(OwnedFd, bool)> {
    let made = make_dir(sessions, id.as_str())?;
    Ok((openat(sessions, id.as_str(), OPEN_DIRECTORY, Mode::empty())?, made))
}

/// Creates a directory that only its user can access; returns whether it did not exist.
pub(crate) fn make_dir(parent: impl AsFd, name: &str) -> io::Result<bool> {
    match rustix::fs::mkdirat(parent, name, Mode::RWXU) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => Ok(false),
        Err(error) => Err(error.into()),
    }
}

/// Opens the directory `name`, which must exist and not be a link.
pub(crate) fn require_dir(parent: impl AsFd, name: &str) -> io::Result<OwnedFd> {
    Ok(openat(parent, name, OPEN_DIRECTORY, Mode::empty())?)
}
