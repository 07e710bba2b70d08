//! Writes new objects as one pack. Nothing is written to disk before [`PackWriter::finish`], unless the
//! objects are too large for memory; a rescue that changes nothing leaves no files.
//!
//! Architecture invariant: what `finish` returned is durable, and protected from `git gc` until its
//! [`KeptPack`] is dropped. By then a ref must point to it.

mod disk;

use std::collections::HashSet;
use std::io::{self, Read, Write};
use std::path::Path;

use flate2::write::ZlibEncoder;
use flate2::{Compress, Compression, FlushCompress, Status};
use git2::{ObjectType, Oid};
use sha1::{Digest, Sha1};

use disk::Body;
pub(crate) use disk::KeptPack;

/// The largest object that is compressed in memory, outside of the writer and in parallel; larger ones are
/// processed in pieces.
pub(crate) const SMALL: u64 = 4 << 20;

/// Level 1: a rescue should be fast, and `git gc` compresses better later.
const EFFORT: u32 = 1;

/// The position of an object in the pack, for the pack's index.
#[derive(Clone, Copy, Debug)]
struct Packed {
    oid: Oid,
    crc: u32,
    offset: u64,
}

/// A compressed object, ready to be appended.
pub(crate) struct Deflated {
    oid: Oid,
    bytes: Vec<u8>,
}

/// Returns the object id that git gives this content.
pub(crate) fn hash(kind: ObjectType, content: &[u8]) -> Oid {
    let mut hasher = begin_hash(kind, content.len() as u64);
    hasher.update(content);
    end_hash(hasher)
}

/// Starts a hash with an object's header.
pub(crate) fn begin_hash(kind: ObjectType, size: u64) -> Sha1 {
    let mut hasher = Sha1::new();
    hasher.update(kind.str().as_bytes());
    hasher.update(format!(" {size}\0").as_bytes());
    hasher
}

/// Returns the object id of a finished hash.
pub(crate) fn end_hash(hasher: Sha1) -> Oid {
    Oid::from_bytes(&hasher.finalize()).expect("a hash has twenty bytes")
}

/// Compresses objects one after another. Creating one costs more than compressing a small object, so each
/// thread keeps its own.
pub(crate) struct Deflater(Compress);

impl Deflater {
    pub(crate) fn new() -> Deflater {
        Deflater(Compress::new(Compression::new(EFFORT), true))
    }

    /// Compresses an object whose id is known.
    pub(crate) fn deflate(&mut self, kind: ObjectType, oid: Oid, content: &[u8]) -> io::Result<Deflated> {
        let mut bytes = Vec::with_capacity(content.len() / 2 + 64);
        write_header(&mut bytes, kind, content.len() as u64);
        self.0.reset();
        loop {
            let done = usize::try_from(self.0.total_in()).map_err(io::Error::other)?;
            let status = self.0.compress_vec(&content[done..], &mut bytes, FlushCompress::Finish)?;
            if status == Status::StreamEnd {
                return Ok(Deflated { oid, bytes });
            }
            bytes.reserve(bytes.capacity().max(1024));
        }
    }
}

/// Writes the kind and size at the start of a packed object.
fn write_header(bytes: &mut Vec<u8>, kind: ObjectType, size: u64) {
    let kind: u8 = match kind {
        ObjectType::Commit => 1,
        ObjectType::Tree => 2,
        ObjectType::Tag => 4,
        ObjectType::Blob | ObjectType::Any => 3,
    };
    let low = |value: u64, mask: u64| u8::try_from(value & mask).expect("masked to a byte");
    let mut rest = size >> 4;
    let mut byte = kind << 4 | low(size, 0xf);
    while rest != 0 {
        bytes.push(byte | 0x80);
        byte = low(rest, 0x7f);
        rest >>= 7;
    }
    bytes.push(byte);
}

/// Collects objects for a pack.
pub(crate) struct PackWriter {
    /// `None` in a dry run, which only computes object ids.
    body: Option<Body>,
    objects: Vec<Packed>,
    known: HashSet<Oid>,
    deflater: Deflater,
}

impl PackWriter {
    /// Returns an empty pack, to be written into a repository's `objects/pack`.
    pub(crate) fn new(directory: &Path) -> PackWriter {
        PackWriter { body: Some(Body::new(directory)), ..PackWriter::dry_run() }
    }

    /// Returns a pack that is never written, to check whether there is anything new.
    pub(crate) fn dry_run() -> PackWriter {
        PackWriter { body: None, objects: Vec::new(), known: HashSet::new(), deflater: Deflater::new() }
    }

    /// Returns whether the object still has to be added.
    pub(crate) fn needs(&self, oid: Oid) -> bool {
        self.body.is_some() && !self.known.contains(&oid)
    }

    /// Adds an object and returns its id.
    pub(crate) fn add(&mut self, kind: ObjectType, content: &[u8]) -> io::Result<Oid> {
        let oid = hash(kind, content);
        if self.needs(oid) {
            let deflated = self.deflater.deflate(kind, oid, content)?;
            self.append(&deflated)?;
        }
        Ok(oid)
    }

    /// Adds an object that was already compressed.
    pub(crate) fn append(&mut self, object: &Deflated) -> io::Result<()> {
        if let Some(body) = &mut self.body
            && self.known.insert(object.oid)
        {
            let offset = body.length();
            body.write_all(&object.bytes)?;
            self.objects.push(Packed { oid: object.oid, crc: crc32fast::hash(&object.bytes), offset });
        }
        Ok(())
    }

    /// Adds an object of exactly `size` bytes without holding all of it in memory, and returns its id.
    pub(crate) fn add_stream(
        &mut self,
        kind: ObjectType,
        size: u64,
        content: &mut dyn Read,
    ) -> io::Result<Oid> {
        let Some(body) = &mut self.body else {
            return hash_stream(kind, size, content, &mut io::sink());
        };
        let offset = body.length();
        match stream(body, kind, size, content) {
            Ok((oid, crc)) => {
                if self.known.insert(oid) {
                    self.objects.push(Packed { oid, crc, offset });
                } else {
                    body.cut_to(offset)?;
                }
                Ok(oid)
            }
            Err(error) => {
                // There may be no gap between two objects of a pack.
                body.cut_to(offset)?;
                Err(error)
            }
        }
    }

    /// Writes the pack durably; `None` if nothing was added. `note` is written to the pack's `.keep` file and
    /// identifies the owner for [`KeptPack::release_left_over`].
    pub(crate) fn finish(self, note: &str) -> io::Result<Option<KeptPack>> {
        match self.body {
            Some(body) if !self.objects.is_empty() => body.finish(self.objects, note).map(Some),
            _ => Ok(None),
        }
    }
}

/// Appends one object in pieces; returns its id and the checksum of its compressed form.
fn stream(body: &mut Body, kind: ObjectType, size: u64, content: &mut dyn Read) -> io::Result<(Oid, u32)> {
    let mut header = Vec::new();
    write_header(&mut header, kind, size);
    let mut out = Checked { body, crc: crc32fast::Hasher::new() };
    out.write_all(&header)?;
    let mut encoder = ZlibEncoder::new(out, Compression::new(EFFORT));
    let oid = hash_stream(kind, size, content, &mut encoder)?;
    Ok((oid, encoder.finish()?.crc.finalize()))
}

/// Copies exactly `size` bytes and returns the id of the object that they are.
pub(crate) fn hash_stream(
    kind: ObjectType,
    size: u64,
    from: &mut dyn Read,
    to: &mut dyn Write,
) -> io::Result<Oid> {
    let mut hasher = begin_hash(kind, size);
    let mut buffer = vec![0; 256 << 10];
    let mut left = size;
    while left > 0 {
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        let read = from.read(&mut buffer[..wanted])?;
        if read == 0 {
            return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "it became shorter while it was read"));
        }
        hasher.update(&buffer[..read]);
        to.write_all(&buffer[..read])?;
        left -= read as u64;
    }
    Ok(end_hash(hasher))
}

/// Computes the checksum of what is written through it.
struct Checked<'a> {
    body: &'a mut Body,
    crc: crc32fast::Hasher,
}

impl Write for Checked<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.body.write_all(bytes)?;
        self.crc.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
