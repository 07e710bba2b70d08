//! Reads many blobs: from a pack, where nearly all are; from a loose object file; and all others (in another
//! repository's store, or in an unsupported format) with libgit2.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

use flate2::{Decompress, FlushDecompress, Status};
use git2::{Blob, Oid, Repository};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sexton_durable::LARGE_FILE;

use super::packs::{PackReader, Packs};

/// The objects of a repository, for one thread.
pub(super) struct Objects<'a> {
    common: &'a Path,
    packed: PackReader<'a>,
    loose: OwnedFd,
    inflate: Decompress,
    stored: Vec<u8>,
    plain: Vec<u8>,
    /// Opened when it is first needed. Each thread has its own: threads would wait for each other at a shared
    /// one.
    others: Option<Repository>,
}

/// NONBLOCK: an agent may have put a FIFO there.
const OPEN_FILE: OFlags = OFlags::RDONLY.union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// The content of a blob.
pub(super) enum Content<'a> {
    Ours(&'a [u8]),
    Other(Blob<'a>),
}

impl Content<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Content::Ours(bytes) => bytes,
            Content::Other(blob) => blob.content(),
        }
    }
}

impl<'a> Objects<'a> {
    /// Opens the objects of the repository at `common`, whose packs are `packs`.
    pub(super) fn open(common: &'a Path, packs: &'a Packs) -> io::Result<Objects<'a>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        Ok(Objects {
            common,
            packed: PackReader::new(packs),
            loose: rustix::fs::open(common.join("objects"), flags, Mode::empty())?,
            inflate: Decompress::new(true),
            stored: Vec::new(),
            plain: Vec::new(),
            others: None,
        })
    }

    /// Reads a blob.
    pub(super) fn read(&mut self, oid: Oid) -> io::Result<Content<'_>> {
        if self.packed.read(oid, &mut self.plain)? {
            return Ok(Content::Ours(&self.plain));
        }
        if self.load_loose(oid)? {
            self.inflate_all()?;
            return Ok(Content::Ours(find_blob(&self.plain).ok_or_else(damaged)?));
        }
        let others = match self.others.take() {
            Some(others) => others,
            None => Repository::open(self.common).map_err(io::Error::other)?,
        };
        let others = self.others.insert(others);
        others.find_blob(oid).map(Content::Other).map_err(io::Error::other)
    }

    /// Reads the file of a loose object; returns whether it exists.
    fn load_loose(&mut self, oid: Oid) -> io::Result<bool> {
        let hex = oid.to_string();
        let path = format!("{}/{}", &hex[..2], &hex[2..]);
        match rustix::fs::openat(&self.loose, path, OPEN_FILE, Mode::empty()) {
            Ok(file) => {
                let file = File::from(file);
                if !file.metadata()?.is_file() {
                    return Err(damaged());
                }
                self.stored.clear();
                file.take(LARGE_FILE).read_to_end(&mut self.stored)?;
                Ok(true)
            }
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// Decompresses the stored bytes. zlib's checksum at the end detects damage.
    fn inflate_all(&mut self) -> io::Result<()> {
        self.inflate.reset(true);
        self.plain.clear();
        loop {
            self.plain.reserve((4 * self.stored.len()).max(4096));
            let read = usize::try_from(self.inflate.total_in()).map_err(io::Error::other)?;
            let before = (read, self.plain.len());
            let rest = self.stored.get(read..).unwrap_or_default();
            match self.inflate.decompress_vec(rest, &mut self.plain, FlushDecompress::None)? {
                Status::StreamEnd => return Ok(()),
                Status::Ok | Status::BufError => {}
            }
            let read = usize::try_from(self.inflate.total_in()).map_err(io::Error::other)?;
            if (read, self.plain.len()) == before {
                return Err(damaged());
            }
        }
    }
}

/// Returns the content of a loose blob: what follows its kind and size.
fn find_blob(plain: &[u8]) -> Option<&[u8]> {
    let end = plain.iter().position(|byte| *byte == 0)?;
    let size = str::from_utf8(plain.get(..end)?.strip_prefix(b"blob ")?).ok()?;
    let content = &plain[end + 1..];
    (size.parse() == Ok(content.len())).then_some(content)
}

fn damaged() -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, "its object in the repository is damaged")
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    /// Returns the blob of `content` as it is read back after `change` was applied to its file.
    fn read_back(content: &[u8], change: impl Fn(&mut Vec<u8>)) -> io::Result<Vec<u8>> {
        let dir = tempfile::tempdir()?;
        let repo = git2::Repository::init_bare(dir.path()).unwrap();
        let oid = repo.blob(content).unwrap();
        let file = dir.path().join(format!("objects/{}/{}", &oid.to_string()[..2], &oid.to_string()[2..]));
        let mut stored = std::fs::read(&file)?;
        change(&mut stored);
        std::fs::remove_file(&file)?;
        File::create(&file)?.write_all(&stored)?;
        let packs = Packs::open(&dir.path().join("objects"))?;
        let read = Objects::open(dir.path(), &packs)?.read(oid)?.bytes().to_vec();
        Ok(read)
    }

    #[test]
    fn loose_blob_of_any_size_is_read_completely() {
        for size in [0, 1, 5000, 1 << 20] {
            let noise: Vec<u8> =
                (0..size).map(|n: u32| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
            assert!(read_back(&noise, |_| {}).unwrap() == noise, "{size}");
            let zeros = vec![0; size as usize];
            assert!(read_back(&zeros, |_| {}).unwrap() == zeros, "{size}");
        }
    }

    #[test]
    fn damaged_blob_is_an_error() {
        let content = b"some text\n".repeat(100);
        let length = 30;
        for at in 0..length {
            let read = read_back(&content, |stored| stored[at] ^= 0x55);
            assert!(read.is_err() || read.unwrap() == content, "byte {at}");
        }
        assert!(read_back(&content, |stored| stored.truncate(20)).is_err());
        assert!(read_back(&content, Vec::clear).is_err());
    }
}
