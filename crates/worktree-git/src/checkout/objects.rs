//! Reading blobs, many of them. A loose one is read here, without the work that libgit2 does for each; every
//! other one (in a pack, or in another repository's store) by libgit2.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::OwnedFd;
use std::path::Path;

use flate2::{Decompress, FlushDecompress, Status};
use git2::{Odb, OdbObject, Oid};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

/// The objects of a repository, for one thread.
pub(super) struct Objects<'r> {
    odb: Odb<'r>,
    loose: OwnedFd,
    inflate: Decompress,
    stored: Vec<u8>,
    plain: Vec<u8>,
}

/// What a blob holds.
pub(super) enum Content<'a> {
    Loose(&'a [u8]),
    Other(OdbObject<'a>),
}

impl Content<'_> {
    pub(super) fn bytes(&self) -> &[u8] {
        match self {
            Content::Loose(bytes) => bytes,
            Content::Other(object) => object.data(),
        }
    }
}

impl<'r> Objects<'r> {
    /// Opens the objects of the repository at `common`, which is also `odb`.
    pub(super) fn open(common: &Path, odb: Odb<'r>) -> io::Result<Objects<'r>> {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let loose = rustix::fs::open(common.join("objects"), flags, Mode::empty())?;
        Ok(Objects { odb, loose, inflate: Decompress::new(true), stored: Vec::new(), plain: Vec::new() })
    }

    /// Reads a blob.
    pub(super) fn read(&mut self, oid: Oid) -> io::Result<Content<'_>> {
        if !self.load_loose(oid)? {
            return self.odb.read(oid).map(Content::Other).map_err(io::Error::other);
        }
        self.inflate_all()?;
        Ok(Content::Loose(find_blob(&self.plain).ok_or_else(damaged)?))
    }

    /// Reads the file of a loose object; says whether there is one.
    fn load_loose(&mut self, oid: Oid) -> io::Result<bool> {
        let hex = oid.to_string();
        let path = format!("{}/{}", &hex[..2], &hex[2..]);
        match rustix::fs::openat(&self.loose, path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty()) {
            Ok(file) => {
                self.stored.clear();
                File::from(file).read_to_end(&mut self.stored)?;
                Ok(true)
            }
            Err(Errno::NOENT) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }

    /// zlib's checksum, at the end, tells a damaged one.
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

/// The content of a loose blob: what follows its kind and size.
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

    /// The blob of `content` as it is read back, where its file is `change`d first.
    fn read_back(content: &[u8], change: impl Fn(&mut Vec<u8>)) -> io::Result<Vec<u8>> {
        let dir = tempfile::tempdir()?;
        let repo = git2::Repository::init_bare(dir.path()).unwrap();
        let oid = repo.blob(content).unwrap();
        let file = dir.path().join(format!("objects/{}/{}", &oid.to_string()[..2], &oid.to_string()[2..]));
        let mut stored = std::fs::read(&file)?;
        change(&mut stored);
        std::fs::remove_file(&file)?;
        File::create(&file)?.write_all(&stored)?;
        let mut objects = Objects::open(dir.path(), repo.odb().unwrap())?;
        let read = objects.read(oid)?.bytes().to_vec();
        Ok(read)
    }

    #[test]
    fn a_loose_blob_of_any_size_is_read_whole() {
        for size in [0, 1, 5000, 1 << 20] {
            let noise: Vec<u8> =
                (0..size).map(|n: u32| n.wrapping_mul(2_654_435_761).to_be_bytes()[0]).collect();
            assert!(read_back(&noise, |_| {}).unwrap() == noise, "{size}");
            let zeros = vec![0; size as usize];
            assert!(read_back(&zeros, |_| {}).unwrap() == zeros, "{size}");
        }
    }

    #[test]
    fn a_damaged_blob_is_an_error() {
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
