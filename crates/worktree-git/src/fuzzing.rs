//! Entry points for the fuzz target `git`. Compiled only with `--cfg fuzzing`.

pub use crate::checkout::fuzzing::{delta, pack};
pub use crate::scan::fuzzing::{bitmap, index, pattern};

use crate::rescue::manifest::Manifest;

/// Checks that a manifest that can be parsed round-trips.
pub fn manifest(bytes: &[u8]) {
    let Ok(manifest) = Manifest::parse(bytes) else { return };
    assert_eq!(Manifest::parse(&manifest.encode()).as_ref(), Ok(&manifest));
}
