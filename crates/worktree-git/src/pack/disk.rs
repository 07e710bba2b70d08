//! Writes a pack to disk: both files are synced, then renamed, then their directory is synced. The renames
//! come last, so that git never sees a partial pack, and a killed run leaves only `tmp_` files, which git
//! prunes.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::Builder;

use sexton_durable::{SMALL_FILE, read_regular, sync_all, sync_parent};
use sha1::{Digest, Sha1};

use super::Packed;

/// Larger packs are moved to a temporary file.
const IN_MEMORY: usize = 16 << 20;
/// `PACK`, version 2, and the number of objects, which is known only at the end.
const HEADER: usize = 12;

/// The header and the objects: in memory, then in a temporary file once they are large.
pub(super) struct Body {
    directory: PathBuf,
    pending: Vec<u8>,
    spilled: Option<Temporary>,
    written: u64,
}

/// A file that is deleted when dropped, unless it was renamed to its final name.
struct Temporary {
    path: PathBuf,
    file: File,
    named: bool,
}

impl Temporary {
    fn create(directory: &Path, kind: &str) -> io::Result<Temporary> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        loop {
            let unique = NEXT.fetch_add(1, Ordering::Relaxed);
            let path = directory.join(format!("tmp_{kind}_sexton_{}_{unique}", std::process::id()));
            // A file that a killed process with the same pid left is never written to: it may be a link.
            match OpenOptions::new().read(true).write(true).create_new(true).mode(0o444).open(&path) {
                Ok(file) => return Ok(Temporary { path, file, named: false }),
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
                Err(error) => return Err(error),
            }
        }
    }

    fn name(mut self, path: &Path) -> io::Result<()> {
        fs::rename(&self.path, path)?;
        self.named = true;
        Ok(())
    }
}

impl Drop for Temporary {
    fn drop(&mut self) {
        if !self.named {
            let _ = fs::remove_file(&self.path);
        }
    }
}

impl Body {
    pub(super) fn new(directory: &Path) -> Body {
        let pending = vec![0; HEADER];
        Body { directory: directory.to_owned(), pending, spilled: None, written: 0 }
    }

    /// Returns the offset of the next object.
    pub(super) fn length(&self) -> u64 {
        self.written + self.pending.len() as u64
    }

    /// Discards everything from `length` on.
    pub(super) fn cut_to(&mut self, length: u64) -> io::Result<()> {
        if length < self.written {
            self.pending.clear();
            self.written = length;
            if let Some(Temporary { file, .. }) = &mut self.spilled {
                file.set_len(length)?;
                file.seek(SeekFrom::Start(length))?;
            }
        } else {
            let keep = usize::try_from(length - self.written).expect("it is within what is in memory");
            self.pending.truncate(keep);
        }
        Ok(())
    }

    fn spill(&mut self) -> io::Result<()> {
        let temporary = match self.spilled.take() {
            Some(temporary) => temporary,
            None => Temporary::create(&self.directory, "pack")?,
        };
        let temporary = self.spilled.insert(temporary);
        temporary.file.write_all(&self.pending)?;
        self.written += self.pending.len() as u64;
        self.pending.clear();
        Ok(())
    }

    pub(super) fn finish(mut self, mut objects: Vec<Packed>, note: &str) -> io::Result<KeptPack> {
        let mut header = [0; HEADER];
        header[..4].copy_from_slice(b"PACK");
        header[4..8].copy_from_slice(&2u32.to_be_bytes());
        let count = u32::try_from(objects.len()).map_err(io::Error::other)?;
        header[8..].copy_from_slice(&count.to_be_bytes());
        let checksum = self.seal(&header)?;
        let pack = self.spilled.take().expect("sealing writes what is in memory");

        objects.sort_unstable_by_key(|object| object.oid);
        let mut index = Temporary::create(&self.directory, "idx")?;
        index.file.write_all(&pack_index(&objects, &checksum))?;

        // In parallel: one journal commit can cover both, if the file system supports it.
        std::thread::scope(|scope| {
            let other = Builder::new().spawn_scoped(scope, || sync(&index.file));
            sync(&pack.file)?;
            match other {
                Ok(other) => other.join().expect("a sync does not panic"),
                Err(_) => sync(&index.file),
            }
        })?;
        KeptPack::name(&self.directory, &hex(&checksum), pack, index, note)
    }

    /// Writes the remaining data and the header, and returns the checksum at the end of the file.
    fn seal(&mut self, header: &[u8; HEADER]) -> io::Result<[u8; 20]> {
        if self.spilled.is_none() {
            self.pending[..HEADER].copy_from_slice(header);
            let checksum: [u8; 20] = Sha1::digest(&self.pending).into();
            self.pending.extend_from_slice(&checksum);
            self.spill()?;
            return Ok(checksum);
        }
        self.spill()?;
        let file = &mut self.spilled.as_mut().expect("it was spilled just now").file;
        file.seek(SeekFrom::Start(0))?;
        file.write_all(header)?;
        file.seek(SeekFrom::Start(0))?;
        let mut hasher = Sha1::new();
        let mut buffer = vec![0; 256 << 10];
        loop {
            let read = file.read(&mut buffer)?;
            if read == 0 {
                break;
            }
            hasher.update(&buffer[..read]);
        }
        let checksum: [u8; 20] = hasher.finalize().into();
        file.write_all(&checksum)?;
        Ok(checksum)
    }
}

impl Write for Body {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.pending.extend_from_slice(bytes);
        if self.pending.len() > IN_MEMORY {
            self.spill()?;
        }
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Encodes version 2 of git's pack index, for objects sorted by id.
fn pack_index(objects: &[Packed], pack: &[u8; 20]) -> Vec<u8> {
    let mut bytes = b"\xfftOc\0\0\0\x02".to_vec();
    let mut below = 0;
    for first in 0..=255u8 {
        while objects.get(below).is_some_and(|object| object.oid.as_bytes()[0] <= first) {
            below += 1;
        }
        bytes.extend(u32::try_from(below).expect("counted in 32 bits before").to_be_bytes());
    }
    objects.iter().for_each(|object| bytes.extend_from_slice(object.oid.as_bytes()));
    objects.iter().for_each(|object| bytes.extend(object.crc.to_be_bytes()));
    let mut far = Vec::new();
    for object in objects {
        // A 31-bit offset is stored directly; a larger one as an index into the table that follows.
        let word = match u32::try_from(object.offset) {
            Ok(offset) if offset < 1 << 31 => offset,
            _ => {
                far.push(object.offset);
                1 << 31 | u32::try_from(far.len() - 1).expect("fewer than all objects")
            }
        };
        bytes.extend(word.to_be_bytes());
    }
    far.iter().for_each(|offset| bytes.extend(offset.to_be_bytes()));
    bytes.extend_from_slice(pack);
    let checksum = Sha1::digest(&bytes);
    bytes.extend_from_slice(&checksum);
    bytes
}

fn hex(bytes: &[u8]) -> String {
    use std::fmt::Write as _;
    bytes.iter().fold(String::new(), |mut text, byte| {
        let _ = write!(text, "{byte:02x}");
        text
    })
}

/// A durable pack that `git gc` does not delete while this value exists.
pub(crate) struct KeptPack {
    keep: PathBuf,
}

impl KeptPack {
    fn name(
        directory: &Path,
        checksum: &str,
        pack: Temporary,
        index: Temporary,
        note: &str,
    ) -> io::Result<KeptPack> {
        let file = |ending: &str| directory.join(format!("pack-{checksum}.{ending}"));
        // Written first: a gc that sees the pack must also see its `.keep` file.
        let kept = KeptPack { keep: file("keep") };
        fs::write(&kept.keep, note)?;
        pack.name(&file("pack"))?;
        index.name(&file("idx"))?;
        sync_parent(&kept.keep)?;
        Ok(kept)
    }

    /// Deletes the `.keep` files that a killed run with the same note left.
    pub(crate) fn release_left_over(directory: &Path, note: &str) -> io::Result<()> {
        let entries = match fs::read_dir(directory) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            entries => entries?,
        };
        for entry in entries {
            let path = entry?.path();
            let kept = path.extension().is_some_and(|ending| ending == "keep");
            if kept && read_regular(&path, SMALL_FILE).is_ok_and(|content| content == note.as_bytes()) {
                fs::remove_file(&path)?;
            }
        }
        Ok(())
    }
}

impl Drop for KeptPack {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.keep);
    }
}

fn sync(file: &File) -> io::Result<()> {
    if sexton_mutant::is("no_rescue_sync") { Ok(()) } else { sync_all(file) }
}
