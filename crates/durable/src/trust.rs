//! The files of a repository that the user trusts. Recorded by path and content: a changed file has to be
//! trusted again.

use std::fs;
use std::io::{self, Write};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::process::geteuid;
use sha2::{Digest, Sha256};

use crate::replace::{create_private_dir, replace_file};

/// The directory of the trust records, in the state directory that the user's own settings name.
const DIRECTORY: &str = "trusted";

/// Returns whether the user trusts the file at `path` with exactly this `content`. Records that another user
/// could have written do not count.
pub fn is_trusted(state_dir: &Path, path: &Path, content: &[u8]) -> bool {
    if sexton_mutant::is("trust_everything") {
        return true;
    }
    let directory = state_dir.join(DIRECTORY);
    is_private(state_dir) && is_private(&directory) && is_private(&directory.join(name(path, content)))
}

/// Records the file at `path` with this `content` as trusted.
pub fn remember_trust(state_dir: &Path, path: &Path, content: &[u8]) -> io::Result<()> {
    let directory = state_dir.join(DIRECTORY);
    create_private_dir(&directory)?;
    replace_file(&directory.join(name(path, content)), |note| writeln!(note, "{}", path.display()))
}

/// Returns whether `path` exists, belongs to this user and is not writable for others.
fn is_private(path: &Path) -> bool {
    let found = fs::metadata(path);
    found.is_ok_and(|found| found.uid() == geteuid().as_raw() && found.mode() & 0o022 == 0)
}

/// Returns the name of the record, a digest of the path and the content.
fn name(path: &Path, content: &[u8]) -> PathBuf {
    let mut hash = Sha256::new();
    hash.update(path.as_os_str().as_encoded_bytes());
    hash.update([0]);
    hash.update(content);
    hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn i11_trust_is_for_one_path_and_one_content() {
        let dir = tempfile::tempdir().unwrap();
        let (path, other) = (Path::new("/repo/file"), Path::new("/repo/other"));
        assert!(!is_trusted(dir.path(), path, b"text"));
        remember_trust(dir.path(), path, b"text").unwrap();
        assert!(is_trusted(dir.path(), path, b"text"));
        assert!(!is_trusted(dir.path(), path, b"text "));
        assert!(!is_trusted(dir.path(), other, b"text"));
    }

    #[test]
    fn i11_a_trust_record_that_another_user_could_have_written_does_not_count() {
        let dir = tempfile::tempdir().unwrap();
        let path = Path::new("/repo/file");
        remember_trust(dir.path(), path, b"text").unwrap();
        let notes = dir.path().join(DIRECTORY);
        for directory in [dir.path(), &notes] {
            fs::set_permissions(directory, fs::Permissions::from_mode(0o777)).unwrap();
            assert!(!is_trusted(dir.path(), path, b"text"), "{}", directory.display());
            fs::set_permissions(directory, fs::Permissions::from_mode(0o700)).unwrap();
        }
        assert!(is_trusted(dir.path(), path, b"text"));
        if geteuid().is_root() {
            std::os::unix::fs::chown(&notes, Some(60_017), None).unwrap();
            assert!(!is_trusted(dir.path(), path, b"text"));
        }
    }
}
