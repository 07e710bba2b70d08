//! Entry points for the fuzz target `git`, for packs. Compiled only with `--cfg fuzzing`.

use std::fs::File;

use git2::Oid;

use super::index::PackIndex;
use super::{Pack, PackReader, Packs, delta};

/// Checks that a delta that applies gives no more bytes than it can.
pub fn delta(base: &[u8], difference: &[u8]) {
    if let Some(made) = delta::apply(base, difference) {
        let copied = difference.len().saturating_mul(base.len().max(0x7f));
        assert!(made.len() <= copied, "{} bytes are too many", made.len());
    }
}

/// Checks a pack, given as a file, and its index: a second read gives the same result as the first.
pub fn pack(index: Vec<u8>, file: File) {
    let names: Vec<Oid> =
        index.windows(20).step_by(4).filter_map(|name| Oid::from_bytes(name).ok()).take(600).collect();
    let Some(index) = PackIndex::parse(index) else { return };
    let packs = Packs(vec![Pack { file, index }]);
    let (mut reader, mut blob, mut again) = (PackReader::new(&packs), Vec::new(), Vec::new());
    for name in names {
        let Some(place) = packs.find(name, 0) else { continue };
        assert_eq!(place.pack, 0);
        let found = reader.read(name, &mut blob).expect("a pack in memory can be read, or is not found");
        let once_more = reader.read(name, &mut again).expect("it could be read before");
        assert_eq!(found, once_more);
        assert!(!found || blob == again, "{name} is not the same twice");
    }
}
