//! Reads a small file that another process may have replaced with anything.

use std::fs::{File, OpenOptions};
use std::io::{self, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::OFlags;
use rustix::io::Errno;

/// Returns the content of the regular file at `path`; `None` if it does not exist.
///
/// A directory, a FIFO, a symlink, a device and a file larger than `limit` are errors of the kind
/// `InvalidData`: this never blocks, and reads no more than `limit` bytes. Other failures are the errors of
/// the operating system.
pub fn find_regular(path: &Path, limit: u64) -> io::Result<Option<Vec<u8>>> {
    let Some(file) = open_unblocked(path)? else { return Ok(None) };
    let metadata = file.metadata()?;
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "a directory" } else { "not a regular file" };
        return Err(invalid(format!("it is {what}")));
    }
    let too_large = || invalid(format!("it is larger than {limit} bytes"));
    if metadata.len() > limit {
        return Err(too_large());
    }
    let mut content = Vec::new();
    // The file may have grown since.
    file.take(limit + 1).read_to_end(&mut content)?;
    if content.len() as u64 > limit {
        return Err(too_large());
    }
    Ok(Some(content))
}

fn open_unblocked(path: &Path) -> io::Result<Option<File>> {
    // NONBLOCK: opening a FIFO would wait for a writer.
    let flags = (OFlags::NONBLOCK | OFlags::NOFOLLOW | OFlags::NOCTTY).bits();
    match OpenOptions::new().read(true).custom_flags(flags.cast_signed()).open(path) {
        Ok(file) => Ok(Some(file)),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => Ok(None),
            Some(Errno::LOOP) => Err(invalid("it is a symlink".to_owned())),
            // A socket, or a device without a driver.
            Some(Errno::NXIO | Errno::NODEV) => Err(invalid("it is not a regular file".to_owned())),
            _ => Err(error),
        },
    }
}

fn invalid(why: String) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i9_only_a_small_regular_file_is_read_and_no_read_blocks() {
        let dir = tempfile::tempdir().unwrap();
        let at = |name: &str| dir.path().join(name);
        assert_eq!(find_regular(&at("missing"), 8).unwrap(), None);
        std::fs::write(at("small"), "12345678").unwrap();
        assert_eq!(find_regular(&at("small"), 8).unwrap().unwrap(), b"12345678");
        assert_eq!(find_regular(&at("small"), 7).unwrap_err().kind(), io::ErrorKind::InvalidData);
        std::fs::create_dir(at("directory")).unwrap();
        std::os::unix::fs::symlink("/dev/zero", at("link")).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, at("fifo"), rustix::fs::FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        for name in ["directory", "link", "fifo"] {
            let error = find_regular(&at(name), 8).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{name}: {error}");
        }
        let error = find_regular(Path::new("/dev/zero"), 8).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::InvalidData, "{error}");
    }
}
