//! Reads files that others may have created: regular files within a limit, or an error.
//!
//! A repository can contain a FIFO, a link to `/dev/zero` or a sparse file of a terabyte under any name. The
//! standard library would block forever or use all memory on one of those.

use std::fs::{File, FileType, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use rustix::fs::OFlags;

/// The limit for settings, marks, links and other files of a few lines.
pub const SMALL_FILE: u64 = 1 << 20;

/// The limit for files that grow with a repository: git's index, its packed refs, an object.
pub const LARGE_FILE: u64 = 1 << 30;

/// Reads the regular file at `path`, of at most `limit` bytes. Links are followed; the target must be a
/// regular file too. A directory is an error of the kind `IsADirectory`.
pub fn read_regular(path: &Path, limit: u64) -> io::Result<Vec<u8>> {
    read_within(&open_regular(path)?, limit)
}

/// Opens the regular file at `path` for reading. Never blocks, and never opens a device.
pub fn open_regular(path: &Path) -> io::Result<File> {
    if sexton_mutant::is("any_file_type") {
        return File::open(path);
    }
    // Opening some devices has side effects, so the type is checked before.
    require_regular(path.metadata()?.file_type())?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new().read(true).custom_flags(flags.bits().cast_signed()).open(path)?;
    // The path may refer to another file by now: the open descriptor decides.
    require_regular(file.metadata()?.file_type())?;
    Ok(file)
}

/// Reads the rest of an open file, at most `limit` bytes.
pub fn read_within(file: &File, limit: u64) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    file.take(limit.saturating_add(1)).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > limit {
        return Err(io::Error::new(io::ErrorKind::FileTooLarge, too_large(limit)));
    }
    Ok(bytes)
}

/// Reads the file `name` of the repository at `root`; `None` if it does not exist. The file must be text,
/// regular and at most [`SMALL_FILE`] bytes long, and a link must stay inside the repository.
pub fn read_settings(root: &Path, name: &str) -> io::Result<Option<String>> {
    let path = root.join(name);
    let is_link = match crate::find(path.symlink_metadata())? {
        None => return Ok(None),
        Some(metadata) => metadata.is_symlink(),
    };
    let path = if is_link { require_inside(root, &path)? } else { path };
    String::from_utf8(read_regular(&path, SMALL_FILE)?)
        .map(Some)
        .map_err(|_| io::Error::new(io::ErrorKind::InvalidData, "it is not UTF-8 text"))
}

fn require_inside(root: &Path, link: &Path) -> io::Result<PathBuf> {
    let target = link.canonicalize()?;
    if target.starts_with(root.canonicalize()?) {
        return Ok(target);
    }
    let why = format!("it is a symbolic link that leads out of the repository, to {}", target.display());
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

/// Returns an error if `path` exists and is not a regular file: for files that are opened elsewhere.
pub fn require_regular_if_any(path: &Path) -> io::Result<()> {
    match crate::find(path.metadata())? {
        Some(found) if !sexton_mutant::is("any_file_type") => require_regular(found.file_type()),
        _ => Ok(()),
    }
}

/// Returns the owner of the file at `path` if it is neither this process's user nor root; `None` if there is
/// no file. A link is not followed: its owner controls its target.
pub fn find_other_owner(path: &Path) -> io::Result<Option<u32>> {
    let owner = crate::find(path.symlink_metadata())?.map(|metadata| metadata.uid());
    Ok(owner.filter(|uid| is_other_user(*uid)))
}

/// Returns whether `uid` is neither this process's user nor root.
pub fn is_other_user(uid: u32) -> bool {
    uid != 0 && uid != rustix::process::geteuid().as_raw() && !sexton_mutant::is("any_owner")
}

fn require_regular(kind: FileType) -> io::Result<()> {
    let what = match kind {
        _ if kind.is_file() => return Ok(()),
        _ if kind.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
        _ if kind.is_fifo() => "a FIFO",
        _ if kind.is_char_device() || kind.is_block_device() => "a device",
        _ if kind.is_socket() => "a socket",
        _ => "something else",
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, format!("it is {what}, not a regular file")))
}

fn too_large(limit: u64) -> String {
    let (number, unit) = match limit {
        _ if limit.is_multiple_of(1 << 30) => (limit >> 30, "GiB"),
        _ if limit.is_multiple_of(1 << 20) => (limit >> 20, "MiB"),
        _ => (limit, "bytes"),
    };
    format!("it is larger than {number} {unit}")
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;
    use std::time::{Duration, Instant};

    use rustix::fs::{CWD, Mode, mkfifoat};

    use super::*;

    #[test]
    fn i11_only_a_regular_file_within_the_limit_is_read() {
        let dir = tempfile::tempdir().unwrap();
        let place = |name: &str| dir.path().join(name);
        fs::write(place("file"), "text").unwrap();
        symlink(place("file"), place("link")).unwrap();
        symlink("/dev/zero", place("zero")).unwrap();
        symlink("/dev/tty", place("terminal")).unwrap();
        mkfifoat(CWD, place("fifo"), Mode::RUSR | Mode::WUSR).unwrap();
        File::create(place("sparse")).unwrap().set_len(1 << 40).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(place("socket")).unwrap();
        let begun = Instant::now();
        for name in ["file", "link"] {
            assert_eq!(read_regular(&place(name), 4).unwrap(), b"text");
        }
        assert_eq!(read_regular(&place("file"), 3).unwrap_err().to_string(), "it is larger than 3 bytes");
        assert_eq!(read_regular(&place("none"), 9).unwrap_err().kind(), io::ErrorKind::NotFound);
        assert_eq!(read_regular(dir.path(), 9).unwrap_err().kind(), io::ErrorKind::IsADirectory);
        let errors = [
            ("zero", "it is a device, not a regular file"),
            ("fifo", "it is a FIFO, not a regular file"),
            ("socket", "it is a socket, not a regular file"),
            ("sparse", "it is larger than 1 MiB"),
        ];
        for (name, error) in errors {
            assert_eq!(read_regular(&place(name), SMALL_FILE).unwrap_err().to_string(), error);
        }
        assert!(read_regular(&place("terminal"), 9).is_err());
        assert!(begun.elapsed() < Duration::from_secs(30), "a read blocked");
    }

    #[test]
    fn i11_settings_outside_of_the_repository_are_not_read() {
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().join("repo");
        fs::create_dir(&root).unwrap();
        fs::write(dir.path().join("outside"), "a = 1").unwrap();
        fs::write(root.join("inside"), "b = 1").unwrap();
        assert_eq!(read_settings(&root, "settings").unwrap(), None);
        symlink("inside", root.join("settings")).unwrap();
        assert_eq!(read_settings(&root, "settings").unwrap().as_deref(), Some("b = 1"));
        fs::remove_file(root.join("settings")).unwrap();
        symlink("../outside", root.join("settings")).unwrap();
        let error = read_settings(&root, "settings").unwrap_err().to_string();
        assert!(error.contains("leads out of the repository"), "{error}");
    }

    #[test]
    fn i11_only_an_owner_other_than_root_and_this_user_is_reported() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        assert_eq!(find_other_owner(&path).unwrap(), None);
        fs::write(&path, "").unwrap();
        assert_eq!(find_other_owner(&path).unwrap(), None);
        assert_eq!(find_other_owner(Path::new("/proc/1/status")).unwrap(), None, "root's");
        if rustix::process::geteuid().is_root() {
            std::os::unix::fs::chown(&path, Some(60_017), None).unwrap();
            assert_eq!(find_other_owner(&path).unwrap(), Some(60_017));
        }
    }
}
