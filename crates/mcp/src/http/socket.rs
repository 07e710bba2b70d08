//! The protocol on a Unix socket. The kernel reports the peer's credentials, so no token is needed.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::io::Errno;
use tokio::net::{UnixListener, UnixStream};
use tokio::time::timeout;

/// How long to wait for a connection to a server that may already listen.
const CONNECT_TIME: Duration = Duration::from_secs(2);

/// Why a socket could not be opened.
#[derive(Debug, thiserror::Error)]
pub enum SocketError {
    /// Other users could reach it.
    #[error("cannot use a socket in {directory}: {why}", directory = .directory.display())]
    Exposed {
        /// The directory.
        directory: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// Another server already listens on it.
    #[error("another server listens on {}", .0.display())]
    InUse(PathBuf),
    /// The path exists and is not a stale socket of this user.
    #[error("{path} exists and {why}; it was not changed", path = .path.display())]
    Occupied {
        /// The path.
        path: PathBuf,
        /// Why it is not replaced.
        why: &'static str,
    },
    /// A system call failed.
    #[error("cannot listen on {path}: {source}", path = .path.display())]
    Io {
        /// The path.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// A listening socket, removed from the file system when it is dropped.
pub(super) struct Socket {
    pub(super) listener: UnixListener,
    place: Place,
    /// Device and inode of the socket that this server created.
    made: (u64, u64),
}

/// A name in a directory that is held open.
struct Place {
    directory: File,
    name: PathBuf,
    /// The full path, for messages.
    path: PathBuf,
}

impl Socket {
    /// Listens on `path`. Fails if other users could reach it.
    pub(super) async fn open(path: &Path) -> Result<Socket, SocketError> {
        let place = Place::find(path)?;
        // Serializes servers that start at the same time in this directory. Without the lock, two of them could find
        // the same stale socket, and the second would remove the first one's new socket.
        place.directory.lock().map_err(|source| place.failed(source))?;
        let opened = Socket::open_at(place).await;
        if let Ok(socket) = &opened {
            socket.place.directory.unlock().map_err(|source| socket.place.failed(source))?;
        }
        opened
    }

    async fn open_at(place: Place) -> Result<Socket, SocketError> {
        place.remove_stale().await?;
        // Binds in the directory that was checked, by a path that cannot exceed the limit for socket paths.
        let listener = UnixListener::bind(place.reachable()).map_err(|source| place.failed(source))?;
        rustix::fs::chmodat(&place.directory, &place.name, Mode::RUSR | Mode::WUSR, AtFlags::empty())
            .map_err(|error| place.failed(error.into()))?;
        let made = place.stat()?.ok_or_else(|| place.failed(io::ErrorKind::NotFound.into()))?;
        let made = identity(&made);
        Ok(Socket { listener, place, made })
    }

    /// Returns the path that clients connect to.
    pub(super) fn path(&self) -> &Path {
        &self.place.path
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // Does not remove a socket that another server has created in the meantime.
        if self.place.stat().is_ok_and(|found| found.is_some_and(|found| identity(&found) == self.made)) {
            let _ = rustix::fs::unlinkat(&self.place.directory, &self.place.name, AtFlags::empty());
        }
    }
}

impl Place {
    /// Opens the directory of `path`. Fails if another user could enter it.
    fn find(path: &Path) -> Result<Place, SocketError> {
        let failed = |source: io::Error| SocketError::Io { path: path.to_owned(), source };
        let absolute = std::path::absolute(path).map_err(failed)?;
        let (Some(parent), Some(name)) = (absolute.parent(), absolute.file_name()) else {
            return Err(failed(io::Error::other("a socket needs a name in a directory")));
        };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory =
            rustix::fs::open(parent, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
        let directory = File::from(directory);
        let metadata = directory.metadata().map_err(failed)?;
        let me = rustix::process::geteuid().as_raw();
        let why = if metadata.uid() != me {
            Some(format!("the directory belongs to another user (uid {})", metadata.uid()))
        } else if metadata.mode() & 0o077 != 0 {
            Some(format!("others can enter the directory (mode {:03o})", metadata.mode() & 0o777))
        } else {
            None
        };
        match why {
            Some(why) => Err(SocketError::Exposed { directory: parent.to_owned(), why }),
            None => Ok(Place { directory, name: PathBuf::from(name), path: absolute.clone() }),
        }
    }

    /// Removes a socket on which no server listens. Fails if anything else has the name.
    async fn remove_stale(&self) -> Result<(), SocketError> {
        let Some(found) = self.stat()? else { return Ok(()) };
        let occupied = |why| Err(SocketError::Occupied { path: self.path.clone(), why });
        if FileType::from_raw_mode(found.st_mode) != FileType::Socket {
            return occupied("is not a socket");
        }
        if found.st_uid != rustix::process::geteuid().as_raw() {
            return occupied("belongs to another user");
        }
        match timeout(CONNECT_TIME, UnixStream::connect(self.reachable())).await {
            // Only this error proves that nothing listens: a stopped or busy server may not respond.
            Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused => {}
            _ => return Err(SocketError::InUse(self.path.clone())),
        }
        match rustix::fs::unlinkat(&self.directory, &self.name, AtFlags::empty()) {
            Ok(()) | Err(Errno::NOENT) => Ok(()),
            Err(error) => Err(self.failed(error.into())),
        }
    }

    /// Returns the status of the file that has the name, if any.
    fn stat(&self) -> Result<Option<Stat>, SocketError> {
        match rustix::fs::statat(&self.directory, &self.name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(found) => Ok(Some(found)),
            Err(Errno::NOENT) => Ok(None),
            Err(error) => Err(self.failed(error.into())),
        }
    }

    fn reachable(&self) -> PathBuf {
        if cfg!(not(target_os = "linux")) {
            return self.path.clone();
        }
        PathBuf::from(format!("/proc/self/fd/{}", self.directory.as_raw_fd())).join(&self.name)
    }

    fn failed(&self, source: io::Error) -> SocketError {
        SocketError::Io { path: self.path.clone(), source }
    }
}

#[allow(clippy::unnecessary_cast, reason = "the types differ between systems")]
fn identity(found: &Stat) -> (u64, u64) {
    (found.st_dev as u64, found.st_ino as u64)
}

/// Returns the pid of the peer if it runs as the server's user or root.
pub(super) fn admitted_process(stream: &UnixStream) -> Option<i32> {
    let peer = stream.peer_cred().ok()?;
    let me = rustix::process::geteuid().as_raw();
    let admitted = peer.uid() == me || peer.uid() == 0 || sexton_mutant::is("no_peer_check");
    admitted.then(|| peer.pid().unwrap_or(0))
}
