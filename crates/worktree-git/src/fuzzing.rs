//! What the fuzz target `git` does to this crate. Compiled for it alone, with `--cfg fuzzing`.

pub use crate::checkout::fuzzing::{delta, pack};
pub use crate::scan::fuzzing::{bitmap, index, pattern};

use crate::rescue::manifest::Manifest;

/// The manifest of a rescue: what is read of it is written again.
pub fn manifest(bytes: &[u8]) {
    let Ok(manifest) = Manifest::parse(bytes) else { return };
    assert_eq!(Manifest::parse(&manifest.encode()).as_ref(), Ok(&manifest));
}
