//! Reads packed blobs one after another, for one thread.

use std::collections::{HashMap, HashSet, VecDeque};
use std::io;
use std::os::unix::fs::FileExt;
use std::rc::Rc;

use flate2::{Decompress, FlushDecompress, Status};
use git2::Oid;

use super::{MAX_OBJECT, Packs, Place, delta};

/// How much of a pack is read at once: little for scattered objects, more while objects are read in sequence.
const MIN_WINDOW: usize = 16 << 10;
const MAX_WINDOW: usize = 256 << 10;
/// No object has a longer header: its kind and size, and the id or the distance of its base.
const HEADER: usize = 64;
/// git makes no longer delta chains.
const MAX_CHAIN: usize = 4096;
/// The maximum size of all deltas of a chain together.
const MAX_HELD: usize = 128 << 20;
/// The maximum size of cached delta bases.
const MAX_KEPT: usize = 16 << 20;

/// Reads the blobs of some packs.
pub(in crate::checkout) struct PackReader<'p> {
    packs: &'p Packs,
    /// The pack that contained the last object.
    last: usize,
    window: Window<'p>,
    inflate: Decompress,
    kept: Kept,
}

/// How an object is stored.
enum Kind {
    Blob,
    /// A delta, with the offset of its base.
    Delta(u64),
}

struct Header {
    kind: Kind,
    size: usize,
    /// The offset of its compressed bytes.
    content: u64,
}

impl<'p> PackReader<'p> {
    pub(in crate::checkout) fn new(packs: &'p Packs) -> PackReader<'p> {
        let window = Window { packs, pack: 0, start: 0, bytes: Vec::new(), length: MIN_WINDOW };
        PackReader { packs, last: 0, window, inflate: Decompress::new(true), kept: Kept::default() }
    }

    /// Reads a blob into `blob`; returns whether it was found. A damaged blob counts as not found.
    pub(in crate::checkout) fn read(&mut self, oid: Oid, blob: &mut Vec<u8>) -> io::Result<bool> {
        let Some(place) = self.packs.find(oid, self.last) else { return Ok(false) };
        self.last = place.pack;
        match self.read_header(place)? {
            Some(Header { kind: Kind::Blob, size, content }) => {
                self.inflate(Place { offset: content, ..place }, size, blob)
            }
            Some(Header { kind: Kind::Delta(_), .. }) => match self.resolve_delta(place)? {
                Some(content) => {
                    blob.clear();
                    blob.extend_from_slice(&content);
                    Ok(true)
                }
                None => Ok(false),
            },
            None => Ok(false),
        }
    }

    /// Returns the content of an object that is stored as a delta, possibly of another delta.
    fn resolve_delta(&mut self, place: Place) -> io::Result<Option<Rc<Vec<u8>>>> {
        let mut chain = Vec::new();
        let (mut seen, mut held) = (HashSet::new(), 0);
        let mut here = place;
        let mut content = loop {
            if let Some(kept) = self.kept.find(here) {
                break kept;
            }
            let Some(header) = self.read_header(here)? else { return Ok(None) };
            let mut bytes = Vec::new();
            let stored = Place { offset: header.content, ..here };
            // Bases that are named by id can form a cycle.
            let is_invalid = chain.len() == MAX_CHAIN || held > MAX_HELD || !seen.insert(here);
            if is_invalid || !self.inflate(stored, header.size, &mut bytes)? {
                return Ok(None);
            }
            held += bytes.len();
            match header.kind {
                Kind::Blob => break self.kept.keep(here, bytes),
                Kind::Delta(base) => {
                    chain.push((here, bytes));
                    here.offset = base;
                }
            }
        };
        for (place, difference) in chain.into_iter().rev() {
            let Some(bytes) = delta::apply(&content, &difference) else { return Ok(None) };
            content = self.kept.keep(place, bytes);
        }
        Ok(Some(content))
    }

    /// Reads the header at a place; `None` if the object is neither a blob nor a delta.
    fn read_header(&mut self, place: Place) -> io::Result<Option<Header>> {
        let packs = self.packs;
        let bytes = self.window.from(place, HEADER)?;
        let parse = || {
            let (first, mut rest) = bytes.split_first()?;
            let mut size = u64::from(first & 0x0f);
            let (mut more, mut shift) = (first & 0x80 != 0, 4);
            while more {
                let (byte, after) = rest.split_first()?;
                size |= u64::from(byte & 0x7f).checked_shl(shift).filter(|_| shift < 57)?;
                (more, shift, rest) = (byte & 0x80 != 0, shift + 7, after);
            }
            let kind = match first >> 4 & 7 {
                3 => Kind::Blob,
                6 => {
                    let (distance, after) = parse_distance(rest)?;
                    rest = after;
                    // The base is before the delta; a distance of zero would be a cycle.
                    Kind::Delta(place.offset.checked_sub(distance).filter(|_| distance > 0)?)
                }
                7 => {
                    let (name, after) = rest.split_at_checked(20)?;
                    rest = after;
                    Kind::Delta(packs.0[place.pack].index.find(Oid::from_bytes(name).ok()?)?)
                }
                _ => return None,
            };
            let size = usize::try_from(size).ok().filter(|size| *size <= MAX_OBJECT)?;
            let content = place.offset + u64::try_from(bytes.len() - rest.len()).ok()?;
            Some(Header { kind, size, content })
        };
        Ok(parse())
    }

    /// Decompresses `size` bytes; returns whether there were exactly that many and zlib's checksum is right.
    fn inflate(&mut self, place: Place, size: usize, to: &mut Vec<u8>) -> io::Result<bool> {
        self.inflate.reset(true);
        to.clear();
        // One byte more, to detect longer content.
        to.reserve_exact(size + 1);
        loop {
            let read = self.inflate.total_in();
            let before = (read, to.len());
            let stored = self.window.from(Place { offset: place.offset + read, ..place }, 1)?;
            // With `Finish`, zlib need not keep a window of its output.
            match self.inflate.decompress_vec(stored, to, FlushDecompress::Finish) {
                Ok(Status::StreamEnd) => return Ok(to.len() == size),
                Ok(Status::Ok | Status::BufError) => {}
                Err(_) => return Ok(false),
            }
            if to.len() > size || (self.inflate.total_in(), to.len()) == before {
                return Ok(false);
            }
        }
    }
}

/// Parses how far before an object its base is, and returns the remaining bytes.
fn parse_distance(bytes: &[u8]) -> Option<(u64, &[u8])> {
    let (mut byte, mut rest) = bytes.split_first()?;
    let mut distance = u64::from(byte & 0x7f);
    while byte & 0x80 != 0 {
        (byte, rest) = rest.split_first()?;
        distance = distance.checked_add(1)?.checked_mul(1 << 7)? | u64::from(byte & 0x7f);
    }
    Some((distance, rest))
}

/// A part of a pack that is in memory.
struct Window<'p> {
    packs: &'p Packs,
    pack: usize,
    start: u64,
    bytes: Vec<u8>,
    length: usize,
}

impl Window<'_> {
    /// Returns the bytes of a pack from a place on: at least `least` of them, or all that are left.
    fn from(&mut self, place: Place, least: usize) -> io::Result<&[u8]> {
        let ahead = (place.pack == self.pack).then(|| place.offset.checked_sub(self.start)).flatten();
        let ahead = ahead.and_then(|ahead| usize::try_from(ahead).ok());
        let at = match ahead.filter(|at| at.saturating_add(least) <= self.bytes.len()) {
            Some(at) => at,
            None => {
                let is_sequential = ahead.is_some_and(|ahead| ahead <= self.bytes.len() + self.length);
                self.length = if is_sequential { (2 * self.length).min(MAX_WINDOW) } else { MIN_WINDOW };
                self.load(place)?;
                0
            }
        };
        Ok(&self.bytes[at..])
    }

    fn load(&mut self, place: Place) -> io::Result<()> {
        self.bytes.resize(self.length, 0);
        (self.pack, self.start) = (place.pack, place.offset);
        let mut read = 0;
        while read < self.length {
            let at = place.offset.saturating_add(u64::try_from(read).map_err(io::Error::other)?);
            match self.packs.0[place.pack].file.read_at(&mut self.bytes[read..], at) {
                Ok(0) => break,
                Ok(more) => read += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => {
                    self.bytes.clear();
                    return Err(error);
                }
            }
        }
        self.bytes.truncate(read);
        Ok(())
    }
}

/// A cache of delta bases; the oldest is evicted first.
#[derive(Default)]
struct Kept {
    contents: HashMap<Place, Rc<Vec<u8>>>,
    order: VecDeque<Place>,
    size: usize,
}

impl Kept {
    fn find(&self, place: Place) -> Option<Rc<Vec<u8>>> {
        self.contents.get(&place).cloned()
    }

    fn keep(&mut self, place: Place, content: Vec<u8>) -> Rc<Vec<u8>> {
        let content = Rc::new(content);
        self.size += content.len();
        self.contents.insert(place, Rc::clone(&content));
        self.order.push_back(place);
        while self.size > MAX_KEPT {
            let Some(oldest) = self.order.pop_front() else { break };
            self.size -= self.contents.remove(&oldest).map_or(0, |content| content.len());
        }
        content
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use git2::Repository;

    use super::*;

    /// Similar files, which are stored as deltas, and some that are unlike any other.
    fn contents() -> Vec<Vec<u8>> {
        let noise = |size: u32| (0..size).map(|n| n.wrapping_mul(2_654_435_761).to_be_bytes()[1]).collect();
        let text = |n: usize| {
            let lines = (0..400).map(|line| format!("line {line} of {}\n", if line == n { n } else { 0 }));
            lines.collect::<String>().into_bytes()
        };
        let mut contents: Vec<Vec<u8>> = (0..60).map(text).collect();
        contents.extend([Vec::new(), b"x".to_vec(), noise(1000), noise(400_000)]);
        contents
    }

    /// Packs `contents` into a new repository at `path`, without any other copy of them.
    fn pack(path: &Path, contents: &[Vec<u8>]) -> Vec<Oid> {
        let repo = Repository::init_bare(path).unwrap();
        let mut builder = repo.packbuilder().unwrap();
        let oids: Vec<Oid> = contents.iter().map(|content| repo.blob(content).unwrap()).collect();
        oids.iter().for_each(|oid| builder.insert_object(*oid, Some("name")).unwrap());
        builder.write(&path.join("objects/pack"), 0).unwrap();
        for oid in &oids {
            let hex = oid.to_string();
            std::fs::remove_file(path.join("objects").join(&hex[..2]).join(&hex[2..])).unwrap();
        }
        oids
    }

    fn pack_file(path: &Path) -> std::path::PathBuf {
        let mut files =
            std::fs::read_dir(path.join("objects/pack")).unwrap().map(|file| file.unwrap().path());
        files.find(|file| file.extension().is_some_and(|ending| ending == "pack")).unwrap()
    }

    #[test]
    fn every_packed_blob_is_read_in_any_order() {
        let (dir, contents) = (tempfile::tempdir().unwrap(), contents());
        let oids = pack(dir.path(), &contents);
        let whole: usize = contents.iter().map(Vec::len).sum();
        let packed = pack_file(dir.path()).metadata().unwrap().len();
        assert!(packed < whole as u64 * 2 / 3, "some of them are deltas: {packed} of {whole}");
        let packs = Packs::open(&dir.path().join("objects")).unwrap();
        for step in [1, 7, 63] {
            let mut reader = PackReader::new(&packs);
            let mut blob = Vec::new();
            for number in (0..contents.len()).map(|number| number * step % contents.len()) {
                assert!(reader.read(oids[number], &mut blob).unwrap(), "{number}");
                assert!(blob == contents[number], "{number}");
            }
        }
    }

    #[test]
    fn objects_that_are_unpacked_or_not_blobs_are_not_found() {
        let dir = tempfile::tempdir().unwrap();
        let repo = Repository::init_bare(dir.path()).unwrap();
        let tree = repo.treebuilder(None).unwrap().write().unwrap();
        let mut builder = repo.packbuilder().unwrap();
        builder.insert_object(tree, None).unwrap();
        builder.write(&dir.path().join("objects/pack"), 0).unwrap();
        let packs = Packs::open(&dir.path().join("objects")).unwrap();
        assert!(packs.find(tree, 0).is_some());
        let mut reader = PackReader::new(&packs);
        for oid in [tree, Oid::from_bytes(&[9; 20]).unwrap()] {
            assert!(!reader.read(oid, &mut Vec::new()).unwrap());
        }
    }

    #[test]
    fn damaged_blob_is_never_returned() {
        let (dir, content) = (tempfile::tempdir().unwrap(), b"some text\n".repeat(100));
        let oid = pack(dir.path(), std::slice::from_ref(&content))[0];
        let file = pack_file(dir.path());
        let whole = std::fs::read(&file).unwrap();
        let read = |bytes: &[u8]| {
            std::fs::remove_file(&file).unwrap();
            std::fs::write(&file, bytes).unwrap();
            let packs = Packs::open(&dir.path().join("objects")).unwrap();
            let mut blob = Vec::new();
            PackReader::new(&packs).read(oid, &mut blob).unwrap().then_some(blob)
        };
        assert!(read(&whole).is_some_and(|blob| blob == content));
        let end = whole.len() - 20;
        for at in 12..end {
            let mut damaged = whole.clone();
            damaged[at] ^= 0x55;
            assert!(read(&damaged).is_none_or(|blob| blob == content), "byte {at}");
            assert!(read(&whole[..at]).is_none(), "cut at {at}");
        }
    }

    /// A pack of two objects that each name the other as their base.
    #[test]
    fn cyclic_deltas_are_not_found_and_terminate() {
        let names = [[0; 20], [1; 20]];
        let mut pack = b"PACK\0\0\0\x02\0\0\0\x02".to_vec();
        let mut index = b"\xfftOc\0\0\0\x02".to_vec();
        (0..256u32).for_each(|first| index.extend((first + 1).min(2).to_be_bytes()));
        names.iter().for_each(|name| index.extend(name));
        index.extend([0; 8]);
        // A delta from nothing to nothing, stored uncompressed.
        let difference = [0x78, 0x01, 1, 2, 0, 0xfd, 0xff, 0, 0, 0, 2, 0, 1];
        for base in [1, 0] {
            index.extend(u32::try_from(pack.len()).unwrap().to_be_bytes());
            pack.push(7 << 4 | 2);
            pack.extend(names[base]);
            pack.extend(difference);
        }
        index.extend([0; 40]);
        let dir = tempfile::tempdir().unwrap();
        std::fs::create_dir(dir.path().join("pack")).unwrap();
        std::fs::write(dir.path().join("pack/p.idx"), index).unwrap();
        std::fs::write(dir.path().join("pack/p.pack"), pack).unwrap();
        let packs = Packs::open(dir.path()).unwrap();
        let mut reader = PackReader::new(&packs);
        let oid = Oid::from_bytes(&names[0]).unwrap();
        assert!(packs.find(oid, 0).is_some());
        let mut chain = Vec::new();
        let place = packs.find(oid, 0).unwrap();
        let stored = Place { offset: place.offset + 21, ..place };
        assert!(reader.inflate(stored, 2, &mut chain).unwrap(), "the pack is valid except for its cycle");
        let begun = std::time::Instant::now();
        (0..100).for_each(|_| assert!(!reader.read(oid, &mut chain).unwrap()));
        assert!(begun.elapsed() < std::time::Duration::from_secs(5), "the read of a cycle terminates");
    }
}
