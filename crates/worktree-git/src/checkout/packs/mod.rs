//! Blobs out of a repository's packs, read by several threads without any of them waiting for another, which
//! libgit2's windows onto a pack, being everybody's, do not allow.
//!
//! Only what is ordinary is read here. Of everything else (another version, an enormous index, a pack of
//! another repository, anything that looks damaged) it is said that it was not found: libgit2 has the last word.

mod delta;
#[cfg(fuzzing)]
pub mod fuzzing;
mod index;
mod reader;

use std::fs::File;
use std::io;
use std::path::Path;

use git2::Oid;

use index::PackIndex;
pub(super) use reader::PackReader;

/// Each pack is a descriptor. Whoever has more of them than this should run `git gc`, and is served by libgit2
/// for what is in the smallest.
const MOST_PACKS: usize = 64;
/// What is larger is not held in memory twice.
const LARGEST: usize = 64 << 20;
/// An index is held in memory. This is one of two million objects.
const LARGEST_INDEX: u64 = 64 << 20;

/// The packs of a repository.
pub(super) struct Packs(Vec<Pack>);

struct Pack {
    file: File,
    index: PackIndex,
}

/// Where an object is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Place {
    pack: usize,
    offset: u64,
}

impl Packs {
    /// Opens the packs in the `objects` directory of a repository. One that cannot be opened is left out.
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
                && about.len() <= LARGEST_INDEX
            {
                found.push((about.len(), path));
            }
        }
        // Most of what is wanted is in the largest one.
        found.sort_unstable_by(|one, other| other.cmp(one));
        found.truncate(MOST_PACKS);
        Ok(Packs(found.iter().filter_map(|(_, path)| Pack::open(path)).collect()))
    }

    /// Where an object is, looking first into the pack where the last one was.
    fn find(&self, oid: Oid, first: usize) -> Option<Place> {
        let others = (0..self.0.len()).filter(|pack| *pack != first);
        let mut order = Some(first).filter(|first| *first < self.0.len()).into_iter().chain(others);
        order.find_map(|pack| Some(Place { pack, offset: self.0[pack].index.find(oid)? }))
    }
}

impl Pack {
    fn open(index: &Path) -> Option<Pack> {
        let file = File::open(index.with_extension("pack")).ok()?;
        Some(Pack { file, index: PackIndex::parse(std::fs::read(index).ok()?)? })
    }
}
