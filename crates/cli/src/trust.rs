//! Which repositories' `.sexton.toml` may set everything. Remembered by content: a file that changes has
//! to be trusted again.

use std::io;
use std::path::{Path, PathBuf};

use sexton_core::config::FileLayer;
use sexton_durable::{create_private_dir, replace_file};
use sha2::{Digest, Sha256};

/// Whether exactly this file was trusted.
pub fn is_trusted(state_dir: &Path, file: &FileLayer) -> bool {
    entry(state_dir, file).exists()
}

/// Remembers this file as trusted.
pub fn trust(state_dir: &Path, file: &FileLayer) -> io::Result<()> {
    let entry = entry(state_dir, file);
    create_private_dir(&state_dir.join("trusted"))?;
    replace_file(&entry, |note| io::Write::write_all(note, format!("{}\n", file.path.display()).as_bytes()))
}

/// The file whose existence says "trusted": named after the path and the content together.
fn entry(state_dir: &Path, file: &FileLayer) -> PathBuf {
    let mut hash = Sha256::new();
    hash.update(file.path.as_os_str().as_encoded_bytes());
    hash.update([0]);
    hash.update(file.text.as_bytes());
    let name: String = hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect();
    state_dir.join("trusted").join(name)
}
