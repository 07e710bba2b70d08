//! Reads blobs from a repository's packs with several threads that do not wait for each other. libgit2 shares
//! its pack windows between threads, so they would wait there.
//!
//! Only common cases are handled here. In all other cases (another version, a very large index, a pack of
//! another repository, anything that looks damaged) the blob is reported as not found, and libgit2 reads it.

mod delta;
#[cfg(fuzzing)]
pub mod fuzzing;
mod index;
mod reader;

use std::fs::File;
use std::io;
use std::path::Path;

use git2::Oid;
use sexton_durable::{LARGE_FILE, open_regular, read_regular};

use index::PackIndex;
pub(super) use reader::PackReader;

/// Each pack needs a descriptor. With more packs than this, libgit2 reads the objects of the smallest ones;
/// `git gc` would help.
const MAX_PACKS: usize = 64;
/// Larger objects are not read here, because they would be in memory twice.
const MAX_OBJECT: usize = 64 << 20;
/// The largest index that is read into memory: about two million objects.
const MAX_INDEX: u64 = 64 << 20;

/// The packs of a repository.
pub(super) struct Packs(Vec<Pack>);

struct Pack {
    file: File,
    index: PackIndex,
}

/// The position of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    pack: usize,
    offset: u64,
}

impl Packs {
    /// Opens the packs in the `objects` directory of a repository. A pack that cannot be opened is left out.
    pub(super) fn open(objects: &Path) -> io::Result<Packs> {
        let listing = match std::fs::read_dir(objects.join("pack")) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Packs(Vec::new())),
            listing => listing?,
        };
        let mut found = Vec::new();
        for entry in listing {
            let path = entry?.path();
            if path.extension().is_some_and(|ending| ending == "idx")
                && let Ok(about) = path.metadata()
                && about.len() <= MAX_INDEX
            {
                found.push((about.len(), path));
            }
        }
        // The largest pack contains most of the objects.
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.truncate(MAX_PACKS);
        Ok(Packs(found.iter().filter_map(|(_, path)| Pack::open(path)).collect()))
    }

    /// Finds an object. The pack `first`, where the last one was found, is searched first.
    fn find(&self, oid: Oid, first: usize) -> Option<Place> {
        let others = (0..self.0.len()).filter(|pack| *pack != first);
        let mut order = Some(first).filter(|first| *first < self.0.len()).into_iter().chain(others);
        order.find_map(|pack| Some(Place { pack, offset: self.0[pack].index.find(oid)? }))
    }
}

impl Pack {
    fn open(index: &Path) -> Option<Pack> {
        let file = open_regular(&index.with_extension("pack")).ok()?;
        Some(Pack { file, index: PackIndex::parse(read_regular(index, LARGE_FILE).ok()?)? })
    }
}
