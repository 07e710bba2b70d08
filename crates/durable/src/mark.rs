//! The last acknowledged write. A store that was truncated at the right byte looks intact; the mark beside it
//! shows that there was more.
//!
//! The mark is written after the write that it names is durable, and is itself not synced. So it never claims
//! too much: after a power cut it may be outdated, and then it only proves less.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::{FileExt, MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

use crate::regular::{SMALL_FILE, read_regular};

/// The content of a mark.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// The store it belongs to.
    pub store: String,
    /// The number of the last acknowledged commit.
    pub sequence: u64,
    /// The state of a file as its writers left it; `None` if not needed.
    pub stamp: Option<FileStamp>,
}

/// The identity and last write of a file: differs after every write by another program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FileStamp {
    /// The inode.
    pub inode: u64,
    /// The size.
    pub size: u64,
    /// The modification time, in nanoseconds since 1970.
    pub modified_ns: i128,
}

impl FileStamp {
    /// Returns the present stamp of the file at `path`.
    pub fn of(path: &Path) -> io::Result<FileStamp> {
        let metadata = fs::metadata(path)?;
        let modified_ns = i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec());
        Ok(FileStamp { inode: metadata.ino(), size: metadata.size(), modified_ns })
    }
}

/// The file of a mark: one line of fixed length, overwritten in place.
#[derive(Clone, Debug)]
pub struct MarkFile {
    path: PathBuf,
}

/// Longer than any mark, so that a new one always overwrites the whole old one.
const LENGTH: usize = 256;

impl MarkFile {
    /// Returns the mark file beside the store at `store`.
    pub fn beside(store: &Path) -> MarkFile {
        let mut path = store.as_os_str().to_owned();
        path.push(".mark");
        MarkFile { path: path.into() }
    }

    /// Returns its path.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Loads the mark; `None` if there is none, or if it cannot be decoded. A mark is additional evidence, so
    /// a damaged one proves nothing; a file that cannot be read is an error.
    pub fn load(&self) -> io::Result<Option<Mark>> {
        if sexton_mutant::is("no_mark") {
            return Ok(None);
        }
        match read_regular(&self.path, SMALL_FILE) {
            Ok(bytes) => Ok(decode(&bytes)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Writes `mark` in place. The caller must hold the lock of the store's writers, or marks could go back.
    pub fn store(&self, mark: &Mark) -> io::Result<()> {
        let file =
            OpenOptions::new().write(true).create(true).truncate(false).mode(0o600).open(&self.path)?;
        self.write_to(&file, mark)
    }

    fn write_to(&self, file: &File, mark: &Mark) -> io::Result<()> {
        file.write_all_at(&encode(mark), 0)
    }
}

fn encode(mark: &Mark) -> Vec<u8> {
    let stamp = mark.stamp.map_or_else(
        || "-".to_owned(),
        |stamp| format!("{}:{}:{}", stamp.inode, stamp.size, stamp.modified_ns),
    );
    let content = format!("{} {} {stamp}", mark.store, mark.sequence);
    let mut line = format!("{:08x} {content} ", crc32fast::hash(content.as_bytes())).into_bytes();
    line.resize(LENGTH - 1, b' ');
    line.push(b'\n');
    line
}

fn decode(bytes: &[u8]) -> Option<Mark> {
    let line = str::from_utf8(bytes).ok()?.trim_end();
    let (checksum, content) = line.split_once(' ')?;
    if u32::from_str_radix(checksum, 16).ok()? != crc32fast::hash(content.as_bytes()) {
        return None;
    }
    let mut words = content.split(' ');
    let (store, sequence, stamp) = (words.next()?, words.next()?, words.next()?);
    let stamp = match stamp {
        "-" => None,
        text => {
            let mut parts = text.split(':');
            Some(FileStamp {
                inode: parts.next()?.parse().ok()?,
                size: parts.next()?.parse().ok()?,
                modified_ns: parts.next()?.parse().ok()?,
            })
        }
    };
    Some(Mark { store: store.to_owned(), sequence: sequence.parse().ok()?, stamp })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mark(sequence: u64) -> Mark {
        let stamp = Some(FileStamp { inode: 7, size: 4096, modified_ns: 1_700_000_000_123_456_789 });
        Mark { store: "0b5c".to_owned(), sequence, stamp }
    }

    #[test]
    fn a_mark_round_trips_and_a_shorter_one_overwrites_a_longer_one() {
        let dir = tempfile::tempdir().unwrap();
        let file = MarkFile::beside(&dir.path().join("store"));
        assert_eq!(file.load().unwrap(), None);
        for mark in [mark(u64::MAX), mark(1), Mark { stamp: None, ..mark(2) }] {
            file.store(&mark).unwrap();
            assert_eq!(file.load().unwrap(), Some(mark));
        }
    }

    #[test]
    fn a_damaged_mark_never_decodes_to_a_wrong_one() {
        let whole = encode(&mark(99));
        let used = whole.iter().rposition(|byte| !byte.is_ascii_whitespace()).unwrap() + 1;
        for at in 0..used {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x15;
            assert!(decode(&flipped).is_none_or(|found| found == mark(99)), "byte {at}");
            assert_eq!(decode(&whole[..at]), None, "cut at {at}");
        }
    }

    #[test]
    fn a_stamp_changes_with_the_file() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "a").unwrap();
        let before = FileStamp::of(&path).unwrap();
        fs::write(&path, "ab").unwrap();
        assert_ne!(before, FileStamp::of(&path).unwrap());
    }
}
