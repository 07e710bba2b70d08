//! The token that every request over TCP must carry: read from a file that only its owner can read, or generated.

use std::fs::File;
use std::io::{self, Read, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags};
use sexton_core::config::{OrOff, Secret, SettingValue};
use sexton_durable::{find, random_uuid, sync_all, sync_parent};

/// How many bytes of a token file are read.
const MAX_FILE: u64 = 4096;

/// Number of random bytes in a generated token.
const RANDOM_BYTES: usize = 32;

/// Name of the token file in the state directory.
const FILE_NAME: &str = "mcp-token";

/// Why no token could be loaded.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    /// Other users may know it.
    #[error("cannot use the token in {path}: {why}", path = .path.display())]
    Exposed {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        why: String,
    },
    /// The file does not contain a token.
    #[error("{path} does not contain a valid token: expected {expected}", path = .path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// The expected contents.
        expected: &'static str,
    },
    /// The file could not be read or written.
    #[error("cannot {doing} the token file {path}: {source}", path = .path.display())]
    Io {
        /// The operation that failed.
        doing: &'static str,
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
}

/// Reads a token from a file that only this user can read.
pub fn load_token(path: &Path) -> Result<Secret, TokenError> {
    let failed = |source| TokenError::Io { doing: "read", path: path.to_owned(), source };
    // `NONBLOCK`: opening a pipe without a writer must not block.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = rustix::fs::open(path, flags, Mode::empty()).map_err(|error| failed(error.into()))?;
    load_from(&File::from(file), path)
}

/// Fails if another user owns the file or can read or write it.
pub fn require_private(file: &File, path: &Path) -> Result<(), TokenError> {
    let metadata = file.metadata().map_err(|source| TokenError::Io {
        doing: "examine",
        path: path.to_owned(),
        source,
    })?;
    let me = rustix::process::geteuid().as_raw();
    let why = if !metadata.is_file() {
        "it is not a regular file".to_owned()
    } else if metadata.uid() != me {
        format!("the file belongs to another user (uid {})", metadata.uid())
    } else if metadata.mode() & 0o077 != 0 {
        format!("others can read or write the file (mode {:03o})", metadata.mode() & 0o777)
    } else {
        return Ok(());
    };
    Err(TokenError::Exposed { path: path.to_owned(), why })
}

fn load_from(file: &File, path: &Path) -> Result<Secret, TokenError> {
    require_private(file, path)?;
    let mut text = String::new();
    file.take(MAX_FILE).read_to_string(&mut text).map_err(|source| TokenError::Io {
        doing: "read",
        path: path.to_owned(),
        source,
    })?;
    let secret = OrOff::<Secret>::from_text(text.trim_end()).and_then(|token| token.0);
    let expected = "one line of at least 16 characters without spaces";
    secret.ok_or(TokenError::Unusable { path: path.to_owned(), expected })
}

/// Returns the token of this state directory and the path of its file. The token is generated once and reused, so that
/// clients keep working after a restart, and a second server does not invalidate the token of the first.
pub fn load_or_make_token(state_dir: &Path) -> Result<(Secret, PathBuf), TokenError> {
    let path = state_dir.join(FILE_NAME);
    let failed =
        |doing| move |source: io::Error| TokenError::Io { doing, path: state_dir.join(FILE_NAME), source };
    if find(std::fs::symlink_metadata(&path)).map_err(failed("examine"))?.is_none() {
        make(&path).map_err(failed("write"))?;
    }
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOFOLLOW;
    let file = rustix::fs::open(&path, flags, Mode::empty()).map_err(|error| failed("read")(error.into()))?;
    Ok((load_from(&File::from(file), &path)?, path))
}

/// Creates the file with its contents, unless another server creates it first.
fn make(path: &Path) -> io::Result<()> {
    let mut bytes = [0; RANDOM_BYTES];
    getrandom::fill(&mut bytes).map_err(io::Error::other)?;
    let digits: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let temporary = path.with_extension(random_uuid());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut file = File::from(rustix::fs::open(&temporary, flags, Mode::RUSR | Mode::WUSR)?);
    let made = writeln!(file, "{digits}").and_then(|()| sync_all(&file)).and_then(|()| {
        match std::fs::hard_link(&temporary, path) {
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
            linked => linked,
        }
    });
    let removed = std::fs::remove_file(&temporary);
    made.and(removed).and_then(|()| sync_parent(path))
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn directory() -> tempfile::TempDir {
        tempfile::tempdir().unwrap()
    }

    fn write(path: &Path, text: &str, mode: u32) {
        std::fs::write(path, text).unwrap();
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }

    #[test]
    fn i11_token_is_generated_once_and_private() {
        let state = directory();
        let (first, path) = load_or_make_token(state.path()).unwrap();
        let (second, _) = load_or_make_token(state.path()).unwrap();
        assert!(first == second && first.reveal().len() == 2 * RANDOM_BYTES);
        assert_eq!(path.metadata().unwrap().mode() & 0o777, 0o600);
        assert_eq!(std::fs::read_dir(state.path()).unwrap().count(), 1);
        let (other, _) = load_or_make_token(directory().path()).unwrap();
        assert!(first != other);
    }

    #[test]
    fn i11_concurrent_servers_share_one_token() {
        let state = directory();
        let make = || load_or_make_token(state.path()).unwrap().0;
        std::thread::scope(|scope| {
            let servers: Vec<_> = (0..8).map(|_| scope.spawn(make)).collect();
            let tokens: Vec<_> = servers.into_iter().map(|server| server.join().unwrap()).collect();
            assert!(tokens.iter().all(|token| *token == tokens[0]));
        });
        assert_eq!(std::fs::read_dir(state.path()).unwrap().count(), 1);
    }

    #[test]
    fn i11_token_readable_by_others_is_refused() {
        let dir = directory();
        let path = dir.path().join("token");
        for mode in [0o644, 0o640, 0o604, 0o620, 0o602] {
            write(&path, "0123456789abcdef0123\n", mode);
            assert!(matches!(load_token(&path), Err(TokenError::Exposed { .. })), "{mode:o}");
        }
        write(&path, "0123456789abcdef0123\n", 0o600);
        assert_eq!(load_token(&path).unwrap().reveal(), "0123456789abcdef0123");
        let made = dir.path().join(FILE_NAME);
        std::fs::rename(&path, &made).unwrap();
        std::fs::set_permissions(&made, std::fs::Permissions::from_mode(0o644)).unwrap();
        assert!(matches!(load_or_make_token(dir.path()), Err(TokenError::Exposed { .. })));
    }

    #[test]
    fn i11_invalid_token_file_is_refused() {
        let dir = directory();
        let path = dir.path().join("token");
        for text in ["", "short", "off", "with a blank in the middle", "two-lines-two-lines\ntwo-lines\n"] {
            write(&path, text, 0o600);
            assert!(matches!(load_token(&path), Err(TokenError::Unusable { .. })), "{text}");
        }
        assert!(matches!(load_token(&dir.path().join("missing")), Err(TokenError::Io { .. })));
        assert!(matches!(load_token(dir.path()), Err(TokenError::Exposed { .. })));
        rustix::fs::mknodat(
            rustix::fs::CWD,
            dir.path().join("pipe"),
            rustix::fs::FileType::Fifo,
            Mode::RUSR,
            0,
        )
        .unwrap();
        assert!(matches!(load_token(&dir.path().join("pipe")), Err(TokenError::Exposed { .. })));
        // A symlink at the path of the generated token is not followed.
        std::os::unix::fs::symlink(dir.path().join("elsewhere"), dir.path().join(FILE_NAME)).unwrap();
        assert!(load_or_make_token(dir.path()).is_err());
        assert!(!dir.path().join("elsewhere").exists());
    }
}
